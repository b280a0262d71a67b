"""Signals while children run: Ctrl-C and requests to end reach each child once."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any, Callable, Dict, Iterator, List

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = tuple(128 + signum for signum in ENDING_SIGNALS)  # exit codes; the state is committed


@contextlib.contextmanager
def handle_signals(interrupt: Callable[[int], None]) -> Iterator[int]:
    """Handle signals in the block; a handler also runs while this process is blocked in a write.
    `interrupt` is called with SIGINT or SIGTERM, and with SIGTERM for SIGHUP, unless this process
    ignores it. When a terminal closes, several SIGHUP may come, and SIGTERM: they count as one.

    Yields a descriptor that can be read after a signal, also after the end of a child.
    """
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    came: List[int] = []

    def handle(signum: int, _: Any) -> None:
        is_repeated = bool(came) and signal.SIGHUP in (signum, came[-1])
        came.append(signum)
        if not is_repeated:
            interrupt(signal.SIGTERM if signum == signal.SIGHUP else signum)

    handlers: Dict[int, Callable[..., Any]] = {signal.SIGCHLD: lambda *_: None}
    for signum in ENDING_SIGNALS:
        if signal.getsignal(signum) != signal.SIG_IGN:  # as nohup asks for
            handlers[signum] = handle
    before: Dict[int, Any] = {}
    former_writer = -1
    with contextlib.suppress(ValueError):  # not in the main thread: others handle the signals
        former_writer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number, handler in handlers.items():
            before[number] = signal.signal(number, handler)
    try:
        yield reader
    finally:
        if before:
            signal.set_wakeup_fd(former_writer)
        for number, former in before.items():
            signal.signal(number, former)
        os.close(reader)
        os.close(writer)
