"""One trial: the processes `toolkit run --resume` that train it up to its rung."""

from __future__ import annotations

import os
import shlex
import time
from typing import Tuple

from ..cluster.child import RETRYABLE
from ..errors import DivergedError, InterruptedRun, RetryError
from ..storage.folder_lock import is_locked
from .children import Children
from .definition import DIVERGED, FAILED, Definition, Trial
from .results import find_record, read_notes, read_result, write_notes
from .trial_options import run_path, trial_environment, trial_words

LOCK_SECS = 0.5  # from one look at a run that another process trains to the next
MAX_DEATHS = 3  # of a trial's process without a new commit
RETRY_SECS = (5.0, 30.0)  # after each death, so that a neighbour may give its memory back
_INTERRUPTED = (130, 143)
_MAX_LOG_BYTES = 1 << 16  # of the end of a log, which has the error


def run_trial(
    definition: Definition, trial: Trial, folder: str, log: int, children: Children
) -> None:
    """Train a trial to its rung, or continue it, until its folder has the result.

    Args:
        definition: of the study.
        trial: what to train.
        folder: of the study.
        log: a descriptor of the trial's log, which this process has locked.
        children: starts the processes, and interrupts them.

    Raises:
        InterruptedRun: a signal ended the trial; its state is saved.
        RetryError: the machine failed; the same call may succeed later.
    """
    path = run_path(folder, trial)
    deaths, step = 0, _last_step(path)
    while read_result(definition, trial, folder) is None:
        if is_locked(path):  # by a process that is none of the search
            children.wait(LOCK_SECS)
            continue
        code, error = _run_process(definition, trial, folder, log, children)
        if code and is_locked(path):  # since the look at it; nothing follows for the trial
            continue
        status, reason = FAILED, error
        if code in RETRYABLE:
            before, step = step, _last_step(path)
            deaths = deaths + 1 if step == before else 1
            if deaths < MAX_DEATHS:
                children.wait(RETRY_SECS[deaths - 1])
                continue
            if code == RetryError.exit_code:
                raise RetryError(
                    f"Trial {trial.name} failed {deaths} times: {error}",
                    hint="Mend it, then continue with the same command.",
                )
            cause = f"ended by signal {code - 128}"
            cause = "killed, perhaps for lack of memory" if code == 137 else cause
            reason = f"The process was {cause}, {deaths} times after step {step}."
        elif code == DivergedError.exit_code:
            record = find_record(path)
            status, reason = DIVERGED, (record.reason if record is not None else "") or error
        elif not code and read_result(definition, trial, folder) is not None:
            return
        notes = read_notes(path)._replace(status=status, reason=_sentence(reason))
        write_notes(path, notes)


def _run_process(
    definition: Definition, trial: Trial, folder: str, log: int, children: Children
) -> Tuple[int, str]:
    """Train until the process ends; return its exit code and its error message.

    Raises:
        InterruptedRun: this process got a signal, or the process that trains did.
        RetryError: the log cannot be written.
    """
    path = run_path(folder, trial)
    try:
        words = trial_words(definition, trial, folder)
        os.lseek(log, 0, os.SEEK_END)
        os.write(log, f"$ toolkit {' '.join(map(shlex.quote, words))}\n".encode())
        start = os.lseek(log, 0, os.SEEK_CUR)
    except OSError as error:
        raise RetryError(
            f"{path}.log cannot be written: {error.strerror}.",
            hint="Free some space, then continue with the same command.",
        ) from None
    notes, begin = read_notes(path), time.monotonic()
    environment = trial_environment(os.environ)

    def count_time(cpu_secs: float) -> None:
        seconds = round(notes.seconds + time.monotonic() - begin, 2)
        write_notes(
            path, notes._replace(cpu_secs=round(notes.cpu_secs + cpu_secs, 2), seconds=seconds)
        )

    code = children.run(words, log, environment, count_time)
    if code in _INTERRUPTED:
        raise InterruptedRun(
            f"Trial {trial.name} was interrupted; step {_last_step(path)} is saved.",
            signum=code - 128,
        )
    return code, _read_error(log, start)


def _last_step(path: str) -> int:
    """The step of the last commit; 0 if there is none."""
    record = find_record(path)
    return record.step if record is not None else 0


def _read_error(log: int, start: int) -> str:
    """Return the message of the error at the end of a log, from a position on; else the last line.

    The hint of the message, on lines of its own, is left out.
    """
    end = os.fstat(log).st_size
    start = max(start, end - _MAX_LOG_BYTES)
    lines = os.pread(log, end - start, start).decode("utf-8", "replace").splitlines()
    errors = [line[len("Error: ") :] for line in lines if line.startswith("Error: ")]
    texts = [line for line in lines if line.strip()]
    return (errors or texts or [""])[-1].strip()


def _sentence(text: str) -> str:
    """Return a text as one line that ends in a full stop."""
    text = " ".join(text.split()) or "It ended without a result."
    return text if text.endswith((".", "!", "?")) else text + "."
