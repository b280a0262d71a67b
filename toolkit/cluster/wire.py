"""One connection of two processes of a job: messages on a stream of asyncio.

A message is its two sizes, a JSON list of its kind and its contents, and bytes of any number. All
calls are made in the thread of the loop, and none blocks: what is sent is kept until it is read.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import struct
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, NamedTuple, Optional

if TYPE_CHECKING:
    from .tasks import Task

_SIZES = struct.Struct(">I"), struct.Struct(">Q")  # of the JSON text and of the bytes after it
_MAX_TEXT = 64 << 20
MAX_FIRST_TEXT = 64 << 10  # of a process that has not introduced itself yet
_MAX_PAYLOAD = 1 << 40
PIECE = 1 << 18  # bytes


class WireError(Exception):
    """What arrived is no message; the text says how it began."""


class Message(NamedTuple):
    kind: str
    body: Dict[str, Any]
    payload: bytes = b""


class Peer:
    """Another process of the job, at the other end of a connection; `now` returns seconds."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, now: Callable[[], float]
    ):
        self._reader, self._writer, self._now = reader, writer, now
        # Where a write fails, asyncio would forget what has arrived and was not read yet.
        setattr(reader, "set_exception", self._read_rest)  # noqa: B010 - a method of the reader
        self._error: Optional[BaseException] = None  # with which the connection broke
        self._is_finished = False  # nothing more is sent
        self.task: Optional[Task] = None  # once it is known
        self.last_heard = now()  # when bytes last arrived, also in the middle of a large message
        self.inbox: Deque[Message] = collections.deque()  # commands or replies not yet taken
        self.hello: Optional[Dict[str, Any]] = None  # what it gave to `join`
        # Done when nothing more arrives from it.
        self.is_over: asyncio.Future[None] = asyncio.get_event_loop().create_future()

    def send(self, kind: str, body: Dict[str, Any], payload: bytes = b"") -> None:
        """Send a message, unless the connection has ended or the last one was sent."""
        text = json.dumps([kind, body]).encode("utf-8")
        if not self._is_finished and not self._writer.transport.is_closing():
            sizes = [size.pack(len(data)) for size, data in zip(_SIZES, (text, payload))]
            self._writer.write(b"".join(sizes) + text)
            self._writer.write(payload)

    async def drain(self) -> None:
        """Wait until the other side has read nearly all. Raises OSError if it cannot any more."""
        await self._writer.drain()

    async def receive(self, max_text: int = _MAX_TEXT, max_payload: int = _MAX_PAYLOAD) -> Message:
        """The next message. Raises WireError if what arrives is none, EOFError if the other side
        has closed, OSError if the connection is broken.
        """
        sizes: List[int] = []
        for size, limit in zip(_SIZES, (max_text, max_payload)):
            data = await self._read(size.size)
            sizes += size.unpack(data)
            if sizes[-1] > limit:
                raise WireError(f"it began with {data!r}")
        text = await self._read(sizes[0])
        try:
            kind, body = json.loads(text.decode("utf-8"))
        except (ValueError, TypeError, RecursionError):
            kind, body = None, None
        if not isinstance(kind, str) or not isinstance(body, dict):
            raise WireError(f"it sent {text[:40]!r}")
        return Message(kind, body, await self._read(sizes[1]))

    async def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = await self._reader.read(min(size - len(data), PIECE))
            if not piece and self._error is not None:
                raise self._error
            if not piece:
                raise WireError(f"it began with {bytes(data)!r}") if data else EOFError()
            self.last_heard = self._now()
            data += piece
        return bytes(data)

    def _read_rest(self, error: BaseException) -> None:
        """Read what the other side sent before the connection broke: its end, and the reason."""
        self._error = error
        with contextlib.suppress(OSError):
            descriptor = self._writer.get_extra_info("socket").fileno()
            for data in iter(lambda: os.read(descriptor, PIECE), b""):
                self._reader.feed_data(data)
        self._reader.feed_eof()

    def finish(self) -> None:
        """Let the other side read what was sent, and then the end."""
        self._is_finished = True
        with contextlib.suppress(OSError):  # the other side has reset the connection
            if not self._writer.transport.is_closing():
                self._writer.write_eof()

    def abort(self) -> None:
        """End the connection, whatever was not read."""
        self._writer.transport.abort()
