"""The networks: sizes, names, and that everything is made in `build`."""

from __future__ import annotations

import numpy as np
import pytest
import toolkit_classifier as plugin
from classifier_fixtures import Data, evaluate, make_run
from toolkit_classifier import networks

from toolkit import DataError, UsageError, tf


def built(shape=(28, 28, 1), classes=10, mode="train", batch=4, **values):
    """Run, outputs and labels of a network on even grey."""
    run = make_run(mode, Data(shape, classes), **values)
    features, labels = tf.fill([batch] + list(shape), 0.5), tf.zeros([batch], tf.int32)
    model = plugin.build(run=run)
    outputs = plugin.call(model=model, features=features, labels=labels, run=run)
    return run, model, outputs, labels


def trainable():
    return sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())


def conv(channels, filters, size=3):
    return size * size * channels * filters


def test_the_perceptron_has_the_reference_number_of_parameters():
    built(network="mlp", hidden=[128])
    assert trainable() == 784 * 128 + 128 + 128 * 10 + 10


def test_hidden_sizes_make_as_many_layers():
    _, _, outputs, _ = built(network="mlp", hidden=[30, 20])
    assert trainable() == 785 * 30 + 31 * 20 + 21 * 10
    assert outputs["features"].shape.as_list() == [4, 20]


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_the_cnn_has_three_stages_of_two_convolutions_on_small_images(shape):
    built(shape, network="cnn")
    kernels = conv(shape[2], 16) + conv(16, 16) + conv(16, 32) + conv(32, 32)
    kernels += conv(32, 64) + conv(64, 64)
    assert trainable() == kernels + 2 * 2 * (16 + 32 + 64) + 64 * 10 + 10


def test_64_pixels_make_a_fourth_stage():
    _, _, outputs, _ = built((64, 64, 3), 7, network="cnn")
    assert outputs["features"].shape.as_list() == [4, 128]
    assert "cnn/conv8/kernel:0" in [v.name for v in tf.trainable_variables()]


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (9, 31, 3), (64, 64, 3)])
def test_every_network_takes_every_size_and_gives_finite_logits_and_features(network, shape):
    _, _, outputs, _ = built(shape, 7, network=network, hidden=[64])
    logits, features = evaluate(outputs["logits"], outputs["features"])
    assert logits.shape == (4, 7) and features.shape[0] == 4
    assert 64 <= features.shape[1] <= 128
    assert np.isfinite(logits).all() and np.isfinite(features).all()


def test_the_perceptron_takes_vectors():
    _, _, outputs, _ = built((13,), 3, network="mlp")
    assert evaluate(outputs["logits"]).shape == (4, 3)


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_variable_names_tell_the_layer_and_do_not_depend_on_the_scope(network):
    with tf.name_scope("elsewhere"):
        built(network=network)
    names = [v.name for v in tf.global_variables() if "global_step" not in v.name]
    assert len(set(names)) == len(names)
    assert all(name.startswith(network + "/") and "_1" not in name for name in names)
    if network == "cnn":
        assert {"cnn/conv1/kernel:0", "cnn/norm1/moving_mean:0", "cnn/logits/bias:0"} <= set(names)


def test_the_weights_are_a_function_of_the_seed():
    built(network="mlp", hidden=[8])
    first = evaluate(tf.trainable_variables()[0])
    with tf.Graph().as_default():
        tf.zeros([3])  # another op before the layers changes nothing
        built(network="mlp", hidden=[8])
        assert (evaluate(tf.trainable_variables()[0]) == first).all()
    with tf.Graph().as_default():
        built(network="mlp", hidden=[8], seed=2)
        assert (evaluate(tf.trainable_variables()[0]) != first).any()


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_evaluation_has_no_updates_and_no_randomness(network):
    _, _, outputs, _ = built(mode="eval", network=network, dropout=0.5, shift=2, mixup=1.0)
    kinds = {op.type for op in tf.get_default_graph().get_operations()}
    assert "targets" not in outputs
    assert not [kind for kind in kinds if kind.startswith("AssignSub")]


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_a_step_can_be_built_in_a_loop_of_the_graph(network):
    values = {"shift": 1, "rotate": 5.0, "elastic": 1.0, "mixup": 0.2, "dropout": 0.2}
    run = make_run(data=Data((8, 8, 1), 3), network=network, hidden=[8], **values)
    features, labels = tf.fill([6, 8, 8, 1], 0.5), tf.constant([0, 1, 2, 0, 1, 2])
    assert run.global_step is not None  # made here, outside the loop
    model = plugin.build(run=run)
    before = [v.name for v in tf.global_variables()]

    def step(total):
        outputs = plugin.call(model=model, features=features, labels=labels, run=run)
        loss = plugin.loss(labels=labels, outputs=outputs, run=run)
        gradients = tf.gradients(loss, tf.trainable_variables())
        assert all(gradient is not None for gradient in gradients)
        return total + loss + 0 * tf.global_norm(gradients)

    total = tf.while_loop(lambda total: total < 1e-3, step, [tf.constant(0.0)])
    assert [v.name for v in tf.global_variables()] == before
    assert np.isfinite(evaluate(total))


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("height, width, channels", [(28, 28, 16), (9, 14, 17), (8, 8, 3)])
def test_a_convolution_has_the_gradients_of_tensorflows_own(
    monkeypatch, onednn, size, height, width, channels
):
    monkeypatch.setattr(networks, "ONEDNN", onednn)
    draw = np.random.RandomState(0).normal
    x = tf.constant(draw(size=[2, height, width, channels]).astype(np.float32))
    layer = networks.Layers(make_run(), "test").conv("conv", channels, 20, size)
    kernel = tf.trainable_variables()[0]
    gradients = [
        tf.gradients(tf.reduce_sum(made**2), [x, kernel])
        for made in (layer(x), tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
    ]
    for found, own in zip(*evaluate(*gradients)):
        np.testing.assert_allclose(found, own, rtol=0, atol=1e-5 * np.abs(own).max())


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_thirty_steps_learn_to_tell_three_stripes_apart(network):
    images = np.zeros([12, 8, 8, 1], np.float32)
    for index in range(12):
        images[index, :, 2 * (index % 3) : 2 * (index % 3) + 2] = 1
    run = make_run(
        data=Data((8, 8, 1), 3), network=network, learning_rate=0.01, schedule="constant"
    )
    features, labels = tf.constant(images), tf.constant(np.arange(12) % 3, tf.int32)
    model = plugin.build(run=run)
    outputs = plugin.call(model=model, features=features, labels=labels, run=run)
    loss = plugin.loss(labels=labels, outputs=outputs, run=run)
    train_op = plugin.optimize(losses=loss, run=run)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(30):
            session.run(train_op)
        assert session.run(run.logged["accuracy"]) == 1.0
        assert session.run(run.global_step) == 30


@pytest.mark.parametrize(
    "classes, sentence", [(0, "The data has no labels"), (1, "The data has one class")]
)
def test_data_without_two_classes_are_refused_at_build(classes, sentence):
    with pytest.raises(DataError, match=sentence):
        built(classes=classes)


@pytest.mark.parametrize("network", ["cnn", "resnet"])
def test_a_convolutional_network_refuses_vectors_and_tiny_images(network):
    with pytest.raises(UsageError, match=r"shape \[13\].*\n.*network=mlp"):
        built((13,), network=network)
    with pytest.raises(UsageError, match="has 7 x 9"):
        built((7, 9, 1), network=network)
