"""`run.keras`: models of tf.keras as a part of a model."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import make_run
from network_fixtures import FEATURES, OneNetwork, inference_variables, make_steps

from toolkit import tf
from toolkit.errors import ToolkitError
from toolkit.graph.run import step_builder_of

pytestmark = pytest.mark.usefixtures("graph")
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


WAYS = [sequential, sequential_with_shape, functional, Subclass]
each_way = pytest.mark.parametrize("create", WAYS)


def of(create):
    """A model of one Keras model."""
    return OneNetwork(lambda run: run.keras(create()), lambda net, x, run: net(x))


def mean_name(variables):
    return next(name for name in variables if name.endswith("moving_mean"))


@each_way
@pytest.mark.parametrize("mode", ["eval", "predict"])
def test_all_modes_have_the_same_variables(create, mode):
    names = [name for name in make_steps(of(create)).before if "optimizer" not in name]
    assert inference_variables(of(create), mode) == sorted(names)


@each_way
def test_a_loop_of_steps_changes_the_variables_as_single_steps_do(create):
    expected, actual = make_steps(of(create), 3), make_steps(of(create), 3, in_loop=True)
    for name, value in expected.after.items():
        assert np.allclose(value, actual.after[name], atol=1e-6), name
    assert expected.loss == pytest.approx(actual.loss, rel=1e-6)


@each_way
def test_dropout_is_drawn_by_the_run(create):
    steps = make_steps(of(create), 2)
    assert steps.random_ops == []
    assert np.array_equal(steps.logits, make_steps(of(create), 2).logits)


@each_way
def test_batch_norm_moves_its_average_once_in_a_step(create):
    steps = make_steps(of(create))
    kernel = next(value for value in steps.before.values() if value.shape == (4, 5))
    expected = 0.5 * np.maximum(FEATURES.dot(kernel), 0).mean(0)
    assert steps.after[mean_name(steps.after)] == pytest.approx(expected, rel=1e-4)


@each_way
def test_the_loss_has_the_regularizers_of_weights_and_outputs(create):
    steps = make_steps(of(create), 1)
    kernel = next(value for value in steps.before.values() if value.shape == (4, 5))
    logits = steps.logits
    errors = np.log(np.exp(logits).sum(1)) - logits[np.arange(8), np.arange(8) % 2]
    outputs = 0.25 * np.sum(logits**2)
    expected = errors.mean() + 0.5 * np.sum(kernel**2)
    # Keras divides the loss of the outputs by the size of the batch.
    sizes = [expected + outputs, expected + outputs / 8]
    assert min(abs(steps.loss - size) for size in sizes) < 1e-4 * steps.loss


@each_way
def test_an_extension_changes_nothing(create):
    model = of(create)
    model.num_ops = 2
    assert np.array_equal(make_steps(of(create), 2).logits, make_steps(model, 2).logits)


@each_way
def test_nothing_is_dropped_in_an_evaluation(create):
    net = make_run("eval").keras(create())
    first, second = net(FEATURES), net(FEATURES)
    with tf.Session() as tf_session:
        tf_session.run(tf.global_variables_initializer())
        assert np.array_equal(*tf_session.run([first, second]))


# ----------------------------------------------------------------------------- unusual models


def test_a_frozen_layer_is_not_trained():
    def create():
        model = sequential_with_shape()
        model.layers[0].trainable = False
        return model

    steps = make_steps(of(create), 2)
    name = next(name for name, value in steps.before.items() if value.shape == (4, 5))
    assert np.array_equal(steps.before[name], steps.after[name])


def test_a_functional_model_gets_named_features_by_the_names_of_its_inputs():
    photo, weight = tf.keras.Input((3,), name="photo"), tf.keras.Input((2,), name="weight")
    model = tf.keras.Model([weight, photo], K.concatenate([2 * weight, photo]))
    net = make_run().keras(model)
    outputs = net({"photo": tf.ones([1, 3]), "weight": tf.ones([1, 2])})
    with tf.Session() as tf_session:
        assert tf_session.run(outputs).tolist() == [[2, 2, 1, 1, 1]]
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


def test_a_layer_alone_is_a_model():
    assert len(make_run().keras(K.Dense(3)).variables) == 2


def test_a_model_that_was_compiled_is_noted():
    model, run = sequential_with_shape(), make_run()
    model.compile("sgd", "mse")
    run.keras(model)
    (note,) = step_builder_of(run).notes
    assert "compile' have no effect" in note


def test_a_recurrent_layer_works_in_a_loop():
    def create():
        return tf.keras.Sequential([K.Reshape((4, 1)), K.LSTM(3), K.Dense(2)])

    expected, actual = make_steps(of(create), 3), make_steps(of(create), 3, in_loop=True)
    for name, value in expected.after.items():
        assert np.allclose(value, actual.after[name], atol=1e-6), name


def test_a_model_of_another_graph_is_refused():
    with tf.Graph().as_default():
        model = sequential_with_shape()
    with pytest.raises(ToolkitError, match="was created outside of the hook 'build'"):
        make_run().keras(model)


def test_a_model_of_keras_3_is_refused():
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(ToolkitError, match="is a model of Keras 3, which has no graphs"):
        make_run().keras(model)


def test_a_function_is_refused():
    with pytest.raises(ToolkitError, match="run.keras takes a model or layer of tf.keras, not <f"):
        make_run().keras(lambda x: x)
