"""The workers of one process: threads that claim trials and wait for the processes that train."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from typing import Callable, Dict, List, Optional

from ..errors import InterruptedRun, ToolkitError
from ..launch.signals import handle_signals
from .children import Children
from .definition import Trial, TrialResult
from .study import Study

WAIT_SECS = 0.25  # from one look at the threads to the next
Train = Callable[[Trial, Children], TrialResult]
FindLength = Callable[[Trial, Children], int]


def run_workers(
    study: Study,
    count: int,
    train: Train,
    find_length: FindLength,
    report: Callable[[Trial, Optional[TrialResult]], None] = lambda trial, result: None,
) -> None:
    """Train the trials of a study until none is left.

    Call it from the main thread: it passes signals on to the processes that train.

    Args:
        study: whose trials to claim.
        count: how many trials to train at a time.
        train: trains a trial, or continues it.
        find_length: returns the length of a configuration that has none on record, in steps.
        report: called at the start of a trial with None, and at its end with the result; by one
            thread at a time.

    Raises:
        InterruptedRun: a signal ended the search; the state of all trials is committed.
        ToolkitError: a worker failed; the others have committed their state, too.
    """
    _Workers(study, train, find_length, report).run(count)


class _Workers:
    """The threads; see `run_workers`."""

    def __init__(
        self,
        study: Study,
        train: Train,
        find_length: FindLength,
        report: Callable[[Trial, Optional[TrialResult]], None],
    ):
        self._study = study
        self._train = train
        self._find_length = find_length
        self._report = report
        self._children = Children()
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._threads: Dict[str, int] = {}  # the thread of each trial, by name

    def run(self, count: int) -> None:
        self._study.on_loss = self._end_lost
        threads = [threading.Thread(target=self._work) for _ in range(count)]
        with handle_signals(self._interrupt) as wakeup:
            for thread in threads:
                thread.start()
            self._wait(threads, wakeup)
        self._study.close()
        if self._error is not None:
            raise self._error
        if self._children.signum:
            raise InterruptedRun(
                "The search was interrupted; all of its trials are saved.",
                hint="Continue with the same command.",
                signum=self._children.signum,
            )

    def _wait(self, threads: List[threading.Thread], wakeup: int) -> None:
        """Wait for the threads, and end them all if one of them fails or a signal comes."""
        is_closed = False
        while any(thread.is_alive() for thread in threads):
            ready, _, _ = select.select([wakeup], [], [], WAIT_SECS)
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 1 << 12) if ready else b""
            if self._study.failure is not None:
                self._fail(self._study.failure)
            if self._children.signum and not is_closed:
                is_closed = True
                self._study.close()

    def _work(self) -> None:
        """Train one trial after the other."""
        try:
            while True:
                trial = self._study.claim()
                if trial is None:
                    return
                self._train_claimed(trial)
        except BaseException as error:  # of a thread, which nobody would see
            self._fail(error)

    def _train_claimed(self, trial: Trial) -> None:
        with self._lock:
            self._threads[trial.name] = threading.get_ident()
            self._report(trial, None)
        try:
            if trial.length is None:
                length = self._find_length(trial, self._children)
                trial = self._study.record_length(trial, length)
            result = self._train(trial, self._children)
        except BaseException as error:
            with contextlib.suppress(ToolkitError):  # the claim then ends with this process
                self._study.release(trial)
            if not isinstance(error, InterruptedRun):
                raise
        else:
            self._study.finish(trial, result)
            with self._lock:
                self._report(trial, result)

    def _fail(self, error: BaseException) -> None:
        """Note the first failure, and let all other workers save their state and end."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
        self._children.interrupt(signal.SIGTERM)
        self._study.close()

    def _interrupt(self, signum: int) -> None:
        """Pass a signal on; this runs in a signal handler."""
        self._children.interrupt(signal.SIGTERM if signum == signal.SIGHUP else signum)

    def _end_lost(self, trial: Trial) -> None:
        """End the process of a trial that another process has taken over."""
        with self._lock:
            thread = self._threads.get(trial.name)
        if thread is not None:
            self._children.end(thread)
