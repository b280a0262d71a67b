"""A process that has imported TensorFlow, from which tests fork the commands that they start.

`Client` starts it, one for each process of pytest that needs it. It lives until its client closes
the socket or dies; then it kills its children. It never has a session, a server or a list of
devices: a process that had one hangs after a fork. A child is like a new interpreter that runs
`python -c STATEMENTS ARGV`, with these differences: TensorFlow has read its variables before
(`TF_...`, `OMP_...`), hashes have the server's seed, and the streams are UTF-8 whatever the locale.
"""

import atexit
import contextlib
import gc
import importlib
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle

STREAMS = ("stdin", "stdout", "stderr")
READ_AT_IMPORT = ("TF_CPP_", "TF_ENABLE_", "TF_XLA_", "OMP_", "PYTHON")
IMPORTS = (
    "toolkit.compat",
    "toolkit.cli.run",
    "toolkit.cli.evaluate",
    "toolkit.training.trainer",
    "toolkit.inference.evaluator",
    "toolkit.page.writer",
    "linear_fixtures",
)
MAX_THREADS = 3  # after the import; more would mean that something has begun to work


class Client:
    """Starts the server, asks it for children, and keeps how they ended."""

    def __init__(self):
        from toolkit.child_process import python_code

        self._connection, other = multiprocessing.Pipe()
        self._codes = {}
        self.seconds = 0.0  # CPU time of the children that have ended
        self._environ = dict(os.environ)
        with other:
            code = python_code(f"import fork_server; fork_server.serve({other.fileno()})")
            self._server = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL
            )

    def start(self, argv, statements, cwd, env, streams, start_new_session=False):
        """Fork a child and return it. `streams` has the names in `STREAMS`."""
        for name in {*env, *self._environ}:
            if name.startswith(READ_AT_IMPORT) and env.get(name) != self._environ.get(name):
                raise ValueError(f"{name} is read before the fork: start with fresh=True")
        request = {
            "argv": argv,
            "statements": statements,
            "cwd": os.path.abspath(cwd or os.getcwd()),
            "env": env,
            "paths": sys.path,
            "new_session": start_new_session,
        }
        with contextlib.ExitStack() as stack:
            files = [_descriptor(streams[name], stack) for name in STREAMS]
            if files[2] == subprocess.STDOUT:
                files[2] = files[1]
            self._connection.send(request)
            for file in files:
                send_handle(self._connection, file, None)
        while True:
            message = _receive(self._connection)
            if message is None:
                raise ConnectionError("the process from which tests fork has died")
            if "pid" in message:
                return Child(self, message["pid"])
            self._keep(message)

    def code_of(self, pid, timeout):
        """The exit code of a child, or None where it still runs after so many seconds."""
        deadline = time.monotonic() + timeout
        while pid not in self._codes:
            left = max(0.0, deadline - time.monotonic())
            if not self._connection.poll(left):
                return None
            message = _receive(self._connection)
            if message is None:  # the server has died, and its children with it
                return -signal.SIGKILL
            self._keep(message)
        return self._codes[pid]

    def _keep(self, message):
        self._codes[message["ended"]] = message["code"]
        self.seconds += message["seconds"]

    def is_alive(self):
        return self._server.poll() is None

    def close(self):
        """End the server and its children."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)  # also of what forked processes have of it
        self._connection.close()
        self._server.wait()


class Child:
    """A forked process, with the interface of `subprocess.Popen` as far as tests use it."""

    def __init__(self, client, pid):
        self._client = client
        self.pid = pid
        self.returncode = None

    def poll(self):
        return self._wait(0)

    def wait(self, timeout=float("inf")):
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        timeout = min(timeout, 1e6)
        if self._wait(timeout) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def _wait(self, timeout):
        if self.returncode is None:
            self.returncode = self._client.code_of(self.pid, timeout)
        return self.returncode

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self):
        self.send_signal(signal.SIGKILL)


# -------------------------------------------------------------------------------------- the server


def serve(descriptor):
    """Fork a child for each request that comes through a socket, and report the end of each."""
    connection = Connection(descriptor)
    before = dict(os.environ)
    _import_all()
    by_import = {name: os.environ[name] for name in os.environ if name not in before}
    threads = len(os.listdir("/proc/self/task"))
    if threads > MAX_THREADS:
        sys.exit(f"fork_server: {threads} threads after the import")
    # The client's Ctrl-C reaches the whole group; the server ends when its client does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wakeup, wakeup_end = socket.socketpair()
    wakeup.setblocking(False)
    wakeup_end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_end.fileno())
    children = set()
    # Not to copy what the import has made for each child, when it collects garbage.
    gc.collect()
    gc.freeze()
    while True:
        ready = select.select([connection, wakeup], [], [])[0]
        if wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                wakeup.recv(4096)
            _report_ends(connection, children)
        if connection in ready:
            request = _receive(connection)
            if request is None:
                break
            streams = [recv_handle(connection) for _ in STREAMS]
            pid = os.fork()
            if not pid:
                _become_child(request, streams, by_import)
            for stream in set(streams):
                os.close(stream)
            children.add(pid)
            connection.send({"pid": pid})
    for pid in children:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _import_all():
    """Import what commands import, without beginning to use it."""
    for name in IMPORTS:
        importlib.import_module(name)


def _report_ends(connection, children):
    """Tell the client of the children that have ended."""
    while children:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if not pid:
            break
        children.discard(pid)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        seconds = usage.ru_utime + usage.ru_stime
        connection.send({"ended": pid, "code": code, "seconds": seconds})


def _become_child(request, streams, by_import):
    """Be the process that a request asks for; never returns.

    `by_import` has the variables of the environment that the import has set, which TensorFlow's
    libraries read later.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 4096)
        if request["new_session"]:
            os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update({**by_import, **request["env"]})
        here = os.path.realpath(os.getcwd())
        sys.path[:] = [p for p in request["paths"] if p and os.path.realpath(p) != here]
        sys.argv[:] = ["-c", *request["argv"]]
        _open_streams()
        code = _run(request["statements"])
    finally:
        os._exit(code)


def _open_streams():
    """Open the streams of a new interpreter."""
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False, encoding="utf-8")
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False, encoding="utf-8")
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    sys.stderr = sys.__stderr__ = os.fdopen(
        2, "w", closefd=False, encoding="utf-8", errors="backslashreplace"
    )
    sys.stderr.reconfigure(line_buffering=True)


def _run(statements):
    """Run the statements as a main program; returns the exit code."""
    interrupted = False
    try:
        exec(compile(statements, "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as error:
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
        code = code if isinstance(code, int) else int(code is not None)
    except BaseException as error:
        traceback.print_exc()
        interrupted = isinstance(error, KeyboardInterrupt)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code & 0xFF


# ---------------------------------------------------------------------------------------- messages


def _descriptor(stream, stack):
    """The descriptor of a stream as `subprocess` takes it."""
    if stream == subprocess.DEVNULL:
        null = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, null)
        return null
    if stream == subprocess.PIPE:
        raise ValueError("give a file in place of a pipe, which nobody would empty")
    return stream if isinstance(stream, int) else stream.fileno()


def _receive(connection):
    """The next message, or None where the other side has closed the connection."""
    with contextlib.suppress(EOFError, ConnectionError):
        return connection.recv()
