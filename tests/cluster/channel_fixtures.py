"""Jobs for tests of the channel: each process of a cluster in a thread, or a bare socket of one."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from toolkit.cluster.channel import Channel
from toolkit.cluster.frames import Connection, Kind, encode_frame
from toolkit.cluster.handshake import identify
from toolkit.cluster.tasks import Cluster, ClusterSettings


def free_port(host="127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


class Member(NamedTuple):
    """A process of a job: its channel, the lines that it logged, the codes that it left with."""

    channel: Channel
    lines: list
    codes: list


class Job:
    """A chief, workers and parameter servers on loopback; the channel listens on `port`."""

    def __init__(self, workers=2, ps=0, host="127.0.0.1", source="", **settings):
        self.source = source
        self.port = settings.pop("channel_port", None) or free_port()
        self.jobs = {"chief": [f"{host}:1"]}
        for job, count in (("worker", workers), ("ps", ps)):
            if count:
                self.jobs[job] = [f"127.0.0.1:{len(job)}{index}" for index in range(count)]
        settings = {"join_secs": 20.0, "peer_secs": 3.0, **settings}
        self.settings = ClusterSettings(channel_port=self.port, **settings)
        self.members = []

    @property
    def names(self):
        return [task.name for task in self.cluster("chief").tasks]

    def cluster(self, name, **changes):
        """The cluster of the process of a task."""
        cluster = Cluster(self.jobs, None, self.settings._replace(**changes), self.source)
        return cluster._replace(task=next(task for task in cluster.tasks if task.name == name))

    def open(self, name, **changes):
        """Open the channel of a task."""
        lines, codes = [], []
        channel = Channel(self.cluster(name, **changes), lines.append, codes.append)
        self.members.append(Member(channel, lines, codes))
        return self.members[-1]

    def start(self, *names):
        """Open the channels of the tasks, of all by default, and join; a member of each."""
        members = [self.open(name) for name in names or self.names]
        join([member.channel for member in members])
        return members

    def connect(self, name, **identity):
        """Connect as the process of a task would, and return the bare connection."""
        connected = socket.create_connection(("127.0.0.1", self.port), 10)
        connection = Connection(connected)
        header = {**identify(self.cluster(name))._asdict(), **identity}
        connection.send_magic()
        connection.send(encode_frame(Kind.IDENTITY, header))
        connection.receive_magic()
        return connection

    def close(self):
        """Close all channels at the same time."""
        run_all([member.channel.close for member in self.members])


def run_all(functions):
    """Call functions at the same time; their results or errors."""
    with ThreadPoolExecutor(len(functions) or 1) as pool:
        futures = [pool.submit(function) for function in functions]
        return [future.exception() or future.result() for future in futures]


def join(channels):
    """Join at the same time; what each returns."""
    with ThreadPoolExecutor(len(channels)) as pool:
        hellos = [{"rank": rank} for rank in range(len(channels))]
        futures = [pool.submit(c.join, hello) for c, hello in zip(channels, hellos)]
        return [future.result() for future in futures]


def await_listener(port, host="127.0.0.1"):
    """A connection to a port, as soon as something listens there."""
    for _ in range(500):
        try:
            return socket.create_connection((host, port), 10)
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise AssertionError(f"nothing listens on port {port}")
