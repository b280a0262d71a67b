"""`toolkit run` and `toolkit resume` in a process of a cluster."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Iterator, Optional

from ..cli_options import optional_output
from ..cluster.tasks import Cluster
from ..errors import RetryError, ToolkitError, UsageError
from ..option_changes import has_other_length
from ..options import CoreOptions
from ..storage.checkpoint_feed import FeedSettings
from ..storage.entries import UNFINISHED
from ..storage.run_folder import RunFolder, open_run

if TYPE_CHECKING:
    from ..cluster.channel import Channel
    from ..display.console import Console
    from ..training.peers import NoPeers
    from ..training.setup import Job


def open_peers(
    cluster: Optional[Cluster], options: CoreOptions, console: Console, is_trained: bool = False
) -> Optional[NoPeers]:
    """The peers of the chief of a cluster; None for a process that is in none.

    `is_trained`: whether only the test is left, for which the others may not come again.
    """
    if cluster is None:
        return None
    _check_devices(options)
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
    from ..display.console import Console

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
    from ..display.console import Console

    channel = Channel(cluster, Console().log)
    with contextlib.suppress(RetryError):  # some may have ended before, and never come
        channel.join({})
    channel.close(text="Nothing is left to do.")


def follow_chief(job: Job, cluster: Cluster) -> int:
    """Train as the chief commands, or serve variables; return the exit code."""
    from ..cluster.channel import JobEnded
    from ..display.console import Console
    from ..training.follower import Follower
    from ..training.parameter_servers import ParameterServer, ServerFollower

    _check_devices(job.options)
    console = Console(every_secs=job.options.console_secs)
    try:
        with optional_output(), _open_channel(cluster, console) as channel:
            if cluster.task.job == "ps":
                return ParameterServer(job.options, cluster, channel).serve()
            follower = ServerFollower if cluster.has_ps else Follower
            follower(job, console, cluster, channel).train()
    except JobEnded as end:
        if end.message or not end.exit_code:
            console.log(f"peers  {end.message or 'the chief has ended the training'}")
        return end.exit_code


def _check_devices(options: CoreOptions) -> None:
    """Refuse several devices in a process of a cluster."""
    if options.devices > 1:
        raise UsageError(
            f"--devices is {options.devices}, which a process of a cluster does not support.",
            hint="Start a worker for each device, with one GPU each in CUDA_VISIBLE_DEVICES.",
        )


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
    from .follow import follow

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
