"""Free ports of the loopback interface, which no other process gets by chance."""

from __future__ import annotations

import contextlib
import socket
from typing import Iterator, List

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[List[int]]:
    """So many different ports, which the system gives to nobody until the block ends.

    A socket is bound to each and does not listen. Those who are told the port still listen there,
    since the servers of TensorFlow and the channel set SO_REUSEADDR, as these sockets do.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((LOOPBACK, 0))
        yield [each.getsockname()[1] for each in sockets]
