"""Initial values follow from (run seed, name of the variable), whatever made the variable."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import Constant, make_plugin, make_run, session
from linear_fixtures import Linear

from toolkit import hookimpl, tf
from toolkit.graph.build import build_training
from toolkit.plugins import Plugins


def by_get_variable(name, **seed):
    initializer = tf.glorot_uniform_initializer(**seed) if seed else None
    return tf.get_variable(name, [3, 4], initializer=initializer)


def by_variable(name, **seed):
    return tf.Variable(tf.random.normal([3, 4], **seed), name=name)


def by_function(name, **seed):
    return tf.get_variable(name, initializer=lambda: tf.random.truncated_normal([3, 4], **seed))


def by_tf_layers(name, **seed):
    initializer = tf.variance_scaling_initializer(**seed) if seed else None
    layer = tf.layers.Dense(4, kernel_initializer=initializer, name=name)
    return layer.build(tf.TensorShape([None, 3])) or layer.kernel


def by_keras(name, **seed):
    initializer = tf.keras.initializers.he_normal(**seed) if seed else "glorot_uniform"
    layer = tf.keras.layers.Dense(4, kernel_initializer=initializer)
    with tf.name_scope(name + "/"):
        return layer.build(tf.TensorShape([None, 3])) or layer.kernel


def by_new_keras(name, **seed):
    """By an initializer of tf_keras itself, which draws by stateless ops."""
    keras = pytest.importorskip("tf_keras")
    layer = tf.keras.layers.Dense(4, kernel_initializer=keras.initializers.HeNormal(**seed))
    with tf.name_scope(name + "/"):
        return layer.build(tf.TensorShape([None, 3])) or layer.kernel


def by_orthogonal(name, **seed):
    return tf.get_variable(name, [3, 4], initializer=tf.orthogonal_initializer(**seed))


WAYS = [
    by_get_variable,
    by_variable,
    by_function,
    by_tf_layers,
    by_keras,
    by_new_keras,
    by_orthogonal,
]
each_way = pytest.mark.parametrize("way", WAYS)


def build_values(create, num_ops=0, run_seed=1, graph_seed=None):
    """The initial values of what `create()` returns, in a model of a training graph.

    Args:
        create: called in the hook `build`.
        num_ops: how many ops an extension adds before it.
        run_seed: of the run.
        graph_seed: that the plugin sets in `build`, or None.
    """

    class Model(Linear):
        @hookimpl
        def build(self, run):
            for _ in range(num_ops):
                tf.random.normal([])
            if graph_seed is not None:
                tf.set_random_seed(graph_seed)
            self.variables = create()
            return Linear.build(self, run)

    model = Model()
    plugins = Plugins(make_plugin(model))
    run = make_run(classes=plugins.options(), seed=run_seed)
    with tf.Graph().as_default() as graph:
        build_training(plugins, run, Constant(np.ones([2, 4]), [0, 1]), graph)
        with session() as tf_session:
            return tf_session.run(model.variables)


@each_way
def test_an_extension_changes_no_initial_value(way):
    expected = build_values(lambda: way("w"))
    assert np.array_equal(expected, build_values(lambda: way("w"), num_ops=3))


@each_way
def test_initial_values_differ_by_the_run_seed(way):
    assert not np.array_equal(build_values(lambda: way("w")), build_values(lambda: way("w"), 0, 2))


@each_way
def test_two_variables_begin_with_different_values(way):
    first, second = build_values(lambda: [way("v"), way("w")])
    assert not np.array_equal(first, second)


@each_way
def test_the_order_of_variables_does_not_change_their_values(way):
    first, second = build_values(lambda: [way("v"), way("w")])
    expected = build_values(lambda: [way("w"), way("v")])
    assert np.array_equal([second, first], expected)


@each_way
def test_a_seed_of_the_user_holds(way):
    values = build_values(lambda: [way("v", seed=5), way("w", seed=5), way("x", seed=6)])
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


def test_the_seed_that_a_plugin_sets_for_its_graph_holds():
    expected = build_values(lambda: by_variable("w"), graph_seed=5)
    assert np.array_equal(expected, build_values(lambda: by_variable("w"), 0, 2, graph_seed=5))


def test_two_random_ops_of_one_variable_draw_different_numbers():
    def create():
        return tf.Variable(tf.random.normal([3]) - tf.random.normal([3]), name="w")

    assert np.all(build_values(create) != 0)


def test_a_fixed_random_tensor_of_the_model_does_not_depend_on_other_ops():
    expected = build_values(lambda: tf.random.normal([3], name="projection"))
    actual = build_values(lambda: tf.random.normal([3], name="projection"), num_ops=0)
    assert np.array_equal(expected, actual)
    with_others = build_values(lambda: [tf.constant(1.0), tf.random.normal([3], name="projection")])
    assert np.array_equal(expected, with_others[1])
