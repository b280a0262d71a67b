"""`toolkit run --resume` as the one command of all processes of a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from file_fixtures import REPOSITORY
from linear_fixtures import LINEAR, write_bars

from toolkit.launch.ports import find_free_ports
from toolkit.storage.run_folder import RunFolder

pytestmark = pytest.mark.slow


@pytest.fixture
def train(here):
    """A function that runs the command as worker and chief; the exit codes, and what they wrote."""
    data = write_bars(here / "bars.npz")
    flags = ["--plugin", LINEAR, "--data", data, "--steps", "6", "--no-evaluate"]
    (here / "elsewhere").mkdir()  # the worker is on another machine

    def start(task, folder, *more):
        words = ["run", "--resume", *flags, "--run-dir", "r", "--task", task, *more]
        with open(str(here / f"{task}.log"), "w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "toolkit", *words],
                cwd=str(folder),
                env=dict(os.environ, PYTHONPATH=os.path.join(REPOSITORY, "tests")),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def call(*more):
        *ports, channel_port = find_free_ports(3)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        cluster = json.dumps({"chief": addresses[:1], "worker": addresses[1:]})
        more += ("--cluster", cluster, "--channel-port", str(channel_port), "--join-secs", "90")
        worker = start("worker", here / "elsewhere", *more)
        processes = [worker]
        try:
            if "--seed" in more:  # the chief refuses it at once, and waits a moment for the worker
                while "waiting for chief" not in (here / "worker.log").read_text():
                    assert worker.poll() is None
                    time.sleep(0.1)
            processes.append(start("chief", here, *more))
            codes = [process.wait(120) for process in processes]
        finally:
            for process in processes:
                process.kill()
        return codes, [(here / f"{task}.log").read_text() for task in ("worker", "chief")]

    return call


def test_the_same_command_begins_continues_and_ends_in_all_processes(train, here):
    codes, outputs = train("--pause-at", "3")
    assert codes == [0, 0], outputs
    codes, outputs = train()
    assert codes == [0, 0], outputs
    assert [checkpoint.step for checkpoint in RunFolder("r").checkpoints.list()][-1] == 6
    assert len(RunFolder("r").commits.sessions()) == 2
    codes, (worker, chief) = train()
    assert codes == [0, 0], (worker, chief)
    assert "Nothing is left to do." in worker and "Error" not in worker
    assert "Nothing left to do: r reached step 6." in chief
    codes, (worker, chief) = train("--seed", "5")
    assert codes == [2, 2], (worker, chief)
    message = "The run was trained with other options: seed was 1, now 5."
    assert f"Error: {message}" in chief and f"chief refused: {message}" in worker
    assert os.listdir(str(here / "elsewhere")) == []
