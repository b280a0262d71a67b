"""`run.function` and `run.keras`: functions and Keras models as parts of a model."""

import functools

import numpy as np
import pytest
from graph_fixtures import Spec, evaluate, make_run
from network_fixtures import (
    FEATURES,
    OneNetwork,
    check_loop,
    history,
    inference_variables,
    l2,
    make_steps,
    network,
    three_steps,
)

from toolkit import hookimpl, tf
from toolkit.data.column import Component
from toolkit.errors import ToolkitError
from toolkit.graph.run import step_builder_of

pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated:UserWarning")


def of(fn):
    """A model of one function."""
    return OneNetwork(lambda run: run.function(fn))


def of_keras(create):
    """A model of one Keras model."""
    return OneNetwork(lambda run: run.keras(create()), lambda net, x, run: net(x))


FUNCTION = of(network)


def test_the_variables_have_the_names_that_the_function_gives_them_and_a_step_trains_each():
    steps = three_steps(FUNCTION)[1]
    assert not any("in_build" in name for name in steps.before)
    for name in "dense/kernel", "batch_normalization/gamma", "dense_1/kernel", "head/w", "bias":
        assert not np.array_equal(steps.before[name], steps.after[name]), name


def test_updates_that_an_author_runs_out_of_habit_are_not_run_twice():
    class Habit(OneNetwork):
        @hookimpl
        def optimize(self, losses, run):
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                return run.minimize(losses)

    expected = three_steps(FUNCTION)[1].after
    actual = make_steps(Habit(lambda run: run.function(network)), 2).after
    name = "batch_normalization/moving_mean"
    assert np.array_equal(expected[name], actual[name])


def cross_entropy(logits):
    return (np.log(np.exp(logits).sum(1)) - logits[np.arange(8), np.arange(8) % 2]).mean()


def test_the_losses_of_regularizers_are_those_of_the_present_weights():
    first, second, third = three_steps(FUNCTION)
    in_loop = history(FUNCTION, (2, 1), in_loop=True)
    pairs = (first.before, first), (second.after, third), (in_loop[0].after, in_loop[1])
    for weights, steps in pairs:
        penalty = 0.5 * np.sum(weights["dense/kernel"] ** 2) + 0.25 * np.sum(weights["head/w"] ** 2)
        assert steps.loss == pytest.approx(cross_entropy(steps.logits) + penalty, rel=1e-4)


class Total(OneNetwork):
    """Its loss is that of the collections."""

    @hookimpl
    def loss(self, labels, outputs):
        tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])
        return tf.losses.get_total_loss()


def test_the_collection_has_the_losses_of_the_step():
    expected = three_steps(FUNCTION)[-1].after["head/w"]
    total = Total(lambda run: run.function(network))
    assert np.allclose(expected, make_steps(total, 3).after["head/w"], atol=1e-6)
    check_loop(total)


def test_a_regularizer_of_a_plain_variable_is_computed_in_each_step_of_a_loop():
    def create(run):
        return tf.get_variable("w", [4, 2], regularizer=l2(0.5))

    check_loop(Total(create, lambda w, x, run: tf.matmul(x, w)))


def test_two_passes_of_a_step_have_their_own_dropout():
    def subtract(net, x, run):
        return net(x, True) - net(x, True)

    steps = make_steps(OneNetwork(lambda run: run.function(network), subtract))
    assert np.any(steps.logits != 0)


def test_a_function_is_applied_any_number_of_times_with_the_same_variables():
    def apply_twice(net, x, run):
        return net(x, True) + net(2 * x, True)

    model = OneNetwork(lambda run: run.function(network), apply_twice)
    first = three_steps(model)[0]
    assert sorted(first.before) == sorted(three_steps(FUNCTION)[0].before)
    x = np.maximum(FEATURES.dot(first.before["dense/kernel"]), 0).mean(0)
    # The second pass reads the average before either update: 0.5 x + 0.5 (2 x).
    average = first.after["batch_normalization/moving_mean"]
    assert average == pytest.approx(1.5 * x, rel=1e-5)
    check_loop(model)


def test_two_functions_have_variables_of_their_own_and_may_return_structures():
    def dense(x):
        return tf.layers.dense(x, 2), {"other": tf.layers.dense(x, 2)}

    def apply(nets, x, run):
        return nets[0](x)[0] + nets[1](x)[1]["other"]

    model = Total(lambda run: (run.function(dense), run.function(dense)), apply)
    kernels = {"dense/kernel", "dense_1/kernel", "dense_2/kernel", "dense_3/kernel"}
    assert kernels <= set(make_steps(model).before)


def test_a_variable_scope_around_it_prefixes_the_names():
    def create(run):
        with tf.variable_scope("encoder"):
            return run.function(network)

    def apply(net, x, run):
        with tf.variable_scope("elsewhere"):
            return net(x, True)

    variables = make_steps(OneNetwork(create, apply)).before
    assert {"encoder/dense/kernel", "encoder/head/w"} <= set(variables)


def test_named_features_are_one_dict_or_arguments_of_these_names():
    value = Component((4,), "float32", "value")
    label = Component((), "int32", "class", 2)
    components = ("features/left", value), ("features/right", value), ("labels", label)

    def by_name(left, right, training):
        return tf.layers.dense(left, 2) + tf.layers.dense(right, 2)

    def as_dict(features, training):
        return by_name(features["left"], features["right"], training)

    run = make_run(data=Spec((), components=components))
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
    double, single = evaluate(net(x), net(x, scale=1.0))
    assert double == pytest.approx(2 * single)


def test_a_partial_a_method_and_an_object_are_functions_labels_and_the_run_known_arguments():
    class Model:
        def __call__(self, x, is_training, labels, run):
            assert labels.dtype == tf.int32 and run.mode == "train"
            return tf.layers.dense(x, 2)

        forward = __call__

    run = make_run()
    for fn in (Model(), Model().forward, functools.partial(Model().forward)):
        assert len(run.function(fn).variables) == 2


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_mode_is_known_in_each_call_whatever_the_default_and_an_explicit_value_wins(mode):
    values = []

    def noted(x, *, training=False):
        values.append(training)
        return tf.layers.dense(x, 2)

    net, x = make_run(mode).function(noted), tf.ones([1, 4])
    net(x)
    net(x, training="explicit")
    assert values == [mode == "train", mode == "train", "explicit"]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda run: run.function(network, depth=3), "'network' got an unexpected keyword"),
        (lambda run: run.function(network, 1, 2), "'network' takes fewer arguments than"),
        (
            lambda run: run.function(lambda x, keep_prob: x),
            "run.function does not know the arguments keep_prob of 'function'.\n"
            r"Name each where the function is built: run.function\(function, keep_prob=...\).",
        ),
        (lambda run: run.function(3), "run.function takes a function, not 3"),
        (lambda run: run.function(sequential()), "'seq.*' is a Keras model.\nUse run.keras"),
    ],
)
def test_what_is_no_function_of_known_arguments_is_refused(call, message):
    with pytest.raises(ToolkitError, match=message):
        call(make_run())


def test_a_function_that_creates_other_variables_later_is_refused():
    def changing(x, training):
        return tf.layers.dense(x, 2, name="a" if tf.get_variable_scope().reuse else "b")

    with pytest.raises(ToolkitError, match="'changing' created the variable 'a/kernel'"):
        make_steps(of(changing))


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


K = tf.keras.layers
L2 = tf.keras.regularizers.l2


def layers():
    return [
        K.Dense(5, activation="relu", kernel_regularizer=L2(0.5)),
        K.BatchNormalization(momentum=0.5),
        K.Dropout(0.5),
        K.Lambda(lambda x: 2 * x),
        K.Dense(2, activity_regularizer=L2(0.25), name="top"),
    ]


def sequential():
    return tf.keras.Sequential(layers())


def sequential_with_shape():
    return tf.keras.Sequential([K.InputLayer((4,)), *layers()])


def functional():
    x = inputs = tf.keras.Input((4,))
    for layer in layers():
        x = layer(x)
    return tf.keras.Model(inputs, x)


class Subclass(tf.keras.Model):
    """A model whose `call` knows nothing of training."""

    def __init__(self):
        super().__init__()
        self.parts = layers()

    def call(self, x):
        for layer in self.parts:
            x = layer(x)
        return x


def recurrent():
    return tf.keras.Sequential([K.Reshape((4, 1)), K.LSTM(3), K.Dense(2)])


def recurrent_function(x, training):
    outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), x[:, :, None], dtype="float32")
    return tf.layers.dense(state, 2)


WAYS = [sequential, functional, Subclass]
MODELS = [*map(of_keras, WAYS), FUNCTION]
each_model = pytest.mark.parametrize("model", MODELS, ids=[*(w.__name__ for w in WAYS), "function"])


@each_model
def test_all_modes_have_the_same_variables(model):
    names = sorted(name for name in three_steps(model)[0].before if "optimizer" not in name)
    assert inference_variables(model, "eval") == names
    assert inference_variables(model, "predict") == names


@pytest.mark.parametrize("model", [*MODELS, of_keras(recurrent), of(recurrent_function)])
def test_a_loop_of_steps_changes_the_variables_as_single_steps_do(model):
    check_loop(model)


@each_model
def test_dropout_is_drawn_by_the_run_and_an_extension_changes_nothing(model):
    first, second, _ = three_steps(model)
    assert first.random_ops == []
    assert not np.array_equal(first.logits, second.logits)
    extended = OneNetwork(model.create, model.apply, num_ops=2)
    assert np.array_equal(second.logits, make_steps(extended, 2).logits)


@each_model
def test_batch_norm_moves_its_average_once_in_a_step(model):
    steps = three_steps(model)[0]
    kernel = next(value for value in steps.before.values() if value.shape == (4, 5))
    (average,) = (value for name, value in steps.after.items() if name.endswith("moving_mean"))
    assert average == pytest.approx(0.5 * np.maximum(FEATURES.dot(kernel), 0).mean(0), rel=1e-4)


@pytest.mark.parametrize("model", MODELS[:-1], ids=[way.__name__ for way in WAYS])
def test_the_loss_has_the_regularizers_of_weights_and_outputs(model):
    steps = three_steps(model)[0]
    kernel = next(value for value in steps.before.values() if value.shape == (4, 5))
    outputs = 0.25 * np.sum(steps.logits**2)
    expected = cross_entropy(steps.logits) + 0.5 * np.sum(kernel**2)
    # Keras divides the loss of the outputs by the size of the batch.
    sizes = [expected + outputs, expected + outputs / 8]
    assert min(abs(steps.loss - size) for size in sizes) < 1e-4 * steps.loss


@pytest.mark.parametrize("create", WAYS)
def test_nothing_is_dropped_in_an_evaluation(create):
    net = make_run("eval").keras(create())
    assert np.array_equal(*evaluate(net(FEATURES), net(FEATURES)))


def test_a_frozen_layer_is_not_trained():
    def create():
        model = sequential_with_shape()
        model.layers[0].trainable = False
        return model

    steps = make_steps(of_keras(create))
    name = next(name for name, value in steps.before.items() if value.shape == (4, 5))
    assert np.array_equal(steps.before[name], steps.after[name])


def test_a_functional_model_gets_named_features_by_the_names_of_its_inputs():
    photo, weight = tf.keras.Input((3,), name="photo"), tf.keras.Input((2,), name="weight")
    model = tf.keras.Model([weight, photo], K.concatenate([2 * weight, photo]))
    net = make_run().keras(model)
    outputs = net({"photo": tf.ones([1, 3]), "weight": tf.ones([1, 2])})
    assert evaluate(outputs).tolist() == [[2, 2, 1, 1, 1]]
    with pytest.raises(ToolkitError, match="has the inputs weight, photo, and got height, photo"):
        net({"photo": tf.ones([1, 3]), "height": tf.ones([1, 2])})


def test_a_layer_that_is_shared_counts_its_loss_once():
    shared = K.Dense(4, kernel_regularizer=L2(0.5))
    x = tf.keras.Input((4,))
    net = make_run().keras(tf.keras.Model(x, shared(shared(x))))
    assert len(net.losses()) == 1 and len(net.variables) == 2


def test_a_model_that_was_called_before_keeps_its_variables():
    model = sequential()
    model(tf.placeholder(tf.float32, [None, 4]))
    net = make_run().keras(model)
    assert len(net.variables) == len(tf.global_variables())


def test_a_model_that_was_compiled_is_noted():
    model, run = sequential_with_shape(), make_run()
    model.compile("sgd", "mse")
    run.keras(model)
    (note,) = step_builder_of(run).notes
    assert "compile' have no effect" in note


def of_another_graph():
    with tf.Graph().as_default():
        return sequential_with_shape()


def of_keras_3():
    keras = pytest.importorskip("keras")
    return keras.Sequential([keras.layers.Dense(2)])


@pytest.mark.parametrize(
    "create, message",
    [
        (of_another_graph, "was created outside of the hook 'build'"),
        (of_keras_3, "is a model of Keras 3, which has no graphs"),
        (lambda: abs, "run.keras takes a model or layer of tf.keras, not <"),
    ],
)
def test_what_is_no_model_of_this_graph_is_refused(create, message):
    with pytest.raises(ToolkitError, match=message):
        make_run().keras(create())
