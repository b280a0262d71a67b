"""SIGINT, SIGTERM and SIGHUP of a process that trains."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, Callable, List

_NOTICE = b"\nInterrupted: waiting for the step under way; a second signal ends at once.\n"


class FirstSignal:
    """In a `with`, the first SIGINT, SIGTERM or SIGHUP is noted in `signum`, 0 before, and `act` is
    called with it within the handler; the second ends the process at once. A terminal is told so.
    """

    def __init__(self, act: Callable[[int], None] = lambda signum: None):
        self.signum = 0
        self._act = act
        self._handlers: List[Any] = []

    def __enter__(self) -> FirstSignal:
        try:
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(signum) == signal.SIG_IGN:  # as nohup asks for
                    continue
                self._handlers.append((signum, signal.signal(signum, self._note)))
        except ValueError:  # not in the main thread: whoever runs us handles the signals
            pass
        return self

    def __exit__(self, *_: Any) -> None:
        for signum, handler in self._handlers:
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: Any) -> None:
        self.signum = signum
        self._act(signum)
        signal.signal(signum, signal.SIG_DFL)
        with contextlib.suppress(OSError):  # the terminal may be gone
            if sys.stderr.isatty():  # past its buffers, which the handler may have interrupted
                os.write(2, _NOTICE)
