"""The step at which two runs parted, from their commit logs.

Each commit has a hash over all tensors: two runs with equal hashes at a step are equal there, bit
for bit. Between two common commits, metrics.jsonl narrows the step further: records of a step that
differ show that the runs differ by then. What differs between the sessions that trained the steps
after the last equal commit is the reason, as far as the logs have it.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..storage.commit_log import current_sessions
from ..storage.entries import BRANCH
from ..storage.session_changes import find_session_changes
from .differences import SEED, find_changed_options, show_value
from .record import RunRecord

_DIFFERS = "{} differs ({}, {})"
_NO_REASON = "the logs show no reason: a step depends on something that is not recorded"


class Parting(NamedTuple):
    """Where two runs parted."""

    step: int  # the last step at which they are known to be equal; 0 for the beginning
    differs_by: Optional[int]  # the first step at which they are known to differ
    text: str  # a sentence without its end
    causes: List[str]  # what differs from there on, a clause each


def find_parting(a: RunRecord, b: RunRecord) -> Parting:
    """Where two runs parted, from their logs; raises CheckpointError if one cannot be read."""
    logs = [record.folder.commits for record in (a, b)]
    commits = [log.current_commits() for log in logs]
    common = sorted(set(commits[0]) & set(commits[1]))
    tensors = [[each[step].values["tensors"] for step in common] for each in commits]
    count = next((n for n, pair in enumerate(zip(*tensors)) if pair[0] != pair[1]), len(common))
    equal = common[count - 1] if count else 0
    bounds = common[count : count + 1] + _differing_records(a, b, equal)[:1]
    differing = min(bounds, default=None)

    # What differed between earlier sessions, too, is no cause where the runs were still equal.
    sessions = [current_sessions(log.entries()) for log in logs]
    after = _compare_all(*(_between(each, equal, differing) for each in sessions))
    before = [_between(each, 0, equal) if equal else [] for each in sessions]
    former = _compare_all(*before) if all(before) else []
    new = [clause for clause in after if clause not in former]
    causes = new or after
    reasons = "; ".join(causes)

    last = [max(each, default=0) for each in commits]
    start = f"equal, bit for bit, up to step {equal:,}"
    is_from_there = any(session["from"] == equal for each in sessions for session in each)
    if a.plugin != b.plugin:
        text = f"they have nothing in common: other plugins ({a.plugin} and {b.plugin})"
        return Parting(equal, differing, text, causes)
    if differing is None and not all(last):
        text = f"{(b if last[0] else a).name} has no commit yet, so nothing can be compared"
    elif differing is None and not equal:
        text = "no step was committed by both, and of the steps that both recorded, if any, none "
        text += f"differs: {reasons}" if reasons else "differs"
    elif differing is None and last[0] == last[1] == equal:
        text = f"{start}, the last of both"
    elif differing is None:
        longer = [(each.name, step) for each, step in zip((a, b), last) if step > equal]
        clauses = [f"{name} has commits up to step {step:,}" for name, step in longer]
        clauses += [f"from there {reasons}"] if new else []
        text = f"{start}, the last that both committed; {'; '.join(clauses)}"
    elif not equal:
        place = "already at the first commit of both," if [differing] == common[:1] else "by"
        text = f"they differ {place} step {differing:,}: {reasons or _NO_REASON}"
    elif new and is_from_there:
        text = f"{start}; from there {reasons}"
    else:
        place = "from the next step" if differing == equal + 1 else f"by step {differing:,}"
        text = f"{start}; they differ {place}: {reasons or _NO_REASON}"
    return Parting(equal, differing, _describe_branch(a, b) + text, causes)


def _differing_records(a: RunRecord, b: RunRecord, after: int) -> List[int]:
    """The steps after another one at which the runs recorded different values of training.

    The means of a record are of the steps since the one before, which has to be the same.
    """
    tables: List[Dict[int, Tuple[int, Dict[str, Any]]]] = []
    for run in (a, b):
        table, since = {}, 0
        for record in run.folder.metrics.read():
            step = record.get("step")
            if record.get("kind") == "train" and type(step) is int and step > 0:
                table[step], since = (since, record), step
        tables.append(table)
    steps = []
    for step in sorted(set(tables[0]) & set(tables[1])):
        (since, first), (other_since, second) = (table[step] for table in tables)
        differs = any(first[name] != second[name] for name in set(first) & set(second))
        if step > after and since == other_since and differs:
            steps.append(step)
    return steps


def _describe_branch(a: RunRecord, b: RunRecord) -> str:
    """That one run is a branch of the other, or that both are branches of a third."""
    logs = [record.folder.commits for record in (a, b)]
    step = None  # of the last commit that the two logs have in common
    for entry, other in zip(logs[0].entries(), logs[1].entries()):
        if not entry.values or entry.values.get("hash") != other.values.get("hash"):
            break
        step = entry.step if entry.kind == "commit" else step
    branches = [BRANCH in log.parents() for log in logs]
    if step is None or not any(branches):  # or it is a copy of a folder
        return ""
    if all(branches):
        return f"both have the first {step:,} steps of one run; "
    child, parent = (a, b) if branches[0] else (b, a)
    return f"{child.name} is a branch of {parent.name} from step {step:,}; "


# ------------------------------------------------------------------------------------------ causes


def _between(
    sessions: List[Dict[str, Any]], first: int, last: Optional[int]
) -> List[Dict[str, Any]]:
    """The sessions that trained the steps after `first` up to `last` (None: the end)."""
    ends = [session["from"] for session in sessions[1:]] + [None]
    return [
        session
        for session, end in zip(sessions, ends)
        if (end is None or end > first) and (last is None or session["from"] < last)
    ]


def _compare_all(a: List[Dict[str, Any]], b: List[Dict[str, Any]]) -> List[str]:
    """What differs between any session of one run and any of the other, a clause each; what one of
    them did not record is not compared.
    """
    clauses: List[str] = []
    for session in a:
        for other in b:
            changes = find_changed_options(session, other)
            for name, value, another in sorted(changes, key=lambda change: change[0] == SEED):
                clauses.append(_DIFFERS.format(name, show_value(value), show_value(another)))
            clauses += find_session_changes(session, other, _DIFFERS)
    return list(dict.fromkeys(clauses))
