"""What state a run's folder is in, in plain words, and what can be done about it."""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import record, verifying
from .building import training_reader, training_run
from .compat import tf
from .errors import CheckpointError, ToolkitError
from .fitting import Changes, difference, of_graph, plan, stored
from .folder import FINISHED, RunFolder
from .graphs import build_training
from .inputs import Inputs, open_inputs
from .options import Options
from .plugins import Plugins


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
    resume = "Go on with: toolkit resume {}".format(folder)
    if folder.is_new:
        return Diagnosis("It was ended before its first step.", [], [], [resume])
    if folder.is_locked():
        return Diagnosis("A process is training in it now.", _progress(folder), [], [])
    checks = verifying.checks(folder)
    faults = ["{}: {}.".format(check.name, fault) for check in checks for fault in check.faults]
    found = Diagnosis(_state(folder), _progress(folder) + _leftovers(folder), faults, [])
    found.notes.extend(_room(folder))
    found.faults.extend(_rights(folder))
    found.advice.extend(_advice(folder, resume))
    return found


def of_model(
    folder: RunFolder, plugins: Plugins, options: Options, changes: Changes, config: Dict[str, Any]
) -> Diagnosis:
    """Whether the data, this TensorFlow and the model still fit what was committed.

    config: what the run would be resumed with. changes: of the model, as `resume` takes them.
    """
    notes: List[str] = []
    try:
        inputs = open_inputs(plugins, options)
    except ToolkitError as error:
        return Diagnosis("", [], ["data: {}".format(error.message)], [error.hint])
    sessions = folder.commits.sessions()
    if sessions:
        changed = record.changed_since(sessions[-1], record.of_chain(plugins, inputs, config))
        if changed:
            notes.append("A resume here is not exact: {}.".format("; ".join(changed)))
    found = Diagnosis("", notes, [], [])
    start = _quietly(folder.newest)
    if start is not None:
        _compare(found, start.path, _variables(plugins, options, inputs, folder), changes)
    return found


def _compare(found: Diagnosis, path: str, variables, changes: Changes) -> None:
    """Add how the model differs from its checkpoint, and which flags allow that."""
    in_checkpoint, in_graph = stored(path), of_graph(variables)
    differing = difference(in_checkpoint, in_graph)
    found.notes.extend("Model: {}.".format(line) for line in differing.lines(most=8))
    try:
        planned = plan(in_checkpoint, in_graph, changes)
    except CheckpointError as error:
        found.faults.append("The model differs from its checkpoint.")
        found.advice.append(error.hint)
        return
    if planned.is_plain:
        found.notes.append("The model fits its checkpoint of {} variables.".format(len(in_graph)))
    else:
        found.notes.append("With these flags the model fits. {}".format(planned.sentence()))


def _variables(plugins: Plugins, options: Options, inputs: Inputs, folder: RunFolder):
    """The variables of the training graph, of which none is initialised."""
    with tf.Graph().as_default() as graph:
        reader = training_reader(options, inputs)
        build_training(plugins, training_run(options, inputs, folder.path, reader), reader, graph)
        return tf.global_variables()


# -------------------------------------------------------------------------------------- sentences


def _state(folder: RunFolder) -> str:
    try:
        manifest = folder.read_manifest()
    except ToolkitError as error:
        return "How it ended is not known: {}".format(error.message)
    status, step = manifest["status"], manifest.get("step", 0)
    reason = str(manifest.get("reason", "")).rstrip(".")
    told = {
        FINISHED: "It is finished: it {} and was evaluated.".format(reason),
        "trained": "It {}, and was ended before its evaluation.".format(reason),
        "stopped": "It left off at step {}: {}.".format(step, reason),
        "interrupted": "It was interrupted, and step {} was saved.".format(step),
        "diverged": "{}.".format(reason),
        "failed": "It failed: {}.".format(reason),
        "running": "It was killed: nothing tells of an end, and no process trains in it.",
    }
    return told.get(status, "Its status is '{}'.".format(status))


def _progress(folder: RunFolder) -> List[str]:
    """How far the run came, and how much of that is committed."""
    rows = folder.checkpoints()
    total = (_quietly(folder.read_manifest) or {}).get("total_steps")
    of_all = " of {}".format(total) if total else ""
    if not rows:
        return ["No step{} is committed yet.".format(of_all)]
    last = rows[-1].step
    notes = ["Step {}{} is committed last; kept are {}.".format(
        last, of_all, ", ".join(str(row.step) for row in rows))]  # fmt: skip
    steps = [row.get("step") for row in folder.read_metrics()]
    seen = max([step for step in steps if isinstance(step, int)], default=0)
    if seen > last:
        notes.append("Steps {} to {} at least were made and will be made again.".format(
            last + 1, seen))  # fmt: skip
    return notes


def _leftovers(folder: RunFolder) -> List[str]:
    names = folder.leftovers(row.step for row in folder.checkpoints())
    if not names:
        return []
    return ["{} files are of no committed checkpoint ({}); a resume clears them away.".format(
        len(names), ", ".join(names[:2]) + (", ..." if len(names) > 2 else ""))]  # fmt: skip


def _room(folder: RunFolder) -> List[str]:
    """Whether another checkpoint fits on the disk."""
    rows = folder.checkpoints()
    if not rows:
        return []
    needed = sum(facts["bytes"] for facts in rows[-1].files.values())
    free = shutil.disk_usage(folder.path).free
    if free > 3 * needed:
        return []
    return ["A checkpoint takes {:.1f} MB, and {:.1f} MB are free on the disk.".format(
        needed / 1e6, free / 1e6)]  # fmt: skip


def _rights(folder: RunFolder) -> List[str]:
    if os.access(folder.path, os.W_OK | os.X_OK):
        return []
    return ["{} cannot be written by this user, so it can be read but not resumed.".format(folder)]


def _advice(folder: RunFolder, resume: str) -> List[str]:
    manifest = _quietly(folder.read_manifest) or {}
    advice = []
    newest: Any = None
    try:
        newest = folder.newest()
    except CheckpointError as error:
        return [error.hint or error.message]
    rows = folder.checkpoints()
    if newest is not None and newest.step < rows[-1].step:
        advice.append(
            "A resume puts what is damaged aside, and makes the steps after {} again, to the same "
            "bits.".format(newest.step)
        )
    if manifest.get("status") == "diverged":
        advice.append(
            "The same step would diverge again; reports/autopsy-{} tells where it begins. Change "
            "what leads to it, for example: toolkit resume {} --allow nan --nan skip".format(
                manifest.get("step", 0), folder
            )
        )
    elif manifest.get("status") == FINISHED:
        if folder.is_whole():
            advice.append("Nothing is left to do; --steps or --epochs trains on.")
        else:
            advice.append(resume)
    elif manifest:
        advice.append(resume)
    return advice


def _quietly(function: Callable[[], Any]) -> Optional[Any]:
    """What the function returns, or None where it finds what it reads damaged."""
    try:
        return function()
    except ToolkitError:
        return None
