"""The watch over the other processes: signs of life, and the end of a process that hangs."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Callable, Iterable, Optional

from ..errors import ToolkitError
from .clock import Clock
from .handshake import start_thread
from .peer import Peer

GRACE_SECS = 2.0  # for the main thread to notice that the job has ended
ENDING_SECS = 3.0  # for it to close the channel after that
_FLUSH_SECS = 1.0  # stdout may be a full pipe


class Watch:
    """Sends a beat each second, notices silence, and ends a process that hangs when the job ended.

    Args:
        peers: the processes that are connected.
        peer_secs: the silence after which one counts as lost.
        lose: takes a peer that is silent, and the reason.
        log: gets the sentence of the error before the process ends.
        leave: ends the process with an exit code.
        clock: the time.
    """

    def __init__(
        self,
        peers: Callable[[], Iterable[Peer]],
        peer_secs: float,
        lose: Callable[[Peer, str], None],
        log: Callable[[str], None],
        leave: Callable[[int], None],
        clock: Clock,
    ):
        self._peers, self._peer_secs, self._lose = peers, peer_secs, lose
        self._log, self._leave, self._clock = log, leave, clock
        self._beat_secs = min(1.0, peer_secs / 6)
        self._is_stopped = threading.Event()
        self._error: Optional[ToolkitError] = None
        self._deadline = 0.0
        self._last = clock.now()  # when it last looked at the others

    def start(self) -> None:
        """Begin to watch."""
        start_thread(self._run, "channel watch")

    def stop(self) -> None:
        """Stop to watch: the process ends by itself."""
        self._is_stopped.set()

    def expect_end(self, error: ToolkitError, secs: float) -> None:
        """End the process unless `stop` is called within a time."""
        self._deadline = self._clock.now() + secs
        self._error = error

    def _run(self) -> None:
        while not self._clock.wait(self._is_stopped, self._beat_secs):
            now = self._clock.now()
            was_delayed = now - self._last > self._beat_secs + self._peer_secs / 2
            if self._error is None:
                for peer in list(self._peers()):
                    self._watch(peer, was_delayed)
            elif now > self._deadline:
                self._end_process(self._error)
                return
            self._last = now

    def _watch(self, peer: Peer, was_delayed: bool) -> None:
        peer.connection.beat()
        if was_delayed:  # this process was stopped itself: what it did not hear proves nothing
            peer.connection.forgive_silence()
        elif self._clock.now() - peer.connection.last_heard > self._peer_secs and not peer.has_left:
            self._lose(peer, f"has not answered for {self._peer_secs:g} s")

    def _end_process(self, error: ToolkitError) -> None:
        thread = start_thread(self._report, "channel report", error)
        thread.join(_FLUSH_SECS)
        if self._is_stopped.is_set():  # the main thread came back meanwhile
            return
        self._leave(error.exit_code)

    def _report(self, error: ToolkitError) -> None:
        if error.exit_code:
            is_interrupted = error.exit_code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
            self._log(str(error) if is_interrupted else f"Error: {error}")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):  # there is none, or it is closed
                pass
