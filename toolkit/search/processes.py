"""The processes that train trials: each ends with this one, and signals reach each once.

Who waits for one is a generator, which yields until its process has ended; see `training`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Generator, Iterator, List, Mapping, Sequence, Tuple

from ..child_process import COMMAND_LINE
from ..cluster.child import child_code
from ..errors import InterruptedRun


class Processes:
    """Starts processes of the toolkit, and ends them all.

    A process has a session of its own, so that Ctrl-C reaches this process alone. The system kills
    it with this one. `signum` is the signal that `interrupt` passed on, or 0; no process starts
    after it.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._present: List[subprocess.Popen] = []

    def run(
        self,
        arguments: Sequence[str],
        log: int,
        environment: Mapping[str, str],
        statements: str = COMMAND_LINE,
    ) -> Generator[None, None, Tuple[int, float]]:
        """Run `toolkit ARGUMENTS` with stdout and stderr to the descriptor `log`, and yield until
        it has ended.

        Returns the exit code, as a shell shows it: 128 plus the signal that ended the process; and
        the CPU seconds that the process and those that it waited for have used. Raises
        InterruptedRun after a call of `interrupt`.
        """
        self._check_interrupt()
        process = subprocess.Popen(
            [sys.executable, "-c", child_code(statements), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            start_new_session=True,
        )
        self._present.append(process)
        if self.signum:  # which came meanwhile
            _send(process, self.signum)
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its id remains valid
        try:
            while os.waitid(os.P_PID, process.pid, options) is None:
                yield
        finally:
            _send(process, signal.SIGKILL)  # and what it has started and left behind
            self._present.remove(process)
            _, status, usage = os.wait4(process.pid, 0)
            exited = os.WIFEXITED(status)
            code = os.WEXITSTATUS(status) if exited else 128 + os.WTERMSIG(status)
            process.returncode = code
        return code, usage.ru_utime + usage.ru_stime

    def wait(self, secs: float) -> Iterator[None]:
        """Yield so long. Raises InterruptedRun after a call of `interrupt`."""
        end = time.monotonic() + secs
        while time.monotonic() < end:
            yield
            self._check_interrupt()

    def _check_interrupt(self) -> None:
        if self.signum:
            raise InterruptedRun("The search was interrupted.", signum=self.signum)

    def interrupt(self, signum: int) -> None:
        """Pass a signal on to all processes; a second one kills them."""
        for process in self._present:
            _send(process, signal.SIGKILL if self.signum else signum)
        self.signum = self.signum or signum


def _send(process: subprocess.Popen, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if signum == signal.SIGKILL else os.kill)(process.pid, signum)
