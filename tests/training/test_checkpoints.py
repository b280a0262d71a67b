"""Checkpoints that can be trusted: committed, verified, and restored with all their state."""

import os

import pytest
from linear_fixtures import Linear
from run_fixtures import records, steps_of

from toolkit import hookimpl, testing, tf
from toolkit.errors import ToolkitError
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def run(golden):
    """A run of 8 steps with checkpoints 2, 4, 6 and 8."""
    flags = ["--steps", 8, "--checkpoint-steps", 2, "--no-evaluate"]
    return str(golden(*flags) / "run")


def test_a_resume_saves_nothing_before_its_first_due_step(run):
    steps = []

    class Watching(Linear):
        @hookimpl
        def checkpoint_saved(self, step):
            steps.append(step)

    testing.train(Watching, run, steps=11, allow=["plugin"])
    assert steps == [10, 11]


def test_only_the_newest_are_kept_also_after_a_restart(data):
    options = {"checkpoint_steps": 1, "keep_checkpoints": 3, "evaluate": "no"}
    testing.train(Linear, "run", data=data, steps=4, **options)
    assert steps_of("run") == [2, 3, 4]
    testing.train(Linear, "run", steps=6)
    assert steps_of("run") == [4, 5, 6]
    names = os.listdir(os.path.join("run", "checkpoints"))
    assert {n.split(".")[1] for n in names if "." in n} == {"ckpt-4", "ckpt-5", "ckpt-6"}


def test_a_failing_evaluation_follows_the_commit_and_loses_nothing(data):
    class Failing(Linear):
        @hookimpl
        def metrics(self, labels, outputs):
            bad = tf.debugging.check_numerics(tf.log(tf.constant(-1.0)), "bad metric")
            return {"bad": (bad, bad)}

    with pytest.raises(ToolkitError, match="bad metric"):
        testing.train(Failing, "run", data=data, steps=6, checkpoint_steps=2)
    assert steps_of("run") == [2]


def test_the_checkpoint_with_the_best_metric_is_kept(data):
    options = {"checkpoint_steps": 2, "keep_checkpoints": 1, "best_metric": "min:loss"}
    testing.train(Linear, "run", data=data, steps=20, **options)
    lowest = min(records("run", "eval"), key=lambda r: r["loss"])
    best = RunFolder("run").state()["best"]
    assert (best["step"], best["value"]) == (lowest["step"], lowest["loss"])
    assert RunFolder("run").checkpoints.find("best").step == lowest["step"]
