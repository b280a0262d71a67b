"""Jobs of processes that really train: kills and Ctrl-C change no bit of the result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from file_fixtures import REPOSITORY, read_json

from toolkit.storage.run_folder import RunFolder

CLASSIFIER = ["--plugin", "classifier", "--network", "mlp", "--steps", "240"]
CLASSIFIER += ["--checkpoint-steps", "40", "--log-steps", "10"]
SECS = 400


def start(*argv):
    path = os.pathsep.join([REPOSITORY] + [part for part in sys.path if part])
    return subprocess.Popen(
        [sys.executable, "-m", "toolkit", "launch", *argv],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


def launch(*argv):
    """The exit code of a job, and its log."""
    process = start(*argv)
    _, err = process.communicate(timeout=SECS)
    return process.returncode, err.decode()


def result(path):
    """The hash of the last tensors, and the bytes of metrics.jsonl."""
    with open(os.path.join(path, "metrics.jsonl"), "rb") as file:
        return RunFolder(path).checkpoints.list()[-1].tensors, file.read()


def wait_for_commit(path):
    deadline = time.monotonic() + SECS
    while not RunFolder(path).checkpoints.list():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_kills_change_no_bit(here):
    argv = ["run", *["480" if word == "240" else word for word in CLASSIFIER], "--run-dir"]
    code, err = launch("--", *argv, "quiet")
    assert code == 0, err
    # With this seed each kill falls into one of the next two saves, however fast the machine is.
    code, err = launch("--chaos", "3", "--chaos-seed", "37", "--restarts", "0", "--", *argv, "loud")
    assert code == 0 and "chaos: 3 of 3 kills" in err, err
    assert result("loud") == result("quiet")


@pytest.mark.slow
def test_an_interrupted_job_is_committed_and_continues_to_the_same_bits(here):
    code, err = launch("--", "run", *CLASSIFIER, "--run-dir", "quiet")
    assert code == 0, err
    process = start("--", "run", *CLASSIFIER, "--run-dir", "r")
    wait_for_commit("r")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECS)
    assert process.returncode == 130, err.decode()
    assert read_json("r", "manifest.json")["status"] == "interrupted"
    code, err = launch("--", "resume", "r")
    assert code == 0, err
    assert result("r") == result("quiet")
