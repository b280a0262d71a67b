"""Jobs for tests of the channel: each process of a cluster in a thread, or a bare socket of one."""

import asyncio
import contextlib
import json
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from process_fixtures import free_port, run_threads, wait_until

from toolkit.cluster.channel import Channel, Clock
from toolkit.cluster.meeting import identify
from toolkit.cluster.tasks import Cluster, ClusterSettings

UNTRIED = "it was not tried yet"


class MovedClock(Clock):
    """A clock that stands still until a test moves it."""

    def __init__(self):
        self._now, self._is_over = 1000.0, False
        self.awaited = set()  # for what a process has waited

    def now(self):
        return self._now

    def wait(self, happening, secs):
        self.awaited.add(happening)
        happened = happening.wait(0.01)  # whoever waits looks again
        if self._is_over and not happened:
            self.move(secs)
        return happened

    async def sleep(self, secs):
        end = self._now + secs
        while self._now < end:
            await asyncio.sleep(0.01)

    def move(self, secs):
        self._now += secs

    def stop_waiting(self):
        """Let each wait end at once, as if the time had passed."""
        self._is_over = True


class Member(NamedTuple):
    """A process of a job: its channel, the lines that it logged, the codes that it left with."""

    channel: Channel
    lines: list
    codes: list

    @property
    def has_ended(self):
        """Whether this process knows that the job has ended."""
        return self.channel._error is not None

    def peer(self, name):
        """The process with which it is connected; None without a connection."""
        return {t.name: peer for t, peer in list(self.channel._peers.items())}.get(name)

    def await_problem(self, text):
        """Wait until this is why it cannot listen or connect."""
        wait_until(lambda: text in self.channel.problem)


def encode(kind, body, payload=b""):
    """The bytes of a message."""
    text = json.dumps([kind, body]).encode()
    return struct.pack(">IQ", len(text), len(payload)) + text + payload


class Bare:
    """A connection of a process that does nothing by itself."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self._reader = self.socket.makefile("rb")

    def send(self, kind, body):
        self.socket.sendall(encode(kind, body))

    def receive(self):
        """The kind and the contents of the next message that is no beat."""
        kind = "beat"
        while kind == "beat":
            text, payload = struct.unpack(">IQ", self._reader.read(12))
            kind, body = json.loads(self._reader.read(text))
            self._reader.read(payload)
        return kind, body

    def close(self):
        self._reader.close()
        self.socket.close()


class Job:
    """A chief, workers and parameter servers on loopback; the channel listens on `port`.

    Its processes have the same clock, which the test moves. Until then, none is late or silent.
    """

    def __init__(self, workers=2, ps=0, host="127.0.0.1", source="", **settings):
        self.source, self.clock = source, MovedClock()
        self.port = settings.pop("channel_port", None) or free_port()
        self.jobs = {"chief": [f"{host}:1"]}
        for job, count in (("worker", workers), ("ps", ps)):
            if count:
                self.jobs[job] = [f"127.0.0.1:{len(job)}{index}" for index in range(count)]
        settings = {"join_secs": 20.0, "peer_secs": 8.0, **settings}
        self.settings = ClusterSettings(channel_port=self.port, **settings)
        self.members, self._bare = [], []

    @property
    def names(self):
        return [task.name for task in self.cluster("chief").tasks]

    def cluster(self, name):
        """The cluster of the process of a task."""
        cluster = Cluster(self.jobs, None, self.settings, self.source)
        return cluster._replace(task=next(task for task in cluster.tasks if task.name == name))

    def open(self, name):
        """Open the channel of a task."""
        lines, codes = [], []
        channel = Channel(self.cluster(name), lines.append, codes.append, self.clock)
        self.members.append(Member(channel, lines, codes))
        return self.members[-1]

    def start(self):
        """Open the channels of all tasks, and join; a member of each."""
        members = [self.open(name) for name in self.names]
        join(members)
        return members

    def start_with_bare(self, name):
        """Start a job with a bare connection as a task: (the connection, the other members)."""
        members = [self.open(other) for other in self.names if other != name]
        await_listener(self.port).close()
        bare = self.connect(name)
        bare.send("ready", {})
        join(members)
        return bare, members

    def connect(self, name, **identity):
        """Connect as the process of a task would, and return the bare connection."""
        bare = Bare(self.port)
        bare.send("identity", {**identify(self.cluster(name)), **identity})
        self._bare.append(bare)
        return bare

    def miss_start(self, *members):
        """What `join` of members raises at the end of the time, when each knows who is missing."""
        with ThreadPoolExecutor(len(members)) as pool:
            futures = [pool.submit(member.channel.join, {}) for member in members]
            wait_until(lambda: self._know_who_is_missing(members))
            self.clock.move(self.settings.join_secs)
            return [future.exception() for future in futures]

    def _know_who_is_missing(self, members):
        if not all(m.channel._changed in self.clock.awaited for m in members):
            return False
        chiefs = [m for m in self.members if m.channel._cluster.is_chief]
        if not chiefs:
            return all(m.channel.problem != UNTRIED for m in members)
        others = [m for m in members if m is not chiefs[0]]
        peers = [chiefs[0].peer(m.channel._cluster.task.name) for m in others]
        return all(peer and peer.hello is not None for peer in peers)

    def pass_time(self, secs, beat=lambda: None):
        """Let time pass, in which each process looks at the others, and hears those that look.

        In each fourth of `peer_secs`, `beat` does what a bare connection does then.
        """
        end = self.clock.now() + secs
        while self.clock.now() < end:
            self.clock.move(self.settings.peer_secs / 4)
            beat()
            self.await_looks()

    def await_looks(self):
        """Wait until all have looked at the others, after the clock was moved."""
        wait_until(lambda: all(map(self._is_up_to_date, self.members)))

    def _is_up_to_date(self, member):
        channel, now = member.channel, self.clock.now()
        if channel._error is not None:
            return True
        peers = [member.peer(m.channel._cluster.task.name) for m in self.members]
        return all(p.last_heard == now for p in peers if p) and channel._last_look == now

    def close(self):
        """Close the bare connections, then all channels at the same time."""
        for bare in self._bare:
            bare.close()
        run_all([member.channel.close for member in self.members])


def run_all(functions):
    """Call functions at the same time; their results or errors."""
    with ThreadPoolExecutor(len(functions) or 1) as pool:
        futures = [pool.submit(function) for function in functions]
        return [future.exception() or future.result() for future in futures]


def join(members):
    """Join at the same time; what each returns."""
    hellos = [{"rank": rank} for rank in range(len(members))]
    return run_threads([partial(m.channel.join, hello) for m, hello in zip(members, hellos)])


def await_listener(port, host="127.0.0.1"):
    """A connection to a port, as soon as something listens there."""

    def connect():
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection((host, port))

    return wait_until(connect)


@contextlib.contextmanager
def listening(port):
    """Something else listens on a port."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen(5)
        yield other
