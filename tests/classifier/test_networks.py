"""The networks: sizes, names, gradients, predictions; `build` creates every variable."""

from __future__ import annotations

import numpy as np
import pytest
import toolkit_classifier as plugin
from classifier_fixtures import Data, evaluate, make_run
from toolkit_classifier import networks

from toolkit import DataError, Split, UsageError, tf
from toolkit.data.examples import describe


def build_outputs(shape=(28, 28, 1), classes=10, mode="train", batch=4, **values):
    """Run, model, outputs and labels of a network on uniformly grey images."""
    run = make_run(mode, Data(shape, classes), **values)
    features, labels = tf.fill([batch] + list(shape), 0.5), tf.zeros([batch], tf.int32)
    model = plugin.build(run=run)
    outputs = plugin.call(model=model, features=features, labels=labels, run=run)
    return run, model, outputs, labels


def count_parameters():
    return sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())


def kernel_size(channels, filters, size=3):
    return size * size * channels * filters


def test_the_perceptron_has_the_reference_number_of_parameters():
    build_outputs(network="mlp", hidden=[128])
    assert count_parameters() == 784 * 128 + 128 + 128 * 10 + 10


def test_each_hidden_size_is_a_layer():
    _, _, outputs, _ = build_outputs(network="mlp", hidden=[30, 20])
    assert count_parameters() == 785 * 30 + 31 * 20 + 21 * 10
    assert outputs["features"].shape.as_list() == [4, 20]


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_the_cnn_has_three_stages_of_two_convolutions_on_small_images(shape):
    build_outputs(shape, network="cnn")
    kernels = (
        kernel_size(shape[2], 16) + kernel_size(16, 16) + kernel_size(16, 32) + kernel_size(32, 32)
    )
    kernels += kernel_size(32, 64) + kernel_size(64, 64)
    assert count_parameters() == kernels + 2 * 2 * (16 + 32 + 64) + 64 * 10 + 10


def test_images_of_64_pixels_get_a_fourth_stage():
    _, _, outputs, _ = build_outputs((64, 64, 3), 7, network="cnn")
    assert outputs["features"].shape.as_list() == [4, 128]
    assert "cnn/conv8/kernel:0" in [v.name for v in tf.trainable_variables()]


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (9, 31, 3), (64, 64, 3)])
def test_every_network_accepts_every_size_and_returns_finite_logits_and_embeddings(network, shape):
    _, _, outputs, _ = build_outputs(shape, 7, network=network, hidden=[64])
    logits, embedding = evaluate(outputs["logits"], outputs["features"])
    assert logits.shape == (4, 7) and embedding.shape[0] == 4
    assert 64 <= embedding.shape[1] <= 128
    assert np.isfinite(logits).all() and np.isfinite(embedding).all()


def test_the_perceptron_accepts_vectors():
    _, _, outputs, _ = build_outputs((13,), 3, network="mlp")
    assert evaluate(outputs["logits"]).shape == (4, 3)


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_variable_names_name_the_layer_and_do_not_depend_on_the_scope(network):
    with tf.name_scope("elsewhere"):
        build_outputs(network=network)
    names = [v.name for v in tf.global_variables() if "global_step" not in v.name]
    assert len(set(names)) == len(names)
    assert all(name.startswith(network + "/") and "_1" not in name for name in names)
    if network == "cnn":
        assert {"cnn/conv1/kernel:0", "cnn/norm1/moving_mean:0", "cnn/logits/bias:0"} <= set(names)


def test_the_weights_are_a_function_of_the_seed():
    build_outputs(network="mlp", hidden=[8])
    first = evaluate(tf.trainable_variables()[0])
    with tf.Graph().as_default():
        tf.zeros([3])  # another op before the layers changes nothing
        build_outputs(network="mlp", hidden=[8])
        assert (evaluate(tf.trainable_variables()[0]) == first).all()
    with tf.Graph().as_default():
        build_outputs(network="mlp", hidden=[8], seed=2)
        assert (evaluate(tf.trainable_variables()[0]) != first).any()


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_evaluation_has_no_updates_and_no_randomness(network):
    _, _, outputs, _ = build_outputs(mode="eval", network=network, dropout=0.5, shift=2, mixup=1.0)
    kinds = {op.type for op in tf.get_default_graph().get_operations()}
    assert "targets" not in outputs
    assert not [kind for kind in kinds if kind.startswith("AssignSub")]


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_a_step_can_be_built_in_a_loop_of_the_graph(network):
    values = {"shift": 1, "rotate": 5.0, "elastic": 1.0, "mixup": 0.2, "dropout": 0.2}
    run = make_run(data=Data((8, 8, 1), 3), network=network, hidden=[8], **values)
    features, labels = tf.fill([6, 8, 8, 1], 0.5), tf.constant([0, 1, 2, 0, 1, 2])
    assert run.global_step is not None  # creates it here, outside of the loop
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
        tf.gradients(tf.reduce_sum(result**2), [x, kernel])
        for result in (layer(x), tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
    ]
    for gradient, expected in zip(*evaluate(*gradients)):
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_thirty_steps_learn_to_distinguish_three_stripes(network):
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
        build_outputs(classes=classes)


@pytest.mark.parametrize(
    "labels, text",
    [
        (np.zeros(3, np.float32), "labels float32"),
        (np.zeros([3, 4], bool), "labels bool 4"),
        (np.zeros([3, 2, 2], int), "labels class of 1 int32 2x2"),
        ({"age": np.zeros(3), "kind": np.zeros(3, int)}, "age float32, kind class of 1"),
    ],
)
def test_labels_that_are_not_one_class_are_refused_by_what_they_are(labels, text):
    spec = describe(Split(np.zeros([3, 2, 2, 1], np.uint8), labels))
    with pytest.raises(DataError) as error:
        networks.check_data("mlp", spec)
    assert f"The data has {text}, and a classifier needs" in error.value.message


@pytest.mark.parametrize("network", ["cnn", "resnet"])
def test_a_convolutional_network_refuses_vectors_and_tiny_images(network):
    with pytest.raises(UsageError, match=r"shape \[13\].*\n.*network=mlp"):
        build_outputs((13,), network=network)
    with pytest.raises(UsageError, match="has 7 x 9"):
        build_outputs((7, 9, 1), network=network)


def test_a_prediction_is_the_most_likely_label_with_its_probability():
    logits = np.log(np.array([[1.0, 2.0, 1.0], [6.0, 1.0, 1.0]], np.float32))
    outputs = {"logits": tf.constant(logits), "features": tf.zeros([2, 9])}
    predictions = networks.predict(outputs)
    values = dict(zip(predictions, evaluate(*predictions.values())))
    assert values["label"].tolist() == [1, 0] and values["label"].dtype == np.int32
    np.testing.assert_allclose(values["probability"], [0.5, 0.75], rtol=1e-6)
    np.testing.assert_allclose(values["probabilities"][0], [0.25, 0.5, 0.25], rtol=1e-6)
    assert values["features"].shape == (2, 9)
