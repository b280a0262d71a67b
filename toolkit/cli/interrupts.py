"""What Ctrl-C leaves where the training loop does not handle it: before a step, or in the test."""

from __future__ import annotations

import contextlib
from typing import Iterator

from ..errors import InterruptedRun
from ..storage.run_folder import RunFolder


@contextlib.contextmanager
def report_interrupt_of(folder: RunFolder) -> Iterator[None]:
    """Turn a Ctrl-C in the block into an InterruptedRun that says what the run has saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted_run(folder) from None


@contextlib.contextmanager
def report_interrupt_of_loading() -> Iterator[None]:
    """Turn a Ctrl-C in the block, which loads plugins, into an InterruptedRun."""
    try:
        yield
    except KeyboardInterrupt:
        message = "Interrupted while the plugins were loading; nothing was written."
        raise InterruptedRun(message) from None


def _interrupted_run(folder: RunFolder) -> InterruptedRun:
    if folder.is_new:
        return InterruptedRun("Interrupted before the first step; nothing was trained.")
    checkpoints = folder.checkpoints.list()
    saved = f"step {checkpoints[-1].step} is saved" if checkpoints else "no step was saved yet"
    return InterruptedRun(
        f"Interrupted; {saved} in {folder}.",
        hint=f"Continue with: toolkit resume {folder.argument}",
    )
