"""Another process of the job, and what arrives from it."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from .frames import Connection, Frame, FrameError

if TYPE_CHECKING:
    from .tasks import Task


class Peer:
    """Another process of the job.

    Args:
        task: of the process.
        connection: to it.

    Attributes:
        inbox: commands or replies from it; None at the end of the job.
        hello: what it gave to `join`, None before.
        owes_reply: whether it has a command without a reply.
        has_left: whether it has closed its channel.
        is_over: set when nothing more arrives from it.
    """

    def __init__(self, task: Task, connection: Connection):
        self.task, self.connection = task, connection
        self.inbox: queue.SimpleQueue[Optional[Frame]] = queue.SimpleQueue()
        self.hello: Optional[Dict[str, Any]] = None
        self.owes_reply = False
        self.has_left = False
        self.is_over = threading.Event()

    def read(
        self, handle: Callable[[Peer, Frame], None], lose: Callable[[Peer, str], None]
    ) -> None:
        """Handle each frame until the connection ends."""
        reason = "is gone"
        try:
            frame = self.connection.receive()
            while frame is not None:
                handle(self, frame)
                frame = self.connection.receive()
        except (FrameError, TypeError, ValueError) as error:
            reason = f"sent no message of the channel: {error}"
        except OSError:  # reset: its process or machine has died
            pass
        self.is_over.set()
        lose(self, reason)
