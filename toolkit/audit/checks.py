"""Prove that a run is what its folder says: the chain of commits, every file, and by training a
segment again.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type

from .. import config as configuration
from ..config import Config
from ..errors import (
    CheckFailed,
    CheckpointError,
    DivergedError,
    InterruptedRun,
    RetryError,
    ToolkitError,
    UsageError,
)
from ..options import CoreOptions, current_names, merge, resolve, result_options
from ..plugins import Plugins
from ..storage import checkpoint_reader
from ..storage.checkpoint_diff import RestoreOptions
from ..storage.commit_log import Checkpoint, Entry
from ..storage.jsonl import parse_object
from ..storage.manifest import FINISHED
from ..storage.run_folder import RunFolder
from ..training import provenance

# How a run may have ended; of the first ones the last step is committed.
COMMITTED = (FINISHED, "trained", "stopped")
STATUSES = COMMITTED + ("interrupted", "diverged", "failed", "running")
UNEQUAL = (
    "What a step computes may depend on the seed, the step and the variables alone: draw with "
    "run.uniform, run.normal or run.dropout, and keep nothing from step to step in Python."
)


class Check(NamedTuple):
    """One thing that was looked at. faults: what is wrong with it, a sentence each; [] if fine."""

    name: str
    told: str
    faults: List[str]


# ------------------------------------------------------------------------------------- the folder


def checks(folder: RunFolder) -> List[Check]:
    """Everything that can be checked without training, each part even where another is damaged."""
    parts: List[Tuple[str, Callable[[RunFolder], Tuple[str, List[str]]]]] = [
        ("manifest", _manifest),
        ("chain", _chain),
        ("checkpoints", _checkpoints),
        ("metrics", _metrics),
        ("config", _config),
    ]
    found = []
    for name, look in parts:
        try:
            told, faults = look(folder)
        except ToolkitError as error:
            told, faults = "", [error.message.rstrip(".")]
        found.append(Check(name, told, faults))
    return found


def refuse_faults(folder: RunFolder, found: List[Check]) -> None:
    """Raise CheckFailed with the first fault, where there is any."""
    faults = [f"{check.name}: {fault}" for check in found for fault in check.faults]
    if faults:
        more = f" ({_counted(len(faults) - 1, 'fault')} more)" if faults[1:] else ""
        raise CheckFailed(
            f"{faults[0]}{more}.",
            hint=f"What can be done says: toolkit doctor {folder}",
        )


def _manifest(folder: RunFolder):
    manifest = folder.read_manifest()
    status, step = manifest["status"], manifest.get("step", 0)
    told = f"{status}, step {step}"
    if status not in STATUSES:
        return told, [f"its status is {status!r}, which no run has"]
    if not isinstance(step, int):
        return told, [f"its step is {step!r}, which is no whole number"]
    last = max(_standing(folder), default=0)
    if status in COMMITTED and last != step:
        ends = f"ends at step {last}" if last else "has no commit"
        return told, [f"the run {status} at step {step}, but the chain {ends}"]
    return told, []


def _chain(folder: RunFolder):
    commits = folder.commits
    lines = commits.entries()
    told = (
        f"{_counted(len(lines), 'line')}, {_counted(len(commits.sessions()), 'session')}, "
        f"head {commits.head()[:16]}"
    )
    faults = commits.faults()
    faults += [f"line {n} {fault}" for n, fault in _out_of_order(lines)]
    if not lines and folder.checkpoints.leftovers(
        []
    ):  # a session's line comes before any checkpoint
        faults.append("commits.jsonl has no lines, but there are checkpoints")
    return told, faults


def _standing(folder: RunFolder) -> Dict[int, Entry]:
    """Step -> its commit, of those that no later session took back."""
    standing: Dict[int, Entry] = {}
    for line in folder.commits.entries():
        if line.is_session:
            standing = {n: old for n, old in standing.items() if n <= line.values["from"]}
        elif line.is_commit:
            standing[line.values["step"]] = line
    return standing


def _out_of_order(lines):
    """(number, what is wrong) of commits that do not follow from the session before them."""
    at = None
    for line in lines:
        if line.is_session:
            at = line.values["from"]
        elif line.is_commit:
            if at is None:
                yield line.number, f"commits step {line.values['step']} before any session"
            elif line.values["step"] <= at:
                yield line.number, f"commits step {line.values['step']} behind step {at}"
            at = line.values["step"]


def _checkpoints(folder: RunFolder):
    rows = folder.checkpoints.list()
    faults = []
    for row in rows:
        fault = folder.checkpoints.find_damage(row) or _tensors_fault(row)
        if fault:
            faults.append(fault)
    return f"steps {_steps(row.step for row in rows)}", faults


def _tensors_fault(row: Checkpoint) -> str:
    try:
        if checkpoint_reader.fingerprint(row.path) == row.tensors:
            return ""
    except CheckpointError as error:
        return error.message.rstrip(".")
    return f"the tensors of step {row.step} are not those that were committed"


def _metrics(folder: RunFolder):
    faults = []
    before = None
    for row in folder.checkpoints.list():
        fault = folder.metrics.find_fault(row)
        if fault:
            whole = f"; up to step {before} it is" if before is not None else ""
            faults.append(fault + whole)
            break
        before = row.step
    texts = folder.metrics.lines()
    for number, text in enumerate(texts, 1):
        if parse_object(text) is None:
            faults.append(f"line {number} of metrics.jsonl is no JSON object")
    if not faults and folder.metrics_end_fault():
        faults.append(folder.metrics_end_fault())
    return _counted(len(texts), "line"), faults


def _config(folder: RunFolder):
    values, sessions = folder.read_config(), folder.commits.sessions()
    if not isinstance(values, dict):
        return "", ["config.json holds no options"]
    told = _counted(len(values), "option")
    saved = sessions[-1].get("options") if sessions else None
    if not isinstance(saved, dict):
        return told, []
    if set(values) != set(saved):
        options = _declared_options(configuration.of_values(folder.path, values))
        values, saved = current_names(options, values), current_names(options, saved)
    changed = [n for n in sorted(set(values) | set(saved)) if values.get(n) != saved.get(n)]
    return told, [
        f"{name} is {values.get(name, 'missing')}, but the last session had "
        f"{saved.get(name, 'none of it')}"
        for name in changed
    ]


def _declared_options(config: Config) -> Type[CoreOptions]:
    """Return the options class of a run, or the core's where a plugin cannot be loaded."""
    try:
        return merge(Plugins.load(config.plugin, config.extensions).options())
    except ToolkitError:
        return CoreOptions


# -------------------------------------------------------------------------------------- a segment


class Segment(NamedTuple):
    """A part of a run that can be trained again. start: None for the beginning."""

    start: Optional[Checkpoint]
    end: Checkpoint
    session: Dict[str, Any]  # the line of the session that trained it
    model: Dict[
        str, Any
    ]  # how the model was changed at the start, as a `RestorePlan` tells it; or {}


def segment(folder: RunFolder, first: Optional[int], last: Optional[int]) -> Segment:
    """The steps after `first` up to `last`; the last two commits where they are None.

    Raises UsageError where they cannot be trained again: no such checkpoint, or the run went on
    with other options or another model within them.
    """
    standing = _standing(folder)
    if not standing:
        raise UsageError(
            f"{folder} has no checkpoint yet, so no steps of it can be trained again.",
            hint=f"Train it: toolkit resume {folder}",
        )
    last = max(standing) if last is None else last
    if last not in standing:
        raise UsageError(
            f"{folder} has committed no step {last}.",
            hint=f"A replay ends at one of {_steps(standing)}.",
        )
    there = {row.step: row for row in folder.checkpoints.list()}
    before = [step for step in sorted(there) if step < last]
    if first is None:
        first = max(before, default=0)
    if first and first not in before:
        if first >= last:
            message = f"There are no steps from {first} to {last}."
        elif first in standing:
            message = f"The checkpoint of step {first} was not kept."
        else:
            message = f"There is no checkpoint of step {first} to begin at."
        raise UsageError(
            message,
            hint=f"A replay up to step {last} begins at one of {_steps([0] + before)}.",
        )
    end = folder.commits.find_commit(last)
    sessions = _sessions(folder, first, standing[last])
    begun = sessions[0]
    model = begun.get("model") if begun["from"] == first else None
    return Segment(there.get(first), end, sessions[-1], model or {})


def _sessions(folder: RunFolder, first: int, end: Entry) -> List[Dict[str, Any]]:
    """The sessions that trained these steps, if all did so in the same way."""
    last = end.values["step"]
    found: List[Tuple[int, Dict[str, Any]]] = []
    for line in folder.commits.entries()[: end.number]:
        if line.is_session:
            # What came after this step was taken back.
            found = [(begun, values) for begun, values in found if begun < line.values["from"]]
            found.append((line.values["from"], line.values))
    begun = [values for step, values in found if step <= first][-1:]
    within = begun + [values for step, values in found if first < step < last]
    for before, after in zip(within, within[1:]):
        changed = _changes(folder, before, after)
        if changed:
            raise UsageError(
                f"The run went on with changes at step {after['from']}: {'; '.join(changed)}.",
                hint=f"Choose a segment that does not have step {after['from']} within it.",
            )
    return within


def _changes(folder: RunFolder, before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """Return what makes the results of two sessions differ, in words."""
    told = provenance.changed_since(before, after) + _changed_options(folder, before, after)
    if before.get("compiled") != after.get("compiled"):
        told.append("the steps were compiled in one of the two alone")
    if after.get("model"):
        told.append("the model was changed")
    return told


def _changed_options(folder: RunFolder, before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """Return the options that affect the result and differ between two sessions, in words."""
    old, new = before.get("options") or {}, after.get("options") or {}
    if old == new:
        return []
    options = _declared_options(of_session(folder, after))
    old, new = current_names(options, old), current_names(options, new)
    without_effect = set(options.model_fields) - result_options(options)
    return [
        f"{name} was {old[name]}, then {new[name]}"
        for name in sorted(set(old) & set(new) - without_effect)
        if old[name] != new[name]
    ]


def _steps(steps) -> str:
    return ", ".join(map(str, sorted(steps))) or "none"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --------------------------------------------------------------------------------------- a replay


def replay(folder: RunFolder, part: Segment, place: str) -> str:
    """Train a segment again in the folder `place`, and compare with what was committed.

    Returns what was found equal, in words. Raises CheckFailed with the first difference by name,
    and UsageError where this TensorFlow, machine or plugin is not that of the run.
    """
    from ..api import quiet
    from ..training.trainer import Job, Trainer

    saved = of_session(folder, part.session)
    plugins = Plugins.load(saved.plugin, saved.extensions)
    options = resolve(plugins.options(), [(folder.file("config.json"), saved.values)]).options
    target = _begun_at(folder, part, place)
    values = configuration.for_run(saved.plugin, saved.extensions, options, target.path)
    changes = RestoreOptions(
        bool(part.model.get("initialised")),
        bool(part.model.get("dropped")),
        part.model.get("renamed") or {},
    )
    job = Job(plugins, options, target, values, ["verify"], part.end.step, changes)
    trainer = Trainer(job, quiet())
    try:
        trainer.check_data()
        other = provenance.changed_since(part.session, trainer.session_facts())
        if other:
            raise UsageError(
                f"The segment cannot be trained again here: {'; '.join(other)}.",
                hint="Verify it where it was trained, with what it was trained with.",
            )
        _train(trainer, part.end.step)
    finally:
        trainer.close()
    return compare(folder, target, part.end.step)


def _train(trainer: Any, step: int) -> None:
    """Train up to a step. What goes wrong is told of the replay, which nobody can resume."""
    try:
        trainer.train()
    except DivergedError as error:
        raise CheckFailed(
            f"The replay did not come to step {step}: {error.message}", hint=UNEQUAL
        ) from error
    except (InterruptedRun, RetryError) as error:
        if isinstance(error, InterruptedRun):
            error.message = "The replay was interrupted."
        error.hint = "It trained a copy in the folder for temporary files; the run is as it was."
        raise


def of_session(folder: RunFolder, session: Dict[str, Any]) -> Config:
    """The plugins and options of a session, to train it again: without a limit of time, with the
    threads of then, its steps compiled, or not, as they were.
    """
    saved = configuration.of_values(folder.path, session.get("options") or folder.read_config())
    saved.values["xla"] = "on" if session.get("compiled") else "off"
    saved.values["intra_op_threads"] = (session.get("machine") or {}).get(provenance.THREADS, 0)
    saved.values["max_secs"] = None
    return saved


def _begun_at(folder: RunFolder, part: Segment, place: str) -> RunFolder:
    """A run in `place` that stands where the segment starts."""
    target = RunFolder(os.path.abspath(place), is_new=True)
    if part.start is None:
        return target
    manifest = folder.read_manifest()
    target.create(folder.read_config())
    for name in part.start.files:
        path = os.path.join("checkpoints", name)
        shutil.copyfile(folder.file(path), target.file(path))
    for text in folder.metrics.lines(part.start.metrics.bytes):
        target.metrics.append_line(text)
    target.commits.add("session", **{"from": 0, "kept": []})
    target.checkpoints.add_commit(part.start, [part.start.step])
    compiled = bool(part.session.get("compiled"))
    data = dict(manifest["data"])
    data["sha256"] = part.session.get("data") or data["sha256"]  # a resume may have changed it
    target.update_manifest(data=data, status="stopped", xla=compiled)
    return target


def compare(folder: RunFolder, other: RunFolder, step: int) -> str:
    """Compare two runs at a step that both committed: all tensors, and metrics.jsonl byte by byte.

    Returns what is equal, in words. Raises CheckFailed with the first difference by name.
    """
    expected, found = folder.commits.find_commit(step), other.commits.find_commit(step)
    if found is None:
        raise CheckFailed(f"The copy did not commit step {step}.", hint=UNEQUAL)
    if found.tensors != expected.tensors:
        raise CheckFailed(
            f"Step {step} differs: {_first_tensor(folder, expected, found)}.",
            hint=UNEQUAL,
        )
    if found.metrics != expected.metrics:
        raise CheckFailed(
            f"metrics.jsonl differs: {_first_line(folder, other, step)}.", hint=UNEQUAL
        )
    return (
        f"step {step}: tensors {found.tensors[:16]} and {found.metrics.bytes} bytes of "
        "metrics.jsonl are equal"
    )


def _first_tensor(folder: RunFolder, expected: Checkpoint, found: Checkpoint) -> str:
    hashes = f"tensors {found.tensors[:16]}, expected {expected.tensors[:16]}"
    if expected.step not in [row.step for row in folder.checkpoints.list()]:
        return hashes + " (the checkpoint itself was not kept)"
    try:
        return checkpoint_reader.first_difference(
            checkpoint_reader.read_tensors(expected.path),
            checkpoint_reader.read_tensors(found.path),
        )
    except CheckpointError:
        return hashes


def _first_line(folder: RunFolder, other: RunFolder, step: int) -> str:
    expected, found = (
        f.metrics.lines(f.commits.find_commit(step).metrics.bytes) for f in (folder, other)
    )
    for number, (old, new) in enumerate(zip(expected, found), 1):
        if old != new:
            return f"line {number} {_first_value(parse_object(old), parse_object(new))}"
    return f"{_counted(len(found), 'line')}, expected {len(expected)}"


def _first_value(expected: Dict[str, Any], found: Dict[str, Any]) -> str:
    """In words, where two lines of metrics.jsonl differ first."""
    for name in list(found) + [name for name in expected if name not in found]:
        old, new = expected.get(name, "none"), found.get(name, "none")
        if old != new:
            return f"(step {found.get('step')}): {name} is {new}, expected {old}"
    return "has the same values, written otherwise"
