"""What state a run's folder is in, in plain words, and what can be done about it."""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..compat import tf
from ..errors import CheckpointError, ToolkitError
from ..graph.build import build_training
from ..options import Options
from ..plugins import Plugins
from ..run_data import RunData, open_run_data
from ..storage.checkpoint_diff import (
    RestoreOptions,
    difference,
    plan_restore,
    read_variable_specs,
    variable_specs,
)
from ..storage.manifest import FINISHED
from ..storage.run_folder import RunFolder
from ..training import provenance
from ..training.setup import training_reader, training_run
from . import checks


class Diagnosis(NamedTuple):
    """state: a sentence. notes: what is good to know. faults: what is wrong. advice: what to do.

    All are sentences; the first advice is what most would want.
    """

    state: str
    notes: List[str]
    faults: List[str]
    advice: List[str]


def of_folder(folder: RunFolder) -> Diagnosis:
    """What the folder alone tells: how the run ended, what is committed, what is damaged."""
    resume = f"toolkit resume {folder}"
    if folder.is_new:
        return Diagnosis("It was ended before its first step.", [], [], ["Go on with: " + resume])
    if folder.is_locked():
        return Diagnosis("A process is training in it now.", _progress(folder), [], [])
    results = checks.checks(folder)
    faults = [f"{check.name}: {fault}." for check in results for fault in check.faults]
    found = Diagnosis(_state(folder), _progress(folder) + _leftovers(folder), faults, [])
    _advise(found, folder, [check.name for check in results if check.faults], resume)
    _add_room(found, folder)
    found.faults.extend(_rights(folder))
    return found


def of_model(
    folder: RunFolder,
    plugins: Plugins,
    options: Options,
    changes: RestoreOptions,
    config: Dict[str, Any],
    other_data: bool = False,
) -> Diagnosis:
    """Whether the data, this TensorFlow and the model still fit what was committed.

    config: what the run would be resumed with. changes: of the model, as `resume` takes them.
    other_data: whether other data is allowed.
    """
    notes: List[str] = []
    try:
        run_data = open_run_data(plugins, options)
    except ToolkitError as error:
        back = "Put the data back where it was, or say where it is now with --data."
        return Diagnosis("", [], [f"data: {error.message}"], [back, error.hint])
    sessions = folder.commits.sessions()
    if sessions:
        changed = provenance.changed_since(
            sessions[-1], provenance.of_chain(plugins, run_data, config)
        )
        if changed:
            notes.append(f"A resume here is not exact: {'; '.join(changed)}.")
    found = Diagnosis("", notes, [], [])
    if not other_data and _is_other(folder, run_data):
        found.faults.append("The data is not the run's.")
        found.advice.append("Put the same files back, or go on with these: --allow data")
    start = _quietly(folder.checkpoints.newest)
    if start is not None:
        try:
            _compare(found, start.path, _variables(plugins, options, run_data, folder), changes)
        except ToolkitError as error:
            found.faults.append(f"model: {error.message}")
            found.advice.extend([error.hint] if error.hint else [])
    return found


def _is_other(folder: RunFolder, run_data: RunData) -> bool:
    """Whether the data is other data than the manifest tells of, which a resume refuses."""
    data = (_quietly(folder.read_manifest) or {}).get("data")
    return isinstance(data, dict) and data.get("sha256") != run_data.dataset.sha256


def _compare(found: Diagnosis, path: str, variables, changes: RestoreOptions) -> None:
    """Add how the model differs from its checkpoint, and which flags allow that."""
    in_checkpoint, in_graph = read_variable_specs(path), variable_specs(variables)
    differing = difference(in_checkpoint, in_graph)
    found.notes.extend(f"Model: {line}." for line in differing.lines(most=8))
    try:
        planned = plan_restore(in_checkpoint, in_graph, changes)
    except CheckpointError as error:
        found.faults.append("The model differs from its checkpoint.")
        found.advice.append(error.hint)
        return
    if planned.is_plain:
        found.notes.append(f"The model fits its checkpoint of {len(in_graph)} variables.")
    else:
        found.notes.append(f"With these flags the model fits. {planned.sentence()}")


def _variables(plugins: Plugins, options: Options, run_data: RunData, folder: RunFolder):
    """The variables of the training graph, of which none is initialised."""
    with tf.Graph().as_default() as graph:
        reader = training_reader(options, run_data)
        build_training(plugins, training_run(options, run_data, folder.path, reader), reader, graph)
        return tf.global_variables()


# -------------------------------------------------------------------------------------- sentences


def _state(folder: RunFolder) -> str:
    try:
        manifest = folder.read_manifest()
    except ToolkitError as error:
        return f"How it ended is not known: {error.message}"
    status, step = str(manifest["status"]), manifest.get("step", 0)
    reason = str(manifest.get("reason", "")).rstrip(".")
    told = {
        FINISHED: f"It is finished and evaluated: {reason}.",
        "trained": f"It is trained, and was ended before its evaluation: {reason}.",
        "stopped": f"It left off at step {step}: {reason}.",
        "interrupted": f"It was interrupted, and step {step} was saved.",
        "diverged": f"{reason}.",
        "failed": f"It failed: {reason}.",
        "running": "It was killed: nothing tells of an end, and no process trains in it.",
    }
    return told.get(status, f"How it ended is not known: its status is '{status}'.")


def _progress(folder: RunFolder) -> List[str]:
    """How far the run came, and how much of that is committed."""
    rows = folder.checkpoints.list()
    total = (_quietly(folder.read_manifest) or {}).get("total_steps")
    of_all = f" of {total}" if total else ""
    if not rows:
        return [f"No step{of_all} is committed yet."]
    last = rows[-1].step
    kept = ", ".join(str(row.step) for row in rows)
    notes = [f"Step {last}{of_all} is committed last; kept are {kept}."]
    steps = [row.get("step") for row in folder.metrics.read()]
    seen = max([step for step in steps if isinstance(step, int)], default=0)
    if seen > last:
        one = seen == last + 1
        steps = f"Step {seen} was" if one else f"Steps {last + 1} to {seen} were"
        notes.append(f"{steps} made too and not committed; a resume makes what is missing again.")
    return notes


def _leftovers(folder: RunFolder) -> List[str]:
    names = folder.checkpoints.leftovers(row.step for row in folder.checkpoints.list())
    if not names:
        return []
    told = ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
    count = "1 file" if len(names) == 1 else f"{len(names)} files"
    return [
        f"{count} in checkpoints/ of no committed checkpoint ({told}); a resume clears them away."
    ]


def _add_room(found: Diagnosis, folder: RunFolder) -> None:
    """Add whether another checkpoint fits on the disk."""
    rows = folder.checkpoints.list()
    if not rows:
        return
    needed = sum(file.bytes for file in rows[-1].files.values())
    free = shutil.disk_usage(folder.path).free
    told = f"A checkpoint takes {_size(needed)}, and {_size(free)} are free on the disk."
    if free < needed:
        found.faults.append("There is no room for another checkpoint. " + told)
        found.advice.insert(0, "Make room on the disk.")
    elif free < 4 * needed:
        found.notes.append(told)


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _rights(folder: RunFolder) -> List[str]:
    if os.access(folder.path, os.W_OK | os.X_OK):
        return []
    return [f"{folder} cannot be written by this user, so it can be read but not resumed."]


# What to do where a check finds a fault, beside what a resume mends by itself.
WAYS_OUT = {
    "chain": "Copy commits.jsonl back from where it is whole; a resume alone goes on from the "
    "newest checkpoint that its whole lines name.",
    "metrics": "Copy metrics.jsonl back from where it is whole; a resume alone goes on with the "
    "lines that are there.",
    "config": "Copy config.json back, or put the values back; those of the last session stand in "
    'commits.jsonl, in the last line of "kind": "session".',
}
COPY_MANIFEST = "Copy manifest.json back from where it is whole; without it no command goes on."


def _advise(found: Diagnosis, folder: RunFolder, faulty: List[str], resume: str) -> None:
    """Add what can be done about the state, and about the faults in these checks."""
    advice = found.advice
    manifest = _quietly(folder.read_manifest)
    try:
        newest = folder.checkpoints.newest()
    except CheckpointError as error:
        found.faults.append(error.message)
        advice.extend([error.hint] if error.hint else [])
        return
    rows = folder.checkpoints.list()
    is_last = newest is None or newest.step == rows[-1].step
    if not is_last:
        advice.append(
            f"A resume puts what is damaged aside, and makes the steps after {newest.step} "
            "again, to the same "
            "bits."
        )
    elif "checkpoints" in faulty:
        advice.append(
            "The newest checkpoint is whole, so a resume goes on from it; copy the files of the "
            "others back, or do without them."
        )
    if "chain" in faulty and newest is None:
        advice.append("Copy commits.jsonl back from where it is whole; a resume alone begins anew.")
        return
    advice.extend(WAYS_OUT[name] for name in faulty if name in WAYS_OUT)
    if manifest is None or "manifest" in faulty and not _is_short(manifest, newest):
        advice.append(COPY_MANIFEST)
    elif manifest["status"] == "diverged":
        advice.append(_of_divergence(folder, manifest.get("step", 0)))
    elif manifest["status"] != FINISHED or not folder.checkpoints.is_intact():
        advice.append("Go on with: " + resume)
    elif not found.faults:
        advice.append(f"Nothing is left to do; to train on: {resume} --steps N")


def _is_short(manifest: Dict[str, Any], newest: Any) -> bool:
    """Whether what is committed ends before the run's target, so that a resume makes the rest."""
    total = manifest.get("total_steps")
    return isinstance(total, int) and (newest.step if newest else 0) < total


def _of_divergence(folder: RunFolder, step: int) -> str:
    report = f"reports/autopsy-{step}"
    told = f"{report} tells where it begins. " if os.path.isdir(folder.file(report)) else ""
    return (
        f"The same step would diverge again. {told}Change what leads to it, for example: "
        "toolkit resume "
        f"{folder} --allow on_nonfinite --on-nonfinite skip"
    )


def _quietly(function: Callable[[], Any]) -> Optional[Any]:
    """What the function returns, or None where it finds what it reads damaged."""
    try:
        return function()
    except ToolkitError:
        return None
