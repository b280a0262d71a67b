"""One trial: a process `toolkit run --resume` that trains to its rung, and what came of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import time
from typing import Any, Dict, List, Optional, Tuple

from ..comparison.metrics import read_interval
from ..comparison.record import RunRecord, read_record
from ..errors import (
    CheckpointError,
    DivergedError,
    InterruptedRun,
    RetryError,
    ToolkitError,
)
from ..files import atomic_write
from ..launch.child import RETRYABLE
from ..statistics.intervals import LEVEL
from ..storage.entries import FINISHED as RUN_FINISHED
from ..storage.folder_lock import is_locked
from ..storage.jsonl import read_json
from ..storage.run_folder import RunFolder
from ..training.best_metric import BestMetric
from .children import Children
from .commands import TRIALS, pause_step, run_path, trial_environment, trial_words
from .definition import (
    BEST,
    DIVERGED,
    FAILED,
    FINISHED,
    PAUSED,
    Definition,
    Trial,
    TrialResult,
)
from .length import find_length

LOCK_SECS = 0.5  # from one look at a folder that another process has locked to the next
MAX_DEATHS = 3  # of a trial's process without a new commit
RETRY_SECS = (5.0, 30.0)  # after each death, so that a neighbour may give its memory back
_INTERRUPTED = (130, 143)
_MAX_LOG_BYTES = 1 << 16  # of the end of a log, which has the error


def run_trial(
    definition: Definition, trial: Trial, folder: str, children: Optional[Children] = None
) -> TrialResult:
    """Train a trial to its rung, or continue it, and return what came of it.

    A trial that has reached its rung already is not trained again.

    Args:
        definition: of the study.
        trial: what to train.
        folder: of the study.
        children: starts the process, and interrupts it.

    Raises:
        InterruptedRun: a signal ended the trial; its state is saved.
        RetryError: the machine failed; the same call may succeed later.
    """
    children = Children() if children is None else children
    length = trial.length
    if length is None:
        length = find_length(definition, trial.configuration, folder, children)
    return _TrialRun(definition, trial._replace(length=length), folder, children).to_its_end()


class _TrialRun:
    """The processes of one trial.

    Args:
        definition, trial, folder, children: as of `run_trial`; the trial has a length.
    """

    def __init__(self, definition: Definition, trial: Trial, folder: str, children: Children):
        self._definition = definition
        self._trial = trial
        self._folder = folder
        self._children = children
        self._length = trial.length or 1
        self._path = run_path(folder, trial)
        self._log_path = self._path + ".log"
        self._usage = _Usage(self._path + ".usage.json")

    def to_its_end(self) -> TrialResult:
        deaths, step = 0, self._step()
        while not self._has_reached_rung():
            if is_locked(self._path):  # by a process whose search has lost its claim
                self._children.wait(LOCK_SECS)
                continue
            code, error = self._run_process()
            if code and is_locked(
                self._path
            ):  # since the look at it; nothing follows for the trial
                continue
            if code in RETRYABLE:
                before, step = step, self._step()
                deaths = deaths + 1 if step == before else 1
                if deaths < MAX_DEATHS:
                    self._children.wait(RETRY_SECS[deaths - 1])
                    continue
                if code == RetryError.exit_code:
                    raise RetryError(
                        f"Trial {self._trial.name} failed {deaths} times: {error}",
                        hint="Mend it, then continue with the same command.",
                    )
                return self._result(FAILED, _death_sentence(code, deaths, step))
            if code == DivergedError.exit_code:
                return self._result(DIVERGED, self._reason() or error)
            if code:
                return self._result(FAILED, error)
            break
        return self._finished_result()

    def _run_process(self) -> Tuple[int, str]:
        """Train until the process ends; return its exit code and its error message.

        Raises:
            InterruptedRun: this process got a signal, or the process that trains did.
        """
        words = trial_words(self._definition, self._trial, self._folder, self._length)
        start = self._begin_log(words)
        self._usage.begin_process()
        code = self._children.run(
            words,
            self._log_path,
            trial_environment(self._definition.layers, os.environ),
            self._usage.report,
        )
        if code in _INTERRUPTED:
            raise InterruptedRun(
                f"Trial {self._trial.name} was interrupted; step {self._step()} is saved.",
                signum=code - 128,
            )
        return code, _read_error(self._log_path, start)

    def _begin_log(self, words: List[str]) -> int:
        """Write the command to the log of the trial; return the size of the log."""
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(self._log_path, "ab") as log:
                log.write(f"$ toolkit {' '.join(map(shlex.quote, words))}\n".encode())
                return log.tell()
        except OSError as error:
            raise RetryError(
                f"{self._log_path} cannot be written: {error.strerror}.",
                hint="Free some space, then continue with the same command.",
            ) from None

    # --------------------------------------------------------------------------------- the folder

    def _has_reached_rung(self) -> bool:
        """Whether the run is finished, or paused at the step of its rung, or has come past it.

        It has come past it where the records of the study are lost, and its runs are not.
        """
        try:
            record = read_record(self._path)
        except ToolkitError:
            return False
        if record.status == RUN_FINISHED:
            return True
        step = self._pause_step()
        if record.step > step:
            return step in _evaluations(self._path, self._definition.metric)
        return step < self._length and record.status == "stopped" and record.step == step

    def _pause_step(self) -> int:
        return pause_step(self._definition, self._length, self._trial.rung)

    def _step(self) -> int:
        """The step of the last commit; 0 if there is none."""
        try:
            return read_record(self._path).step
        except ToolkitError:
            return 0

    def _reason(self) -> str:
        """Why the run ended, as its manifest says."""
        try:
            return read_record(self._path).reason
        except ToolkitError:
            return ""

    def _finished_result(self) -> TrialResult:
        record = read_record(self._path)
        best, end = record.best, self._pause_step()
        is_past = record.step > end
        if is_past and best is not None:
            best = find_best(end, best, self._path)
        values = _evaluations(self._path, self._definition.metric)
        values = {step: value for step, value in values.items() if step <= end or not is_past}
        step, value = choose_evaluation(self._definition, values, best)
        if value is None:
            at = f" at step {step}" if step else ""
            return self._result(
                FAILED, f"{self._definition.metric} of the validation split is not finite{at}."
            )
        is_last = self._trial.rung == len(self._definition.rungs) - 1
        is_finished = record.status == RUN_FINISHED and not is_past
        status = FINISHED if is_last or is_finished else PAUSED
        low, high = find_ends(record, step, self._definition.metric)
        result = self._result(status, "", value)._replace(low=low, high=high)
        return result._replace(step=end) if is_past else result

    def _result(self, status: str, reason: str, value: Optional[float] = None) -> TrialResult:
        usage = self._usage.read()
        return TrialResult(
            configuration=self._trial.configuration.number,
            seed=self._trial.seed,
            rung=self._trial.rung,
            status=status,
            reason=_sentence(reason),
            value=value,
            step=self._step(),
            cpu_secs=usage["cpu_secs"],
            seconds=usage["seconds"],
            path=os.path.join(TRIALS, self._trial.name),
        )


def choose_evaluation(
    definition: Definition, values: Dict[int, Optional[float]], best: Optional[Dict[str, Any]]
) -> Tuple[int, Optional[float]]:
    """Return the step and the value of the evaluation that counts; (0, None) if there is none.

    Args:
        definition: of the study.
        values: of the metric by step; None if one is not finite.
        best: the manifest's record of the best checkpoint, which `BEST` takes; with `LAST`, or
            where there is none, the last evaluation counts.
    """
    if not values:
        return 0, None
    step = max(values)
    if definition.moment == BEST and best and best.get("step") in values:
        step = best["step"]
    return step, values[step]


def find_best(end: int, best: Dict[str, Any], path: str) -> Optional[Dict[str, Any]]:
    """Return the record of the best checkpoint that a run had at a step; None if it had none.

    Args:
        end: the step.
        best: the record of the present one.
        path: of the run.
    """
    metric = BestMetric(best.get("metric", ""), best.get("direction", "max"))
    noises = _evaluations(path, f"{metric.name}_noise")
    choice: Optional[Dict[str, Any]] = None
    for step, value in sorted(_evaluations(path, metric.name).items()):
        if step <= end and value is not None:
            choice = metric.choose(choice, step, value, noises.get(step) or 0.0)
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


def _evaluations(path: str, metric: str) -> Dict[int, Optional[float]]:
    """Return the values of a metric of the validation split by step; None if not finite."""
    values: Dict[int, Optional[float]] = {}
    for record in RunFolder(path).metrics.read():
        step, value = record.get("step"), record.get(metric)
        if record.get("kind") == "eval" and record.get("split") == "validation":
            is_number = isinstance(value, (int, float)) and math.isfinite(value)
            values[int(step or 0)] = float(value or 0) if is_number else None
    return values


# ------------------------------------------------------------------------------------- its errors


def _read_error(path: str, start: int) -> str:
    """Return the message of the error at the end of a log, from a position on; else the last line.

    The hint of the message, on lines of its own, is left out.
    """
    try:
        with open(path, "rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - _MAX_LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    errors = [line[len("Error: ") :] for line in lines if line.startswith("Error: ")]
    texts = [line for line in lines if line.strip()]
    return (errors or texts or [""])[-1].strip()


def _death_sentence(code: int, deaths: int, step: int) -> str:
    cause = "killed, perhaps for lack of memory" if code == 137 else f"ended by signal {code - 128}"
    return f"The process was {cause}, {deaths} times after step {step}."


def _sentence(text: str) -> str:
    """Return a text as one line that ends in a full stop."""
    text = " ".join(text.split())
    return text if not text or text.endswith((".", "!", "?")) else text + "."


# --------------------------------------------------------------------------------- processor time


class _Usage:
    """The processor time of all processes of a trial, in a file that survives their deaths.

    Args:
        path: of the file.
    """

    def __init__(self, path: str):
        self._path = path
        self._former: Dict[str, float] = {}
        self._start = time.monotonic()

    def begin_process(self) -> None:
        """Count what the file says as that of former processes."""
        self._former, self._start = self.read(), time.monotonic()

    def report(self, cpu_secs: float) -> None:
        """Write the time of all processes.

        Args:
            cpu_secs: of the present one so far.
        """
        total = {
            "cpu_secs": round(self._former["cpu_secs"] + cpu_secs, 2),
            "seconds": round(self._former["seconds"] + time.monotonic() - self._start, 2),
        }
        # For want of a number no trial ends.
        with contextlib.suppress(OSError), atomic_write(self._path) as file:
            file.write(json.dumps(total).encode())

    def read(self) -> Dict[str, float]:
        """Return "cpu_secs" and "seconds", the clock's, of all processes."""
        try:
            values = read_json(self._path)
            return {name: float(values[name]) for name in ("cpu_secs", "seconds")}
        except (CheckpointError, KeyError, TypeError, ValueError):
            return {"cpu_secs": 0.0, "seconds": 0.0}
