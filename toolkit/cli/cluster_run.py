"""`toolkit run` and `toolkit resume` in a process of a cluster: its flags, and what it does."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

import click

from ..cli_options import Command, FloatRange
from ..cluster.definition import read_cluster
from ..cluster.tasks import Cluster, ClusterSettings
from ..display.console import Console
from ..errors import ToolkitError, UsageError
from ..option_changes import has_other_length
from ..options import CoreOptions, flag_name, variable_name
from ..storage.checkpoint_feed import FeedSettings
from ..storage.entries import UNFINISHED
from ..storage.run_folder import RunFolder, open_run

if TYPE_CHECKING:
    from ..cluster.channel import Channel
    from ..training.peers import NoPeers
    from ..training.setup import Job

_DEFAULTS = ClusterSettings()


class ClusterOption(click.Option):
    """A flag of the cluster. A `TOOLKIT_*` variable may set it."""

    group = "Cluster"  # its heading in --help


MAX_SECS = 1e6  # of a wait
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
        "type": FloatRange(1, MAX_SECS),
        "default": _DEFAULTS.join_secs,
        "help": "how long to wait for the other tasks at the start [seconds; default "
        f"{_DEFAULTS.join_secs:g}]",
    },
    "peer_secs": {
        "metavar": "X",
        "type": FloatRange(2, MAX_SECS),
        "default": _DEFAULTS.peer_secs,
        "help": "how long another task may be silent before it counts as lost and the run ends "
        f"[seconds; default {_DEFAULTS.peer_secs:g}]",
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


# ---------------------------------------------------------------------------------------- run


def open_peers(
    cluster: Optional[Cluster], console: Console, is_trained: bool = False
) -> Optional[NoPeers]:
    """The peers of the chief of a cluster; None for a process that is in none.

    `is_trained`: whether only the test is left, for which the others may not come again.
    """
    if cluster is None:
        return None
    from ..training.parameter_servers import ServerPeers
    from ..training.peers import DismissedPeers, Peers

    kind = ServerPeers if cluster.has_ps else Peers
    peers = kind(cluster, _open_channel(cluster, console))
    return DismissedPeers(peers) if is_trained else peers


def _open_channel(cluster: Cluster, console: Console) -> Channel:
    """The channel of this process, which leaves the terminal in order if it ends the process."""
    from ..cluster.channel import Channel

    def leave(code: int) -> None:
        stop = threading.Thread(target=console.stop, daemon=True)
        stop.start()
        stop.join(1.0)  # a terminal may accept no output
        os._exit(code)

    return Channel(cluster, console.log, leave)


@contextlib.contextmanager
def reporting_failure(cluster: Optional[Cluster]) -> Iterator[None]:
    """End the other processes, too, if the block, which opens no channel, fails in the chief."""
    try:
        yield
    except ToolkitError as error:
        if cluster is not None and cluster.is_chief:
            _open_channel(cluster, Console()).fail(error)
        raise


def dismiss_peers(cluster: Optional[Cluster]) -> None:
    """End the other processes of a run that has nothing left to do, as soon as they have come."""
    if cluster is None:
        return
    from ..cluster.channel import Channel

    Channel(cluster, Console().log).dismiss("Nothing is left to do.")


def follow_chief(job: Job, cluster: Cluster) -> int:
    """Train as the chief commands, or serve variables; return the exit code."""
    from ..cluster.channel import JobEnded
    from ..training.follower import Follower
    from ..training.parameter_servers import ServerFollower, serve_variables

    console = Console(every_secs=job.options.console_secs)
    try:
        with _open_channel(cluster, console) as channel:
            if cluster.task.job == "ps":
                serve_variables(job.options, cluster, channel)
            follower = ServerFollower if cluster.has_ps else Follower
            follower(job, console, cluster, channel).train()
    except JobEnded as end:
        if end.message or not end.exit_code:
            console.log(f"peers  {end.message or 'the chief has ended the training'}")
        return end.exit_code


def evaluate_run(
    run_dir: Optional[str],
    options: CoreOptions,
    cluster: Cluster,
    as_json: bool,
    is_resume: bool = False,
    is_replaced: bool = False,
) -> int:
    """Evaluate the checkpoints of a run that the chief trains, and return its exit code.

    It is `toolkit evaluate RUN --follow`. The chief may start later: the folder may show how an
    earlier session ended. `is_resume`: whether it continues the run in the folder; `is_replaced`:
    whether it renames that run, and begins another.
    """
    from .evaluate import follow

    if not run_dir:
        raise UsageError(
            "The evaluator reads the folder of the run, and --run-dir is not set.",
            hint="Set --run-dir to the same shared folder for all tasks.",
        )
    awaits_change = is_replaced
    if is_resume and RunFolder(os.path.abspath(run_dir)).is_run:
        folder = open_run(run_dir)
        is_unfinished = folder.state()["status"] in UNFINISHED
        awaits_change = is_unfinished or has_other_length(folder, options)
    settings = FeedSettings(start_secs=cluster.settings.join_secs, awaits_change=awaits_change)
    return follow(run_dir, {}, settings, as_json)
