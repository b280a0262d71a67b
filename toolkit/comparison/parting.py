"""The step at which two runs parted, from their commit logs.

Each commit has a hash over all tensors: two runs with equal hashes at a step are equal there, bit
for bit. Between two common commits, metrics.jsonl narrows the step further: records of a step that
differ show that the runs differ by then. What differs between the sessions that trained the steps
after the last equal commit is the reason, as far as the logs have it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..storage.commit_log import CommitLog, Entry, current_sessions
from ..storage.entries import BRANCH, Parent
from .differences import SEED, differing_names, join_names, show_value
from .record import RunRecord
from .special_options import find_changed_options

# Facts of a session that change the order of sums or of examples, with their names in sentences.
_FACTS = {
    "compiled": "compilation by XLA",
    "reader": "the reader",
    "cluster": "the processes that train",
    "partition": "the examples that are held out",
}
_TABLES = {"versions": "version of {}", "machine": "{}"}
_ALIKE_READERS = ("mapped", "stream")  # they have one order of examples
_NO_REASON = "the logs show no reason: a step depends on something that is not recorded"


class Parting(NamedTuple):
    """Where two runs parted.

    Attributes:
        equal_step: the last step at which they are known to be equal; 0 for the beginning.
        differing_step: the first step at which they are known to differ; None if they do not.
        text: a sentence without its end.
        causes: what differs from there on, a clause each.
    """

    equal_step: int
    differing_step: Optional[int]
    text: str
    causes: List[str]


def find_parting(a: RunRecord, b: RunRecord) -> Parting:
    """Where two runs parted, from their logs alone.

    Raises:
        CheckpointError: a log cannot be read.
    """
    equal, differing = _find_bounds(a, b)
    new, old = _find_causes(a, b, equal, differing)
    text = _describe(a, b, equal, differing, new, old)
    return Parting(equal, differing, text, new or old)


# ------------------------------------------------------------------------------------------ bounds


def _find_bounds(a: RunRecord, b: RunRecord) -> Tuple[int, Optional[int]]:
    """The last step at which two runs are known to be equal, and the first at which they differ."""
    commits = [record.folder.commits.current_commits() for record in (a, b)]
    common = sorted(set(commits[0]) & set(commits[1]))
    equal, differing = 0, None
    for step in common:
        hashes = [each[step].values["tensors"] for each in commits]
        if hashes[0] != hashes[1]:
            differing = step
            break
        equal = step
    record_step = _first_differing_record(a, b, equal)
    if record_step is not None and (differing is None or record_step < differing):
        differing = record_step
    return equal, differing


def _first_differing_record(a: RunRecord, b: RunRecord, after: int) -> Optional[int]:
    """The first step after another one at which the runs recorded different values of training."""
    tables = [_training_records(each) for each in (a, b)]
    for step in sorted(set(tables[0]) & set(tables[1])):
        (since, first), (other_since, second) = tables[0][step], tables[1][step]
        differs = any(first[name] != second[name] for name in set(first) & set(second))
        if step > after and since == other_since and differs:
            return int(step)
    return None


def _training_records(run: RunRecord) -> Dict[int, Tuple[int, Dict[str, Any]]]:
    """The step of a record -> the step of the one before, since which its means are; the record."""
    table, since = {}, 0
    for record in run.folder.metrics.read():
        if record.get("kind") == "train" and _is_step(record.get("step")):
            table[record["step"]] = since, record
            since = record["step"]
    return table


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# ------------------------------------------------------------------------------------------ causes


def _find_causes(
    a: RunRecord, b: RunRecord, equal: int, differing: Optional[int]
) -> Tuple[List[str], List[str]]:
    """What differs between the sessions that trained the steps between the bounds, a clause each.

    Returns:
        What did not differ before the last equal step, and what differed before it, too.
    """
    after = [_sessions_between(record, equal, differing) for record in (a, b)]
    differences = _compare_sessions(after[0], after[1])
    before = [_sessions_between(record, 0, equal) if equal else [] for record in (a, b)]
    former = _compare_sessions(before[0], before[1]) if all(before) else {}
    new = [text for key, text in differences.items() if former.get(key) != text]
    return new, [text for text in differences.values() if text not in new]


def _sessions_between(record: RunRecord, first: int, last: Optional[int]) -> List[Dict[str, Any]]:
    """The sessions that trained the steps after `first` up to `last` (None: the end)."""
    sessions = current_sessions(record.folder.commits.entries())
    ends = [session["from"] for session in sessions[1:]] + [None]
    return [
        session
        for session, end in zip(sessions, ends)
        if (end is None or end > first) and (last is None or session["from"] < last)
    ]


def _compare_sessions(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> Dict[str, str]:
    """What differs between any session of one run and any of the other: a key -> a clause."""
    differences: Dict[str, str] = {}
    for session in a:
        for other in b:
            for key, text in _compare_two(session, other).items():
                differences.setdefault(key, text)
    return differences


def _compare_two(a: Mapping[str, Any], b: Mapping[str, Any]) -> Dict[str, str]:
    """What differs between two sessions; what one of them did not record is not compared."""
    differences = _compare_options(a, b)
    for table, form in _TABLES.items():
        facts = a.get(table) or {}, b.get(table) or {}
        for name in sorted(set(facts[0]) & set(facts[1])):
            if facts[0][name] != facts[1][name] and name not in ("pluggy", "platform"):
                title = form.format(name)
                differences[title] = f"{title} differs ({facts[0][name]}, {facts[1][name]})"
    for key, title in _FACTS.items():
        values = a.get(key), b.get(key)
        is_known = key == "cluster" or None not in values
        is_alike = key == "reader" and all(value in _ALIKE_READERS for value in values)
        if values[0] != values[1] and is_known and not is_alike:
            differences[key] = _describe_fact(key, title, values)
    differences.update(_compare_inputs(a, b))
    return differences


def _describe_fact(key: str, title: str, values: Tuple[Any, Any]) -> str:
    if key == "reader":
        return f"{title} differs ({values[0]}, {values[1]})"
    if key == "compiled":
        return f"{title} differs ({', '.join('yes' if each else 'no' for each in values)})"
    return f"{title} differ"


def _compare_options(a: Mapping[str, Any], b: Mapping[str, Any]) -> Dict[str, str]:
    """The options that affect the result and differ."""
    changes = sorted(find_changed_options(a, b), key=lambda change: change[0] == SEED)
    return {
        f"option {name}": f"{name} differs ({show_value(value)}, {show_value(other)})"
        for name, value, other in changes
    }


def _compare_inputs(a: Mapping[str, Any], b: Mapping[str, Any]) -> Dict[str, str]:
    """Whether code, data or the weights to begin with differ."""
    differences = {}
    tables = a.get("plugins") or {}, b.get("plugins") or {}
    for plugin in sorted({*tables[0], *tables[1]}) if all(tables) else []:
        pair = [table.get(plugin) for table in tables]
        if None in pair:
            names = " and ".join(", ".join(sorted(table)) for table in tables)
            differences["plugins"] = f"the plugins differ ({names})"
        elif pair[0] != pair[1]:
            files = join_names(differing_names([each or {} for each in pair]))
            differences[f"code {plugin}"] = f"the code of plugin '{plugin}' differs ({files})"
    if None not in (a.get("data"), b.get("data")) and a["data"] != b["data"]:
        differences["data"] = "the data differs"
    models = a.get("model"), b.get("model")
    if models[0] != models[1]:
        differences["model"] = "the model was changed on a resume"
    parents = [Parent.from_json(each.get("parent")) for each in (a, b)]
    starts = [each if each and each.kind != BRANCH else None for each in parents]
    hashes = [each.tensors if each else None for each in starts]
    if hashes[0] != hashes[1]:
        names = " and ".join(_name_weights(each) for each in starts)
        differences["parent"] = f"they began with other weights ({names})"
    return differences


def _name_weights(parent: Optional[Parent]) -> str:
    if parent is None:
        return "the model's own"
    return parent.name if parent.step is None else f"{parent.name} at step {parent.step}"


# ------------------------------------------------------------------------------------------- words


def _describe(
    a: RunRecord,
    b: RunRecord,
    equal: int,
    differing: Optional[int],
    new: Sequence[str],
    old: Sequence[str],
) -> str:
    if a.plugin != b.plugin:
        return f"they have nothing in common: other plugins ({a.plugin} and {b.plugin})"
    prefix = _describe_branch(a, b)
    if differing is None:
        return prefix + _describe_no_difference(a, b, equal, new, old)
    reasons = "; ".join(new or old) or _NO_REASON
    if equal == 0:
        commits = [set(record.folder.commits.current_commits()) for record in (a, b)]
        is_first = differing == min(commits[0] & commits[1], default=None)
        place = "already at the first commit of both," if is_first else "by"
        return f"{prefix}they differ {place} step {differing:,}: {reasons}"
    start = f"{prefix}equal, bit for bit, up to step {equal:,}"
    logs = [record.folder.commits.entries() for record in (a, b)]
    if new and any(each["from"] == equal for log in logs for each in current_sessions(log)):
        return f"{start}; from there {reasons}"
    if differing == equal + 1:
        return f"{start}; they differ from the next step: {reasons}"
    return f"{start}; they differ by step {differing:,}: {reasons}"


def _describe_branch(a: RunRecord, b: RunRecord) -> str:
    """That one run is a branch of the other, or that both are branches of a third."""
    commits = [record.folder.commits for record in (a, b)]
    step = _last_shared_step(commits[0].entries(), commits[1].entries())
    if step is None:
        return ""
    branches = [_is_branch(each) for each in commits]
    if all(branches):
        return f"both have the first {step:,} steps of one run; "
    if not any(branches):
        return ""  # a copy of a folder
    child, parent = (a, b) if branches[0] else (b, a)
    return f"{child.name} is a branch of {parent.name} from step {step:,}; "


def _is_branch(log: CommitLog) -> bool:
    return any(parent.get("kind") == BRANCH for parent in log.parents())


def _last_shared_step(a: Sequence[Entry], b: Sequence[Entry]) -> Optional[int]:
    """The step of the last commit in the entries that two logs have in common."""
    step = None
    for entry, other in zip(a, b):
        if not entry.values or entry.values.get("hash") != other.values.get("hash"):
            break
        step = entry.step if entry.is_commit else step
    return step


def _describe_no_difference(
    a: RunRecord, b: RunRecord, equal: int, new: Sequence[str], old: Sequence[str]
) -> str:
    last = [max(record.folder.commits.current_commits(), default=0) for record in (a, b)]
    if not equal:
        if not all(last):
            name = (a if not last[0] else b).name
            return f"{name} has no commit yet, so nothing can be compared"
        text = "no step was committed by both, and no record of training differs"
        return f"{text}: {'; '.join(new or old)}" if new or old else text
    text = f"equal, bit for bit, up to step {equal:,}"
    if last[0] == last[1] == equal:
        return f"{text}, the last of both"
    clauses = [
        f"{record.name} has commits up to step {step:,}"
        for record, step in zip((a, b), last)
        if step > equal
    ]
    clauses += [f"from there {'; '.join(new)}"] if new else []
    return f"{text}, the last that both committed; {'; '.join(clauses)}"
