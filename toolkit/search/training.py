"""Which trials are due, and the processes `toolkit run --resume` that train them.

Which configurations come next is a function of the definition and of results of whole batches, and
which trials are due is one of the definition and of results. So all processes that share the folder
come to the same table, whoever trains what. Who waits for a process is a generator, which yields
until the process has ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from typing import Callable, Generator, Iterator, List, Mapping, Sequence, Tuple

from ..child_process import COMMAND_LINE
from ..cluster.child import RETRYABLE, child_code
from ..cluster.signals import INTERRUPTED, handle_signals
from ..errors import DivergedError, InterruptedRun, RetryError
from ..storage.folder_lock import is_locked
from .definition import DIVERGED, FAILED, Configuration, Trial
from .results import find_record, read_notes, read_result, write_notes
from .sampler import batches, needs_results, sample_batch
from .study import Study, writing
from .table import list_due, make_rows
from .trial_options import trial_environment, trial_words

WAIT_SECS = 0.25  # from one look at all workers to the next, while no process ends
POLL_SECS = 1.0  # from one look at the folder to the next, while others train what is due
LOCK_SECS = 0.5  # from one look at a run that another process trains to the next
MAX_DEATHS = 3  # of a trial's process without a new commit
RETRY_SECS = (5.0, 30.0)  # after each death, so that a neighbour may give its memory back
_MAX_LOG_BYTES = 1 << 16  # of the end of a log, which has the error
Train = Callable[[Study, Trial, int, "Processes"], Iterator[None]]


def find_due(study: Study) -> List[Trial]:
    """Return the trials that can be trained now, after sampling the configurations that can be.
    Raises CheckpointError if study.json is damaged.
    """
    study.read()
    due: List[Trial] = []
    for numbers in batches(study.definition):
        if any(number not in study.configurations for number in numbers):
            if due and needs_results(study.definition, numbers):
                break
            if not _sample(study, numbers):
                return find_due(study)
        due += _read_results(study, numbers)
    return due


def _sample(study: Study, numbers: List[int]) -> bool:
    """Sample a batch, unless another process has; False if the study has others by now: it has got
    more trials.
    """
    with study.locked():
        study.read()
        cohorts = batches(study.definition)
        if numbers not in cohorts:
            return False
        known = study.configurations
        history = [
            row for each in cohorts[: cohorts.index(numbers)] for row in make_rows(study, each)
        ]
        for number, values in sample_batch(study.definition, numbers, known, history):
            known[number] = Configuration(number, values, study.find_length(values))
        study.write()
        return True


def _read_results(study: Study, numbers: Sequence[int]) -> List[Trial]:
    """Read the new results of a batch; return its trials that are due."""
    while True:
        due = list_due(study, numbers)
        found = {trial.key: read_result(study, trial) for trial in due}
        new = {key: result for key, result in found.items() if result is not None}
        if not new:
            return due
        study.results.update(new)


def train_all(study: Study, count: int, report: Callable[[Trial], None], train: Train) -> None:
    """Train `count` trials of a study at a time, by `train`, until none is left; call it from the
    main thread. `report` is called at the end of a trial.

    Raises InterruptedRun if a signal ended the search, and ToolkitError if a trial could not be
    trained; the state of all trials is committed.
    """
    processes = Processes()
    workers = [_work(study, processes, report, train) for _ in range(count)]
    errors: List[BaseException] = []
    with handle_signals(processes.interrupt) as wakeup:
        while workers:
            for worker in list(workers):
                try:
                    next(worker)
                    continue
                except (StopIteration, InterruptedRun):
                    pass
                except BaseException as error:
                    errors.append(error)
                    processes.interrupt(signal.SIGTERM)  # the others save their state and end
                workers.remove(worker)
            ready, _, _ = select.select([wakeup], [], [], WAIT_SECS if workers else 0)
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 1 << 12) if ready else b""
    if errors:
        raise errors[0]
    if processes.signum:
        raise InterruptedRun(
            "The search was interrupted; all of its trials are saved.",
            hint="Continue with the same command.",
            signum=processes.signum,
        )
    study.results.clear()  # the times of a trial may be noted later than its result is read
    find_due(study)


def _work(
    study: Study, processes: Processes, report: Callable[[Trial], None], train: Train
) -> Iterator[None]:
    """Train one trial after the other; yield whenever there is something to wait for."""
    while not processes.signum:
        due = find_due(study)
        if not due:
            return
        for trial in due:
            with study.claim(trial) as log:
                if log is None or read_result(study, trial) is not None:
                    continue
                with contextlib.suppress(InterruptedRun):  # of all, or of its process alone
                    yield from train(study, trial, log, processes)
                    find_due(study)
                    report(trial)
                break
        else:  # others train all that is due
            yield from processes.wait(POLL_SECS)


def train_trial(study: Study, trial: Trial, log: int, processes: Processes) -> Iterator[None]:
    """Train a trial, whose locked log has this descriptor, to its rung, or continue it, and yield
    until its folder has the result.

    Raises InterruptedRun if a signal ended the trial, whose state is saved, and RetryError if the
    machine failed; the same call may succeed later.
    """
    path = study.path(trial)
    deaths, step = 0, _last_step(path)
    while read_result(study, trial) is None:
        if is_locked(path):  # by a process that is none of the search
            yield from processes.wait(LOCK_SECS)
            continue
        code, error = yield from _run_process(study, trial, log, processes)
        if code and is_locked(path):  # since the look at it; nothing follows for the trial
            continue
        status, reason = FAILED, error
        if code in RETRYABLE:
            before, step = step, _last_step(path)
            deaths = deaths + 1 if step == before else 1
            if deaths < MAX_DEATHS:
                yield from processes.wait(RETRY_SECS[deaths - 1])
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
        elif not code and read_result(study, trial) is not None:
            return
        reason = " ".join(reason.split()) or "It ended without a result."
        reason += "" if reason.endswith((".", "!", "?")) else "."
        write_notes(path, read_notes(path)._replace(status=status, reason=reason))


def _run_process(
    study: Study, trial: Trial, log: int, processes: Processes
) -> Generator[None, None, Tuple[int, str]]:
    """Train until the process ends; return its exit code and its error message."""
    path, words = study.path(trial), trial_words(study, trial)
    with writing(path + ".log"):
        os.lseek(log, 0, os.SEEK_END)
        command = f"$ toolkit {' '.join(map(shlex.quote, words))}\n"
        os.write(log, command.encode("utf-8", "surrogateescape"))  # a path may be no text
        start = os.lseek(log, 0, os.SEEK_CUR)
    code, cpu_secs = yield from processes.run(words, log, trial_environment(os.environ))
    notes = read_notes(path)
    write_notes(path, notes._replace(cpu_secs=round(notes.cpu_secs + cpu_secs, 2)))
    if code in INTERRUPTED or (code and processes.signum):
        raise InterruptedRun(f"Trial {trial.name} was interrupted.", signum=code - 128)
    return code, _read_error(log, start)


def _last_step(path: str) -> int:
    """The step of the last commit; 0 if there is none."""
    record = find_record(path)
    return record.step if record is not None else 0


def _read_error(log: int, start: int) -> str:
    """The message of the error at the end of a log, from a position on; else the last line."""
    end = os.fstat(log).st_size
    start = max(start, end - _MAX_LOG_BYTES)
    lines = os.pread(log, end - start, start).decode("utf-8", "replace").splitlines()
    errors = [line[len("Error: ") :] for line in lines if line.startswith("Error: ")]
    texts = [line for line in lines if line.strip()]
    return (errors or texts or [""])[-1].strip()


# ------------------------------------------------------------------------------------- processes


class Processes:
    """Starts processes of the toolkit, and ends them all.

    A process has a session of its own, so that Ctrl-C reaches this process alone. The system kills
    it with this one. `signum` is the signal that `interrupt` passed on, or 0; no process starts
    after it.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._present: List[subprocess.Popen] = []

    def run(
        self,
        arguments: Sequence[str],
        log: int,
        environment: Mapping[str, str],
        statements: str = COMMAND_LINE,
    ) -> Generator[None, None, Tuple[int, float]]:
        """Run `toolkit ARGUMENTS` with stdout and stderr to the descriptor `log`, and yield until
        it has ended.

        Returns the exit code, as a shell shows it: 128 plus the signal that ended the process; and
        the CPU seconds that the process and those that it waited for have used. Raises
        InterruptedRun after a call of `interrupt`.
        """
        self._check_interrupt()
        process = subprocess.Popen(
            [sys.executable, "-c", child_code(statements), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            start_new_session=True,
        )
        self._present.append(process)
        if self.signum:  # which came meanwhile
            _send(process, self.signum)
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its id remains valid
        try:
            while os.waitid(os.P_PID, process.pid, options) is None:
                yield
        finally:
            _send(process, signal.SIGKILL)  # and what it has started and left behind
            self._present.remove(process)
            _, status, usage = os.wait4(process.pid, 0)
            exited = os.WIFEXITED(status)
            code = os.WEXITSTATUS(status) if exited else 128 + os.WTERMSIG(status)
            process.returncode = code
        return code, usage.ru_utime + usage.ru_stime

    def wait(self, secs: float) -> Iterator[None]:
        """Yield so long. Raises InterruptedRun after a call of `interrupt`."""
        end = time.monotonic() + secs
        while time.monotonic() < end:
            yield
            self._check_interrupt()

    def _check_interrupt(self) -> None:
        if self.signum:
            raise InterruptedRun("The search was interrupted.", signum=self.signum)

    def interrupt(self, signum: int) -> None:
        """Pass a signal on to all processes; a second one kills them."""
        for process in self._present:
            _send(process, signal.SIGKILL if self.signum else signum)
        self.signum = self.signum or signum


def _send(process: subprocess.Popen, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if signum == signal.SIGKILL else os.kill)(process.pid, signum)
