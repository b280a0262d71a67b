"""Shared by the fuzz tests: the settings of hypothesis, and the checks of every command.

TOOLKIT_FUZZ_EXAMPLES=2000 in the environment raises the number of examples of each test.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import warnings

from hypothesis import HealthCheck, settings
from process_fixtures import PATIENCE, Ended

from toolkit.cli import run_command

EXAMPLES = int(os.environ.get("TOOLKIT_FUZZ_EXAMPLES", "4"))
# Bytes that a command on tiny files may allocate, and, for each core, stacks and heaps of threads.
MAX_MEMORY = (1 << 30) + ((os.cpu_count() or 1) << 28)
FAULT_MARKS = ("corrupt  ", "FAULT   ")  # in the output of commands that report faults
MAX_MESSAGE = 4000  # characters of a message, which has one line for each wrong option

fuzz = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Hangs(BaseException):
    """Neither an OSError nor an Exception, so that no code mistakes it for a damaged file."""


def run_and_check(*argv, codes=(0,)) -> Ended:
    """Run a command and check that it ends properly, with one of the exit codes `codes`.

    Properly: no exception escapes, no warning of a library is visible, a failure is described on
    stderr in a few sentences without a traceback, in limited time and memory.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        visible_warnings = stack.enter_context(_visible_warnings())
        stack.enter_context(_memory_limit())
        stack.enter_context(_time_limit())
        code = run_command([str(argument) for argument in argv])
    result = Ended(code, _text_of(out), _text_of(err))
    assert code in codes, result
    assert not visible_warnings, [str(each.message) for each in visible_warnings]
    assert "Traceback" not in result.err and len(result.err) < MAX_MESSAGE, result
    reports_fault = any(mark in result.out for mark in FAULT_MARKS)
    assert bool(code) == ("Error: " in result.err or reports_fault), result
    return result


def _text_of(stream) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")


@contextlib.contextmanager
def _visible_warnings():
    """A list of the warnings that a user would see: all but those for programmers."""
    hidden = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
    visible = []
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        yield visible
    visible += [each for each in records if not issubclass(each.category, hidden)]


@contextlib.contextmanager
def _memory_limit():
    """Raise MemoryError for absurd allocations."""
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MAX_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _time_limit():
    """Raise Hangs in the block where it does not end."""

    def stop(signum, frame):
        raise Hangs(f"still running after {PATIENCE:.0f} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
