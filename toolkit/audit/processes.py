"""The processes that train a copy of a run: one, or those of a cluster on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..child_process import COMMAND_LINE
from ..errors import CheckFailed, RetryError, UsageError
from ..launch.child import child_code
from ..launch.layout import Layout, local_environments
from ..launch.ports import held_ports
from ..options import ENVIRONMENT_PREFIX
from ..plugins import is_everything_trusted

CHIEF = "chief"
VARIABLES = ("TOOLKIT_CACHE",)  # the variables of the toolkit that processes get
END_SECS = 60.0  # for the rest of the processes, after the first has ended
POLL_SECS = 0.0005
KILLED = -signal.SIGKILL


def count_processes(session: Dict[str, Any]) -> int:
    """How many processes trained a session of a run.

    Args:
        session: its entry in the commit log.

    Raises:
        UsageError: they cannot train it again to the same bits.
    """
    cluster = session.get("cluster")
    if not isinstance(cluster, dict) or cluster.get("devices"):
        return 1
    if cluster.get("mode") != "replicated":
        raise UsageError(
            "The run was trained with parameter servers, so it cannot be trained again to the same "
            "bits: the order of the updates is not reproducible.",
            hint="'toolkit verify' without --replay and --chaos checks its files.",
        )
    return int(cluster.get("replicas", 1))


class TrainingProcesses:
    """Processes that run one command, each as a task of a cluster if there are several.

    Args:
        arguments: of `toolkit`.
        count: how many train.
        folder: for what they write to stderr.
    """

    def __init__(self, arguments: Sequence[str], count: int, folder: str):
        self._folder = folder
        self._victim = ""  # the task that was killed
        self._processes: Dict[str, subprocess.Popen] = {}
        arguments = [*arguments, *(["--trust"] if is_everything_trusted() else [])]
        self._ports = contextlib.ExitStack()
        ports = self._ports.enter_context(held_ports(count + 1))
        for name, task in local_environments(Layout(count), ports).items():
            with open(self._stderr_path(name), "wb") as stderr:  # a full pipe would block
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-c", child_code(COMMAND_LINE), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    env={**environment(), **task},
                )

    @property
    def is_running(self) -> bool:
        """Whether the chief still trains, and none of the others has failed."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return codes[CHIEF] is None and not any(codes.values())

    def outlive(self, secs: float) -> bool:
        """Wait so long, or until a process ends; return whether they still run."""
        end = time.monotonic() + secs
        while self.is_running and time.monotonic() < end:
            time.sleep(max(0.0, min(0.01, end - time.monotonic())))
        return self.is_running

    def running(self) -> List[str]:
        """The names of the tasks whose processes run."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def kill(self, choose: Callable[[List[str]], str]) -> None:
        """Kill one of those that run.

        Args:
            choose: from the names of their tasks to one of them.
        """
        names = self.running()
        if names:
            self._victim = choose(names)
            self._processes[self._victim].send_signal(signal.SIGKILL)

    def wait(self) -> int:
        """Wait until all have ended.

        Returns:
            The exit code of the job: 0 where the chief was successful, KILLED where `kill` ended
            it, else that of the first process that failed by itself.

        Raises:
            CheckFailed: one has not ended, though another one was killed.
        """
        end: Optional[float] = None
        names = self.running()
        while names:
            time.sleep(0.01)
            if end is None and not self.is_running:
                end = time.monotonic() + END_SECS
            if end is not None and time.monotonic() > end:
                if self._victim:
                    raise CheckFailed(f"{names[0]} did not end after {self._victim} was killed.")
                self.kill_all()
            names = self.running()
        codes = {name: process.wait() for name, process in self._processes.items()}
        if codes[CHIEF] == 0:
            return 0
        if codes.get(self._victim) == KILLED:
            others = {code for name, code in codes.items() if name != self._victim}
            return next(iter(others - {0, RetryError.exit_code}), KILLED)
        failures = [code for code in codes.values() if code not in (0, RetryError.exit_code)]
        return failures[0] if failures else codes[CHIEF]

    def kill_all(self) -> None:
        """Kill those that still run, wait for their end, and give up the ports."""
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
        self._ports.close()

    def last_words(self) -> str:
        """The end of what the chief wrote to stderr."""
        with open(self._stderr_path(CHIEF), encoding="utf-8", errors="replace") as file:
            return " ".join(file.read().split()[-60:]) or "it wrote nothing."

    def _stderr_path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name.replace(' ', '-')}.txt")


def environment() -> Dict[str, str]:
    """The environment variables of this process, without those that set options."""
    values = {n: v for n, v in os.environ.items() if not n.startswith(ENVIRONMENT_PREFIX)}
    values.update((name, os.environ[name]) for name in VARIABLES if name in os.environ)
    return values
