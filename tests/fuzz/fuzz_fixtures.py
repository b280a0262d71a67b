"""What fuzz tests share: how many examples there are, and what must hold of every command.

TOOLKIT_FUZZ_EXAMPLES=5000 in the environment raises the number of examples of each test.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import warnings
from typing import NamedTuple

from hypothesis import HealthCheck, settings

from toolkit.cli import run_command

EXAMPLES = int(os.environ.get("TOOLKIT_FUZZ_EXAMPLES", "100"))
MEMORY = 1 << 30  # bytes that a command on tiny files may ask for
PATIENCE = 30  # seconds until it counts as hanging
WORDS = 4000  # characters of a message, with one line for each wrong option

fuzzed = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Hangs(BaseException):
    """No OSError and no Exception, so that nothing takes it for damage of a file."""


def ended(*argv, codes=(0,)) -> Result:
    """Run a command that has to end properly, with one of the exit codes `codes`.

    Properly: no exception escapes, no warning of a library is shown, a failure is told on stderr
    in a few sentences without a traceback, in bounded time and memory.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        shown = stack.enter_context(_shown_warnings())
        stack.enter_context(_limited_memory())
        stack.enter_context(_limited_time())
        code = run_command([str(argument) for argument in argv])
    result = Result(code, _written(out), _written(err))
    assert code in codes, result
    assert not shown, [str(each.message) for each in shown]
    assert "Traceback" not in result.err and len(result.err) < WORDS, result
    told = ("corrupt  ", "FAULT   ")  # of the commands whose answer that is
    assert bool(code) == ("Error: " in result.err or any(t in result.out for t in told)), result
    return result


def _written(stream) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")


@contextlib.contextmanager
def _shown_warnings():
    """A list of the warnings that a user would see, which excludes those for programmers."""
    hidden = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
    shown = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield shown
    shown += [each for each in caught if not issubclass(each.category, hidden)]


@contextlib.contextmanager
def _limited_memory():
    """MemoryError instead of absurd allocations, where the system tells the process's size."""
    if not os.path.exists("/proc/self/statm"):
        yield
        return
    import resource

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _limited_time():
    def stop(signum, frame):
        raise Hangs(f"still running after {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
