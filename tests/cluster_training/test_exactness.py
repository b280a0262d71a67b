"""A cluster trains as one process of the same batch does, and ends with the same bits each time.

All processes are real.
"""

import os
import signal

import numpy as np
import process_fixtures
import pytest
from job_fixtures import start_job, wait_at, write_waiting
from linear_fixtures import write_bars

from toolkit import testing
from toolkit.storage.run_folder import RunFolder

CLASSIFIER = ["--plugin", "classifier", "--network", "mlp", "--dropout", "0.2"]
CLASSIFIER += ["--augment", "digits", "--batch-size", "16", "--log-steps", "5"]
CLASSIFIER += ["--checkpoint-steps", "20"]
GAN = ["--plugin", "gan", "--network", "mlp", "--features", "pixels", "--quick-samples", "100"]
GAN += ["--score-samples", "100", "--sample-steps", "20", "--evaluate-steps", "40"]
GAN += ["--no-two-sample", "--log-steps", "10", "--checkpoint-steps", "20", "--width", "4"]
GAN += ["--norm-samples", "20", "--sample-count", "9"]


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """The flags of a small data set."""
    return ["--data", write_bars(tmp_path_factory.mktemp("data") / "bars.npz", train=96)]


def run_words(model, steps, run="r"):
    return ["run", "--resume", *model, "--run-dir", run, "--steps", steps]


def fingerprint(run):
    """The bytes of metrics.jsonl, and the hash of each checkpoint."""
    folder = RunFolder(run)
    checkpoints = {c.step: c.tensors for c in folder.checkpoints.list()}
    with open(folder.metrics.path, "rb") as file:
        return file.read(), checkpoints


def check_equal_within_rounding(run, other):
    """The records of two runs have the same steps and names, and values that differ by rounding."""
    records, others = (RunFolder(path).metrics.read() for path in (run, other))
    assert len(records) == len(others) > 3
    for record, expected in zip(records, others):
        floats = {name: value for name, value in expected.items() if isinstance(value, float)}
        near = {name: pytest.approx(value, rel=2e-4, abs=2e-4) for name, value in floats.items()}
        assert record == {**expected, **near}
    values, expected = testing.tensors(run), testing.tensors(other)
    assert values.keys() == expected.keys()
    for name, value in values.items():
        np.testing.assert_allclose(value, expected[name], rtol=0.02, atol=1e-3, err_msg=name)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A function that trains a model in two processes once, and returns the path of its run."""
    runs = {}

    def train(model, steps):
        key = tuple(model)
        if key not in runs:
            runs[key] = str(tmp_path_factory.mktemp("undisturbed") / "r")
            start_job(*run_words(model, steps, runs[key])).succeed()
        return runs[key]

    return train


def test_two_workers_train_as_one_process_of_the_same_batch(here, undisturbed, bars):
    environ = dict(os.environ, TF_CONFIG="{}")
    ended = process_fixtures.run(*run_words(CLASSIFIER + bars, 60), env=environ)
    assert ended.code == 0, ended.err
    check_equal_within_rounding(undisturbed(CLASSIFIER + bars, 60), "r")


def test_two_runs_of_three_workers_have_the_same_bits(here, bars):
    for run in ("a", "b"):
        start_job(*run_words(CLASSIFIER + bars, 60, run), workers=3).succeed()
    assert fingerprint("a") == fingerprint("b")


@pytest.mark.parametrize(
    ("model", "steps", "name", "step"),
    [(CLASSIFIER, 60, "worker 0", 33), (GAN, 80, "chief", 37)],
    ids=["classifier", "gan"],
)
def test_a_cluster_whose_processes_are_killed_ends_with_the_same_bits(
    here, undisturbed, bars, model, steps, name, step
):
    model = model + bars if model is CLASSIFIER else model
    expected = fingerprint(undisturbed(model, steps))
    words = [*run_words(model, steps), "--with", write_waiting()]
    wait_at(step)
    job = start_job(*words)
    job.wait_for(lambda: os.path.exists("waits"))
    job.send(signal.SIGKILL, name)
    (other,) = job.processes.keys() - {name}
    endings = job.check_codes({name: -signal.SIGKILL, other: 138})
    assert f"Error: {name} (127.0.0.1:" in endings[other].err
    os.remove("wait at")
    start_job(*words).succeed()
    assert fingerprint("r") == expected
