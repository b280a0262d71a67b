"""The processes that train trials: each ends with this one, and signals reach each once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Callable, Mapping, Sequence, Set

from ..child_process import COMMAND_LINE
from ..cluster.child import child_code
from ..errors import InterruptedRun

_WAIT_SECS = 0.1  # from one look for a signal to the next


class Children:
    """Starts processes of the toolkit for threads, and ends them all.

    A process has a session of its own, so that Ctrl-C reaches this process alone. The system kills
    it with the thread that started it, so also if this process is killed.

    Attributes:
        signum: the signal that `interrupt` passed on; 0 for none. No process starts after it.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._lock = threading.RLock()  # a signal handler may interrupt its holder
        self._processes: Set[subprocess.Popen] = set()

    def run(
        self,
        arguments: Sequence[str],
        log: int,
        environment: Mapping[str, str],
        count_time: Callable[[float], None] = lambda cpu_secs: None,
        statements: str = COMMAND_LINE,
    ) -> int:
        """Run `toolkit ARGUMENTS` to its end.

        Args:
            arguments: of `toolkit`.
            log: a descriptor, to which stdout and stderr of the process go.
            environment: its variables.
            count_time: is called at its end with the CPU seconds that the process and those that
                it waited for have used.
            statements: its code.

        Returns:
            The exit code, as a shell shows it: 128 plus the signal that ended the process.

        Raises:
            InterruptedRun: `interrupt` was called; the process has committed its state, unless it
                was killed.
        """
        with self._lock:
            self._check_interrupt()
            process = subprocess.Popen(
                [sys.executable, "-c", child_code(statements), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environment),
                start_new_session=True,
            )
            self._processes.add(process)
        try:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its id remains valid
        finally:
            with self._lock:
                self._send(process, signal.SIGKILL)  # and what it has started and left behind
                _, status, usage = os.wait4(process.pid, 0)
                exited = os.WIFEXITED(status)
                code = os.WEXITSTATUS(status) if exited else 128 + os.WTERMSIG(status)
                process.returncode = code
                self._processes.remove(process)
        count_time(usage.ru_utime + usage.ru_stime)
        if code and self.signum:
            raise InterruptedRun("The trial was interrupted.", signum=self.signum)
        return code

    def wait(self, secs: float) -> None:
        """Wait so long, as a thread that would otherwise wait for a process.

        Raises:
            InterruptedRun: `interrupt` was called.
        """
        end = time.monotonic() + secs
        while time.monotonic() < end:
            self._check_interrupt()
            time.sleep(min(secs, _WAIT_SECS))

    def _check_interrupt(self) -> None:
        if self.signum:
            raise InterruptedRun("The search was interrupted.", signum=self.signum)

    def interrupt(self, signum: int) -> None:
        """Pass a signal on to all processes; a second one kills them.

        Args:
            signum: SIGINT or SIGTERM.
        """
        with self._lock:
            is_second = bool(self.signum)
            self.signum = self.signum or signum
            for process in self._processes:
                self._send(process, signal.SIGKILL if is_second else signum)

    def _send(self, process: subprocess.Popen, signum: int) -> None:
        if process.returncode is None:  # else its id may be that of another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                (os.killpg if signum == signal.SIGKILL else os.kill)(process.pid, signum)
