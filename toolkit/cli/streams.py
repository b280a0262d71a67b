"""stdout and stderr of a command: without control characters, and without a traceback if full.

A command writes results to stdout. If that fails, the command ends with `OutputError`, unless the
block is within `optional()`. It writes its log to stderr. What cannot be written there is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Any, Callable, Iterable, Iterator, List, Optional, TextIO, Union

from ..display.escapes import escape_controls
from ..errors import RetryError


class OutputError(RetryError):
    """stdout cannot be written. If its reader is gone, as in `| head`, the exit code is 141."""

    def __init__(self, error: Exception):
        reason = getattr(error, "strerror", None) or str(error)
        super().__init__(
            f"stdout cannot be written: {reason}.",
            hint="Free some space, or send it elsewhere.",
        )
        self.is_broken_pipe = isinstance(error, BrokenPipeError)
        if self.is_broken_pipe:
            self.exit_code = 128 + 13  # as of a process that SIGPIPE ends


class GuardedStream:
    """A text stream that writes control characters visibly.

    Args:
        stream: the stream behind it; None if it is closed.
        fail: called with the error of the first write that fails, and of each later one.
        escape: changes each text before it is written.
    """

    def __init__(
        self,
        stream: Optional[TextIO],
        fail: Callable[[Exception], None],
        escape: Callable[[str], str] = escape_controls,
    ):
        self._stream = stream
        self._fail = fail
        self._escape = escape
        self._error: Optional[Exception] = None

    def write(self, text: Union[str, bytes]) -> int:
        """Write the text, with what the encoding lacks escaped too."""
        encoding = self.encoding
        # click writes its completion for a shell as bytes.
        printable = self._escape(text.decode() if isinstance(text, bytes) else text)
        printable = printable.encode(encoding, "backslashreplace").decode(encoding)
        self._attempt(lambda stream: stream.write(printable))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._stream is not None:  # a closed stream has nothing to flush
            self._attempt(lambda stream: stream.flush())

    @property
    def has_failed(self) -> bool:
        """Whether something could not be written."""
        return self._error is not None

    @property
    def unescaped(self) -> GuardedStream:
        """The same stream for a writer that sends control codes of its own."""
        return GuardedStream(self._stream, self._fail, lambda text: text)

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def errors(self) -> str:
        return "backslashreplace"

    @property
    def closed(self) -> bool:
        return False

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError(errno.EBADF, "closed")
        return self._stream.fileno()

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach", "raw"):  # which lead past the escapes and the errors
            raise AttributeError(f"A guarded stream has no attribute '{name}'.")
        return getattr(self._stream, name)

    def _attempt(self, action: Callable[[TextIO], Any]) -> None:
        """Call `action` with the stream; after a failure, report that one again."""
        if self._error is None:
            try:
                if self._stream is None:
                    raise OSError(errno.EBADF, "it is closed")
                action(self._stream)
            except (OSError, ValueError) as error:  # ValueError: closed by the program
                self._error = error
                self._discard_buffer()
        if self._error is not None:
            self._fail(self._error)

    def _discard_buffer(self) -> None:
        """Let the system discard what is in the buffer, so that the flush at exit cannot fail."""
        try:
            descriptor = self.fileno()
        except (OSError, ValueError):  # a stream without a descriptor
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


class ResultStream(GuardedStream):
    """stdout: raises `OutputError` if it cannot be written, except within `optional()`."""

    def __init__(self, stream: Optional[TextIO]):
        super().__init__(stream, self._report)
        self._is_optional = False
        self._has_warned = False

    @contextlib.contextmanager
    def optional(self) -> Iterator[None]:
        """Within the block, what cannot be written is dropped with one warning."""
        before, self._is_optional = self._is_optional, True
        try:
            yield
            self.flush()
        finally:
            self._is_optional = before

    def _report(self, error: Exception) -> None:
        failure = OutputError(error)
        if not self._is_optional:
            raise failure from error
        if not self._has_warned and not failure.is_broken_pipe:
            self._has_warned = True
            sys.stderr.write(f"warning: {failure.message}\n")


@contextlib.contextmanager
def guarded() -> Iterator[ResultStream]:
    """Within the block, `sys.stdout` and `sys.stderr` are guarded; a second call changes nothing.

    Yields:
        The guarded stdout.
    """
    stdout, stderr = sys.stdout, sys.stderr
    if isinstance(stdout, ResultStream):
        yield stdout
        return
    results: Any = ResultStream(stdout)
    log: Any = GuardedStream(stderr, lambda error: None)
    sys.stdout, sys.stderr = results, log
    try:
        yield results
    finally:
        log.flush()  # a flush that fails at exit would change the exit code
        sys.stdout, sys.stderr = stdout, stderr


def open_closed_descriptors() -> None:
    """Connect the descriptors 0, 1 and 2 to nothing if they are closed.

    A file that the process opens would otherwise get such a number, and what TensorFlow prints
    would be written into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            lowest = os.open(os.devnull, os.O_RDWR)  # this descriptor: the lower ones are open
            os.set_inheritable(lowest, True)


def restart_in_utf8_mode() -> None:
    """Replace this process by one in Python's UTF-8 mode if its file names are not UTF-8.

    TensorFlow's always are, so that both would mean different files by one name; and in the locale
    C, no run could be read whose names have other letters. Returns if nothing has to be done.
    """
    command = _command()
    has_utf8 = sys.getfilesystemencoding() == "utf-8" or os.environ.get("PYTHONUTF8") == "1"
    if has_utf8 or not command:
        return
    os.environ["PYTHONUTF8"] = "1"
    with contextlib.suppress(OSError):
        os.execv(sys.executable, command)


def _command() -> List[str]:
    """The arguments that started this process; empty if they are unknown."""
    original: List[str] = getattr(sys, "orig_argv", [])  # from Python 3.10 on
    if original and sys.executable:
        return [sys.executable, *original[1:]]
    if not sys.executable or not os.path.isfile(sys.argv[0]):
        return []
    is_module = getattr(sys.modules["__main__"], "__spec__", None) is not None
    return [sys.executable, *(["-m", "toolkit"] if is_module else sys.argv[:1]), *sys.argv[1:]]
