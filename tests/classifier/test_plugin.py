"""The plugin's options, and its networks: sizes, names, gradients, predictions."""

import numpy as np
import pytest
import toolkit_classifier as plugin
from classifier_fixtures import make_data, make_run
from graph_fixtures import evaluate
from toolkit_classifier import networks

from toolkit import DataError, Split, UsageError, tf
from toolkit.data.examples import describe
from toolkit.graph.run import step_builder_of


@pytest.mark.parametrize(
    "name, value",
    [("network", "vgg"), ("hidden", "0"), ("hidden", "")]
    + [("class_weights", weights) for weights in ("1,x", "0,0", "1,-1", "1,nan")],
)
def test_a_value_out_of_range_is_refused_with_its_name(name, value):
    with pytest.raises(UsageError, match=f"Option '{name}' is"):
        make_run(**{name: value})


NETWORKS = ["mlp", "cnn", "resnet"]
each_network = pytest.mark.parametrize("network", NETWORKS)


def build_outputs(shape=(28, 28, 1), classes=10, mode="train", **values):
    """The outputs of a network on four uniformly grey images."""
    run = make_run(mode, make_data(shape, classes), **values)
    features, labels = tf.fill([4, *shape], 0.5), tf.zeros([4], tf.int32)
    model = plugin.build(run=run)
    return plugin.call(model=model, features=features, labels=labels, run=run)


def count_cnn(*channels):
    """How many parameters 3 x 3 convolutions between channels, their norms and 10 logits have."""
    kernels = sum(9 * a * b for a, b in zip(channels, channels[1:]))
    return kernels + 2 * sum(channels[1:]) + 10 * channels[-1] + 10


@pytest.mark.parametrize(
    "shape, options, count",
    [
        ((28, 28, 1), {"network": "mlp", "hidden": [128]}, 784 * 128 + 128 + 128 * 10 + 10),
        ((28, 28, 1), {"network": "mlp", "hidden": [30, 20]}, 785 * 30 + 31 * 20 + 21 * 10),
        # Three stages of two convolutions, and a fourth for images of 64 pixels.
        ((32, 32, 3), {"network": "cnn"}, count_cnn(3, 16, 16, 32, 32, 64, 64)),
        ((64, 64, 3), {"network": "cnn"}, count_cnn(3, 16, 16, 32, 32, 64, 64, 128, 128)),
    ],
)
def test_a_network_has_a_known_number_of_parameters(shape, options, count):
    build_outputs(shape, **options)
    assert sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables()) == count


@pytest.mark.parametrize(
    "values, notes",
    [
        ({}, []),
        ({"hidden": [64]}, ["hidden has no effect: network auto is cnn for these images"]),
        ({"hidden": [64], "network": "mlp"}, []),
    ],
)
def test_hidden_layers_that_the_chosen_network_does_not_have_are_noted(values, notes):
    run = make_run(**values)
    plugin.build(run=run)
    assert step_builder_of(run).notes == notes


@pytest.mark.parametrize(
    "network, shape", [("mlp", (13,))] + [(n, s) for n in NETWORKS for s in ((8, 8, 1), (9, 31, 3))]
)
def test_every_network_accepts_every_size_and_returns_finite_logits_and_embeddings(network, shape):
    outputs = build_outputs(shape, 7, network=network, hidden=[64])
    logits, embedding = evaluate(outputs["logits"], outputs["features"])
    assert logits.shape == (4, 7) and embedding.shape[0] == 4
    assert 64 <= embedding.shape[1] <= 128
    assert np.isfinite(logits).all() and np.isfinite(embedding).all()


@each_network
def test_variable_names_name_the_layer_and_do_not_depend_on_the_scope(network):
    with tf.name_scope("elsewhere"):
        build_outputs(network=network)
    names = [v.name for v in tf.global_variables() if "global_step" not in v.name]
    assert len(set(names)) == len(names)
    assert all(name.startswith(network + "/") and "_1" not in name for name in names)
    if network == "cnn":
        assert {"cnn/conv1/kernel:0", "cnn/norm1/moving_mean:0", "cnn/logits/bias:0"} <= set(names)


@each_network
def test_evaluation_has_no_updates_and_no_randomness(network):
    outputs = build_outputs(mode="eval", network=network, dropout=0.5, shift=2, mixup=1.0)
    kinds = {op.type for op in tf.get_default_graph().get_operations()}
    assert "targets" not in outputs
    assert not [kind for kind in kinds if kind.startswith("AssignSub")]


@pytest.mark.parametrize(
    "labels, text",
    [
        (None, "no labels"),
        (np.zeros(3, int), "one class"),
        (np.zeros(3, np.float32), "labels float32, and a classifier needs"),
        (np.zeros([3, 2, 2], int), "labels class of 1 int32 2x2, and a classifier needs"),
        (
            {"age": np.zeros(3), "kind": np.zeros(3, int)},
            "age float32, kind class of 1, and a classifier needs",
        ),
    ],
)
def test_labels_that_are_not_one_class_are_refused_by_what_they_are(labels, text):
    spec = describe(Split(np.zeros([3, 2, 2, 1], np.uint8), labels))
    with pytest.raises(DataError, match=f"The data has {text}"):
        networks.check_data("mlp", spec)


@pytest.mark.parametrize(
    "shape, name", [((13,), "mlp"), ((7, 9, 1), "mlp"), ((8, 9, 1), "cnn"), ((64, 64, 3), "cnn")]
)
def test_images_that_are_large_enough_get_the_convolutional_network(shape, name):
    spec = describe(Split(np.zeros([3, *shape], np.uint8), np.arange(3)))
    assert networks.choose_network("auto", spec) == name
    assert networks.choose_network("resnet", spec) == "resnet"


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
