"""`run.change_gradients` and `run.change_learning_rate`: what a wrapper may change of updates."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import make_run, session
from linear_fixtures import write_bars
from update_fixtures import INF, SGD, create_variable, train

from toolkit import ToolkitError, UsageError, hookimpl, testing, tf


def change(run_options=None, gradients=None, rate=None):
    """A run at rate 1 whose updates a function changes."""
    run = make_run(**dict(SGD, **(run_options or {})))
    if gradients is not None:
        run.change_gradients(gradients)
    if rate is not None:
        run.change_learning_rate(rate)
    return run


def negate(gradients, variables, name):
    return [-gradient for gradient in gradients]


def test_gradients_are_changed_after_they_are_clipped(graph):
    w = create_variable("w", [0.0, 0.0])
    run = change({"clip": "value", "clip_limit": 1.0}, lambda g, v, name: [5 * g[0]])
    assert train(tf.reduce_sum(w * [3.0, -0.5]), run=run)["w"] == [-5.0, 2.5]


def test_several_functions_change_them_one_after_the_other(graph):
    w = create_variable("w", [0.0])
    run = change(gradients=negate)
    run.change_gradients(lambda g, v, name: [g[0] + 1])
    assert train(tf.reduce_sum(w * 3.0), run=run)["w"] == [2.0]


def test_the_mean_of_accumulated_gradients_is_changed_once(graph):
    w = create_variable("w", [0.0])
    run = change({"accumulate": 2}, lambda g, v, name: [g[0] + 1])
    assert train(tf.reduce_sum(w * 3.0), 4, run)["w"] == [-8.0]


def test_each_update_of_a_step_has_a_name_of_its_own(graph):
    names, w = [], create_variable("w", [0.0])

    def note(gradients, variables, name):
        names.append(name)
        assert [v.op.name for v in variables] == ["w"]
        return gradients

    run = change(gradients=note)
    loss = tf.reduce_sum(w)
    run.apply([run.gradients(loss, name="a"), run.gradients(loss, name="a")], advance_step=False)
    run.minimize(loss, name="b")
    assert sorted(set(names)) == ["a", "a/1", "b"]


def test_the_guard_judges_the_gradients_of_the_loss(graph):
    w = create_variable("w", [0.0])
    run = change({"on_nonfinite": "skip"}, lambda g, v, name: [tf.zeros_like(g[0])])
    op = run.minimize(tf.reduce_sum(w) * INF)
    with session() as tf_session:
        tf_session.run(op)
        counter = [v for v in tf.global_variables() if v.op.name.endswith("skipped_steps")][0]
        assert tf_session.run(counter) == 1


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda g, v, name: g[0], "expected a list of 1 tensors"),
        (lambda g, v, name: [], "expected a list of 1 tensors"),
        (lambda g, v, name: [tf.zeros([3])], r"returned a gradient \(3,\) for 'w' \(1,\)"),
    ],
)
def test_other_results_are_refused(graph, function, message):
    w = create_variable("w", [0.0])
    with pytest.raises(ToolkitError, match=message):
        change(gradients=function).minimize(tf.reduce_sum(w))


def test_the_rate_is_changed_with_the_full_rate_and_the_step(graph):
    w = create_variable("w", [0.0])
    options = {"learning_rate": 0.5, "schedule": "step", "decay_steps": 1, "decay_rate": 0.5}

    def sum_of_all(rate, full_rate, step):
        return rate + 10 * full_rate + 100 * tf.cast(step, tf.float32)

    run = change(options, rate=sum_of_all)
    values = train(tf.reduce_sum(w), 2, run)["w"]
    assert np.allclose(values, -(5.5 + (0.25 + 5 + 100)))
    assert "learning_rate" in run.logged


def test_a_rate_of_a_players_own_is_the_full_rate(graph):
    w = create_variable("w", [0.0])
    run = change(rate=lambda rate, full_rate, step: 2 * full_rate)
    op = run.minimize(tf.reduce_sum(w), learning_rate=0.25)
    with session() as tf_session:
        tf_session.run(op)
        assert tf_session.run(w).tolist() == [-0.5]


@pytest.mark.parametrize("method", ["change_gradients", "change_learning_rate"])
def test_a_change_after_the_updates_or_in_another_mode_is_refused(graph, method):
    w = create_variable("w", [0.0])
    run = make_run(**SGD)
    run.minimize(tf.reduce_sum(w))
    with pytest.raises(ToolkitError, match=f"run.{method} was called after the step's updates"):
        getattr(run, method)(negate)
    with pytest.raises(ToolkitError, match=f"{method} was called in mode 'eval'"):
        getattr(make_run("eval"), method)(negate)


def test_nothing_is_restored_in_a_training(graph):
    with pytest.raises(ToolkitError, match="after_restore was called in mode 'train'"):
        make_run().after_restore(tf.no_op)


class OwnOptimizer(testing.tiny.TinyModel):
    """A model that is trained by an op of its own, or by an optimizer object."""

    def __init__(self, is_object):
        self.is_object = is_object

    @hookimpl
    def optimize(self, run, losses):
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        if self.is_object:
            return run.minimize(losses, optimizer=optimizer)
        return optimizer.minimize(losses)


@pytest.mark.parametrize(
    "extension, is_object, message",
    [
        ("lr-finder", True, "'optimize.rise' of toolkit_extensions.lr_finder has no effect"),
        ("lr-finder", False, "'optimize.rise' of toolkit_extensions.lr_finder has no effect"),
        ("gradient-noise", False, "of toolkit_extensions.gradient_noise has no effect"),
    ],
)
def test_a_change_that_no_update_takes_is_refused(tmp_path, extension, is_object, message):
    data = write_bars(tmp_path / "bars.npz")
    options = {"data": data, "steps": 100, "batch_size": 8, "evaluate": "no"}
    with pytest.raises(UsageError, match=message):
        testing.train(OwnOptimizer(is_object), str(tmp_path / "run"), [extension], **options)
