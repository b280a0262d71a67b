"""A file of TensorBoard events.

TensorFlow's own writer hands events to a thread, which loses them when the process is killed and
whose errors nobody catches. Here events are written at once, and reach the disk on request.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from ...compat import tf
from ...files import open_without_links, plain_path, sync

FLUSH_SECS = 30.0  # so that a TensorBoard that is open shows them soon


class EventFile:
    """A new file of events.

    Args:
        folder: created if it does not exist.

    Raises:
        OSError, tf.errors.OpError: the file cannot be written.
    """

    def __init__(self, folder: str):
        os.makedirs(folder, exist_ok=True)
        self.path = _new_path(folder)
        with plain_path(self.path) as path:
            self._writer = tf.io.TFRecordWriter(path)
        self._last_flush = time.monotonic()
        self.add(file_version="brain.Event:2")
        self.flush()

    def add(self, **content: Any) -> None:
        """Add an event: `step` and the other fields of a tf.Event."""
        self._writer.write(tf.Event(wall_time=time.time(), **content).SerializeToString())
        if time.monotonic() - self._last_flush > FLUSH_SECS:
            self.flush()

    def flush(self, durable: bool = False) -> None:
        """Hand all events to the system; `durable`: wait until they are on the disk."""
        self._writer.flush()
        self._last_flush = time.monotonic()
        if durable:
            sync(self.path)

    def close(self) -> None:
        self._writer.close()


def _new_path(folder: str) -> str:
    """A new empty file; TensorBoard reads the files in the order of their names."""
    start = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
    number = 0
    while True:
        path = os.path.join(folder, f"{start}.{number}")
        try:
            os.close(open_without_links(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            return path
        except FileExistsError:
            number += 1
