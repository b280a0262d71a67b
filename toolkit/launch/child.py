"""One process of a job: its start, its output and its end."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import sys
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence

from ..child_process import COMMAND_LINE, python_code
from .output import LineSplitter

CHUNK = 1 << 16  # bytes
MAX_READS = 16  # of one stream in turn, so that a process that never pauses does not block others
MAX_RESTS = 1 << 12  # after the end of a process, whose own processes may still write
_PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>
# 137 and 138: killed, or a fault of the machine; 134, 135, 139: crashed (SIGABRT, SIGBUS, SIGSEGV).
RETRYABLE = (134, 135, 137, 138, 139)


class Ending(NamedTuple):
    """How a process ended.

    Attributes:
        name: of the task.
        code: as a shell shows it: 128 plus the signal that ended the process.
        signum: that signal; 0 for a process that ended by itself.
    """

    name: str
    code: int
    signum: int = 0

    @property
    def is_retryable(self) -> bool:
        """Whether the same command may succeed later."""
        return self.code in RETRYABLE

    def __str__(self) -> str:
        if self.signum == signal.SIGKILL:
            return f"{self.name} was killed"
        if self.signum:
            with contextlib.suppress(ValueError):
                return f"{self.name} was ended by {signal.Signals(self.signum).name}"
        return f"{self.name} ended with exit code {self.code}"


def end_with_parent(parent: int) -> None:
    """Let the system kill this process when its parent ends, however that happens.

    Args:
        parent: its process id; if it has ended already, this process ends at once.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # not on Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def child_code(statements: str = COMMAND_LINE) -> str:
    """Code for `python -c` that runs the statements, but not beyond the end of this process."""
    start = f"from toolkit.launch.child import end_with_parent; end_with_parent({os.getpid()})"
    return python_code(f"{start}; {statements}")


class Stream:
    """The reading end of what a process writes.

    Args:
        descriptor: of a pipe.
    """

    def __init__(self, descriptor: int):
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_open = True

    def read(self, max_reads: int = MAX_READS) -> List[bytes]:
        """What there is to read, in pieces; b"" is the last one, at the end of the stream."""
        pieces: List[bytes] = []
        while self.is_open and len(pieces) < max_reads:
            try:
                pieces.append(os.read(self.descriptor, CHUNK))
            except BlockingIOError:
                break
            if not pieces[-1]:
                self._close()
        return pieces

    def read_rest(self) -> List[bytes]:
        """What there is to read; then close it, though another process may still write."""
        pieces = self.read(MAX_RESTS)
        if self.is_open:
            self._close()
            pieces.append(b"")
        return pieces

    def _close(self) -> None:
        self.is_open = False
        os.close(self.descriptor)


class Child:
    """A process of a task. It has a session of its own: Ctrl-C reaches this process alone.

    Start it from the main thread: Linux ends it with the thread that started it.

    Args:
        name: of the task.
        arguments: of the program, from the program's name on.
        variables: its environment.
        write: called with lines that it writes to the log.
        write_result: called with what it writes to stdout; None if that belongs to the log, too.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        write: Callable[[List[bytes]], None],
        write_result: Optional[Callable[[str], None]] = None,
    ):
        self.name = name
        self.signals: List[int] = []  # what this process has sent to it
        self._write = write
        self._write_result = write_result
        self._splitter = LineSplitter()
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        log, log_end = os.pipe()
        results, results_end = os.pipe() if write_result else (-1, log_end)
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=results_end,
                stderr=log_end,
                env=dict(variables),
                start_new_session=True,
            )
        finally:
            os.close(log_end)
            if write_result:
                os.close(results_end)
        self._log = Stream(log)
        self._results = Stream(results) if write_result else None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def streams(self) -> List[Stream]:
        """What may still be read."""
        return [s for s in (self._log, self._results) if s is not None and s.is_open]

    def pump(self) -> None:
        """Pass on what the process has written: its log before what it wrote to stdout later."""
        results = self._results.read() if self._results is not None else []
        self._pass_on(self._log.read(), results)

    def send(self, signum: int) -> None:
        """Send it a signal; SIGKILL to the processes that it started, too."""
        self.signals.append(signum)
        if self._process.returncode is None:  # else its id may be that of another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                (os.killpg if signum == signal.SIGKILL else os.kill)(self.pid, signum)

    def poll(self) -> Optional[Ending]:
        """How the process ended, after all of its output is passed on; None if it still runs."""
        if not self._has_ended():
            return None
        results = self._results.read_rest() if self._results is not None else []
        self._pass_on(self._log.read_rest(), results)
        code = self._process.wait()
        return Ending(self.name, code if code >= 0 else 128 - code, max(0, -code))

    def _has_ended(self) -> bool:
        """Whether it has ended. If it failed, the processes that it started are killed, too."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its id remains valid
        result = os.waitid(os.P_PID, self.pid, options)
        if result is not None and (result.si_code != os.CLD_EXITED or result.si_status):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return result is not None

    def _pass_on(self, log: List[bytes], results: List[bytes]) -> None:
        for data in log:
            self._write(self._splitter.feed(data) if data else self._splitter.close())
        for data in results:
            text = self._decoder.decode(data, final=not data)
            if text and self._write_result is not None:
                self._write_result(text)


def python_arguments(code: str, arguments: Sequence[str]) -> List[str]:
    """The arguments of a Python process that runs code."""
    return [sys.executable, "-c", code, *arguments]
