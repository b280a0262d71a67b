"""One process of a job: its start, its output and its end."""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import signal
import subprocess
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..child_process import COMMAND_LINE, python_code
from .output import LineSplitter

CHUNK = 1 << 16  # bytes
MAX_READS = 16  # of one stream in turn, so that a process that never pauses does not block others
MAX_RESTS = 1 << 12  # after the end of a process, whose own processes may still write
_PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>
# 137 and 138: killed, or a fault of the machine; 134, 135, 139: crashed (SIGABRT, SIGBUS, SIGSEGV).
RETRYABLE = (134, 135, 137, 138, 139)


class Ending(NamedTuple):
    """How a process ended."""

    name: str  # of the task
    code: int  # as a shell shows it: 128 plus the signal that ended the process
    signum: int = 0  # that signal; 0 for a process that ended by itself

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
    """Let the system kill this process when its parent, of this process id, ends, however that
    happens; at once if it has ended already.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # not on Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def child_code(statements: str = COMMAND_LINE) -> str:
    """Code for `python -c` that runs the statements, but not beyond the end of this process."""
    start = f"from toolkit.cluster.child import end_with_parent; end_with_parent({os.getpid()})"
    return python_code(f"{start}; {statements}")


class Child:
    """A process of a task. It has a session of its own: Ctrl-C reaches this process alone.

    Start it from the main thread: Linux ends it with the thread that started it. The selector has
    its outputs, with `pump`, which is to be called when there is more to read. `write` is called
    with the lines of its log, and `write_result` with what it writes to stdout, if that does not
    belong to the log, too.
    """

    def __init__(
        self,
        name: str,
        code: str,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        selector: selectors.BaseSelector,
        write: Callable[[List[bytes]], None],
        write_result: Optional[Callable[[str], None]] = None,
    ):
        self.name = name
        self.signals: List[int] = []  # what this process has sent to it
        self._selector, splitter = selector, LineSplitter()
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if write_result is None else subprocess.PIPE,
            env=dict(variables),
            start_new_session=True,
        )
        # From a pipe to what takes all that is read there; b"" is the last.
        self._outputs: Dict[Any, Callable[[bytes], None]] = {
            self._process.stderr or self._process.stdout: lambda data: write(
                splitter.feed(data) if data else splitter.close()
            )
        }
        if write_result is not None:
            take, decoder = write_result, codecs.getincrementaldecoder("utf-8")("backslashreplace")
            self._outputs[self._process.stdout] = lambda data: take(
                decoder.decode(data, final=not data)
            )
        for pipe in self._outputs:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, self.pump)

    @property
    def pid(self) -> int:
        return self._process.pid

    def pump(self, max_reads: int = MAX_READS) -> None:
        """Pass on what the process has written: its log before what it wrote to stdout."""
        for pipe in list(self._outputs):
            for _ in range(max_reads):
                try:
                    data = os.read(pipe.fileno(), CHUNK)
                except BlockingIOError:
                    break
                if not data:
                    self._close(pipe)
                    break
                self._outputs[pipe](data)

    def _close(self, pipe: Any) -> None:
        self._selector.unregister(pipe)
        pipe.close()
        self._outputs.pop(pipe)(b"")

    def send(self, signum: int) -> None:
        """Send it a signal; SIGKILL to the processes that it started, too."""
        self.signals.append(signum)
        if self._process.returncode is None:  # else its id may be that of another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                (os.killpg if signum == signal.SIGKILL else os.kill)(self.pid, signum)

    def poll(self) -> Optional[Ending]:
        """How the process ended, after all of its output is passed on; None if it still runs.

        If it failed, the processes that it started are killed, too.
        """
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its id remains valid
        result = os.waitid(os.P_PID, self.pid, options)
        if result is None:
            return None
        if result.si_code != os.CLD_EXITED or result.si_status:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.pump(MAX_RESTS)
        for pipe in list(self._outputs):  # another process may still write
            self._close(pipe)
        code = self._process.wait()
        return Ending(self.name, code if code >= 0 else 128 - code, max(0, -code))
