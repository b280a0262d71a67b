"""The records of the journal: what each session call was, and what it returned.

A record is a length (4 bytes, little-endian), a header in JSON that ends in a newline, and the
bytes of the arrays; those of texts are a TensorProto. The header has the number of the call's kind
(the first record of a kind has its names, too), a digest of each feed, and dtype, shape and length
of each array. Other observations of the script, such as `tf.train.latest_checkpoint`, are records
with a JSON value. The header of the first record has the version of this format.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import IO, Any, Dict, List, Sequence, Tuple

import numpy as np
from tensorflow.core.framework.tensor_pb2 import TensorProto

from toolkit import ToolkitError, tf

from .calls import Kind, digest

_LENGTH = struct.Struct("<I")
_VERSION = 4


class Mismatch(ToolkitError):
    """A call at replay is another one than the journal has."""

    def __init__(self, number: int, title: str, what: str):
        super().__init__(
            f"Call {number} ({title}) differs from the run that is to be resumed: {what}.",
            hint="Something that no seed decides reaches the session: entropy of the system, "
            "an order of threads, or a file that has changed since.",
        )


class Recorder:
    """Turns calls into bytes, and bytes into what calls returned; one for a session."""

    def __init__(self, append: Any, limit: int, warn: Any = None):
        # `append` gets the bytes of each new record, `warn` a sentence at half of the limit (bytes)
        self._append, self._limit, self._warn = append, limit, warn
        self._size = 0
        self._texts: List[str] = []  # of the kinds so far

    def write(self, number: int, kind: Kind, feeds: Sequence[Any], values: Any) -> None:
        """Add a call, with the fed arrays in the order of the kind, and with what it returned.

        In place of that is the `tf.errors.OpError` that it raised. Raises ToolkitError if the
        journal would have more bytes than its limit.
        """
        header: Dict[str, Any] = {}
        if kind.text not in self._texts:
            self._texts.append(kind.text)
            header["t"] = kind.text
        header["k"] = self._texts.index(kind.text)
        if feeds:
            header["f"] = base64.b64encode(b"".join(map(digest, feeds))).decode("ascii")
        parts: List[bytes] = []
        if isinstance(values, tf.errors.OpError):
            header["e"] = [type(values).__name__, values.message]
        else:
            header["v"] = []
            for value in values:
                # An array of bytes would lose the zeros at their end.
                array = np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
                dtype = tf.as_dtype(array.dtype)
                is_text = dtype == tf.string
                proto = tf.make_tensor_proto(value) if is_text else None
                parts.append(proto.SerializeToString() if proto else array.tobytes())
                header["v"].append([dtype.name, array.shape, len(parts[-1])])
        self._add(header, parts, number, kind.title)

    def write_observation(self, number: int, name: str, value: Any) -> None:
        """Add a JSON value that the script saw."""
        self._add({"o": name, "v": value}, [], number, name)

    def _add(self, header: Dict[str, Any], parts: List[bytes], number: int, title: str) -> None:
        if not self._size:
            header["version"] = _VERSION
        data = b"".join([json.dumps(header, separators=(",", ":")).encode("utf-8"), b"\n", *parts])
        self._size += _LENGTH.size + len(data)
        if self._size > self._limit:
            raise ToolkitError(
                f"The journal would have {self._size / 1e6:.0f} MB after call {number} ({title}), "
                f"and its limit is {self._limit / 1e6:.0f} MB.",
                hint="A resume needs what each call returned. Fetch less, or go on with a larger "
                "limit: toolkit resume RUN --journal-limit N",
            )
        if self._size - len(data) <= self._limit / 2 < self._size and self._warn:
            self._warn(f"the journal has half of its limit after call {number}")
        self._append(_LENGTH.pack(len(data)) + data)

    # ----------------------------------------------------------------------------------- replaying

    def read(self, file: IO[bytes], number: int, kind: Kind, feeds: Sequence[Any]) -> Any:
        """What a call returned, from the next record, for the call that the script makes now.

        Raises Mismatch if the journal has another call, or other feeds.
        """
        header, data = self._next(file)
        if "t" in header:
            self._texts.append(header["t"])
        text = self._texts[header["k"]] if "k" in header else header["o"]
        if text != kind.text:
            shown = text if len(text) < 120 else text[:117] + "..."
            raise Mismatch(number, kind.title, f"the run had {shown} there")
        before = base64.b64decode(header.get("f", ""))
        for place, (name, value) in enumerate(zip(kind.feeds, feeds)):
            if before[4 * place : 4 * place + 4] != digest(value):
                what = f"the value that it feeds to '{name}' is not the run's"
                raise Mismatch(number, kind.title, what)
        if "e" in header:
            name, message = header["e"]
            return getattr(tf.errors, name, tf.errors.UnknownError)(None, None, message)
        values: List[Any] = []
        start = 0
        for name, shape, length in header["v"]:
            part = data[start : start + length]
            start += length
            if name == "string":
                array = tf.make_ndarray(TensorProto.FromString(bytes(part)))
            else:
                dtype = np.dtype(tf.as_dtype(name).as_numpy_dtype)
                # A copy, into which the script may write.
                array = np.ndarray(shape, dtype, part if length else None).copy()
            values.append(array if array.shape else array[()])
        return values

    def read_observation(self, file: IO[bytes], number: int, name: str) -> Any:
        """A JSON value that the script saw. Raises Mismatch."""
        header, _ = self._next(file)
        if header.get("o") != name:
            raise Mismatch(number + 1, name, "the run had another call there")
        return header["v"]

    def _next(self, file: IO[bytes]) -> Tuple[Dict[str, Any], memoryview]:
        start = file.read(_LENGTH.size)
        data = file.read(_LENGTH.unpack(start)[0]) if len(start) == _LENGTH.size else b""
        end = data.find(b"\n")
        if end < 0:
            raise ToolkitError("The journal ends before the call that was committed.")
        header = json.loads(data[:end].decode("utf-8"))
        if not self._size and header.get("version") != _VERSION:
            raise ToolkitError(
                "The journal is of another version of the toolkit, which alone can resume the run.",
                hint="Train the script anew by 'toolkit adopt', or resume by that version.",
            )
        self._size += _LENGTH.size + len(data)
        return header, memoryview(data)[end + 1 :]
