"""The flags of `run` and `resume` that say which task of which cluster this process is."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

import click

from ..cli_options import Command
from ..cluster.tasks import Cluster, ClusterSettings, read_cluster
from ..options import flag_name, variable_name

_DEFAULTS = ClusterSettings()


class ClusterOption(click.Option):
    """A flag of the cluster. A `TOOLKIT_*` variable may set it."""

    group = "Cluster"  # its heading in --help


class Seconds(click.ParamType):
    """A number of seconds, at least `min` and at most a million."""

    name = "seconds"
    _MAX = 1e6

    def __init__(self, min: float):
        self._min = min

    def convert(
        self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]
    ) -> float:
        secs = float(click.FLOAT.convert(value, param, ctx))
        if not self._min <= secs <= self._MAX:  # nor is 'nan'
            self.fail(f"{value} is not between {self._min:g} and {self._MAX:g}.", param, ctx)
        return secs


_FLAGS: Dict[str, Dict[str, Any]] = {
    "cluster": {
        "metavar": "JSON|FILE",
        "help": 'addresses of all tasks: {"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]}; {} is '
        "one process alone; without a job chief, worker 0 is the chief; default: TF_CONFIG, else "
        "the tasks that Slurm's srun started",
    },
    "task": {
        "metavar": "JOB:INDEX",
        "help": "the task of this process in --cluster: chief, worker:0, ps:0 or evaluator",
    },
    "channel_port": {
        "metavar": "N",
        "type": click.IntRange(1, 65535),
        "help": "where the chief listens for the others, beside the port of its TensorFlow server; "
        "default: the next that no task has",
    },
    "join_secs": {
        "metavar": "X",
        "type": Seconds(1),
        "default": _DEFAULTS.join_secs,
        "help": "how long to wait for the other tasks at the start [seconds; >= 1; default "
        f"{_DEFAULTS.join_secs:g}]",
    },
    "peer_secs": {
        "metavar": "X",
        "type": Seconds(2),
        "default": _DEFAULTS.peer_secs,
        "help": "how long another task may be silent before it counts as lost and the run ends "
        f"[seconds; >= 2; default {_DEFAULTS.peer_secs:g}]",
    },
}


def cluster_flags(command: Command) -> Command:
    """Add the flags of the cluster, which `pop_cluster` reads."""
    for name, facts in reversed(list(_FLAGS.items())):
        names, variable = (flag_name(name), name), variable_name(name)
        command = click.option(*names, cls=ClusterOption, envvar=variable, **facts)(command)
    return command


def pop_cluster(flags: Dict[str, Any]) -> Optional[Cluster]:
    """Move the flags of the cluster from those of a command, and read the cluster of this process.

    None: it trains alone. Raises UsageError if a flag or a variable of the cluster is wrong.
    """
    settings = ClusterSettings(**{name: flags.pop(name) for name in _FLAGS})
    return read_cluster(settings, os.environ)
