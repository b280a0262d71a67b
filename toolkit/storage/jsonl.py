"""Files of JSON, and JSON-lines files: append-only, hashed as they grow, cut back by a resume.

A line counts once it ends in a newline. A partial last line, which a killed process may leave, is
ignored when reading and removed before the next line is appended.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ..errors import CheckpointError
from ..files import (
    atomic_write,
    open_regular_file,
    open_without_links,
    sha256_of,
    sync,
    to_json_value,
)

MAX_LINE = 1 << 20  # bytes of a line that `read_records` reads


class FileDigest(NamedTuple):
    """The size and the hash of a file, or of its first bytes."""

    bytes: int
    sha256: str  # 64 hex digits


def digest_of(path: str) -> FileDigest:
    """The size and the hash of a file."""
    return FileDigest(os.path.getsize(path), sha256_of(path))


def find_damage(path: str, sha256: str, size: Optional[int] = None) -> str:
    """What happened to a file that had this hash and size, as a clause; '' if nothing."""
    try:
        present = os.path.getsize(path)
        if size not in (None, present):
            return f"has {present} bytes, expected {size}"
        return "" if sha256_of(path) == sha256 else "has changed since it was written"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


class JsonLines:
    """A file with one JSON object per line. It is read when first needed."""

    def __init__(self, path: str):
        self.path = path
        self._size = -1  # of the complete lines, in bytes; -1: not read yet
        self._sha256: Any = None  # a hashlib object, updated as lines are appended
        self._is_durable = True
        self._is_new = False  # created here, and its name may not be on the disk yet

    def append(self, record: Dict[str, Any]) -> None:
        """Append a record. Non-finite numbers become null, which every JSON reader accepts."""
        self.append_line(json.dumps(to_json_value(record)))

    def append_line(self, text: str, durable: bool = False) -> None:
        """Append a line that is JSON already, without its newline; `durable`: wait until it is on
        the disk.
        """
        self._load()
        line = (text + "\n").encode("utf-8")
        self._is_new = self._is_new or not os.path.exists(self.path)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(open_without_links(self.path, flags), "ab") as file:
            if file.tell() != self._size:
                self.invalidate_cache()  # another process may have added or removed lines
                self._load()
                file.truncate(self._size)  # a kill or a full disk may leave a partial line
            file.write(line)
            file.flush()
        self._size += len(line)
        self._sha256.update(line)
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

    def invalidate_cache(self) -> None:
        """Read the file again when it is next needed: another process may have written to it."""
        self._size = -1

    def lines(self, size: Optional[int] = None) -> List[str]:
        """The complete lines, of the first `size` bytes if that is given, without newlines; bytes
        that are not UTF-8 are replaced.
        """
        return self._read_complete_lines()[:size].decode("utf-8", "replace").split("\n")[:-1]

    def read(self) -> List[Dict[str, Any]]:
        """The complete lines that are JSON objects, as records."""
        records = (parse_object(line) for line in self.lines())
        return [record for record in records if record is not None]

    def position(self) -> FileDigest:
        """The size and the hash of the complete lines."""
        self._load()
        return FileDigest(self._size, self._sha256.hexdigest())

    def starts_with(self, position: FileDigest) -> bool:
        """Whether the file still starts with the lines that it had at an earlier position."""
        start = self._read_complete_lines()[: position.bytes]
        return hashlib.sha256(start).hexdigest() == position.sha256

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes, and a partial last line."""
        content = self._read_complete_lines()
        if os.path.exists(self.path) and os.path.getsize(self.path) > min(size, len(content)):
            with atomic_write(self.path, durable=True) as file:
                file.write(content[:size])
        self.invalidate_cache()

    def _load(self) -> None:
        if self._size < 0:
            content = self._read_complete_lines()
            self._size, self._sha256 = len(content), hashlib.sha256(content)

    def _read_complete_lines(self) -> bytes:
        try:
            with open_regular_file(self.path) as file:
                content = file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}.") from None
        return content[: content.rfind(b"\n") + 1]


def parse_object(text: str) -> Optional[Dict[str, Any]]:
    """The JSON object in a text; None if there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_records(path: str) -> Iterator[Dict[str, Any]]:
    """Yield the records of a JSON-lines file, in memory for one line. A file that is missing or
    cannot be read has none; a line that is no JSON object or is too long is left out.
    """
    try:
        with open_regular_file(path) as file:
            for line in iter(lambda: file.readline(MAX_LINE), b""):
                is_whole = line.endswith(b"\n")
                record = parse_object(line.decode("utf-8", "replace")) if is_whole else None
                if record is not None:
                    yield record
    except OSError:
        return


def read_json(path: str) -> Any:
    """The value in a JSON file. Raises CheckpointError if it cannot be read."""
    try:
        with open_regular_file(path) as file:
            return json.loads(file.read().decode("utf-8"))
    except FileNotFoundError:
        fault = "is missing"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        fault = f"is not valid JSON: {error}"
    raise CheckpointError(f"{path} {fault}.", path=path)
