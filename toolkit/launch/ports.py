"""Free ports of the loopback interface."""

from __future__ import annotations

import contextlib
import socket
from typing import List

LOOPBACK = "127.0.0.1"


def find_free_ports(count: int) -> List[int]:
    """So many different ports that no process listens on.

    All are bound at once, so that they differ. Another process may still bind one of them before
    the process that gets it does.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
