"""What came of a trial: read from its run, and for failures from the notes beside it."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Tuple

from ..comparison.metrics import read_interval
from ..comparison.record import RunRecord, finite, read_record
from ..errors import CheckpointError, RetryError, ToolkitError
from ..files import write_json
from ..statistics.intervals import LEVEL
from ..storage.entries import FINISHED as RUN_FINISHED
from ..storage.jsonl import read_json
from ..training.best_metric import BestMetric
from .definition import BEST, FAILED, FINISHED, PAUSED, Definition, Result, Trial
from .study import Study

_NOTES = ("cpu_secs", "seconds", "status", "reason")  # what the records of a run do not say


def read_notes(path: str) -> Result:
    """Return what a file beside a run has of its result; nothing of a damaged one."""
    try:
        return Result(**read_json(path + ".json"))
    except (CheckpointError, TypeError):
        return Result()


def write_notes(path: str, notes: Result) -> None:
    """Write the times, the status and the reason of a result beside the run. Raises RetryError."""
    try:
        write_json(path + ".json", {name: getattr(notes, name) for name in _NOTES})
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


def read_result(study: Study, trial: Trial) -> Optional[Result]:
    """Return how a trial ended at its rung; None if it has not.

    A run that has come past the rung has the value that it had there.
    """
    path, definition = study.path(trial), study.definition
    record, result = find_record(path), read_notes(path)
    if record is None:
        return result if result.status else None
    end = definition.pause_step(trial.configuration.length, trial.rung)
    evaluations = {
        int(each.get("step") or 0): each
        for each in record.folder.metrics.read()
        if (each.get("kind"), each.get("split")) == ("eval", "validation")
        if int(each.get("step") or 0) <= end
    }
    is_last = trial.rung == len(definition.rungs) - 1
    is_finished = record.status == RUN_FINISHED
    is_paused = record.status == "stopped" and record.step == end
    is_past = record.step > end and (is_finished or end in evaluations)
    if not is_finished and (is_last or not (is_paused or is_past)):
        return result._replace(step=record.step) if result.status else None
    at, value = _choose_evaluation(definition, evaluations, record.best)
    if value is None:
        place = f" at step {at}" if at else ""
        reason = f"{definition.metric} of the validation split is not finite{place}."
        return result._replace(status=FAILED, reason=reason, step=record.step)
    low, high = _find_ends(record, at, definition.metric)
    return result._replace(
        status=FINISHED if is_last or (is_finished and not is_past) else PAUSED,
        reason="",
        step=min(record.step, end),
        value=value,
        low=low,
        high=high,
    )


def _choose_evaluation(
    definition: Definition, evaluations: Mapping[int, Any], best: Optional[Dict[str, Any]]
) -> Tuple[int, Optional[float]]:
    """The step and the value of the evaluation that counts: with `BEST` that of the best checkpoint
    if there is one, else the last; (0, None) without any, and None for a value that is not finite.
    """
    if not evaluations:
        return 0, None
    step = max(evaluations)
    if definition.moment == BEST and best:
        if best.get("step", 0) > step:  # since the rung: which one was the best until then?
            metric = BestMetric(best.get("metric", ""), best.get("direction", "max"))
            names, best = (metric.name, f"{metric.name}_noise"), None
            for each, values in sorted(evaluations.items()):
                value, noise = (finite(values.get(name)) for name in names)
                if value is not None:
                    best = metric.choose(best, each, value, noise or 0.0)
        step = best["step"] if best and best.get("step") in evaluations else step
    return step, finite(evaluations[step].get(definition.metric))


def _find_ends(record: RunRecord, step: int, metric: str) -> Tuple[Any, Any]:
    """The ends of a metric's interval over the examples of the validation split, at a step.

    None, None if the run has no interval of it at the level of the table.
    """
    evaluations = record.manifest.get("validation") or {}
    for evaluation in (evaluations.get("last"), evaluations.get("best")):
        if evaluation is not None and evaluation["step"] == step:
            interval = read_interval(evaluation.get("intervals"), metric)
            if interval is not None and interval.level == LEVEL:
                return interval.low, interval.high
    return None, None
