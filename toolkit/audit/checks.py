"""Check the integrity of a run folder: its commit log, and every file that the log says something
of. Nothing is trained.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Type

from .. import config as configuration
from ..errors import CheckFailed, CheckpointError, ToolkitError, is_verbose
from ..option_changes import find_differences
from ..options import FOLDER, ORIGINS, Config, CoreOptions, merge
from ..plugins import Plugins, is_name, locate, plugin_name
from ..storage import checkpoint_reader, source_copies
from ..storage.commit_log import MANIFEST, Checkpoint, Entry, FormatError, fold
from ..storage.journal import JOURNAL, find_journal_fault, has_state
from ..storage.jsonl import JsonLines, parse_object, read_json
from ..storage.record_log import EVALUATIONS, find_evaluation_faults
from ..storage.report_folder import find_report_faults
from ..storage.run_folder import RunFolder, driver_of


class Fault(NamedTuple):
    """Something that is wrong with a run."""

    part: str  # of the run: the name of a check, or "option", "data", "model", "disk", ...
    message: str  # a clause, without a period
    subject: str = ""  # the option, or the path of the file, that is at fault

    def __str__(self) -> str:
        return f"{self.part}: {self.message}."


class Check(NamedTuple):
    """The result of one check."""

    name: str
    summary: str  # what was checked, in a few words; "" if it could not be read
    faults: List[Fault]


def run_checks(folder: RunFolder) -> List[Check]:
    """Run all checks, each even if another finds damage.

    Raises FormatError if another version of the toolkit wrote the run.
    """
    parts: List[Tuple[str, Callable[[RunFolder], Tuple[str, Iterable[Fault]]]]] = [
        ("commit log", _check_commit_log),
        ("manifest", _check_manifest),
        ("checkpoints", _check_checkpoints),
        ("metrics", _check_metrics),
        ("config", _check_config),
        ("seal", _check_seal),
        ("sources", _check_sources),
    ]
    if os.path.lexists(folder.file(EVALUATIONS)):
        parts.append(("evaluations", _check_evaluations))
    if driver_of(folder.path):
        parts.append(("journal", _check_journal))
    checks = []
    for name, check in parts:
        try:
            summary, faults = check(folder)
        except FormatError:
            raise
        except ToolkitError as error:
            summary, faults = "", [fault_of_error(name, error)]
        checks.append(Check(name, summary, list(faults)))
    return checks


def fault_of_error(part: str, error: ToolkitError) -> Fault:
    """The fault that an error reports."""
    return Fault(part, error.message.rstrip("."), error.path)


def refuse_faults(folder: RunFolder, checks: List[Check]) -> None:
    """Raise CheckFailed with the first fault, if there is any."""
    faults = [fault for check in checks for fault in check.faults]
    if faults:
        first = str(faults[0]).rstrip(".")
        more = f" ({count_noun(len(faults) - 1, 'more fault')})" if faults[1:] else ""
        raise CheckFailed(
            f"{first}{more}.", hint=f"For advice, run: toolkit doctor {folder.argument}"
        )


# ----------------------------------------------------------------------------------------- checks


def _check_manifest(folder: RunFolder) -> Tuple[str, List[Fault]]:
    """Whether manifest.json, which is for people, shows what the commit log says."""
    state, entries = folder.state(), folder.commits.entries()
    summary, path = f"{state['status']}, step {state['step']}", folder.file(MANIFEST)
    try:
        shown = read_json(path)
    except CheckpointError as error:
        return summary, [Fault("manifest", error.message.rstrip("."), path)]
    if shown in (state, fold(entries[:-1])):  # a kill may come between an entry and the manifest
        return summary, []
    known = shown if isinstance(shown, dict) else {}
    names = [name for name in {**state, **known} if known.get(name) != state.get(name)]
    clause = f"manifest.json does not show what the commit log says: {', '.join(names[:5])}"
    return summary, [Fault("manifest", clause, path)]


def _check_commit_log(folder: RunFolder) -> Tuple[str, List[Fault]]:
    log = folder.commits
    entries = log.entries()
    summary = (
        f"{count_noun(len(entries), 'entry', 'entries')}, "
        f"{count_noun(len(log.sessions()), 'session')}"
    )
    if is_verbose():
        summary += f", head {log.head()}"
    faults = log.faults() + list(_find_order_faults(entries))
    if not entries and folder.checkpoints.leftovers([]):
        # The entry of a session is written before any checkpoint.
        faults.append("commits.jsonl has no entries, but there are checkpoints")
    return summary, [Fault("commit log", fault) for fault in faults]


def _find_order_faults(entries: Iterable[Entry]) -> Iterator[str]:
    """The commits that do not follow from the session before them, a clause each."""
    position: Optional[int] = None  # the step that training has reached; None: no session yet
    for entry in entries:
        kind = entry.values.get("kind")
        if kind == "commit" and position is None:
            yield f"entry {entry.number} commits step {entry.step} before any session"
        elif kind == "commit" and position is not None and entry.step <= position:
            yield f"entry {entry.number} commits step {entry.step} after step {position}"
        if kind in ("session", "branch", "commit"):
            position = entry.step


def _check_checkpoints(folder: RunFolder) -> Tuple[str, List[Fault]]:
    checkpoints = folder.checkpoints.list()
    faults = [
        Fault("checkpoints", folder.checkpoints.find_damage(c) or _find_tensor_fault(c), c.path)
        for c in checkpoints
    ]
    steps = join_steps(checkpoint.step for checkpoint in checkpoints)
    return f"steps {steps}", [fault for fault in faults if fault.message]


def _find_tensor_fault(checkpoint: Checkpoint) -> str:
    """What is wrong with the tensors of a checkpoint whose files are intact; '' if nothing is."""
    try:
        if checkpoint_reader.fingerprint(checkpoint.path) == checkpoint.tensors:
            return ""
    except CheckpointError as error:
        return error.message.rstrip(".")
    return f"the tensors of step {checkpoint.step} are not those that were committed"


def _check_metrics(folder: RunFolder) -> Tuple[str, List[Fault]]:
    lines = folder.metrics.lines()
    fault = _find_metrics_fault(folder)
    faults = [fault] if fault else []
    faults += [
        f"line {number} of metrics.jsonl is not a JSON object"
        for number, line in enumerate(lines, 1)
        if parse_object(line) is None
    ]
    seal = folder.commits.seal()
    if not faults and seal and seal.values["metrics"] != folder.metrics.position()._asdict():
        faults.append("metrics.jsonl is not what it was when the run finished")
    return count_noun(len(lines), "line"), [Fault("metrics", fault) for fault in faults]


def _find_metrics_fault(folder: RunFolder) -> str:
    """Which commit metrics.jsonl contradicts first, as a clause; '' if none."""
    intact: Optional[int] = None
    for checkpoint in folder.checkpoints.list():
        fault = folder.metrics.find_fault(checkpoint)
        if fault:
            return fault if intact is None else f"{fault}; up to step {intact} it is intact"
        intact = checkpoint.step
    return ""


def _check_config(folder: RunFolder) -> Tuple[str, List[Fault]]:
    values, sessions = folder.read_config(), folder.commits.sessions()
    if not isinstance(values, dict):
        return "", [Fault("config", "config.json contains no options", folder.file("config.json"))]
    summary = count_noun(len(_drop_notes(values)), "option")
    expected = sessions[-1].get("options") if sessions else None
    if not isinstance(expected, dict):
        return summary, []
    return summary, list(_compare_options(folder, values, expected))


def _drop_notes(values: Dict[str, Any]) -> Dict[str, Any]:
    """The plugins and options of a saved configuration, without where they come from."""
    return {name: value for name, value in values.items() if name not in (FOLDER, ORIGINS)}


def _compare_options(
    folder: RunFolder, values: Dict[str, Any], expected: Dict[str, Any]
) -> Iterator[Fault]:
    """The options of config.json that differ from those of the last session."""
    if _drop_notes(values) == _drop_notes(expected):
        return
    options = declared_options(configuration.parse_values(folder.path, values))
    configs = [configuration.parse_values(folder.path, each) for each in (values, expected)]
    for name in sorted(find_differences(options, *configs)):
        value, old = values.get(name, "missing"), expected.get(name, "no such option")
        yield Fault("config", f"{name} is {value}, but the last session had {old}", name)


def _check_seal(folder: RunFolder) -> Tuple[str, List[Fault]]:
    """Whether the reports that people quote of a finished run are as its seal has them."""
    entry = folder.commits.seal()
    if entry is None:
        return "not sealed: the run is not finished", []
    faults = [Fault("seal", fault) for fault in find_report_faults(folder, entry.values)]
    return f"{count_noun(len(entry.values['reports']), 'report file')} at step {entry.step}", faults


def _check_sources(folder: RunFolder) -> Tuple[str, List[Fault]]:
    """Whether the copies of the plugins' sources have the hashes in the commit log."""
    sessions = folder.commits.sessions()
    copies = {c.place for each in sessions for c in source_copies.read_copies(each).values()}
    faults = source_copies.find_faults(folder, sessions)
    summary = "copies of the plugins' code" if copies else "no copies of the plugins' code"
    return summary, [Fault("sources", fault) for fault in faults]


def _check_evaluations(folder: RunFolder) -> Tuple[str, List[Fault]]:
    """Whether the metrics of `toolkit evaluate --follow` are of checkpoints of this run."""
    lines = JsonLines(folder.file(EVALUATIONS)).lines()
    tensors: Dict[int, List[str]] = {}
    for entry in folder.commits.entries():
        if entry.is_commit:
            tensors.setdefault(entry.step, []).append(entry.values["tensors"])
    faults = [Fault("evaluations", fault) for fault in find_evaluation_faults(lines, tensors)]
    return f"{count_noun(len(lines), 'record')}, not sealed", faults


def _check_journal(folder: RunFolder) -> Tuple[str, List[Fault]]:
    """Whether the journal of a driver is what it was at each checkpoint."""
    checkpoints = [c for c in folder.checkpoints.list() if has_state(c)]
    faults = [find_journal_fault(folder, checkpoint) for checkpoint in checkpoints]
    path = folder.file(JOURNAL)
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return f"{size} bytes", [Fault("journal", fault, path) for fault in faults if fault]


def describe_code_change(reference: str, session: Dict[str, Any]) -> str:
    """That a plugin has other files than in a session, as a clause; "" if it has not.

    Args:
        reference: of a plugin that is a file or a module. It is not executed.
        session: its entry in the commit log.

    Raises:
        UsageError: there is no such plugin.
    """
    name, hashes = plugin_name(reference), locate(reference).hashes
    recorded = (session.get("plugins") or {}).get(name) or {}
    names = sorted(n for n in hashes if recorded.get(n, hashes[n]) != hashes[n])
    return f"plugin '{name}' has changed ({', '.join(names[:3])})" if names else ""


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


def count_noun(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun, such as "1 line" and "2 lines"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
