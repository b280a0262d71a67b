"""Prove that a run is what its folder says: the chain of commits, every file, and by training a
segment again.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import config as configuration
from . import record, tensors
from .commits import Checkpoint
from .config import Config
from .errors import CheckFailed, CheckpointError, ToolkitError, UsageError
from .folder import FINISHED, RunFolder
from .lines import parsed
from .options import CoreOptions, describe, resolve
from .plugins import Plugins

# What a run computes does not depend on the options of these groups.
WITHOUT_EFFECT = {"Reports", "Checkpoints", "Machine"}


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


def refuse_faults(found: List[Check]) -> None:
    """Raise CheckFailed with the first fault, where there is any."""
    faults = ["{}: {}".format(check.name, fault) for check in found for fault in check.faults]
    if faults:
        more = " and {} more".format(len(faults) - 1) if len(faults) > 1 else ""
        raise CheckFailed(
            "{}{}.".format(faults[0], more),
            hint="'toolkit doctor RUN' says what can be done.",
        )


def _manifest(folder: RunFolder):
    manifest = folder.read_manifest()
    told = "{}, step {}".format(manifest["status"], manifest.get("step", 0))
    commits = [line.values["step"] for line in folder.commits.lines() if line.kind == "commit"]
    at = manifest.get("step", 0)
    if manifest["status"] == FINISHED and (not commits or commits[-1] != at):
        last = "ends at step {}".format(commits[-1]) if commits else "has no commit"
        return told, ["the run finished at step {}, but the chain {}".format(at, last)]
    return told, []


def _chain(folder: RunFolder):
    commits = folder.commits
    lines = commits.lines()
    told = "{} lines of {} sessions, head {}".format(
        len(lines), len(commits.sessions()), commits.head()[:16]
    )
    faults = commits.faults()
    faults += ["line {} {}".format(n, fault) for n, fault in _out_of_order(lines)]
    return told, faults


def _out_of_order(lines):
    """(number, what is wrong) of commits that do not follow from the session before them."""
    at = None
    for line in lines:
        if line.kind == "session":
            at = line.values["from"]
        elif line.kind == "commit":
            if at is None:
                yield line.number, "commits step {} before any session".format(line.values["step"])
            elif line.values["step"] <= at:
                yield line.number, "commits step {} behind step {}".format(line.values["step"], at)
            at = line.values["step"]


def _checkpoints(folder: RunFolder):
    rows = folder.checkpoints()
    faults = []
    for row in rows:
        fault = folder.damage(row)
        if not fault and tensors.fingerprint(row.path) != row.tensors:
            fault = "the tensors of step {} are not those that were committed".format(row.step)
        if fault:
            faults.append(fault)
    return "steps {}".format(", ".join(str(row.step) for row in rows) or "none"), faults


def _metrics(folder: RunFolder):
    faults = [fault for fault in map(folder.metrics_fault, folder.checkpoints()) if fault]
    texts = folder.metrics_texts()
    for number, text in enumerate(texts, 1):
        if parsed(text) is None:
            faults.append("line {} of metrics.jsonl is no JSON object".format(number))
    return "{} lines".format(len(texts)), faults


def _config(folder: RunFolder):
    values, sessions = folder.read_config(), folder.commits.sessions()
    if not isinstance(values, dict):
        return "", ["config.json holds no options"]
    saved = sessions[-1].get("options") if sessions else None
    if not isinstance(saved, dict):
        return "{} options".format(len(values)), []
    changed = [n for n in sorted(set(values) | set(saved)) if values.get(n) != saved.get(n)]
    faults = ["{} is not what the last session had".format(name) for name in changed]
    return "{} options".format(len(values)), faults


# -------------------------------------------------------------------------------------- a segment


class Segment(NamedTuple):
    """A part of a run that can be trained again. start: None for the beginning."""

    start: Optional[Checkpoint]
    end: Checkpoint
    session: Dict[str, Any]  # the line of the session that trained it


def segment(folder: RunFolder, first: Optional[int], last: Optional[int]) -> Segment:
    """The steps after `first` up to `last`; the last two commits where they are None.

    Raises UsageError where they cannot be trained again: no such checkpoint, or the run went on
    with other options or another model within them.
    """
    commits = [line.values["step"] for line in folder.commits.lines() if line.kind == "commit"]
    if not commits:
        raise UsageError("{} has no checkpoint yet, so there is nothing to replay.".format(folder))
    last = commits[-1] if last is None else last
    end = folder.commits.row(last)
    if end is None:
        raise UsageError(
            "{} has committed no step {}.".format(folder, last),
            hint="It committed {}.".format(_steps(commits)),
        )
    there = {row.step: row for row in folder.checkpoints()}
    if first is None:
        first = max((step for step in there if step < last), default=0)
    if not 0 <= first < last or (first and first not in there):
        raise UsageError(
            "A replay cannot begin at step {}.".format(first),
            hint="It begins at 0, or at a checkpoint before step {}: {}.".format(
                last, _steps(step for step in there if step < last)
            ),
        )
    return Segment(there.get(first), end, _one_session(folder, first, last))


def _one_session(folder: RunFolder, first: int, last: int) -> Dict[str, Any]:
    """The session that trained these steps; of several, the last, if all did so in the same way."""
    found: List[Dict[str, Any]] = []
    for line in folder.commits.lines():
        if line.kind == "session":
            # What came after this step was taken back.
            found = [(begun, values) for begun, values in found if begun < line.values["from"]]
            found.append((line.values["from"], line.values))
        elif line.kind == "commit" and line.values["step"] == last:
            break
    begun = [values for step, values in found if step <= first][-1:]
    within = begun + [values for step, values in found if first < step < last]
    for before, after in zip(within, within[1:]):
        changed = _changes(before, after)
        if changed:
            raise UsageError(
                "The run went on with changes at step {}: {}.".format(
                    after["from"], "; ".join(changed)
                ),
                hint="Choose a segment that does not have step {} within it.".format(after["from"]),
            )
    return within[-1]


def _changes(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """What makes the bits of two sessions others'."""
    told = record.changed_since(before, after)
    old, new = before.get("options") or {}, after.get("options") or {}
    groups = {field.name: field.group for field in describe(CoreOptions)}
    for name in sorted(set(old) & set(new)):
        if groups.get(name) not in WITHOUT_EFFECT and old[name] != new[name]:
            told.append("{} was {}, then {}".format(name, old[name], new[name]))
    if before.get("compiled") != after.get("compiled"):
        told.append("the steps were compiled in one of the two alone")
    if after.get("model"):
        told.append("the model was changed")
    return told


def _steps(steps) -> str:
    return ", ".join(map(str, sorted(steps))) or "none"


# --------------------------------------------------------------------------------------- a replay


def replay(folder: RunFolder, part: Segment, place: str) -> str:
    """Train a segment again in the folder `place`, and compare with what was committed.

    Returns what was found equal, in words. Raises CheckFailed with the first difference by name,
    and UsageError where this TensorFlow, machine or plugin is not that of the run.
    """
    from .in_process import quiet
    from .training import Job, Trainer

    saved = of_session(folder, part.session)
    plugins = Plugins.load(saved.plugin, saved.extensions)
    options = resolve(plugins.options(), [(folder.file("config.json"), saved.values)]).options
    target = _begun_at(folder, part, place)
    values = configuration.for_run(saved.plugin, saved.extensions, options, target.path)
    job = Job(plugins, options, target, values, ["verify"], pause_at=part.end.step)
    trainer = Trainer(job, quiet())
    try:
        trainer.check_data()
        other = record.changed_since(part.session, trainer.session_facts())
        if other:
            raise UsageError(
                "The segment cannot be trained again here: {}.".format("; ".join(other)),
                hint="Verify it where it was trained.",
            )
        trainer.train()
    finally:
        trainer.close()
    return compare(folder, target, part.end.step)


def of_session(folder: RunFolder, session: Dict[str, Any]) -> Config:
    """The plugins and options of a session; its steps are compiled, or not, as they were then."""
    saved = configuration.of_values(folder.path, session.get("options") or folder.read_config())
    saved.values["xla"] = "on" if session.get("compiled") else "off"
    return saved


def _begun_at(folder: RunFolder, part: Segment, place: str) -> RunFolder:
    """A run in `place` that stands where the segment starts."""
    target = RunFolder(os.path.abspath(place), is_new=True)
    if part.start is None:
        return target
    manifest = folder.read_manifest()
    target.make(folder.read_config())
    for name in part.start.files:
        path = os.path.join("checkpoints", name)
        shutil.copyfile(folder.file(path), target.file(path))
    for text in folder.metrics_texts(part.start.metrics.bytes):
        target.append_metrics_text(text)
    target.commits.add("session", **{"from": 0, "kept": []})
    target.add_commit(part.start, [part.start.step])
    compiled = bool(part.session.get("compiled"))
    target.update_manifest(data=manifest["data"], status="stopped", xla=compiled)
    return target


def compare(folder: RunFolder, other: RunFolder, step: int) -> str:
    """Compare two runs at a step that both committed: all tensors, and metrics.jsonl byte by byte.

    Returns what is equal, in words. Raises CheckFailed with the first difference by name.
    """
    expected, found = folder.commits.row(step), other.commits.row(step)
    if found is None:
        raise CheckFailed("The copy did not commit step {}.".format(step))
    if found.tensors != expected.tensors:
        raise CheckFailed(
            "Step {} differs: {}.".format(step, _first_tensor(folder, expected, found))
        )
    if found.metrics != expected.metrics:
        raise CheckFailed("metrics.jsonl differs: {}.".format(_first_line(folder, other, step)))
    return "step {}: tensors {} and {} bytes of metrics.jsonl are equal".format(
        step, found.tensors[:16], found.metrics.bytes
    )


def _first_tensor(folder: RunFolder, expected: Checkpoint, found: Checkpoint) -> str:
    hashes = "tensors {}, expected {}".format(found.tensors[:16], expected.tensors[:16])
    if expected.step not in [row.step for row in folder.checkpoints()]:
        return hashes + " (the checkpoint itself was not kept)"
    try:
        return tensors.first_difference(tensors.read(expected.path), tensors.read(found.path))
    except CheckpointError:
        return hashes


def _first_line(folder: RunFolder, other: RunFolder, step: int) -> str:
    expected, found = (f.metrics_texts(f.commits.row(step).metrics.bytes) for f in (folder, other))
    for number, (old, new) in enumerate(zip(expected, found), 1):
        if old != new:
            return "line {} is {}, expected {}".format(number, new, old)
    return "{} lines, expected {}".format(len(found), len(expected))
