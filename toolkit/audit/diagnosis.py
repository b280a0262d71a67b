"""Diagnose a run folder: what state the run is in, what is wrong, and what can be done."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar

from ..cluster.tasks import describe_resume
from ..compat import tf
from ..data.same_data import LIST_FILE, check_same_classes, check_same_data
from ..errors import CheckpointError, DataError, ToolkitError
from ..graph.build import build_training
from ..options import CoreOptions
from ..plugins import Plugins
from ..run_data import open_run_data
from ..storage.commit_log import FormatError
from ..storage.entries import FINISHED, WEIGHTS
from ..storage.run_folder import RunFolder
from ..storage.session_changes import describe_cluster, find_session_changes
from ..training import provenance
from ..training.initial_weights import check_model, open_initial_weights, read_parents
from ..training.setup import begin_graph
from .checks import Fault, fault_of_error, join_steps, run_checks

Value = TypeVar("Value")


class Diagnosis(NamedTuple):
    """A diagnosis, to which further findings are added."""

    state: str  # a sentence
    notes: List[str]  # sentences that need no action
    faults: List[Fault]
    advice: List[str]  # sentences, the most useful one first

    def add_error(self, part: str, error: ToolkitError, advice: str = "") -> None:
        """Add an error of a part of the run as a fault, and what can be done before all else."""
        self.faults.append(fault_of_error(part, error))
        self.advice[:0] = [text for text in (advice, error.hint) if text]


# ----------------------------------------------------------------------------------------- folder


def diagnose_folder(folder: RunFolder) -> Diagnosis:
    """Diagnose what the folder alone shows: how the run ended, what is committed or damaged."""
    if folder.is_new:
        advice = "Continue with: " + describe_resume(None, folder.argument)
        return Diagnosis("The run ended before its first step.", [], [], [advice])
    if folder.is_locked():
        return Diagnosis("A process is training it now.", _describe_progress(folder), [], [])
    try:
        folder.state()
    except FormatError as error:  # no check can read it, and nothing is damaged
        state = "The run was written by another version of the toolkit."
        return Diagnosis(state, [], [fault_of_error("commit log", error)], [error.hint])
    except CheckpointError:
        pass  # a check reports it
    checks = run_checks(folder)
    faults = [fault for check in checks for fault in check.faults]
    parents = (_try(lambda: read_parents(folder)) or {}).values()
    notes = [parent.sentence() for parent in parents]
    notes += _describe_progress(folder)
    diagnosis = Diagnosis(_describe_state(folder), notes, faults, [])
    _add_advice(diagnosis, folder, [check.name for check in checks if check.faults])
    return diagnosis


def _describe_state(folder: RunFolder) -> str:
    try:
        state = folder.state()
    except ToolkitError as error:
        return f"How the run ended is unknown: {error.message}"
    status, step, reason = state["status"], state["step"], state["reason"].rstrip(".")
    evaluated = " and evaluated" if (state["summary"] or {}).get("test") else ""
    states = {
        FINISHED: f"The run is finished{evaluated}: {reason}.",
        "trained": f"The run is trained, and ended before its evaluation: {reason}.",
        "stopped": f"The run stopped at step {step}: {reason}.",
        "interrupted": f"The run was interrupted, and step {step} was saved.",
        "diverged": f"{reason}.",
        "failed": f"The run failed: {reason}.",
        "running": "The run was killed: it recorded no end, and no process is training it.",
    }
    return states.get(status, f"How the run ended is unknown: its status is '{status}'.")


def _describe_progress(folder: RunFolder) -> List[str]:
    """How far the run came, and which of its steps are committed."""
    checkpoints = folder.checkpoints.list()
    total = (_try(folder.state) or {}).get("total_steps")
    of_total = f" of {total}" if total else ""
    if not checkpoints:
        return [f"No step{of_total} is committed yet."]
    last = checkpoints[-1].step
    steps = join_steps(checkpoint.step for checkpoint in checkpoints)
    notes = [f"The last committed step is {last}{of_total}; there are checkpoints of {steps}."]
    recorded = [record.get("step") for record in folder.metrics.read()]
    latest = max([step for step in recorded if isinstance(step, int)], default=0)
    if latest > last:
        steps, them = f"Steps {last + 1} to {latest} were", "them"
        if latest == last + 1:
            steps, them = f"Step {latest} was", "it"
        notes.append(f"{steps} trained but not committed; a resume repeats {them}.")
    return notes


# ----------------------------------------------------------------------------------------- advice

# What to do where a check finds a fault, besides what a resume repairs.
REPAIRS = {
    "commit log": "Copy an intact commits.jsonl back; a resume without it continues from the "
    "newest checkpoint that its readable entries list.",
    "metrics": "Copy an intact metrics.jsonl back; a resume without it continues with the lines "
    "that are there.",
    "config": "Copy config.json back, or restore its values: those of the last session are in "
    'commits.jsonl, in the last entry with "kind": "session".',
    "manifest": "The numbers in manifest.json are not those of the run; a resume writes it again.",
    "seal": "Copy the reports back; the numbers in them are not those of the run.",
}


def _add_advice(diagnosis: Diagnosis, folder: RunFolder, faulty: List[str]) -> None:
    """Add what can be done about the state of a run and the faults that checks found."""
    advice, state = diagnosis.advice, _try(folder.state)
    if state is None:
        advice.append(
            "Copy an intact commits.jsonl back, or start a new run in another folder; no command "
            "continues without it."
        )
        return
    try:
        newest = folder.checkpoints.newest()
    except CheckpointError as error:
        diagnosis.add_error("checkpoints", error)
        return
    # Damaged checkpoints: the newest, newer ones than the newest intact one, or others.
    if newest is not None and newest.path in [fault.subject for fault in diagnosis.faults]:
        advice.append(
            f"Copy intact files of step {newest.step} and commits.jsonl back, or begin a new run "
            f"at an earlier step: toolkit resume {folder.argument} --from STEP"
        )
        return
    if newest is not None and newest.step != folder.checkpoints.list()[-1].step:
        advice.append(
            "A resume moves the damaged files to checkpoints/damaged and repeats the steps after "
            f"{newest.step}, with bit-identical results."
        )
    elif "checkpoints" in faulty:
        advice.append(
            "The newest checkpoint is intact, so a resume continues from it; copy the files of "
            "the others back if you need them."
        )
    # The other files, and how to continue.
    if "commit log" in faulty and newest is None:
        advice.append(
            "Copy an intact commits.jsonl back; a resume without it starts from the beginning."
        )
        return
    advice.extend(REPAIRS[name] for name in faulty if name in REPAIRS)
    if state["status"] == "diverged":
        report = f"reports/autopsy-{state['step']}"
        exists = os.path.isdir(folder.file(report))
        change = "--allow on_nonfinite --on-nonfinite skip"
        config = _try(folder.read_config)
        if isinstance(config, dict) and config.get("on_nonfinite") == "skip":
            change = "--allow learning_rate --learning-rate RATE"
        advice.append(
            "The same step would diverge again. "
            + (f"{report} shows where it starts. " if exists else "")
            + f"Change its cause, for example: {_describe_resume(folder, change)}"
        )
    elif state["status"] != FINISHED or not folder.checkpoints.is_intact():
        advice.append("Continue with: " + _describe_resume(folder))
    elif not faulty:
        flags = "--early-stopping 0" if folder.stopped_early() else "--steps N"
        resume = _describe_resume(folder, flags)
        advice.append(f"Nothing is left to do; to train longer: {resume}")


def _describe_resume(folder: RunFolder, *flags: str) -> str:
    """How a run continues, with flags, by as many processes as trained its last session."""
    cluster = folder.commits.last_session().get("cluster")
    is_alone = not isinstance(cluster, dict) or bool(cluster.get("devices"))
    return describe_resume(None if is_alone else cluster, " ".join([folder.argument, *flags]))


# ------------------------------------------------------------------------------- data and model


def diagnose_model(
    diagnosis: Diagnosis,
    folder: RunFolder,
    plugins: Plugins,
    options: CoreOptions,
    config: Dict[str, Any],
) -> None:
    """Add whether the data, this TensorFlow and the model still fit what was committed, with the
    options and the contents of config.json with which the run would be resumed.
    """
    try:
        run_data = open_run_data(plugins, options)
    except ToolkitError as error:
        advice = "Restore the data at its former place, or name its new place with --data."
        diagnosis.add_error("data", error, advice)
        return
    last = folder.commits.last_session()
    cluster = last.get("cluster")  # a resume may have as many processes
    facts = dict(provenance.reproducibility_facts(plugins, run_data, config), cluster=cluster)
    differences = find_session_changes(last, facts) if last else []
    if differences:
        diagnosis.notes.append(f"A resume here is not exact: {'; '.join(differences)}.")
    elif cluster and cluster.get("mode") == "replicated":
        count = describe_cluster(cluster)
        diagnosis.notes.append(f"The run was trained by {count}; a resume is exact with as many.")
    record, dataset = (_try(folder.state) or {}).get("data"), run_data.dataset
    if isinstance(record, dict):
        try:
            check_same_classes(record, dataset)
            check_same_data(record, dataset, folder.file(LIST_FILE))
        except DataError as error:  # a resume refuses it
            diagnosis.faults.append(Fault("data", "it differs from the data of the run"))
            diagnosis.notes.append(error.message)
            diagnosis.advice.insert(0, "Restore the files, or continue with these: --allow data")
    start = _try(folder.checkpoints.newest)
    if start is not None:
        try:
            graph, reader, run = begin_graph(options, run_data, folder.path)
            build_training(plugins, run, reader, graph)
            check_model(folder, start, graph)
            size = len(graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES))
            diagnosis.notes.append(f"The model fits its checkpoint of {size} variables.")
        except ToolkitError as error:
            diagnosis.add_error("model", error)


def diagnose_weights(diagnosis: Diagnosis, folder: RunFolder, options: CoreOptions) -> None:
    """Add whether the weights with which a run has to begin again are gone or have changed."""
    try:
        if not folder.checkpoints.list():
            recorded = read_parents(folder).get(WEIGHTS)
            warn = diagnosis.notes.append
            open_initial_weights(options.init_from, options.map, recorded, warn)
    except ToolkitError as error:
        diagnosis.add_error("weights", error)


def _try(read: Callable[[], Optional[Value]]) -> Optional[Value]:
    """What a function returns, or None if it raises a ToolkitError."""
    try:
        return read()
    except ToolkitError:
        return None
