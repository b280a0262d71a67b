"""stdout and stderr of a command: without control characters, and without a traceback if full.

What they cannot take is dropped; of stdout with one warning, unless its reader has gone, as in
`| head`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, Iterable, Iterator, Optional, TextIO, Union

from ..display.escapes import escape_controls


class GuardedStream:
    """A text stream that writes control characters visibly, as `escape` does; the one behind it is
    None if it is closed. `error` is the first failure, after which all is dropped; or None.
    """

    errors, closed = "backslashreplace", False
    json_stream: Optional[TextIO] = None  # see `only_json`

    def __init__(self, stream: Optional[TextIO], escape: Callable[[str], str] = escape_controls):
        self.error: Optional[Exception] = None
        self._stream, self._escape = stream, escape
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

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
        # A closed one has nothing to flush; one of a program's own may lack the attribute.
        if self._stream is not None and not getattr(self._stream, "closed", False):
            self._attempt(lambda stream: stream.flush())

    @property
    def unescaped(self) -> GuardedStream:
        """The same stream for a writer that sends control codes of its own."""
        return GuardedStream(self._stream, lambda text: text)

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError("It is closed.")
        return self._stream.fileno()

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach", "raw"):  # which lead past the escapes and the errors
            raise AttributeError(f"A guarded stream has no attribute '{name}'.")
        return getattr(self._stream, name)

    def _attempt(self, action: Callable[[TextIO], Any]) -> None:
        """Call `action` with the stream, unless one has failed before."""
        if self.error is not None:
            return
        try:
            if self._stream is None:
                raise OSError("it is closed")
            action(self._stream)
        except (OSError, ValueError) as error:  # ValueError: closed by the program
            self.error = error
            # The system discards what is in the buffer: the flush at exit cannot fail.
            with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor
                descriptor, null = self.fileno(), os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)
            if not isinstance(error, BrokenPipeError):  # that of stderr is dropped, too
                reason = getattr(error, "strerror", None) or error
                sys.stderr.write(f"warning: stdout cannot be written: {reason}.\n")


@contextlib.contextmanager
def guarded() -> Iterator[GuardedStream]:
    """Within the block, which gets the guarded stdout, `sys.stdout` and `sys.stderr` are guarded; a
    second call changes nothing.
    """
    stdout, stderr = sys.stdout, sys.stderr
    if isinstance(stdout, GuardedStream):
        yield stdout
        return
    results: Any = GuardedStream(stdout)
    log: Any = GuardedStream(stderr)
    sys.stdout, sys.stderr = results, log
    try:
        yield results
    finally:
        log.flush()  # a flush that fails at exit would change the exit code
        sys.stdout, sys.stderr = stdout, stderr


@contextlib.contextmanager
def only_json() -> Iterator[None]:
    """Within the block, stdout is for `print_json` alone: what plugins print goes to stderr."""
    others = GuardedStream(sys.stderr)
    others.json_stream = sys.stdout
    with contextlib.redirect_stdout(others):
        yield


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
