"""Files of JSON lines: appended to, cut back, and hashed as they grow.

A line counts when it ends; what a kill left of one is cut off before the next is added.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from ..errors import CheckpointError
from ..files import atomic_write, sync, to_json_value


class Position(NamedTuple):
    """How far a file has grown: its size in bytes, and the SHA-256 of so much of it."""

    bytes: int
    sha256: str


class JsonLines:
    """One file of JSON objects, a line each. It is read when first needed, then followed."""

    def __init__(self, path: str):
        self.path = path
        self._size = -1  # not read yet
        self._digest: Any = None
        self._is_durable = True
        self._is_new = False  # made here, and its name may not be on the disk yet

    def append(self, record: Dict[str, Any]) -> None:
        """Add one line. Non-finite numbers become null, which every JSON reader takes."""
        self.append_text(json.dumps(to_json_value(record)))

    def append_text(self, text: str, durable: bool = False) -> None:
        """Add a line that is JSON already. durable: it is on the disk when this returns."""
        self._follow()
        line = (text + "\n").encode("utf-8")
        self._is_new = self._is_new or not os.path.exists(self.path)
        with open(self.path, "ab") as file:
            if file.tell() != self._size:
                self.forget()  # another may have added lines, or taken some away
                self._follow()
                file.truncate(self._size)  # what a kill, or a full disk, left of a line
            file.write(line)
            file.flush()
        self._size += len(line)
        self._digest.update(line)
        self._is_durable = False
        if durable:
            self.make_durable()

    def make_durable(self) -> None:
        """Wait until every line is on the disk."""
        if self._is_durable:
            return
        sync(self.path)
        if self._is_new:
            sync(os.path.dirname(os.path.abspath(self.path)))
            self._is_new = False
        self._is_durable = True

    def forget(self) -> None:
        """Read the file anew when it is next needed: another process may have written to it."""
        self._size = -1

    def texts(self, size: Optional[int] = None) -> List[str]:
        """Every whole line, without its end; bytes that are no UTF-8 are replaced.

        size: of so many bytes alone.
        """
        return self._whole()[:size].decode("utf-8", "replace").split("\n")[:-1]

    def read(self) -> List[Dict[str, Any]]:
        """Every whole line that is a JSON object."""
        found = (parse_object(text) for text in self.texts())
        return [record for record in found if record is not None]

    def position(self) -> Position:
        """How far the whole lines go."""
        self._follow()
        return Position(self._size, self._digest.hexdigest())

    def is_at(self, position: Position) -> bool:
        """Whether the file holds at least what it held at that position."""
        start = self._whole()[: position.bytes]
        return hashlib.sha256(start).hexdigest() == position.sha256

    def cut(self, size: int) -> None:
        """Drop what comes after the first `size` bytes."""
        whole = self._whole()
        if len(whole) > size or self._torn():
            with atomic_write(self.path, durable=True) as file:
                file.write(whole[:size])
        self.forget()

    def _follow(self) -> None:
        if self._size < 0:
            whole = self._whole()
            self._size, self._digest = len(whole), hashlib.sha256(whole)

    def _whole(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}.") from None
        return content[: content.rfind(b"\n") + 1]

    def _torn(self) -> bool:
        return os.path.exists(self.path) and os.path.getsize(self.path) != len(self._whole())


def parse_object(text: str) -> Any:
    """The JSON object in a text, or None."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
