"""Check the integrity of a run folder: its manifest, commit log, checkpoints, metrics and
configuration. Nothing is trained.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Type

from .. import config as configuration
from ..config import Config
from ..errors import CheckFailed, CheckpointError, ToolkitError, is_verbose
from ..option_changes import find_differences
from ..options import FOLDER, ORIGINS, CoreOptions, current_names, merge
from ..plugins import Plugins, is_name, locate, plugin_name
from ..storage import checkpoint_reader, source_copies
from ..storage.commit_log import Checkpoint, CommitLog, Entry
from ..storage.evaluation_log import EVALUATIONS, find_evaluation_faults
from ..storage.jsonl import JsonLines, parse_object
from ..storage.manifest import FINISHED, FormatError
from ..storage.run_folder import RunFolder
from ..storage.seal import find_changes

# The states of a run in its manifest; in the first ones, the last step is committed.
COMMITTED = (FINISHED, "trained", "stopped")
STATUSES = COMMITTED + ("interrupted", "diverged", "failed", "running")


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
        ("manifest", _check_manifest),
        ("commit log", _check_commit_log),
        ("checkpoints", _check_checkpoints),
        ("metrics", _check_metrics),
        ("config", _check_config),
        ("seal", _check_seal),
        ("sources", _check_sources),
    ]
    if os.path.lexists(folder.file(EVALUATIONS)):
        parts.append(("evaluations", _check_evaluations))
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
    manifest = folder.read_manifest()
    status, step = manifest["status"], manifest.get("step", 0)
    fault = _find_status_fault(status, step, max(folder.commits.current_commits(), default=0))
    faults = [fault] if fault else []
    faults += _find_source_faults(manifest, folder.commits.sessions())
    faults += _find_parent_faults(manifest.get("parent"), folder.commits)
    return f"{status}, step {step}", [Fault("manifest", fault) for fault in faults]


def _find_source_faults(manifest: Dict[str, Any], sessions: List[Dict[str, Any]]) -> Iterator[str]:
    """The hashes of plugins and data that are not those of the sessions, a clause each.

    Plugins are recorded when a run begins, and data also when a resume allows other data.
    """
    plugins = manifest.get("plugins")
    if sessions and isinstance(plugins, dict) and isinstance(sessions[0].get("plugins"), dict):
        expected = sessions[0]["plugins"]
        for name in sorted(set(plugins) & set(expected)):
            values = plugins[name] if isinstance(plugins[name], dict) else {}
            if values.get("sha256") != expected[name]:
                yield f"the hash of plugin {name!a} is not that of the first session"
    is_recorded = sessions and isinstance(sessions[-1].get("data"), dict)
    if is_recorded and manifest["status"] in COMMITTED:
        now, expected = manifest["data"]["sha256"], sessions[-1]["data"]
        for name in sorted(set(now) | set(expected)):
            if now.get(name) != expected.get(name):
                yield f"the hash of data {name!a} is not that of the last session"


def _find_parent_faults(parent: Optional[Dict[str, Any]], log: CommitLog) -> Iterator[str]:
    """Whether what the run began from is another parent than its log records, as a clause."""
    records = log.parents()
    if log.sessions() and parent != (records[-1] if records else None):
        yield "the parent is not that of the commit log"


def _find_status_fault(status: str, step: int, last: int) -> str:
    """What contradicts the commit log, as a clause; '' if nothing does.

    Args:
        status: in the manifest.
        step: in the manifest.
        last: the last step in the commit log; 0: none.
    """
    if status not in STATUSES:
        return f"its status is {status!r}, which is unknown"
    if status in COMMITTED and last != step:
        end = f"ends at step {last}" if last else "has no commit"
        return f"the run {status} at step {step}, but the commit log {end}"
    return ""


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
        if entry.is_commit and position is None:
            yield f"entry {entry.number} commits step {entry.step} before any session"
        elif entry.is_commit and position is not None and entry.step <= position:
            yield f"entry {entry.number} commits step {entry.step} after step {position}"
        if entry.values:
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
    end = folder.read_manifest().get("metrics") if not faults else None
    if isinstance(end, dict) and end != folder.metrics.position()._asdict():
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
    values, expected = current_names(options, values), current_names(options, expected)
    configs = [configuration.parse_values(folder.path, each) for each in (values, expected)]
    for name in sorted(find_differences(options, *configs)):
        value, old = values.get(name, "missing"), expected.get(name, "no such option")
        yield Fault("config", f"{name} is {value}, but the last session had {old}", name)


def _check_seal(folder: RunFolder) -> Tuple[str, List[Fault]]:
    """Whether what people quote of a finished run is what the end of its commit log contains."""
    manifest, entry = folder.read_manifest(), folder.commits.seal()
    is_finished = manifest["status"] == FINISHED
    if entry is None and is_finished:
        # Where the last commit is missing too, the manifest's check says so.
        is_cut = manifest.get("step") not in folder.commits.current_commits()
        fault = Fault("seal", "the run is finished, but commits.jsonl has no seal")
        return "missing", [] if is_cut else [fault]
    if (entry is None or manifest["status"] not in COMMITTED) and _is_summary_unsealed(folder):
        message = "the summary is that of a finished run, and no seal contains it"
        return "not of the summary", [Fault("seal", message)]
    if entry is None:
        return "not sealed: the run is not finished", []
    if manifest["status"] not in COMMITTED:
        return f"of step {entry.step}, from which the run is continued", []
    pending: Tuple[str, ...] = ()
    if manifest["status"] == "trained":  # killed between its seal and the end of its manifest
        pending = ("summary", "metrics", "exit_code")
        manifest = dict(manifest, status=FINISHED)
    changes = find_changes(folder, manifest, entry.values, pending)
    reports = count_noun(len(entry.values["reports"]), "report file")
    summary = f"manifest and {reports} at step {entry.step}"
    return summary, [Fault("seal", change) for change in changes]


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


def _is_summary_unsealed(folder: RunFolder) -> bool:
    """Whether the summary says that the run is finished, and no seal in the log contains it."""
    summary = folder.read_manifest().get("summary")
    if not summary or not summary.get("finished") or not folder.commits.sessions():
        return False
    seals = [entry.values["manifest"] for entry in folder.commits.entries() if entry.is_seal]
    return all(seal.get("summary") != summary for seal in seals)


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
