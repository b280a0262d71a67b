"""A file of TensorBoard events.

TensorFlow's own writer hands events to a thread, which loses them when the process is killed and
fails where nobody listens. Here they are written at once, and are on the disk when asked for.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from ...compat import tf
from ...files import sync

FLUSH_SECS = 30.0  # so that TensorBoard, which watches, sees them soon


class EventFile:
    """One new file in `folder`, which is made. Raises OSError or tf.errors.OpError where it can't
    be written.
    """

    def __init__(self, folder: str):
        os.makedirs(folder, exist_ok=True)
        self.path = _new_path(folder)
        self._writer = tf.io.TFRecordWriter(self.path)
        self._flushed = time.monotonic()
        self.add(file_version="brain.Event:2")
        self.flush()

    def add(self, **content: Any) -> None:
        """Add an event: `step` and what else a tf.Event has."""
        self._writer.write(tf.Event(wall_time=time.time(), **content).SerializeToString())
        if time.monotonic() - self._flushed > FLUSH_SECS:
            self.flush()

    def flush(self, durable: bool = False) -> None:
        """Hand what was added to the system. durable: it is on the disk when this returns."""
        self._writer.flush()
        self._flushed = time.monotonic()
        if durable:
            sync(self.path)

    def close(self) -> None:
        self._writer.close()


def _new_path(folder: str) -> str:
    """TensorBoard reads files of such names in the order of their names."""
    start = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
    number = 0
    while os.path.exists(os.path.join(folder, f"{start}.{number}")):
        number += 1
    return os.path.join(folder, f"{start}.{number}")
