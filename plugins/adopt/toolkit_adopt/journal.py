"""The records of the journal: what each session call was, and what it returned.

A record is a length (4 bytes, little-endian), a header in JSON that ends in a newline, and the
bytes of the arrays. The header has the number of the call's kind (the first record of a kind has
its names, too), a digest of each feed, and dtype and shape of each array. Other observations of the
script, such as `tf.train.latest_checkpoint`, are records with a JSON value.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import IO, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from toolkit import ToolkitError, tf

from .calls import Kind, digest

_LENGTH = struct.Struct("<I")


class Mismatch(ToolkitError):
    """A call at replay is another one than the journal has."""


class Recorder:
    """Turns calls into bytes, and bytes into what calls returned; one for a session.

    Args:
        append: called with the bytes of each new record.
        limit: the largest size of the journal in bytes.
    """

    def __init__(self, append: Any, limit: int):
        self._append, self._limit = append, limit
        self._size = 0
        self._kinds: Dict[str, int] = {}
        self._texts: List[str] = []

    def write(self, number: int, kind: Kind, feeds: Sequence[Any], values: Any) -> None:
        """Add a call.

        Args:
            number: of the call.
            kind: of the call.
            feeds: the fed arrays, in the order of the kind.
            values: what it returned, or the `tf.errors.OpError` that it raised.

        Raises:
            ToolkitError: the journal would have more bytes than its limit.
        """
        header: Dict[str, Any] = {"k": self._kinds.setdefault(kind.text, len(self._kinds))}
        if header["k"] == len(self._texts):
            self._texts.append(kind.text)
            header["t"] = kind.text
        if feeds:
            header["f"] = base64.b64encode(b"".join(map(digest, feeds))).decode("ascii")
        parts: List[bytes] = []
        if isinstance(values, tf.errors.OpError):
            header["e"] = [type(values).__name__, values.message]
        else:
            header["v"] = [_describe(value, parts) for value in values]
        self._add(header, parts, number, kind.title)

    def write_observation(self, number: int, name: str, value: Any) -> None:
        """Add a JSON value that the script saw."""
        self._add({"o": name, "v": value}, [], number, name)

    def _add(self, header: Dict[str, Any], parts: List[bytes], number: int, title: str) -> None:
        data = b"".join([json.dumps(header, separators=(",", ":")).encode("utf-8"), b"\n", *parts])
        self._size += _LENGTH.size + len(data)
        if self._size > self._limit:
            raise ToolkitError(
                f"The journal would have {self._size / 1e6:.0f} MB after call {number} ({title}), "
                f"and its limit is {self._limit / 1e6:.0f} MB.",
                hint="A larger --journal-limit allows it: a resume needs what each call returned.",
            )
        self._append(_LENGTH.pack(len(data)) + data)

    # ----------------------------------------------------------------------------------- replaying

    def read(self, file: IO[bytes], number: int, kind: Kind, feeds: Sequence[Any]) -> Any:
        """What a call returned, from the next record.

        Args:
            file: the journal.
            number, kind, feeds: of the call that the script makes now, as of `write`.

        Raises:
            Mismatch: the journal has another call, or other feeds.
        """
        header, data = self._next(file)
        if "t" in header:
            self._kinds[header["t"]] = len(self._texts)
            self._texts.append(header["t"])
        text = self._texts[header["k"]] if "k" in header else header.get("o")
        if text != kind.text:
            raise mismatch(number, kind.title, f"the run had {_title(text)} there")
        before = base64.b64decode(header.get("f", ""))
        for place, (name, value) in enumerate(zip(kind.feeds, feeds)):
            if before[4 * place : 4 * place + 4] != digest(value):
                raise mismatch(
                    number, kind.title, f"the value that it feeds to '{name}' is not the run's"
                )
        if "e" in header:
            name, message = header["e"]
            return getattr(tf.errors, name, tf.errors.UnknownError)(None, None, message)
        return _parse(header["v"], data)

    def read_observation(self, file: IO[bytes], number: int, name: str) -> Any:
        """A JSON value that the script saw. Raises Mismatch."""
        header, _ = self._next(file)
        if header.get("o") != name:
            raise mismatch(number + 1, name, "the run had another call there")
        return header["v"]

    def _next(self, file: IO[bytes]) -> Tuple[Dict[str, Any], memoryview]:
        start = file.read(_LENGTH.size)
        data = file.read(_LENGTH.unpack(start)[0]) if len(start) == _LENGTH.size else b""
        end = data.find(b"\n")
        if end < 0:
            raise ToolkitError("The journal ends before the call that was committed.")
        self._size += _LENGTH.size + len(data)
        return json.loads(data[:end].decode("utf-8")), memoryview(data)[end + 1 :]


def mismatch(number: int, title: str, what: str) -> Mismatch:
    """The error of a call that differs from the journal."""
    return Mismatch(
        f"Call {number} ({title}) differs from the run that is to be resumed: {what}.",
        hint="Something that no seed decides reaches the session: entropy of the system, "
        "an order of threads, or a file that has changed since.",
    )


def _title(text: Optional[str]) -> str:
    return "another call" if text is None else text if len(text) < 120 else text[:117] + "..."


def _describe(value: Any, parts: List[bytes]) -> List[Any]:
    """The JSON of an array, whose bytes are added to `parts`."""
    # An array of bytes would lose the zeros at their end.
    array = np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
    if array.dtype.kind in "OSU":
        items = [i if isinstance(i, bytes) else str(i).encode("utf-8") for i in array.ravel()]
        parts.extend(items)
        return ["O", list(array.shape), [len(item) for item in items]]
    parts.append(np.ascontiguousarray(array).tobytes())
    name = array.dtype.str if array.dtype.kind != "V" else array.dtype.name  # bfloat16
    return [name, list(array.shape)]


def _parse(rows: List[List[Any]], data: memoryview) -> List[Any]:
    values: List[Any] = []
    start = 0
    for dtype, shape, *lengths in rows:
        if dtype == "O":
            items = np.empty(len(lengths[0]), object)
            for place, length in enumerate(lengths[0]):
                items[place] = bytes(data[start : start + length])
                start += length
            array = items.reshape(shape)
        else:
            kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype if dtype.isalpha() else dtype)
            count = int(np.prod(shape, dtype=np.int64))
            array = np.frombuffer(data, kind, count, start).reshape(shape).copy()
            start += count * kind.itemsize
        values.append(array if array.shape else array[()])
    return values
