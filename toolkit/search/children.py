"""The processes that train trials: each ends with this one, and signals reach each once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Callable, Dict, Mapping, Optional, Sequence, Set

from ..child_process import COMMAND_LINE
from ..errors import InterruptedRun
from ..launch.child import child_code

_WAIT_SECS = 0.1  # from one look at a process to the next
_REPORT_SECS = 2.0


class Children:
    """Starts processes of the toolkit for threads, one at a time for each, and ends them all.

    A process has a session of its own, so that Ctrl-C reaches this process alone. The system kills
    it with the thread that started it, so also if this process is killed.

    Attributes:
        signum: the signal that `interrupt` passed on; 0 for none. No process starts after it.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._lock = threading.RLock()  # a signal handler may interrupt its holder
        self._processes: Dict[int, subprocess.Popen] = {}  # by the thread that waits for it
        self._ends: Set[int] = set()  # the threads whose processes `end` has asked to end

    def run(
        self,
        arguments: Sequence[str],
        log_path: str,
        environment: Optional[Mapping[str, str]] = None,
        report: Callable[[float], None] = lambda cpu_secs: None,
        statements: str = COMMAND_LINE,
    ) -> int:
        """Run `toolkit ARGUMENTS` to its end.

        Args:
            arguments: of `toolkit`.
            log_path: a file, to whose end stdout and stderr of the process go.
            environment: its variables; None for those of this process.
            report: is called every few seconds, and at the end, with the CPU seconds that the
                process and those that it waited for have used.
            statements: its code.

        Returns:
            The exit code, as a shell shows it: 128 plus the signal that ended the process.

        Raises:
            InterruptedRun: `interrupt` or `end` was called; the process has committed its state,
                unless it was killed.
        """
        thread = threading.get_ident()
        with open(log_path, "ab") as log:
            process = self._start(arguments, log.fileno(), environment, statements)
        try:
            _wait(process.pid, report)
        finally:
            with self._lock:
                self._send(process, signal.SIGKILL)  # and what it has started and left behind
                code = process.wait()
                del self._processes[thread]
                is_interrupted = bool(self.signum) or thread in self._ends
                self._ends.discard(thread)
        if code and is_interrupted:
            raise InterruptedRun("The trial was interrupted.", signum=self.signum or signal.SIGTERM)
        return code if code >= 0 else 128 - code

    def _start(
        self,
        arguments: Sequence[str],
        log: int,
        environment: Optional[Mapping[str, str]],
        statements: str,
    ) -> subprocess.Popen:
        with self._lock:
            self._check_interrupts()
            process = subprocess.Popen(
                [sys.executable, "-c", child_code(statements), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )
            self._processes[threading.get_ident()] = process
            return process

    def wait(self, secs: float) -> None:
        """Wait so long, as a thread that would otherwise wait for a process.

        Raises:
            InterruptedRun: `interrupt` or `end` was called.
        """
        end = time.monotonic() + secs
        while time.monotonic() < end:
            with self._lock:
                self._check_interrupts()
            time.sleep(min(secs, _WAIT_SECS))

    def _check_interrupts(self) -> None:
        """Raise InterruptedRun if the calling thread is not to begin anything."""
        thread = threading.get_ident()
        if self.signum or thread in self._ends:
            self._ends.discard(thread)
            raise InterruptedRun(
                "The search was interrupted.", signum=self.signum or signal.SIGTERM
            )

    def interrupt(self, signum: int) -> None:
        """Pass a signal on to all processes; a second one kills them.

        Args:
            signum: SIGINT or SIGTERM.
        """
        with self._lock:
            is_second = bool(self.signum)
            self.signum = self.signum or signum
            for process in self._processes.values():
                self._send(process, signal.SIGKILL if is_second else signum)

    def end(self, thread: int) -> None:
        """Ask the process for which a thread waits to commit and to end; or the next one.

        Args:
            thread: its identifier, as `threading.get_ident` returns it.
        """
        with self._lock:
            self._ends.add(thread)
            process = self._processes.get(thread)
            if process is not None:
                self._send(process, signal.SIGTERM)

    def _send(self, process: subprocess.Popen, signum: int) -> None:
        if process.returncode is None:  # else its id may be that of another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                (os.killpg if signum == signal.SIGKILL else os.kill)(process.pid, signum)


def _wait(pid: int, report: Callable[[float], None]) -> None:
    """Wait for the end of a child; its id remains valid."""
    deadline = time.monotonic() + _REPORT_SECS
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() >= deadline:
            deadline = time.monotonic() + _REPORT_SECS
            report(read_cpu_secs(pid))
        time.sleep(_WAIT_SECS)
    report(read_cpu_secs(pid))


def read_cpu_secs(pid: int) -> float:
    """Return the CPU seconds of a process and of those that it waited for; 0 if unknown.

    Args:
        pid: of a process that has not been waited for.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):  # not on Linux
        return 0.0
