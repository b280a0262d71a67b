"""The one home of processes in tests: start them, wait for them, kill them, and give them ports.

`start` and `run` begin a command of the toolkit. By default it is forked from a process that has
imported TensorFlow (`fork_server.py`), which takes a second in place of four; with `fresh=True` it
is a new interpreter, for tests whose fact depends on how one starts. What still runs when a test
ends is killed.

A test of a job, that is of several processes at once, waits until few enough others run
(`take_turn`), so that on two cores there is one job beside the tests of the other worker. No wait
has a time of its own: all of them have `PATIENCE`, which only ends a test that hangs.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

import fork_server

from toolkit.child_process import COMMAND_LINE, python_code
from toolkit.cli import run_command
from toolkit.cluster.layout import held_ports

PATIENCE = float(os.environ.get("TOOLKIT_TEST_PATIENCE", "600"))  # seconds
POLL = 0.01  # seconds between two looks at a condition

_state = {"server": None, "turn": None, "turns": tempfile.gettempdir()}
_running = []
_ports = contextlib.ExitStack()


class Ended(NamedTuple):
    """How a process ended: its exit code (negative for a signal), and what it wrote."""

    code: int
    out: str
    err: str

    def ok(self):
        """Itself, where it has ended well, as it has to."""
        assert self.code == 0, self.err
        return self

    def json(self):
        """The one object on stdout."""
        return json.loads(self.out)


class Commands:
    """Runs commands in this process: the fixture `cli`."""

    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, *argv):
        self._capsys.readouterr()
        code = run_command([str(argument) for argument in argv])
        captured = self._capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    def succeed(self, *argv):
        """Run a command, which has to succeed."""
        ended = self(*argv)
        assert ended.code == 0, ended.err
        return ended

    def refuse(self, code, words, *argv):
        """Run a command, which has to end with this code and to say these words on stderr."""
        ended = self(*argv)
        assert ended.code == code and words in ended.err and "Traceback" not in ended.err, ended
        return ended


def fork_idle():
    """Fork a process that only has what this one has open; what is returned ends it."""
    own, others = os.pipe()
    process = os.fork()
    if not process:
        os.close(own)
        os.write(others, b"1")
        signal.pause()
    os.close(others)
    os.read(own, 1)  # it runs
    os.close(own)
    return lambda: (os.kill(process, signal.SIGKILL), os.waitpid(process, 0))


def start(*argv, fresh=False, statements=COMMAND_LINE, cwd=None, env=None, **settings):
    """Begin `toolkit ARGV` in a process of its own, and return it, like `subprocess.Popen`.

    Args:
        argv: its arguments.
        fresh: begin a new interpreter in place of a fork.
        statements: what it runs in place of the command line.
        cwd: its working directory; this one by default.
        env: its whole environment; this one's by default.
        settings: `stdin`, `stdout`, `stderr`: open files, descriptors or `subprocess.DEVNULL`, by
            default nothing, nothing and nothing; `start_new_session`.
    """
    words = [str(word) for word in argv]
    streams = {name: settings.pop(name, subprocess.DEVNULL) for name in fork_server.STREAMS}
    env = dict(os.environ if env is None else env)
    if fresh:
        command = [sys.executable, "-c", python_code(statements), *words]
        process = subprocess.Popen(command, cwd=cwd, env=env, **streams, **settings)
    else:
        process = _server().start(words, statements, cwd, env, streams, **settings)
    return end_with_test(process)


def end_with_test(process):
    """Let a process, also one that was started in another way, end with the test."""
    _running.append(process)
    return process


def run(*argv, stdin=subprocess.DEVNULL, **settings):
    """Run `toolkit ARGV` in a process of its own to its end, and return how it ended."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(*argv, stdin=stdin, stdout=out, stderr=err, **settings)
        code = process.wait(PATIENCE)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return Ended(code, *texts)


def wait_until(condition, describe=lambda: "", among=()):
    """Wait until a condition holds, and return what it returned.

    Args:
        condition: called until it returns something true.
        describe: what to say of a wait that fails.
        among: processes that have to run until then.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        for process in among:
            assert process.poll() is None, f"ended with {process.poll()}: {describe()}"
        assert time.monotonic() < deadline, f"not after {PATIENCE:.0f} s: {describe()}"
        time.sleep(POLL)


def wait_for_file(path, **settings):
    """Wait until a file is there."""
    wait_until(lambda: os.path.exists(str(path)), lambda: f"no {path}", **settings)


def is_gone(pid):
    """Whether no process has this number; one that has ended but waits for its parent counts."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def kill(*processes):
    """End processes at once, stopped ones too, and wait for their ends."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)


def run_threads(functions):
    """Call functions at the same time, each in a thread, and return their results.

    The first that fails ends this: the others may wait for it for ever.
    """
    futures = [concurrent.futures.Future() for _ in functions]
    for function, future in zip(functions, futures):
        threading.Thread(target=_settle, args=[function, future], daemon=True).start()
    for future in concurrent.futures.as_completed(futures, PATIENCE):
        future.result()
    return [future.result() for future in futures]


def _settle(function, future):
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


def free_port():
    """A port of the loopback interface that nobody else gets until the test ends."""
    return _ports.enter_context(held_ports(1))[0]


def share_turns(folder):
    """Take turns with the other processes of pytest that call this with the same folder."""
    _state["turns"] = str(folder)


def take_turn():
    """Wait until this test may start a job of processes; its turn is over with `end_test`.

    This wait has no end of its own: it is as long as the tests before this one.
    """
    turns = max(1, len(os.sched_getaffinity(0)) // 2)
    paths = [os.path.join(_state["turns"], f"turn-{number}") for number in range(turns)]
    while _state["turn"] is None:
        _state["turn"] = _try_locks(paths)
        if _state["turn"] is None:
            time.sleep(POLL)


def end_test():
    """Kill what a test has left running, and give its turn to another test."""
    kill(*_running)
    del _running[:]
    _ports.close()
    if _state["turn"] is not None:
        os.close(_state["turn"])
        _state["turn"] = None


def end_session():
    """End the process from which others are forked."""
    if _state["server"] is not None:
        _state["server"].close()
        _state["server"] = None


def forked_seconds():
    """The CPU seconds of all forked processes that have ended."""
    return _state["server"].seconds if _state["server"] else 0.0


@contextlib.contextmanager
def locked(path):
    """Hold the lock of a file, for which other processes of the tests wait."""
    with open(str(path), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _server():
    """The process to fork from; a new one where it has died."""
    if _state["server"] is None or not _state["server"].is_alive():
        _state["server"] = fork_server.Client()
    return _state["server"]


def _try_locks(paths):
    """Lock the first free one of some files; returns its descriptor, or None.

    A lock ends with the process, and is not inherited.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:
            os.close(descriptor)
    return None
