"""A slow network on one machine: a proxy per task that delays what the other tasks send to it.

Each direction of a connection has a latency; all connections to a task share its bandwidth.
"""

from __future__ import annotations

import asyncio
import threading
import time

CHUNK = 1 << 16


class SlowLink:
    """Forwards connections to an address, late.

    Args:
        target: (host, port) of the task.
        latency: seconds in each direction.
        bytes_per_sec: that the task can receive, and send, at most; None for no limit.
    """

    def __init__(self, target, latency: float, bytes_per_sec=None):
        self._target, self._latency = target, latency
        self._rate = bytes_per_sec
        self._free_at = {"in": 0.0, "out": 0.0}  # when the link has sent all of before
        self.num_bytes = 0
        self._is_ready = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()
        self._is_ready.wait()

    def _serve(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await asyncio.Event().wait()

    async def _accept(self, reader, writer) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:  # the task does not listen yet
            writer.close()
            return
        await asyncio.gather(
            self._forward(reader, far_writer, "in"), self._forward(far_reader, writer, "out")
        )

    async def _forward(self, reader, writer, direction: str) -> None:
        """Pass on what is read, each part at its time, in order."""
        queue: asyncio.Queue = asyncio.Queue()
        sender = asyncio.ensure_future(self._send(queue, writer))
        try:
            while True:
                data = await reader.read(CHUNK)
                if not data:
                    break
                self.num_bytes += len(data)
                start = max(time.monotonic(), self._free_at[direction])
                end = start + (len(data) / self._rate if self._rate else 0.0)
                self._free_at[direction] = end
                queue.put_nowait((end + self._latency, data))
        except OSError:
            pass
        queue.put_nowait((0.0, b""))
        await sender

    async def _send(self, queue, writer) -> None:
        try:
            while True:
                due, data = await queue.get()
                if not data:
                    break
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()
