"""A model of one network, and steps of it, each in a new graph."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, NamedTuple

import numpy as np
import pytest
from graph_fixtures import Stream, make_plugin, make_run, session

from toolkit import hookimpl, tf
from toolkit.graph.build import build_inference, build_training
from toolkit.plugins import Plugins
from toolkit.training.step_mode import find_random_ops

FEATURES = np.random.RandomState(0).uniform(0, 1, (8, 4)).astype(np.float32)


class OneNetwork:
    """Logits are what the network `create(run)` returns, by `apply(network, features, run)`.

    An extension adds `num_ops` ops in front of `build` and of `call`.
    """

    def __init__(self, create, apply=None, num_ops=0):
        self.create = create
        self.apply = apply or (lambda net, x, run: net(x, run.mode == "train"))
        self.num_ops = num_ops

    @hookimpl
    def build(self, run):
        for _ in range(self.num_ops):
            tf.random.uniform([], name="dropout")
        self.network = self.create(run)
        return self.network

    @hookimpl
    def call(self, model, features, run):
        for _ in range(self.num_ops):
            tf.random.uniform([], name="dropout")
        return {"logits": self.apply(model, features, run)}

    @hookimpl
    def loss(self, model, labels, outputs):
        loss = tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])
        return loss + sum(model.losses())

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        return {"logits": outputs["logits"]}


class Steps(NamedTuple):
    """Values of variables by name before and after some steps, and the results of the last one."""

    before: Dict[str, Any]
    after: Dict[str, Any]
    logits: Any
    loss: float
    logged: Dict[str, Any]
    random_ops: Any


def history(model, calls=(1,), in_loop=False, **options) -> List[Steps]:
    """What the steps have done after each session call; a call of a loop makes several steps."""
    plugins = Plugins(make_plugin(model))
    run = make_run(optimizer="sgd", learning_rate=0.1, clip="none", **options)
    steps = []
    with tf.Graph().as_default() as graph:
        training = build_training(plugins, run, Stream(FEATURES, np.arange(8) % 2), graph, in_loop)
        variables = {v.op.name: v for v in tf.global_variables()}
        step = training.step
        fetches = [step.outputs["logits"], step.losses["loss"], step.logged]
        random_ops = find_random_ops(training.train_op)
        with session() as tf_session:
            before = tf_session.run(variables)
            for number in calls:
                feed = {training.loop.num_steps: number} if in_loop else {}
                # A call of several steps computes no results.
                results = fetches if number == 1 else [training.train_op] * 3
                values = tf_session.run([training.train_op, *results], feed)[1:]
                steps.append(Steps(before, tf_session.run(variables), *values, random_ops))
    return steps


def make_steps(model, steps=1, **options) -> Steps:
    """What single steps have done."""
    return history(model, (1,) * steps, **options)[-1]


@functools.lru_cache(maxsize=None)
def three_steps(model) -> List[Steps]:
    """What one, two and three single steps do to a model that several tests share."""
    return history(model, (1, 1, 1))


def check_loop(model):
    """Check that steps in a loop change the variables as single steps do."""
    expected, actual = three_steps(model)[-1], history(model, (2, 1), in_loop=True)[-1]
    for name, value in expected.after.items():
        np.testing.assert_allclose(actual.after[name], value, rtol=0, atol=1e-6, err_msg=name)
    assert actual.loss == pytest.approx(expected.loss, rel=1e-6)


def l2(scale):
    """A regularizer, as tf.layers and tf.get_variable take them."""
    return lambda weights: scale * tf.reduce_sum(weights * weights)


def network(x, training):
    """Every way to create a variable, as a function for `run.function`."""
    x = tf.layers.dense(x, 5, activation=tf.nn.relu, kernel_regularizer=l2(0.5))
    x = tf.layers.batch_normalization(x, training=training, momentum=0.5)
    x = tf.layers.dropout(x, 0.5, training=training)
    x = tf.layers.dense(x, 6)
    with tf.variable_scope("head"):
        w = tf.get_variable("w", [6, 2], regularizer=l2(0.25))
    tf.summary.scalar("mean", tf.reduce_mean(x))
    bias = tf.Variable(tf.zeros([2]), name="bias")
    return tf.matmul(x, w) + bias + tf.keras.layers.Dense(2)(x)


def inference_variables(model, mode):
    """The names of the variables of the graph of evaluation or prediction."""
    graph = build_inference(Plugins(make_plugin(model)), make_run(mode))
    with graph.tf_graph.as_default():
        return sorted(variable.op.name for variable in tf.global_variables())
