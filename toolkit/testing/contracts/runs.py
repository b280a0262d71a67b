"""Contracts of whole runs: trained, paused and resumed."""

from __future__ import annotations

from ...storage.checkpoint_reader import first_difference
from ...storage.run_folder import RunFolder
from ..runs import tensors
from ..subject import RUN_STEPS, Subject
from .registry import contract, require


@contract
def trains_with_all_hooks(subject: Subject) -> None:
    """A short run trains, logs and commits checkpoints, with the session hooks of the plugin."""
    subject.run("resident")


@contract
def resumes_exactly(subject: Subject) -> None:
    """A run that pauses half-way and resumes has the bits of an uninterrupted one."""
    _compare(subject.run("resident"), subject.run("resident-halves", pauses=True), "in memory")


@contract
def resumes_exactly_from_a_stream(subject: Subject) -> None:
    """So does a run whose examples are read as a stream."""
    whole = subject.run("stream", reader="stream")
    halves = subject.run("stream-halves", reader="stream", pauses=True)
    _compare(whole, halves, "read as a stream")


def _compare(whole: str, halves: str, form: str) -> None:
    remedy = (
        "Draw with run.uniform and run.normal, keep what a step changes in variables, and what a "
        "session hook carries in its `state`."
    )
    difference = first_difference(tensors(whole), tensors(halves))
    event = f"after a resume at step {RUN_STEPS // 2} of {RUN_STEPS}, with examples {form}"
    require(not difference, f"{difference}, {event}.", remedy)
    expected, actual = (RunFolder(path).metrics.lines() for path in (whole, halves))
    require(expected == actual, f"The records of metrics.jsonl differ {event}.", remedy)
