"""A process of a job, for tests: the chief commands, the others obey.

Its argument is its behaviour:

obey        make and answer steps to the end
hang        stop to answer after 20 steps, as a collective of TensorFlow 1.15 does
never       do not come
impatient   obey, and say soon for whom it waits
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time

from toolkit.cluster import channel as channels
from toolkit.cluster.channel import Channel, JobEnded
from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import Cluster, ClusterSettings
from toolkit.errors import ToolkitError


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(cluster: Cluster, channel: Channel, behaviour: str) -> int:
    log("joins")
    channel.join({})
    log("joined")
    if cluster.rank is None:
        return channel.wait()
    for step in itertools.count():
        if cluster.is_chief:
            channel.command({"step": step}, bytes(100000))
            channel.replies()
            time.sleep(0.02)
        else:
            step = channel.receive()[0]["step"]
            channel.reply({})
        if step == 20:
            behave(behaviour)
    raise AssertionError


def behave(behaviour: str) -> None:
    if behaviour == "hang":
        print("buffered", end="")  # in a file: os._exit alone would lose it
        log("hangs")
        while True:
            signal.pause()


def main(behaviour: str) -> int:
    if behaviour == "never":
        return 0
    if behaviour == "impatient":
        channels._FIRST_NOTICE_SECS = channels._NOTICE_SECS = 0.1
    names = ("join_secs", "peer_secs")
    settings = {name: float(os.environ[f"TOOLKIT_{name.upper()}"]) for name in names}
    port = int(os.environ["TOOLKIT_CHANNEL_PORT"])
    cluster = read_cluster(ClusterSettings(channel_port=port, **settings), os.environ)
    assert cluster is not None
    channel = Channel(cluster, log)
    try:
        code = run(cluster, channel, behaviour)
    except JobEnded as end:
        code = end.exit_code
    except KeyboardInterrupt:
        code = 130
    except ToolkitError as error:
        log(str(error))
        channel.fail(error)
        code = error.exit_code
    channel.close(code)
    return code
