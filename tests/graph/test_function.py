"""`run.function`: functions that create variables as they go, as a part of a model."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from graph_fixtures import Spec, make_run
from network_fixtures import FEATURES, OneNetwork, inference_variables, make_steps

from toolkit import hookimpl, tf
from toolkit.compat import HAS_XLA
from toolkit.data.column import Component
from toolkit.errors import ToolkitError
from toolkit.graph.run import step_builder_of

pytestmark = [
    pytest.mark.usefixtures("graph"),
    pytest.mark.filterwarnings("ignore:.* is deprecated:UserWarning"),
]


def l2(scale):
    """A regularizer, as tf.layers and tf.get_variable take them."""
    return lambda weights: scale * tf.reduce_sum(weights * weights)


def network(x, training):
    """Every way to create a variable."""
    x = tf.layers.dense(x, 5, activation=tf.nn.relu, kernel_regularizer=l2(0.5))
    x = tf.layers.batch_normalization(x, training=training, momentum=0.5)
    x = tf.layers.dense(x, 6)
    with tf.variable_scope("head"):
        w = tf.get_variable("w", [6, 2], regularizer=l2(0.25))
    tf.summary.scalar("mean", tf.reduce_mean(x))
    bias = tf.Variable(tf.zeros([2]), name="bias")
    return tf.matmul(x, w) + bias + tf.keras.layers.Dense(2)(x)


def dropout_network(x, training):
    return tf.layers.dense(tf.layers.dropout(x, 0.5, training=training), 2, name="top")


NAMES = ["dense/kernel", "batch_normalization/gamma", "dense_1/kernel", "head/w", "bias"]


def of(fn, *args, **kwargs):
    """A model of one function."""
    return OneNetwork(lambda run: run.function(fn, *args, **kwargs))


def test_the_variables_have_the_names_that_the_function_gives_them():
    variables = make_steps(of(network)).before
    assert set(NAMES) <= set(variables)
    assert not any("in_build" in name for name in variables)


@pytest.mark.parametrize("mode", ["eval", "predict"])
def test_all_modes_have_the_same_variables(mode):
    names = [name for name in make_steps(of(network)).before if "optimizer" not in name]
    assert inference_variables(of(network), mode) == sorted(names)


def test_a_step_trains_every_variable():
    steps = make_steps(of(network), 2)
    for name in NAMES:
        assert not np.array_equal(steps.before[name], steps.after[name]), name


@pytest.mark.parametrize("steps", [1, 3])
def test_a_loop_of_steps_changes_the_variables_as_single_steps_do(steps):
    expected, actual = make_steps(of(network), steps), make_steps(of(network), steps, in_loop=True)
    for name, value in expected.after.items():
        assert np.allclose(value, actual.after[name], atol=1e-6), name
    assert expected.loss == pytest.approx(actual.loss, rel=1e-6)


def test_batch_norm_moves_its_average_once_in_a_step():
    steps = make_steps(of(network))
    x = FEATURES.dot(steps.before["dense/kernel"])  # the bias is 0
    expected = 0.5 * np.maximum(x, 0).mean(0)
    actual = steps.after["batch_normalization/moving_mean"]
    assert actual == pytest.approx(expected, rel=1e-5)


def test_updates_that_an_author_runs_out_of_habit_are_not_run_twice():
    class Habit(OneNetwork):
        @hookimpl
        def optimize(self, losses, run):
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                return run.minimize(losses)

    expected = make_steps(of(network), 2).after
    actual = make_steps(Habit(lambda run: run.function(network)), 2).after
    name = "batch_normalization/moving_mean"
    assert np.array_equal(expected[name], actual[name])


def test_the_losses_of_regularizers_are_those_of_the_present_weights():
    steps = make_steps(of(network), 3, in_loop=True)
    plain = OneNetwork(lambda run: run.function(network))
    plain.create = lambda run: WithoutLosses(run.function(network))
    expected = make_steps(plain, 1)
    weights = expected.before
    penalty = 0.5 * np.sum(weights["dense/kernel"] ** 2) + 0.25 * np.sum(weights["head/w"] ** 2)
    assert make_steps(of(network)).loss == pytest.approx(expected.loss + penalty, rel=1e-5)
    # Each step of the loop shrinks the weights by their regularizer's gradient.
    after_two = make_steps(of(network), 2).after
    penalty = 0.5 * np.sum(after_two["dense/kernel"] ** 2) + 0.25 * np.sum(after_two["head/w"] ** 2)
    assert penalty < steps.loss < penalty + 3


class WithoutLosses:
    """A network whose regularizers nobody minimizes."""

    def __init__(self, network):
        self.apply = network

    def __call__(self, *args):
        return self.apply(*args)

    def losses(self):
        return []


def test_the_collection_has_the_losses_of_the_step():
    class Total(OneNetwork):
        @hookimpl
        def loss(self, labels, outputs):
            tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])
            return tf.losses.get_total_loss()

    expected = make_steps(of(network), 3)
    for in_loop in (False, True):
        actual = make_steps(Total(lambda run: run.function(network)), 3, in_loop)
        assert np.allclose(expected.after["head/w"], actual.after["head/w"], atol=1e-6)


def test_a_regularizer_of_a_plain_variable_is_computed_in_each_step_of_a_loop():
    class Plain(OneNetwork):
        @hookimpl
        def build(self, run):
            return tf.get_variable("w", [4, 2], regularizer=l2(0.5))

        @hookimpl
        def call(self, model, features):
            return {"logits": tf.matmul(features, model)}

        @hookimpl
        def loss(self, labels, outputs):
            tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])
            return tf.losses.get_total_loss()

    expected, actual = make_steps(Plain(None), 3), make_steps(Plain(None), 3, in_loop=True)
    assert np.array_equal(expected.after["w"], actual.after["w"])


# --------------------------------------------------------------------------------------- dropout


def test_dropout_is_a_function_of_seed_and_step():
    first = make_steps(of(dropout_network), 3)
    again = make_steps(of(dropout_network), 3, in_loop=True)
    assert np.array_equal(first.logits, again.logits)
    assert not np.array_equal(first.logits, make_steps(of(dropout_network), 2).logits)
    assert first.random_ops == []


def test_an_extension_changes_no_dropout_and_no_initial_value():
    model = OneNetwork(lambda run: run.function(dropout_network), num_ops=2)
    expected, actual = make_steps(of(dropout_network), 2), make_steps(model, 2)
    assert np.array_equal(expected.logits, actual.logits)


def test_two_passes_of_a_step_have_their_own_dropout():
    def apply_twice(net, x, run):
        first, second = net(x, True), net(x, True)
        return first - second

    model = OneNetwork(lambda run: run.function(dropout_network), apply_twice)
    assert np.any(make_steps(model).logits != 0)


def test_dropout_zeroes_its_share():
    def count_zeros(x, training):
        bias = tf.get_variable("b", [2])
        zeros = tf.cast(
            tf.equal(tf.layers.dropout(tf.ones([4000]), 0.25, training=True), 0), "float32"
        )
        return tf.reduce_mean(zeros) + 0 * bias + 0 * tf.reduce_sum(x, 1, keepdims=True)

    assert make_steps(of(count_zeros)).logits == pytest.approx(0.25, abs=0.03)


def test_a_draw_within_a_loop_of_the_function_stays_and_is_named():
    def noisy(x, training):
        w = tf.get_variable("w", [4, 2])
        body = lambda i, y: (i + 1, y + tf.random.normal(tf.shape(y)))  # noqa: E731
        return tf.while_loop(lambda i, y: i < 2, body, (0, tf.matmul(x, w)))[1]

    assert [op.type for op in make_steps(of(noisy)).random_ops] == ["RandomStandardNormal"]


# ------------------------------------------------------------------------------- all functions


def test_a_function_is_applied_any_number_of_times_with_the_same_variables():
    def apply_twice(net, x, run):
        return net(x, True) + net(2 * x, True)

    model = OneNetwork(lambda run: run.function(network), apply_twice)
    assert sorted(make_steps(model).before) == sorted(make_steps(of(network)).before)
    expected, actual = make_steps(model, 2), make_steps(model, 2, in_loop=True)
    assert np.allclose(expected.after["head/w"], actual.after["head/w"], atol=1e-6)


def test_batch_norm_of_two_passes_moves_its_average_twice_in_their_order():
    def apply_twice(net, x, run):
        return net(x, True) + net(2 * x, True)

    steps = make_steps(OneNetwork(lambda run: run.function(network), apply_twice))
    x = np.maximum(FEATURES.dot(steps.before["dense/kernel"]), 0).mean(0)
    # The second pass reads the average before either update: 0.5 x + 0.5 (2 x).
    actual = steps.after["batch_normalization/moving_mean"]
    assert actual == pytest.approx(1.5 * x, rel=1e-5)


def test_two_functions_have_variables_of_their_own():
    class Two(OneNetwork):
        def losses(self):
            return []

    def create(run):
        nets = run.function(dense), run.function(dense)
        return WithoutLosses(lambda x, training: nets[0](x) + nets[1](x))

    def dense(x):
        return tf.layers.dense(x, 2)

    assert {"dense/kernel", "dense_1/kernel"} <= set(make_steps(OneNetwork(create)).before)


def test_a_variable_scope_around_it_prefixes_the_names():
    def create(run):
        with tf.variable_scope("encoder"):
            return run.function(network)

    def apply(net, x, run):
        with tf.variable_scope("elsewhere"):
            return net(x, True)

    variables = make_steps(OneNetwork(create, apply)).before
    assert {"encoder/dense/kernel", "encoder/head/w"} <= set(variables)


def test_a_function_may_return_a_structure():
    def two(x):
        return tf.layers.dense(x, 2, name="a"), {"b": tf.layers.dense(x, 2, name="b")}

    def apply(net, x, run):
        a, others = net(x)
        return a + others["b"]

    model = OneNetwork(lambda run: run.function(two), apply)
    assert {"a/kernel", "b/kernel"} <= set(make_steps(model).before)


def test_named_features_are_one_dict_or_arguments_of_these_names():
    components = (
        ("features/left", Component((4,), "float32", "value")),
        ("features/right", Component((4,), "float32", "value")),
        ("labels", Component((), "int32", "class", 2)),
    )

    def by_name(left, right, training):
        return tf.layers.dense(left, 2) + tf.layers.dense(right, 2)

    def as_dict(features, training):
        return by_name(features["left"], features["right"], training)

    spec = Spec((), components=components)
    run = make_run(data=spec)
    assert len(run.function(by_name).variables) == len(run.function(as_dict).variables) == 4


def test_a_tuple_of_inputs_is_several_arguments():
    def pair(image, code, training):
        return tf.layers.dense(tf.concat([image, code], 1), 2)

    code = tf.placeholder(tf.float32, [None, 3])
    net = make_run().function(pair, inputs=(tf.placeholder(tf.float32, [None, 4]), code))
    assert net.variables[0].shape.as_list() == [7, 2]


def test_arguments_of_run_function_hold_in_each_call_that_has_no_others():
    def sized(x, units, scale=1.0, training=True):
        return scale * tf.layers.dense(x, units, use_bias=False, name="d")

    run = make_run()
    net = run.function(sized, 3, scale=2.0)
    x = tf.ones([1, 4])
    assert net(x).shape.as_list() == [1, 3]
    with tf.Session() as tf_session:
        tf_session.run(tf.global_variables_initializer())
        double, single = tf_session.run([net(x), net(x, scale=1.0)])
    assert double == pytest.approx(2 * single)


def test_a_partial_a_method_and_an_object_are_functions():
    class Model:
        def __call__(self, x, is_training):
            return tf.layers.dense(x, 2)

        forward = __call__

    run = make_run()
    for fn in (Model(), Model().forward, functools.partial(Model().forward)):
        assert len(run.function(fn).variables) == 2


def test_labels_and_the_run_are_known_arguments():
    def with_labels(features, labels, run):
        assert labels.dtype == tf.int32 and run.mode == "train"
        return tf.layers.dense(features, 2)

    assert make_run().function(with_labels).variables


def test_an_unknown_argument_is_refused_with_the_way_to_name_it():
    with pytest.raises(ToolkitError) as error:
        make_run().function(lambda x, keep_prob: x)
    assert str(error.value) == (
        "run.function does not know the arguments keep_prob of 'function'.\n"
        "Name each where the function is built: run.function(function, keep_prob=...)."
    )


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((), {"depth": 3}, "'network' got an unexpected keyword argument 'depth'."),
        ((1, 2), {}, "'network' takes fewer arguments than run.function has for it."),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args, kwargs, message):
    with pytest.raises(ToolkitError, match=message):
        make_run().function(network, *args, **kwargs)


def test_what_is_no_function_is_refused():
    with pytest.raises(ToolkitError, match="run.function takes a function, not 3"):
        make_run().function(3)


def test_a_keras_model_is_refused_with_the_way_out():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)], name="top")
    with pytest.raises(ToolkitError, match="'top' is a Keras model.\nUse run.keras"):
        make_run().function(model)


def test_a_function_that_creates_other_variables_later_is_refused():
    def changing(x, training):
        return tf.layers.dense(x, 2, name="a" if tf.get_variable_scope().reuse else "b")

    with pytest.raises(ToolkitError, match="'changing' created the variable 'a/kernel'"):
        make_steps(of(changing))


def test_variables_in_half_precision_are_noted():
    def half(x, training):
        return tf.layers.dense(tf.cast(x, tf.float16), 2)

    run = make_run()
    run.function(half)
    (note,) = step_builder_of(run).notes
    assert note.startswith("'dense/kernel' is float16, in which the epsilon of Adam is 0")


def test_collections_have_nothing_of_the_pass_in_build():
    def with_losses(x, training):
        y = network(x, True)
        tf.losses.mean_squared_error(tf.zeros_like(y), y)
        tf.add_to_collection("activations", y)
        return y

    make_run().function(with_losses)
    for key in ("activations", "losses", "summaries", "update_ops"):
        assert tf.get_collection(key) == [], key
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 2


@pytest.mark.skipif(HAS_XLA, reason="tf_slim 1.1.0 does not work on TensorFlow 2.21")
def test_tf_slim_works():
    slim = pytest.importorskip("tf_slim")

    def slim_network(x, is_training):
        with slim.arg_scope([slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.1)):
            x = slim.fully_connected(x, 5, normalizer_fn=slim.batch_norm)
            x = slim.dropout(x, 0.5, is_training=is_training)
            return slim.fully_connected(x, 2, activation_fn=None)

    expected, actual = make_steps(of(slim_network), 3), make_steps(of(slim_network), 3, True)
    assert np.array_equal(
        expected.after["fully_connected/weights"], actual.after["fully_connected/weights"]
    )
    assert len(make_run().function(slim_network).losses()) == 2


def test_a_recurrent_network_reads_its_weights_in_each_step_of_a_loop():
    def recurrent(x, training):
        cell = tf.nn.rnn_cell.GRUCell(3)
        outputs, state = tf.nn.dynamic_rnn(cell, x[:, :, tf.newaxis], dtype=tf.float32)
        return tf.layers.dense(state, 2)

    expected, actual = make_steps(of(recurrent), 3), make_steps(of(recurrent), 3, in_loop=True)
    for name, value in expected.after.items():
        assert np.array_equal(value, actual.after[name]), name
