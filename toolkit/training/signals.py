"""SIGINT, SIGTERM and SIGHUP of a process that trains."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, Callable, List, NoReturn

from ..cluster.signals import ENDING_SIGNALS

_NOTICE = b"\nInterrupted: waiting for the step under way; a second signal ends at once.\n"


def interrupt(signum: int) -> NoReturn:
    """Raise a KeyboardInterrupt with the exit code of a signal."""
    error: Any = KeyboardInterrupt()
    error.exit_code = 128 + signum
    raise error


class FirstSignal:
    """In a `with`, the first SIGINT, SIGTERM or SIGHUP is noted in `signum`, 0 before, and `act` is
    called with it within the handler; the second ends the process at once. A terminal is told so.
    When it closes, several SIGHUP may come, and SIGTERM with them: they count as one. A process
    that is forked in the block ends by SIGTERM.
    """

    def __init__(self, act: Callable[[int], None] = lambda signum: None):
        self.signum = 0
        self._act = act
        self._handlers: List[Any] = []
        self._process = os.getpid()

    def __enter__(self) -> FirstSignal:
        try:
            for signum in ENDING_SIGNALS:
                # As nohup asks for, or a handler in C, which Python could not put back.
                if signal.getsignal(signum) in (signal.SIG_IGN, None):
                    continue
                self._handlers.append((signum, signal.signal(signum, self._note)))
        except ValueError:  # not in the main thread: whoever runs us handles the signals
            pass
        return self

    def __exit__(self, *_: Any) -> None:
        for signum, handler in self._handlers:
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: Any) -> None:
        if signum != signal.SIGHUP:
            signal.signal(signum, signal.SIG_DFL)
        if os.getpid() != self._process:  # of a worker that a plugin has forked, and may wait for
            if signum == signal.SIGTERM:
                os.kill(os.getpid(), signum)
            return
        if self.signum:
            if signal.SIGHUP not in (signum, self.signum):
                os.kill(os.getpid(), signum)
            return
        self.signum = signum
        self._act(signum)
        with contextlib.suppress(OSError):  # the terminal may be gone
            if sys.stderr.isatty():  # past its buffers, which the handler may have interrupted
                os.write(2, _NOTICE)
