"""A process of a job, for tests: the chief commands, the others obey.

Usage: python channel_process.py TASK PORT BEHAVIOUR, where BEHAVIOUR is

obey        make and answer steps to the end; the chief ends the job after 50 if it `end`s
end         the chief: end the job
hang        stop to answer after 20 steps, as a collective of TensorFlow 1.15 does
fail        raise an error after 20 steps
forget      leave without closing the channel after 20 steps
late        come after a second
never       do not come
hog         keep the interpreter busy for three seconds after 20 steps
"""

from __future__ import annotations

import itertools
import sys
import time

from toolkit.cluster.channel import Channel, JobEnded
from toolkit.cluster.tasks import Cluster, ClusterSettings
from toolkit.errors import DataError, ToolkitError

JOBS = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:60", "127.0.0.1:61"], "ps": ["127.0.0.1:2"]}


def read_cluster(name: str, port: int) -> Cluster:
    settings = ClusterSettings(channel_port=port, join_secs=20.0, peer_secs=2.0)
    cluster = Cluster(JOBS, None, settings)
    return cluster._replace(task=next(task for task in cluster.tasks if task.name == name))


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
            if behaviour == "end" and step == 50:
                channel.close(0, "done")
                return 0
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
        print("buffered", end="")  # in a pipe: os._exit alone would lose it
        log("hangs")
        time.sleep(100)
    elif behaviour == "fail":
        raise DataError("The file a.png is damaged.")
    elif behaviour == "forget":
        sys.exit(7)
    elif behaviour == "hog":
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            sum(range(100000))


def main(name: str, port: str, behaviour: str) -> int:
    if behaviour == "late":
        time.sleep(1)
    if behaviour == "never":
        return 0
    cluster = read_cluster(name, int(port))
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
