"""`toolkit run --resume` as the one command of all processes of a cluster."""

import os

import pytest
from job_fixtures import Job, environments
from linear_fixtures import LINEAR, write_bars

from toolkit.storage.run_folder import RunFolder

WORDS = ["run", "--resume", "--plugin", LINEAR, "--steps", 6, "--no-evaluate", "--run-dir", "r"]


@pytest.fixture
def train(here):
    """A function that runs the command as worker and chief; the exit codes, and what they wrote."""
    words = [*WORDS, "--data", write_bars(here / "bars.npz")]
    (here / "elsewhere").mkdir()  # the worker is on another machine

    def call(*more):
        job, variables = Job(), environments()
        for name, folder in (("worker 0", here / "elsewhere"), ("chief", here)):
            if "--seed" in more and name == "chief":
                # It refuses that at once, and waits only a moment for the worker.
                job.wait_for_line("waiting for chief", "worker 0")
            environ = {**os.environ, **variables[name]}
            job.start(name, *words, *more, cwd=str(folder), env=environ)
        return [[x.code, x.out + x.err] for x in job.wait("worker 0", "chief").values()]

    return call


def test_the_same_command_continues_and_ends_in_all_processes(train, here, cli):
    assert cli(*WORDS, "--data", f"npz:{here / 'bars.npz'}", "--pause-at", 3).code == 0
    endings = train()
    assert [code for code, _ in endings] == [0, 0], endings
    assert [checkpoint.step for checkpoint in RunFolder("r").checkpoints.list()][-1] == 6
    assert len(RunFolder("r").commits.sessions()) == 2
    (worker_code, worker), (chief_code, chief) = train()
    assert (worker_code, chief_code) == (0, 0), (worker, chief)
    assert "Nothing is left to do." in worker and "Error" not in worker
    assert "Nothing left to do: r reached step 6." in chief
    (worker_code, worker), (chief_code, chief) = train("--seed", "5")
    assert (worker_code, chief_code) == (2, 2), (worker, chief)
    message = "The run was trained with other options: seed was 1, now 5."
    assert f"Error: {message}" in chief and f"chief failed: {message}" in worker
    assert os.listdir(str(here / "elsewhere")) == []
