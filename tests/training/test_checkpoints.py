"""Checkpoints that can be trusted: committed, verified, and restored with all their state."""

import pytest
from linear_fixtures import Linear
from run_fixtures import steps_of

from toolkit import hookimpl, testing, tf
from toolkit.errors import ToolkitError


def test_a_resume_saves_nothing_before_its_first_due_step(golden):
    run, steps = str(golden("--steps", 8, "--checkpoint-steps", 2, "--no-evaluate") / "run"), []

    class Watching(Linear):
        @hookimpl
        def checkpoint_saved(self, step):
            steps.append(step)

    testing.train(Watching, run, steps=11, allow=["plugin"])
    assert steps == [10, 11]


def test_a_failing_evaluation_follows_the_commit_and_loses_nothing(data):
    class Failing(Linear):
        @hookimpl
        def metrics(self, labels, outputs):
            bad = tf.debugging.check_numerics(tf.log(tf.constant(-1.0)), "bad metric")
            return {"bad": (bad, bad)}

    with pytest.raises(ToolkitError, match="bad metric"):
        testing.train(Failing, "run", data=data, steps=6, checkpoint_steps=2)
    assert steps_of("run") == [2]
