"""Variables, losses and plugins whose updates the tests can compute in the head.

The loss sum(g w) has the gradient g, and gradient descent at rate 1 changes w by -g.
"""

import numpy as np
import pytest
from graph_fixtures import Spec, Stream, make_plugin, make_run, session
from linear_fixtures import Linear, write_bars

from toolkit import hookimpl, testing, tf
from toolkit.compat import VERSION_FAMILY
from toolkit.graph.build import build_training
from toolkit.plugins import Plugins

SGD = {"optimizer": "sgd", "learning_rate": 1.0, "clip": "none"}
INF = float("inf")
ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")


def create_variable(name, value):
    """A trainable float32 variable that starts at a value."""
    return tf.get_variable(name, initializer=tf.constant(value, tf.float32))


def read_variables(tf_session):
    """Name -> value of every global variable."""
    return {v.op.name: tf_session.run(v).tolist() for v in tf.global_variables()}


def changes(before, after):
    """Name -> value after of the variables whose values differ."""
    return {name: value for name, value in after.items() if value != before[name]}


def changed_by(op, steps=1):
    """Name -> value of the variables that steps of an op change."""
    with session() as tf_session:
        before = read_variables(tf_session)
        for _ in range(steps):
            tf_session.run(op)
        return changes(before, read_variables(tf_session))


def after_steps(op, tensors, steps=1):
    """The values of tensors after steps of an op."""
    with session() as tf_session:
        for _ in range(steps):
            tf_session.run(op)
        return tf_session.run(tensors)


def train(loss, steps=1, run=None, **options):
    """Name -> value of every trainable variable after steps of SGD at rate 1, or of a run."""
    op = (run or make_run(**dict(SGD, **options))).minimize(loss)
    values = after_steps(op, {v.op.name: v for v in tf.trainable_variables()}, steps)
    return {name: value.tolist() for name, value in values.items()}


def descend(gradient, steps=1, **options):
    """The value after the steps of a variable that starts at 0 and always has this gradient."""
    w = create_variable("w", np.zeros_like(gradient))
    return train(tf.reduce_sum(w * np.float32(gradient)), steps, **options)["w"]


class Own(Linear):
    """Trains by an optimizer of its own, with momentum."""

    @hookimpl
    def optimize(self, losses, run):
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        return optimizer.minimize(losses, global_step=run.global_step)


def by_object(choose):
    """A linear model, trained by the optimizer object that `choose` returns."""

    class ByObject(Linear):
        @hookimpl
        def optimize(self, losses, run):
            return run.minimize(losses, optimizer=choose())

    return ByObject


class WithBatchNorm(Linear):
    """Batch norm with momentum 0.9 before the linear layer."""

    @hookimpl
    def build(self, run):
        norm = tf.keras.layers.BatchNormalization(momentum=0.9, name="norm")
        norm.build([None, int(np.prod(run.data.shape))])
        return norm, Linear.build(self, run)

    @hookimpl
    def call(self, model, features, run):
        norm, linear = model
        flat = tf.reshape(features, [-1, int(np.prod(run.data.shape))])
        return Linear.call(self, linear, norm(flat, training=run.mode == "train"), run)


class WithInfiniteLoss(WithBatchNorm):
    """Batch norm before the linear layer, and a loss of log(0)."""

    @hookimpl
    def loss(self, outputs):
        return tf.log(0 * tf.reduce_sum(outputs["logits"]))


def build_on_pairs(plugin, in_loop=False, **options):
    """The training graph of a plugin on batches of two examples whose mean is 2."""
    plugins = Plugins(make_plugin(plugin))
    run = make_run(data=Spec((2,)), classes=plugins.options(), **options)
    reader = Stream([[1.0, 1.0], [3.0, 3.0]], [0, 1])
    return build_training(plugins, run, reader, tf.get_default_graph(), in_loop)


def train_batch_norm(plugin, steps, **options):
    """The moving mean after steps on batches whose mean is 2, and whether one was refused."""
    training, has_refusal = build_on_pairs(plugin, **options), False
    (mean,) = (v for v in tf.global_variables() if v.op.name.endswith("moving_mean"))
    with session() as tf_session:
        for _ in range(steps):
            try:
                tf_session.run(training.train_op)
            except tf.errors.InvalidArgumentError:
                has_refusal = True
        return tf_session.run(mean).tolist(), has_refusal


def train_by_both(folder, plugin, rtol=1e-4, atol=1e-5, **options):
    """Train without XLA and with it, check that the variables agree, and return them."""
    tensors = []
    for xla in ("off", "on"):
        run = str(folder / xla)
        values = {"data": write_bars(folder / "bars.npz"), "evaluate": "no", "steps": 4}
        testing.train(plugin, run, xla=xla, **dict(values, **options))
        tensors.append(testing.tensors(run))
    plain, compiled = tensors
    assert sorted(plain) == sorted(compiled)
    for name, value in plain.items():
        np.testing.assert_allclose(compiled[name], value, rtol, atol, err_msg=name)
    return compiled
