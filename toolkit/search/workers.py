"""The workers of one process: threads that claim trials and wait for the processes that train."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from typing import Callable, List

from ..cluster.signals import handle_signals
from ..errors import InterruptedRun
from .children import Children
from .definition import Trial, TrialResult
from .study import Study

WAIT_SECS = 0.25  # from one look at the threads to the next


def run_workers(
    study: Study,
    count: int,
    train: Callable[[Trial, int, Children], None],
    report: Callable[[Trial, TrialResult], None] = lambda trial, result: None,
) -> None:
    """Train the trials of a study until none is left.

    Call it from the main thread: it passes signals on to the processes that train.

    Args:
        study: whose trials to claim.
        count: how many trials to train at a time.
        train: trains a trial, or continues it, until its folder has the result; it gets the
            descriptor of its log, too.
        report: called at the end of a trial with the result; by one thread at a time.

    Raises:
        InterruptedRun: a signal ended the search; the state of all trials is committed.
        ToolkitError: a worker failed; the others have committed their state, too.
    """
    children = Children()
    errors: List[BaseException] = []
    lock = threading.Lock()

    def train_one(trial: Trial, log: int) -> None:
        with contextlib.suppress(InterruptedRun):  # of this process, or of that of the trial alone
            train(trial, log, children)
            with lock:
                report(trial, study.result(trial))

    def work() -> None:
        try:
            while not children.signum and study.train_next(train_one):
                pass
        except BaseException as error:  # of a thread, which nobody would see
            errors.append(error)
            children.interrupt(signal.SIGTERM)  # the others save their state and end
            study.close()

    def interrupt(signum: int) -> None:
        children.interrupt(signal.SIGTERM if signum == signal.SIGHUP else signum)

    threads = [threading.Thread(target=work) for _ in range(count)]
    with handle_signals(interrupt) as wakeup:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            ready, _, _ = select.select([wakeup], [], [], WAIT_SECS)
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 1 << 12) if ready else b""
            if children.signum:
                study.close()
    study.close()
    if errors:
        raise errors[0]
    if children.signum:
        raise InterruptedRun(
            "The search was interrupted; all of its trials are saved.",
            hint="Continue with the same command.",
            signum=children.signum,
        )
