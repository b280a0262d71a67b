"""Clusters of real processes on this machine, on the interpreter that runs the tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from run_fixtures import write_plugin

from toolkit.child_process import python_code
from toolkit.launch.layout import Layout, local_environments

CHIEF = "chief"


class Ending(NamedTuple):
    """How a process ended.

    Attributes:
        code: negative for the signal that ended it.
        err: what it wrote to stderr.
    """

    code: int
    err: str


class LocalCluster:
    """The processes of a job in the working directory, each with the same command.

    Args:
        arguments: of `toolkit`, "run" first.
        count: processes that train.
        others: name of a task -> the arguments of its process instead.
        variables: name of a task -> environment variables of its process.
        absent: names of tasks that are not started.
        secs: after which a test has failed.
    """

    number = 0

    def __init__(self, *arguments, count=2, others=(), variables=(), absent=(), secs=240):
        self.deadline = time.monotonic() + secs
        self._processes = {}
        LocalCluster.number += 1
        self._folder = os.path.abspath(f"logs-{LocalCluster.number}")
        os.makedirs(self._folder)
        for name, task in local_environments(Layout(count)).items():
            words = [str(word) for word in dict(others).get(name, arguments)]
            more = dict(variables).get(name, {})
            if name not in absent:
                environ = {**os.environ, "TOOLKIT_PEER_SECS": "6", **task, **more}
                self._processes[name] = self._start(name, words, environ)

    def _start(self, name, words, environ):
        with open(self._path(name, "out"), "wb") as out, open(self._path(name, "err"), "wb") as err:
            command = [sys.executable, "-c", python_code(), *words]
            return subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def _path(self, name, stream):
        return os.path.join(self._folder, f"{name.replace(' ', '-')}.{stream}")

    def read(self, name, stream="err"):
        """What a process has written so far."""
        with open(self._path(name, stream), encoding="utf-8") as file:
            return file.read()

    def send(self, signum, name=CHIEF):
        """Send a signal to a process."""
        self._processes[name].send_signal(signum)

    def is_running(self, name):
        return self._processes[name].poll() is None

    def wait_for(self, condition):
        """Wait until a condition holds; all processes have to run until then."""
        while not condition():
            codes = {name: process.poll() for name, process in self._processes.items()}
            assert not any(code is not None for code in codes.values()), self.describe()
            assert time.monotonic() < self.deadline, self.describe()
            time.sleep(0.01)

    def wait_for_commit(self, run="r", count=1):
        """Wait until a run has so many commits, whatever the session."""
        self.wait_for(lambda: len(commits(run)) >= count)

    def wait_for_end(self, name, secs):
        """Wait until one process has ended."""
        self._processes[name].wait(secs)

    def wait_for_secs(self, secs):
        """Wait so long; all processes have to run until then."""
        end = time.monotonic() + secs
        self.wait_for(lambda: time.monotonic() >= end)

    def wait(self):
        """Wait until all processes have ended. Returns name -> Ending."""
        while any(process.poll() is None for process in self._processes.values()):
            if time.monotonic() > self.deadline:
                text = self.describe()
                self.kill_all()
                raise AssertionError(f"the cluster does not end\n{text}")
            time.sleep(0.01)
        return {
            name: Ending(process.returncode, self.read(name))
            for name, process in self._processes.items()
        }

    def succeed(self):
        """Wait for the end of all processes, which has to be a success."""
        endings = self.wait()
        assert {ending.code for ending in endings.values()} == {0}, self.describe()
        return endings

    def kill_all(self):
        """Kill what still runs."""
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def describe(self):
        """The exit codes and logs so far, for a failure."""
        return "\n".join(
            f"--- {name}: {process.poll()}\n{self.read(name)}"
            for name, process in self._processes.items()
        )


def commits(run):
    """The commits in the log of a run, also while it is written."""
    try:
        with open(os.path.join(run, "commits.jsonl")) as file:
            lines = file.readlines()
    except OSError:
        return []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return [entry for entry in entries if entry["kind"] == "commit"]


def train_alone(*arguments, secs=240):
    """Run the command in one process, which has to end well."""
    subprocess.run(
        [sys.executable, "-c", python_code(), *map(str, arguments)],
        check=True,
        timeout=secs,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=dict(os.environ, TF_CONFIG="{}"),
    )


# The first lines of a plugin that behaves differently in one process: RANK is 0 in the chief.
RANKS = """
import json, os, time
TASK = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {"type": "chief", "index": 0})
RANK = 0 if TASK["type"] == "chief" else 1 + TASK["index"]
"""


def write_ranked_plugin(body, path="mine.py"):
    """A plugin in a file, `Linear` with the methods in `body`, which may use RANK."""
    write_plugin(body, path)
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(RANKS + text)
    return "./" + path
