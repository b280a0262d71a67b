"""The function of an Estimator as a plugin."""

import collections

import numpy as np
import pytest
from toolkit_adopt.lift.model_fn import ModelFn

from toolkit import UsageError, tf
from toolkit.api import load_plugins, open_folder
from toolkit.data.arrays.kept import keep_arrays
from toolkit.storage.run_folder import open_run
from toolkit.testing import fingerprint, tensors, train

Spec = collections.namedtuple("Spec", "predictions loss train_op eval_metric_ops")
X = np.random.RandomState(0).rand(64, 6).astype(np.float32)
Y = np.random.RandomState(1).randint(0, 3, 64).astype(np.int32)
OPTIONS = {"batch_size": 8, "evaluate_steps": 100, "steps": 8, "page": False}


def model_fn(features, labels, mode, params):
    """A dict of features, batch norm, dropout, Adam, tf.metrics."""
    is_training = mode == "train"
    h = tf.layers.dense(features["x"], 8, tf.nn.relu)
    h = tf.layers.batch_normalization(h, training=is_training)
    h = tf.layers.dropout(h, params["rate"], training=is_training)
    logits = tf.layers.dense(h, 3)
    predictions = {"label": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
    if mode == "infer":
        return Spec(predictions, None, None, None)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = None
    if is_training:
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train_op = tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
    return Spec(predictions, loss, train_op, {"acc": tf.metrics.accuracy(labels, logits[:, 0] > 0)})


def accuracy_fn(features, labels, mode):
    """A tensor of features, a weight that starts at 0: all classes are predicted as 0."""
    w = tf.get_variable("w", [6, 3], initializer=tf.zeros_initializer())
    logits = tf.matmul(features, w)
    label = tf.argmax(logits, 1, output_type=tf.int32)
    if mode == "infer":
        return Spec(label, None, None, None)
    loss = tf.losses.softmax_cross_entropy(labels, logits)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    classes = tf.argmax(labels, 1, output_type=tf.int32)
    return Spec({"label": label}, loss, train_op, {"acc": tf.metrics.accuracy(classes, label)})


NAMED = ModelFn(model_fn, {"rate": 0.5}, feature="x")


@pytest.fixture(scope="module")
def data():
    return keep_arrays((X, Y))


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A run of `NAMED`, several steps per call."""
    folder = str(tmp_path_factory.mktemp("named") / "run")
    train(NAMED, folder, data=data, **OPTIONS)
    return folder


def test_single_steps_and_a_resume_end_with_the_bits_of_a_loop(data, trained, tmp_path):
    resumed = str(tmp_path / "resumed")
    train(NAMED, resumed, data=data, pause_at=3, steps_per_call=1, **OPTIONS)
    train(NAMED, resumed, data=data, **OPTIONS)
    assert fingerprint(resumed) == fingerprint(trained)


def test_predictions_use_the_averages_of_batch_norm_and_no_dropout(trained):
    values = tensors(trained)
    run = open_folder(open_run(trained), load_plugins(NAMED))
    h = np.maximum(X[:4] @ values["dense/kernel"] + values["dense/bias"], 0)
    prefix = "batch_normalization/"
    h = (h - values[prefix + "moving_mean"]) / np.sqrt(values[prefix + "moving_variance"] + 1e-3)
    h = h * values[prefix + "gamma"] + values[prefix + "beta"]
    logits = h @ values["dense_1/kernel"] + values["dense_1/bias"]
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    result = run.predict(X[:4])
    np.testing.assert_allclose(result["probabilities"], expected, rtol=1e-4)
    np.testing.assert_array_equal(result["label"], expected.argmax(1))


def test_a_tensor_with_one_hot_labels_is_trained_and_measured(data, tmp_path):
    run = str(tmp_path / "run")
    plugin = ModelFn(accuracy_fn, one_hot=True)
    metrics = train(plugin, run, data=data, **dict(OPTIONS, steps=1))["test"]["metrics"]
    assert np.abs(tensors(run)["w"]).max() > 0
    assert set(metrics) == {"acc", "loss"}
    assert 0 <= metrics["acc"] <= 1


def test_a_function_without_a_train_op_is_refused(data, tmp_path):
    plugin = ModelFn(lambda features: Spec({}, tf.reduce_mean(features), None, None))
    with pytest.raises(UsageError, match="no train_op"):
        train(plugin, str(tmp_path / "run"), data=data, **OPTIONS)
