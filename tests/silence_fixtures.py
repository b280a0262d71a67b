"""Silence without waiting: a clock for the channel of a process whose tests stop another one."""

from __future__ import annotations

import os
import threading
import time

from toolkit.cluster.channel import Channel
from toolkit.cluster.clock import Clock

SILENT = "silent"  # a file in the working directory, with the name of a process that was stopped


class HurriedClock(Clock):
    """Real time, and what `pass_silence` adds to it."""

    def __init__(self):
        self.more = 0.0

    def now(self):
        return super().now() + self.more


def pass_silence(channel, clock):
    """Let time pass from when the file is there, until the job ends without the process it names.

    It passes in parts, in each of which all others are heard: however slow, none of them is lost.
    """
    while not os.path.exists(SILENT):
        time.sleep(0.02)
    with open(SILENT) as file:
        silent = file.read()
    cluster = channel._cluster
    while silent != cluster.task.name and channel._error is None:
        clock.more += cluster.settings.peer_secs / 4
        moved = clock.now()
        looks = [lambda: channel._watch._last]
        for task, peer in channel._peers.items():
            if task.name != silent:
                looks.append(lambda peer=peer: peer.connection.last_heard)
        while channel._error is None and not all(look() >= moved for look in looks):
            time.sleep(0.02)


def install():
    """Give such a clock to each channel of this process."""
    begin = Channel.__init__

    def begin_with_clock(channel, cluster, log, leave=os._exit):
        clock = HurriedClock()
        begin(channel, cluster, log, leave, clock)
        threading.Thread(target=pass_silence, args=[channel, clock], daemon=True).start()

    Channel.__init__ = begin_with_clock


def write_silent(name, folder="."):
    """Tell the processes of a folder that one of them was stopped."""
    path = os.path.join(str(folder), SILENT)
    with open(path + ".part", "w") as file:
        file.write(name)
    os.replace(path + ".part", path)
