"""The processes that train a copy of a run: one, or those of a cluster on this machine."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

from ..cluster.chaos import Chaos
from ..cluster.launcher import CHIEF, Launcher
from ..cluster.layout import Command, Layout
from ..errors import CheckFailed, InterruptedRun
from ..options import ENVIRONMENT_PREFIX
from ..plugins import is_everything_trusted

VARIABLES = ("TOOLKIT_CACHE", "TOOLKIT_IS_COPY")  # those of the toolkit that set no option
END_SECS = 60.0  # for the rest of the processes, after the first has ended
MAX_WORDS = 60


def count_processes(session: Dict[str, Any]) -> int:
    """How many processes trained a session, an entry in the commit log."""
    cluster = session.get("cluster")
    if not isinstance(cluster, dict) or cluster.get("devices"):
        return 1
    return int(cluster.get("replicas", 1))


class LastWords:
    """A log of processes that keeps the end of what the chief writes to stderr."""

    def __init__(self) -> None:
        self._words: List[str] = []

    def __str__(self) -> str:
        return " ".join(self._words) or "it wrote nothing."

    def add(self, name: str, lines: Sequence[bytes]) -> None:
        if name == CHIEF:
            words = b" ".join(lines).decode("utf-8", "replace").split()
            self._words = [*self._words, *words][-MAX_WORDS:]

    def write(self, name: str, text: str) -> None:
        pass

    def write_result(self, text: str) -> None:
        pass


def train(
    words: Sequence[str], run_dir: str, count: int, log: LastWords, chaos: Optional[Chaos] = None
) -> int:
    """Train a copy of a run, in a folder, by a command of `toolkit` and so many processes, of which
    the log keeps what they say; return their exit code. A restart follows each kill of chaos.
    Raises CheckFailed if one has not ended, though another one was killed; InterruptedRun if this
    process got a signal to end, which it passed on.
    """
    command = Command([*words, *(["--trust"] if is_everything_trusted() else [])], run_dir)
    variables = {  # without those that set options
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ENVIRONMENT_PREFIX) or name in VARIABLES
    }
    launcher = Launcher(Layout(count), command, log, 0, chaos, variables, grace_secs=END_SECS)
    code = launcher.run()
    if launcher.interrupts:
        raise InterruptedRun("Interrupted; the run is unchanged.", signum=launcher.interrupts[0])
    if launcher.hung and chaos is not None and chaos.victims:
        raise CheckFailed(f"{launcher.hung[0]} did not end after {chaos.victims[-1]} was killed.")
    return code
