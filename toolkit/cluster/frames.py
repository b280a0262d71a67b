"""Frames on a TCP connection: a kind, a JSON header and a binary payload.

A frame is 13 bytes (kind, size of the header, size of the payload), the header and the payload. A
beat, the sign of life, is the byte of its kind alone, so that it is sent as a whole or not at all.
Either side begins with `MAGIC`, so that a stranger is recognized by its first bytes.
"""

from __future__ import annotations

import enum
import io
import json
import socket
import struct
import threading
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .clock import Clock

MAGIC = b"toolkit-channel\n"
_SIZES = struct.Struct(">BIQ")
_MAX_HEADER = 64 << 20  # bytes
_MAX_PAYLOAD = 1 << 40
_MAX_FIRST_HEADER = 64 << 10  # of a frame from a process that has not introduced itself yet


class Kind(enum.IntEnum):
    """What a frame is; the numbers are part of the protocol."""

    BEAT = 0
    IDENTITY = 1  # the first frame of a process: its task, cluster and version
    WELCOME = 2  # the chief's answer to it
    REFUSAL = 3  # or this one
    READY = 4  # the process has called `join`; its hello
    WAITING = 5  # for whom the chief waits
    START = 6  # all have joined
    COMMAND = 7
    REPLY = 8
    FAILURE = 9  # ends the job with an error
    END = 10  # ends the job
    BYE = 11  # a follower or a parameter server has closed its channel


class Frame(NamedTuple):
    kind: Kind
    header: Dict[str, Any]
    payload: bytes = b""


class FrameError(Exception):
    """What arrived is no frame; the message says how it began."""


def encode_frame(kind: Kind, header: Dict[str, Any], payload_size: int = 0) -> bytes:
    """The bytes of a frame up to its payload. Raises TypeError for a header that is not JSON."""
    text = json.dumps(header).encode("utf-8")
    if len(text) > _MAX_HEADER:
        raise ValueError(f"A message of {len(text)} bytes is larger than {_MAX_HEADER}.")
    return _SIZES.pack(kind, len(text), payload_size) + text


class Connection:
    """A socket that sends and receives frames; any thread may send, one thread receives.

    Args:
        connected: the socket, in blocking mode.
        clock: the time.

    Attributes:
        last_heard: the time on the clock when bytes last arrived.
    """

    def __init__(self, connected: socket.socket, clock: Clock):
        connected.settimeout(None)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._clock = clock
        self._stream = _Stream(connected, clock)
        self._reader = io.BufferedReader(self._stream, 1 << 16)
        self._send_lock = threading.Lock()
        self._is_broken = False  # a frame was cut off: no further frame can follow it

    @property
    def last_heard(self) -> float:
        return self._stream.last_heard

    def forgive_silence(self) -> None:
        """Count the silence from now on: this process was not able to listen before."""
        self._stream.last_heard = self._clock.now()

    def limit(self, secs: float) -> None:
        """Let what is received or sent later than this time from now raise socket.timeout."""
        self._stream.deadline = self._clock.now() + secs
        self._socket.settimeout(secs)

    def remove_limit(self) -> None:
        """Let receiving and sending take any time, also sending by several threads."""
        self._stream.deadline = None
        self._socket.settimeout(None)

    # ------------------------------------------------------------------------------------ receiving

    def receive_magic(self) -> None:
        """Read the first bytes of the other side. Raises FrameError unless they are `MAGIC`."""
        start = b""
        while MAGIC.startswith(start) and len(start) < len(MAGIC):
            byte = self._reader.read(1)
            if not byte:
                break
            start += byte
        if start != MAGIC:
            rest = self._reader.peek(40)[:40] if start else b""
            raise FrameError(f"it began with {start + rest!r}" if start else "it sent nothing")

    def receive(self, is_first: bool = False) -> Optional[Frame]:
        """The next frame that is no beat; None when the other side has closed.

        Args:
            is_first: whether the other side has not introduced itself yet.

        Raises:
            FrameError: it is none.
            OSError: the connection is broken.
        """
        while True:
            first = self._reader.read(1)
            if not first:
                return None
            if first[0] != Kind.BEAT:
                return self._receive_rest(first, is_first)

    def _receive_rest(self, first: bytes, is_first: bool) -> Optional[Frame]:
        sizes = self._reader.read(_SIZES.size - 1) or b""
        if len(sizes) < _SIZES.size - 1:
            return None
        kind, header_size, payload_size = _SIZES.unpack(first + sizes)
        if header_size > (_MAX_FIRST_HEADER if is_first else _MAX_HEADER):
            raise FrameError(f"its header has {header_size} bytes")
        if payload_size > (0 if is_first else _MAX_PAYLOAD):
            raise FrameError(f"its payload has {payload_size} bytes")
        header = self._reader.read(header_size) or b""
        payload = (self._reader.read(payload_size) or b"") if payload_size else b""
        if len(header) < header_size or len(payload) < payload_size:
            return None
        return Frame(*_parse(kind, header), payload)

    # -------------------------------------------------------------------------------------- sending

    def send_magic(self) -> None:
        """Send the bytes with which each side begins."""
        self._socket.sendall(MAGIC)

    def send(self, start: bytes, payload: bytes = b"") -> None:
        """Send a frame; blocks while the other side does not read. Raises OSError.

        Args:
            start: the frame up to its payload, from `encode_frame`.
            payload: the bytes after it.
        """
        with self._send_lock:
            if self._is_broken:
                raise BrokenPipeError("an earlier frame was cut off")
            self._is_broken = True  # until all is sent, also if a signal ends this
            if len(payload) < 1 << 16:
                self._socket.sendall(start + payload)
            else:
                self._socket.sendall(start)
                self._socket.sendall(memoryview(payload))
            self._is_broken = False

    def try_send(self, start: bytes, wait_secs: float = 0.0) -> bool:
        """Send a small frame without blocking; whether it was sent as a whole.

        Args:
            start: the frame, from `encode_frame`.
            wait_secs: how long to wait for another thread that is sending.
        """
        if not self._send_lock.acquire(timeout=max(0.0, wait_secs)):
            return False
        try:
            if self._is_broken:
                return False
            sent = self._socket.send(start, socket.MSG_DONTWAIT)
            self._is_broken = 0 < sent < len(start)
            return sent == len(start)
        except OSError:
            return False
        finally:
            self._send_lock.release()

    def beat(self) -> None:
        """Send a sign of life, unless a frame is on its way, which is one itself."""
        self.try_send(bytes([Kind.BEAT]))

    # -------------------------------------------------------------------------------------- closing

    def finish_sending(self) -> None:
        """Let the other side read what was sent, and then the end."""
        self._shut_down(socket.SHUT_WR)

    def abort(self) -> None:
        """End all sending and receiving, also what blocks in another thread."""
        self._shut_down(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all sending, and free the socket; the thread that receives has ended."""
        self.abort()
        with self._send_lock:
            self._is_broken = True
            self._socket.close()

    def _shut_down(self, how: int) -> None:
        try:
            self._socket.shutdown(how)
        except OSError:  # it is not connected any more
            pass


class _Stream(io.RawIOBase):
    """Reads a socket, and notes when bytes arrive, also in the middle of a large payload."""

    def __init__(self, connected: socket.socket, clock: Clock):
        super().__init__()
        self._socket, self._clock = connected, clock
        self.last_heard = clock.now()
        self.deadline: Optional[float] = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.deadline is not None:  # of all that is received, however slowly it comes
            self._socket.settimeout(max(0.001, self.deadline - self._clock.now()))
        size = self._socket.recv_into(buffer)
        self.last_heard = self._clock.now()
        return size


def _parse(kind: int, header: bytes) -> Tuple[Kind, Dict[str, Any]]:
    try:
        value = json.loads(header.decode("utf-8"))
        if isinstance(value, dict):
            return Kind(kind), value
    except (ValueError, RecursionError):
        pass
    raise FrameError(f"a frame of kind {kind} has the header {header[:40]!r}")
