"""Jobs of real processes: each ends by itself, with the code of all, however one of them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from channel_fixtures import free_port
from file_fixtures import REPOSITORY

SCRIPT = os.path.join(os.path.dirname(__file__), "channel_process.py")
NAMES = ["chief", "worker 0", "worker 1", "ps 0"]


class Processes:
    """The processes of a job by the names of their tasks; those of `behaviours` do not obey."""

    def __init__(self, **behaviours):
        port = str(free_port())
        environment = {**os.environ, "PYTHONPATH": REPOSITORY}
        self.processes = {
            name: subprocess.Popen(
                [sys.executable, SCRIPT, name, port, behaviours.get(name.replace(" ", ""), "obey")],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                universal_newlines=True,
            )
            for name in NAMES
        }

    def await_line(self, text, *names):
        """Read the stderr of each, of all by default, up to a line."""
        for name in names or NAMES:
            while self.processes[name].stderr.readline() not in (text + "\n", ""):
                pass

    def kill(self, name, signum):
        self.processes[name].send_signal(signum)

    def finish(self, *names):
        """(exit code, stdout, stderr) of each, of all by default."""
        results = {}
        for name in names or NAMES:
            out, err = self.processes[name].communicate(timeout=30)
            results[name] = (self.processes[name].returncode, out, err)
        return results

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()
            process.stderr.close()


@pytest.fixture
def start():
    jobs = []

    def make(**behaviours):
        jobs.append(Processes(**behaviours))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


def codes(results):
    return [code for code, _, _ in results.values()]


def test_all_end_with_the_chief(start):
    results = start(chief="end", worker1="late").finish()
    assert codes(results) == [0, 0, 0, 0]
    assert {err for _, _, err in results.values()} == {"joins\njoined\n"}


def test_all_end_with_the_error_of_one(start):
    results = start(worker1="fail").finish()
    assert codes(results) == [4, 4, 4, 4]
    for name in ("chief", "worker 0", "ps 0"):
        assert results[name][2] == "joins\njoined\nworker 1 failed: The file a.png is damaged.\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["worker 1", "ps 0", "chief"])
def test_a_kill_ends_the_others(start, name):
    job = start()
    job.await_line("joined")
    job.kill(name, signal.SIGKILL)
    others = [other for other in NAMES if other != name]
    results = job.finish(*others)
    assert codes(results) == [138, 138, 138]
    for _, _, err in results.values():
        assert err.startswith(f"{name} (127.0.0.1:") and ") is gone.\n" in err


@pytest.mark.slow
def test_a_kill_ends_those_that_hang_and_their_output_is_not_lost(start):
    job = start(chief="hang", worker0="hang")
    job.await_line("hangs", "chief", "worker 0")
    job.kill("worker 1", signal.SIGKILL)
    results = job.finish("chief", "worker 0", "ps 0")
    assert codes(results) == [138, 138, 138]
    assert results["chief"][1] == results["worker 0"][1] == "buffered"


def test_a_process_that_does_not_close_its_channel_ends_and_is_lost(start):
    results = start(worker0="forget").finish()
    assert codes(results) == [138, 7, 138, 138]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["worker 0", "chief"])
def test_a_stopped_process_is_lost_and_ends_when_it_continues(start, name):
    job = start()
    job.await_line("joined")
    job.kill(name, signal.SIGSTOP)
    results = job.finish(*[other for other in NAMES if other != name])
    assert codes(results) == [138, 138, 138]
    assert all(") has not answered for 2 s.\n" in err for _, _, err in results.values())
    job.kill(name, signal.SIGCONT)
    code, _, err = job.finish(name)[name]
    assert code == 138 and "The job has ended without this process" in err


@pytest.mark.slow
def test_a_busy_interpreter_is_alive(start):
    assert codes(start(chief="end", worker0="hog").finish()) == [0, 0, 0, 0]


def test_ctrl_c_at_the_start_ends_all(start):
    job = start(worker1="never")
    job.await_line("joins", "chief", "worker 0", "ps 0")
    time.sleep(0.3)
    job.kill("chief", signal.SIGINT)
    results = job.finish("chief", "worker 0", "ps 0")
    assert codes(results) == [130, 130, 130]
    assert "chief ended: Interrupted before the start." in results["worker 0"][2]
