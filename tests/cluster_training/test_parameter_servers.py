"""Jobs with parameter servers: real processes on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest
from reads_fixtures import COUNTS, STATE

from toolkit.child_process import python_code
from toolkit.errors import UsageError
from toolkit.launch.layout import Layout, local_environments
from toolkit.options import CoreOptions
from toolkit.storage.checkpoint_reader import read_tensors
from toolkit.storage.run_folder import RunFolder

BATCH = 8
EPOCH = COUNTS["train"] // BATCH  # steps
END_SECS = 15  # the watch takes 6 s and a grace of 2; the rest is for a busy machine
RETRY = 138
READS = os.path.join(os.path.dirname(__file__), "reads_fixtures.py")
RUN = ["run", "--plugin", READS, "--run-dir", "r"]


class Ending(NamedTuple):
    """The exit code of a process, its output, and when it had ended."""

    code: int
    text: str
    end: float


class Servers:
    """The processes of a job in the working directory, each with the same command."""

    def __init__(self, *arguments, workers=2, ps=1):
        self._processes = {}
        for name, task in local_environments(Layout(workers, ps)).items():
            with open(f"{name}.log".replace(" ", "-"), "wb") as log:
                command = [sys.executable, "-c", python_code(), *map(str, arguments)]
                environ = {**os.environ, "TOOLKIT_JOIN_SECS": "120", **task}
                self._processes[name] = subprocess.Popen(
                    command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )

    def send(self, signum, name):
        self._processes[name].send_signal(signum)

    def wait_for(self, condition, secs=120):
        """Wait until a condition holds; all processes have to run until then."""
        deadline = time.monotonic() + secs
        while not condition():
            assert time.monotonic() < deadline and self._is_running(), self.texts()
            time.sleep(0.05)

    def _is_running(self):
        return all(process.poll() is None for process in self._processes.values())

    def wait(self, secs=150):
        """Name -> Ending, when all processes have ended."""
        deadline, ends = time.monotonic() + secs, {}
        while len(ends) < len(self._processes):
            for name, process in self._processes.items():
                if process.poll() is not None:
                    ends.setdefault(name, time.monotonic())
            assert time.monotonic() < deadline, self.texts()
            time.sleep(0.05)
        texts = self.texts()
        return {
            name: Ending(process.returncode, texts[name], ends[name])
            for name, process in self._processes.items()
        }

    def texts(self):
        texts = {}
        for name in self._processes:
            with open(f"{name}.log".replace(" ", "-")) as file:
                texts[name] = file.read()
        return texts

    def kill_all(self):
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


@pytest.fixture
def start(here):
    """A function that starts a job, which ends with the test."""
    jobs = []

    def start_job(*arguments, **settings):
        jobs.append(Servers(*arguments, **settings))
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.kill_all()


def commits(run):
    with contextlib.suppress(OSError, ValueError), open(os.path.join(run, "commits.jsonl")) as file:
        return [x for x in map(json.loads, file) if x["kind"] == "commit"]
    return []


def reads(step, run="r"):
    """How often each example was read, in the checkpoint of a step."""
    return read_tensors(RunFolder(run).checkpoints.prefix(step))[STATE]


def codes(endings):
    return {name: ending.code for name, ending in endings.items()}


def all_are(code, names=("chief", "worker 0", "ps 0")):
    return dict.fromkeys(names, code)


@pytest.mark.slow
def test_each_example_is_read_once_per_epoch_and_all_processes_end_alike(start, cli):
    total = 4 * EPOCH
    endings = start(
        *RUN, "--steps", total, "--checkpoint-steps", EPOCH, "--log-steps", 10, ps=2
    ).wait()
    assert codes(endings) == all_are(0, ("chief", "worker 0", "ps 0", "ps 1"))
    last = max(ending.end for ending in endings.values())
    assert last - min(ending.end for ending in endings.values()) < END_SECS
    assert [c["step"] for c in commits("r")] == list(range(EPOCH, total + 1, EPOCH))
    for epoch in range(1, 5):
        assert set(reads(epoch * EPOCH)) == {epoch}
    losses = [r["loss"] for r in RunFolder("r").metrics.read() if r["kind"] == "train"]
    assert losses[-1] < losses[0]
    session = RunFolder("r").commits.sessions()[0]
    assert session["cluster"] == {"mode": "ps", "workers": 2, "ps": 2}
    result = cli("verify", "r", "--replay", ":")
    assert result.code == 2 and "trained with parameter servers" in result.err


@pytest.mark.slow
def test_a_run_continues_with_other_numbers_of_processes_and_alone(start, cli):
    fixed = ("--checkpoint-steps", 5)
    first = start(*RUN, "--steps", 4 * EPOCH, *fixed, "--pause-at", EPOCH + 2)
    assert codes(first.wait()) == all_are(0)
    np.testing.assert_array_equal(sum(reads(EPOCH + 2)), BATCH * (EPOCH + 2))
    second = start("resume", "r", "--pause-at", 2 * EPOCH, workers=1, ps=2)
    assert codes(second.wait()) == all_are(0, ("chief", "ps 0", "ps 1"))
    assert set(reads(2 * EPOCH)) == {2}
    assert cli("resume", "r", "--pause-at", 3 * EPOCH).code == 0
    assert set(reads(3 * EPOCH)) == {3}
    last = start("resume", "r", workers=3)
    assert codes(last.wait()) == all_are(0, ("chief", "worker 0", "worker 1", "ps 0"))
    assert set(reads(4 * EPOCH)) == {4}
    modes = [
        session.get("cluster", {}).get("mode") for session in RunFolder("r").commits.sessions()
    ]
    assert modes == ["ps", "ps", None, "ps"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chief", "worker 0", "ps 0"])
def test_the_death_of_a_process_ends_all_and_a_resume_continues(start, name):
    flags = ["--steps", 1000 * EPOCH, "--checkpoint-steps", 10]
    job = start(*RUN, *flags)
    job.wait_for(lambda: len(commits("r")) > 1)
    killed = time.monotonic()
    job.send(signal.SIGKILL, name)
    endings = job.wait()
    assert codes(endings) == {**all_are(RETRY), name: -signal.SIGKILL}
    assert max(ending.end for ending in endings.values()) - killed < END_SECS
    texts = [ending.text for other, ending in endings.items() if other != name]
    assert all(f"{name} (127.0.0.1:" in text and "is gone" in text for text in texts)
    assert not any("Traceback" in text for text in texts)
    step = commits("r")[-1]["step"]
    end = (step // EPOCH + 1) * EPOCH
    again = start("resume", "r", "--steps", end, "--allow", "steps")
    assert codes(again.wait()) == all_are(0)
    assert set(reads(end)) == {end // EPOCH}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chief", "worker 0", "ps 0"])
def test_a_signal_to_any_process_ends_the_job_with_its_state_committed(start, name):
    flags = ["--checkpoint-steps", 1000 * EPOCH, "--log-steps", 200]
    job = start(*RUN, "--steps", 1000 * EPOCH, *flags)
    job.wait_for(lambda: "step 200/" in job.texts()["chief"])
    job.send(signal.SIGTERM, name)
    assert codes(job.wait()) == all_are(143)
    (commit,) = commits("r")
    assert sum(reads(commit["step"])) == BATCH * commit["step"]
    assert max(reads(commit["step"])) - min(reads(commit["step"])) <= 1


@pytest.mark.slow
def test_a_refused_step_ends_the_job_with_code_3_and_the_others_are_committed(start, cli):
    endings = start(*RUN, "--steps", 4 * EPOCH, "--poison", 17).wait()
    assert codes(endings) == all_are(3)
    (commit,) = commits("r")
    step = commit["step"]
    assert f"Step {step} is kept" in endings["chief"].text
    assert "Training diverged in step" in endings["chief"].text
    # One batch changed nothing, and is counted unless the chief alone met it.
    assert sum(reads(step)) in (BATCH * step, BATCH * (step - 1)) and reads(step)[17] == 0


@pytest.mark.slow
def test_a_gan_trains_its_two_networks(start):
    flags = ["--network", "mlp", "--steps", 40, "--batch-size", 16, "--best-metric", "none"]
    images = np.random.RandomState(0).randint(0, 255, [96, 8, 8, 1]).astype(np.uint8)
    np.savez("x.npz", x_train=images, x_test=images[:12], y_train=[0] * 96, y_test=[0] * 12)
    flags += ["--features", "pixels", "--quick-samples", 100, "--score-samples", 100]
    flags += ["--score-seeds", 1, "--no-two-sample"]
    run = ["run", "--plugin", "gan", "--data", "npz:x.npz", "--run-dir", "r", "--no-evaluate"]
    assert codes(start(*run, *flags, ps=2).wait()) == all_are(
        0, ("chief", "worker 0", "ps 0", "ps 1")
    )
    assert [commit["step"] for commit in commits("r")] == [40]
    assert cli_evaluates("r")


def cli_evaluates(run):
    """Whether the checkpoint has the names that a single process expects."""
    from toolkit.cli import run_command

    return run_command(["evaluate", run, "--data", "npz:x.npz"]) == 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"accumulate": 2}, "--accumulate is 2"),
        ({"xla": "on"}, "--xla is on"),
    ],
)
def test_what_is_not_possible_is_refused_with_a_remedy(options, message):
    from toolkit.training.parameter_servers import plan_options

    with pytest.raises(UsageError, match=message) as error:
        plan_options(CoreOptions(**options))
    assert "without parameter servers" in error.value.hint
    assert plan_options(CoreOptions()).steps_per_call == 1
