"""Check the integrity of a run folder: its commit log, and every file that the log says something
of. Nothing is trained.
"""

from __future__ import annotations

import contextlib
import os
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, Type, Union

from .. import config as configuration
from ..display.numbers import format_count
from ..errors import CheckFailed, CheckpointError, ToolkitError, UsageError, is_verbose, join_names
from ..option_changes import find_differences
from ..options import FOLDER, ORIGINS, Config, CoreOptions, merge
from ..plugins import Plugins, is_name
from ..storage import checkpoint_reader, source_copies
from ..storage.commit_log import FormatError, fold
from ..storage.journal import JOURNAL, find_journal_fault, has_state
from ..storage.jsonl import parse_object, read_json
from ..storage.own_folders import MANIFEST
from ..storage.report_folder import find_report_faults
from ..storage.run_folder import RunFolder, driver_of


class Fault(NamedTuple):
    """Something that is wrong with a run."""

    part: str  # of the run: the name of a check, or "option", "data", "model", ...
    message: str  # a clause, without a period
    subject: str = ""  # the option, or the path of the file, that is at fault

    def __str__(self) -> str:
        return f"{self.part}: {self.message}."


class Check(NamedTuple):
    """The result of one check."""

    name: str
    summary: str  # what was checked, in a few words; "" if it could not be read
    faults: List[Fault]


# What a check returns: in a few words what it read, and a clause for each fault, or the clause with
# the subject of a `Fault`.
_Result = Tuple[str, Iterable[Union[str, Tuple[str, str]]]]


def run_checks(folder: RunFolder) -> List[Check]:
    """Run all checks, each even if another finds damage.

    Raises FormatError if another version of the toolkit wrote the run.
    """
    parts: Dict[str, Callable[[RunFolder], _Result]] = {
        "commit log": _check_commit_log,
        "manifest": _check_manifest,
        "checkpoints": _check_checkpoints,
        "metrics": _check_metrics,
        "config": _check_config,
        "seal": _check_seal,
        "sources": _check_sources,
    }
    if driver_of(folder.path):
        parts["journal"] = _check_journal
    checks = []
    for name, check in parts.items():
        try:
            summary, found = check(folder)
            pairs = [(each, "") if isinstance(each, str) else each for each in found]
            faults = [Fault(name, clause, subject) for clause, subject in pairs if clause]
        except FormatError:
            raise
        except ToolkitError as error:
            summary, faults = "", [fault_of_error(name, error)]
        checks.append(Check(name, summary, faults))
    return checks


def fault_of_error(part: str, error: ToolkitError) -> Fault:
    """The fault that an error reports."""
    return Fault(part, error.message.rstrip("."), error.path)


def refuse_faults(folder: RunFolder, checks: List[Check]) -> None:
    """Raise CheckFailed with the first fault, if there is any."""
    faults = [fault for check in checks for fault in check.faults]
    if faults:
        first = str(faults[0]).rstrip(".")
        more = f" ({format_count(len(faults) - 1, 'more fault')})" if faults[1:] else ""
        raise CheckFailed(
            f"{first}{more}.", hint=f"For advice, run: toolkit doctor {folder.argument}"
        )


# ----------------------------------------------------------------------------------------- checks


def _check_manifest(folder: RunFolder) -> _Result:
    """Whether manifest.json, which is for people, shows what the commit log says."""
    state, entries = folder.state(), folder.commits.entries()
    summary, path = f"{state['status']}, step {state['step']}", folder.file(MANIFEST)
    try:
        shown = read_json(path)
    except CheckpointError as error:
        return summary, [(error.message.rstrip("."), path)]
    if shown in (state, fold(entries[:-1])):  # a kill may come between an entry and the manifest
        return summary, []
    known = shown if isinstance(shown, dict) else {}
    names = [name for name in {**state, **known} if known.get(name) != state.get(name)]
    clause = f"manifest.json does not show what the commit log says: {join_names(names)}"
    return summary, [(clause, path)]


def _check_commit_log(folder: RunFolder) -> _Result:
    log, faults = folder.commits, folder.commits.faults()
    entries, sessions = len(log.entries()), len(log.sessions())
    summary = f"{format_count(entries, 'entry', 'entries')}, {format_count(sessions, 'session')}"
    position: Optional[int] = None  # the step that training has reached; None: no session yet
    for entry in log.entries():
        if entry.kind == "commit" and (position is None or entry.step <= position):
            place = "before any session" if position is None else f"after step {position}"
            faults.append(f"entry {entry.number} commits step {entry.step} {place}")
        if "kept" in entry.values:  # a session, a branch or a commit
            position = entry.step
    if not entries and folder.checkpoints.leftovers([]):
        # The entry of a session is written before any checkpoint.
        faults.append("commits.jsonl has no entries, but there are checkpoints")
    return summary + (f", head {log.head()}" if is_verbose() else ""), faults


def _check_checkpoints(folder: RunFolder) -> _Result:
    checkpoints = folder.checkpoints.list()
    faults = []
    for each in checkpoints:
        fault = folder.checkpoints.find_damage(each)
        try:
            if not fault and checkpoint_reader.fingerprint(each.path) != each.tensors:
                fault = f"the tensors of step {each.step} are not those that were committed"
        except CheckpointError as error:
            fault = error.message.rstrip(".")
        faults.append((fault, each.path))
    return f"steps {join_steps(checkpoint.step for checkpoint in checkpoints)}", faults


def _check_metrics(folder: RunFolder) -> _Result:
    lines, checkpoints = folder.metrics.lines(), folder.checkpoints.list()
    faults = list(filter(None, map(folder.metrics.find_fault, checkpoints)))[:1]
    faults += [
        f"line {number} of metrics.jsonl is not a JSON object"
        for number, line in enumerate(lines, 1)
        if parse_object(line) is None
    ]
    seal = folder.commits.seal()
    if not faults and seal and seal.values["metrics"] != folder.metrics.position()._asdict():
        faults.append("metrics.jsonl is not what it was when the run finished")
    return format_count(len(lines), "line"), faults


def _check_config(folder: RunFolder) -> _Result:
    """Whether config.json has the options of the last session."""
    values, expected = folder.read_config(), folder.commits.last_session().get("options")
    if not isinstance(values, dict):
        return "", [("config.json contains no options", folder.file("config.json"))]
    own, last = (
        {name: value for name, value in (each or {}).items() if name not in (FOLDER, ORIGINS)}
        for each in (values, expected)
    )
    names = [name for name in sorted({**own, **last}) if own.get(name, "") != last.get(name, "")]
    if expected and names:  # a path may be written in several ways
        with contextlib.suppress(UsageError):
            configs = [configuration.parse_values(folder.path, each) for each in (values, expected)]
            real = find_differences(declared_options(configs[0]), *configs)
            names = [name for name in names if name in real]
    faults = []
    for name in names if expected else ():
        value, old = own.get(name, "missing"), last.get(name, "no such option")
        faults.append((f"{name} is {value}, but the last session had {old}", name))
    return format_count(len(own), "option"), faults


def _check_seal(folder: RunFolder) -> _Result:
    """Whether the reports that people quote of a finished run are as its seal has them."""
    entry = folder.commits.seal()
    if entry is None:
        return "not sealed: the run is not finished", []
    summary = f"{format_count(len(entry.values['reports']), 'report file')} at step {entry.step}"
    return summary, find_report_faults(folder, entry.values)


def _check_sources(folder: RunFolder) -> _Result:
    """Whether the copies of the plugins' sources have the hashes in the commit log."""
    sessions = folder.commits.sessions()
    has_copies = any(source_copies.read_copies(session) for session in sessions)
    summary = f"{'' if has_copies else 'no '}copies of the plugins' code"
    return summary, source_copies.find_faults(folder, sessions)


def _check_journal(folder: RunFolder) -> _Result:
    """Whether the journal of a driver is what it was at each checkpoint."""
    checkpoints = [c for c in folder.checkpoints.list() if has_state(c)]
    path = folder.file(JOURNAL)
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return f"{size} bytes", [(find_journal_fault(folder, each), path) for each in checkpoints]


def declared_options(config: Config) -> Type[CoreOptions]:
    """The options class of a run, or the core's if not all of its plugins are installed.

    A plugin that is a file or a module is not executed.
    """
    references = [config.plugin, *config.extensions]
    try:
        if not all(map(is_name, references)):
            return CoreOptions
        return merge(Plugins.load(config.plugin, config.extensions).options())
    except ToolkitError:
        return CoreOptions


# ------------------------------------------------------------------------------------------ words


def join_steps(steps: Iterable[int]) -> str:
    """The steps in order, separated by commas; "none" if there is none."""
    return ", ".join(map(str, sorted(steps))) or "none"
