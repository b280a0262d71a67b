"""What came of a trial: read from its run, and for failures from the notes beside it."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ..comparison.metrics import read_interval
from ..comparison.record import RunRecord, finite, read_record
from ..errors import CheckpointError, RetryError, ToolkitError
from ..files import write_json
from ..statistics.intervals import LEVEL
from ..storage.entries import FINISHED as RUN_FINISHED
from ..storage.jsonl import read_json
from ..storage.run_folder import RunFolder
from ..training.best_metric import BestMetric
from .definition import BEST, FAILED, FINISHED, PAUSED, Definition, Trial, TrialResult
from .trial_options import TRIALS, pause_step, run_path

Evaluations = Mapping[int, Mapping[str, Any]]  # the records of the validation split by their steps


class Notes(NamedTuple):
    """What the records of a run do not say, in a file beside it.

    Attributes:
        cpu_secs: of the processor, summed over the processes of the trial that have ended.
        seconds: of the clock, likewise.
        status: DIVERGED or FAILED; "" for a trial that has not failed.
        reason: why it failed, one sentence.
    """

    cpu_secs: float = 0.0
    seconds: float = 0.0
    status: str = ""
    reason: str = ""


def read_notes(path: str) -> Notes:
    """Return the notes beside a run; those of a damaged file are empty."""
    try:
        return Notes(**read_json(path + ".json"))
    except (CheckpointError, TypeError):
        return Notes()


def write_notes(path: str, notes: Notes) -> None:
    """Write the notes beside a run. Raises RetryError."""
    try:
        write_json(path + ".json", notes._asdict())
    except OSError as error:
        raise RetryError(
            f"{path}.json cannot be written: {error.strerror}.",
            hint="Free some space, then continue with the same command.",
        ) from None


def find_record(path: str) -> Optional[RunRecord]:
    """Return the record of a run; None if it has not begun, or is damaged."""
    try:
        return read_record(path) if os.path.isdir(path) else None
    except ToolkitError:
        return None


def read_result(definition: Definition, trial: Trial, folder: str) -> Optional[TrialResult]:
    """Return how a trial ended at its rung; None if it has not.

    A run that has come past the rung has the value that it had there.

    Args:
        definition: of the study.
        trial: with its rung.
        folder: of the study.
    """
    path = run_path(folder, trial)
    record, notes = find_record(path), read_notes(path)
    end = pause_step(definition, trial.configuration.length, trial.rung)
    result = TrialResult(
        configuration=trial.configuration.number,
        seed=trial.seed,
        rung=trial.rung,
        status=notes.status or FAILED,
        reason=notes.reason,
        value=None,
        step=record.step if record is not None else 0,
        cpu_secs=notes.cpu_secs,
        seconds=notes.seconds,
        path=os.path.join(TRIALS, trial.name),
    )
    evaluations = _read_evaluations(path) if record is not None else {}
    if record is None or not _has_reached(definition, trial, record, end, evaluations):
        return result if notes.status else None
    best, is_past = record.best, record.step > end
    if is_past:
        evaluations = {step: each for step, each in evaluations.items() if step <= end}
        best = find_best(best, evaluations) if best is not None else None
    at, value = choose_evaluation(definition, evaluations, best)
    if value is None:
        place = f" at step {at}" if at else ""
        reason = f"{definition.metric} of the validation split is not finite{place}."
        return result._replace(status=FAILED, reason=reason)
    is_last = trial.rung == len(definition.rungs) - 1
    is_finished = is_last or (record.status == RUN_FINISHED and not is_past)
    low, high = find_ends(record, at, definition.metric)
    return result._replace(
        status=FINISHED if is_finished else PAUSED,
        reason="",
        value=value,
        step=min(record.step, end),
        low=low,
        high=high,
    )


def _has_reached(
    definition: Definition, trial: Trial, record: RunRecord, end: int, evaluations: Evaluations
) -> bool:
    """Whether a run is finished, or paused at the step of a rung, or has come past it."""
    if record.status == RUN_FINISHED or trial.rung == len(definition.rungs) - 1:
        return record.status == RUN_FINISHED
    if record.step > end:
        return end in evaluations
    return record.status == "stopped" and record.step == end


def choose_evaluation(
    definition: Definition, evaluations: Evaluations, best: Optional[Dict[str, Any]]
) -> Tuple[int, Optional[float]]:
    """Return the step and the value of the evaluation that counts; (0, None) if there is none, and
    None for a value that is not finite.

    Args:
        definition: of the study.
        evaluations: of the validation split.
        best: the record of the best checkpoint, which `BEST` takes; with `LAST`, or where there is
            none, the last evaluation counts.
    """
    if not evaluations:
        return 0, None
    step = max(evaluations)
    if definition.moment == BEST and best and best.get("step") in evaluations:
        step = best["step"]
    return step, finite(evaluations[step].get(definition.metric))


def find_best(best: Dict[str, Any], evaluations: Evaluations) -> Optional[Dict[str, Any]]:
    """Return the record of the best checkpoint after some evaluations; None if there was none.

    Args:
        best: the record of the present one, with its metric and direction.
        evaluations: of the validation split, up to then.
    """
    metric = BestMetric(best.get("metric", ""), best.get("direction", "max"))
    choice: Optional[Dict[str, Any]] = None
    for step, values in sorted(evaluations.items()):
        value, noise = (finite(values.get(name)) for name in (metric.name, f"{metric.name}_noise"))
        if value is not None:
            choice = metric.choose(choice, step, value, noise or 0.0)
    return choice


def find_ends(record: RunRecord, step: int, metric: str) -> Tuple[Any, Any]:
    """Return the ends of a metric's interval over the examples of the validation split.

    Args:
        record: of the run.
        step: of the evaluation.
        metric: its name.

    Returns:
        None, None if the run has no interval of it at the level of the table.
    """
    evaluations = record.manifest.get("validation") or {}
    for evaluation in (evaluations.get("last"), evaluations.get("best")):
        if evaluation is not None and evaluation["step"] == step:
            interval = read_interval(evaluation.get("intervals"), metric)
            if interval is not None and interval.level == LEVEL:
                return interval.low, interval.high
    return None, None


def _read_evaluations(path: str) -> Evaluations:
    return {
        int(record.get("step") or 0): record
        for record in RunFolder(path).metrics.read()
        if record.get("kind") == "eval" and record.get("split") == "validation"
    }
