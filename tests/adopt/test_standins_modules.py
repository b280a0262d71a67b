"""Modules of `tf.contrib` that a script imports: stand-ins on 2.x, on 1.15 TensorFlow's own."""

import functools
import importlib

import numpy as np
import pytest
from toolkit_adopt import standins

from toolkit import tf


@pytest.fixture
def contrib():
    """`tf.contrib` of a script."""
    with standins.installed():
        yield importlib.import_module("tensorflow").contrib


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as found:
        yield found


def test_tables_know_the_numbers_of_texts(contrib, session):
    lookup = contrib.lookup
    to_number = lookup.index_table_from_tensor(mapping=["a", "b"], default_value=9)
    to_text = lookup.index_to_string_table_from_tensor(["a", "b"], default_value="?")
    pairs = lookup.KeyValueTensorInitializer(tf.constant(["x"]), tf.constant([5], tf.int64))
    numbers = lookup.HashTable(pairs, -1).lookup(tf.constant(["x", "y"]))
    texts = to_text.lookup(to_number.lookup(tf.constant(["b", "c"])))
    session.run(tf.tables_initializer())
    assert session.run(texts).tolist() == [b"b", b"?"]
    assert session.run(numbers).tolist() == [5, -1]


def test_sequences_are_embedded_by_one_matrix_of_a_scope(contrib, session):
    embed = functools.partial(contrib.layers.embed_sequence, vocab_size=3, embed_dim=2)
    rows = embed([[2, 0]], scope="words"), embed([0], scope="words", reuse=True)
    (table,) = tf.trainable_variables()
    session.run(tf.global_variables_initializer())
    found, values = session.run([rows, table])
    assert table.op.name == "words/embeddings" and (found[0] == [values[[2, 0]]]).all()
    assert (found[1] == values[[0]]).all()


def test_metrics_take_predictions_before_labels(contrib, session):
    metrics, numbers = contrib.metrics, tf.constant([1, 1, 0, 1])
    labels = tf.constant([1, 0, 0, 0])
    named = {
        "precision": metrics.streaming_precision(numbers, labels),  # 1 of 3; recall: 1 of 1
        "accuracy": metrics.streaming_accuracy(numbers, labels=labels),
        "mean": contrib.slim.metrics.streaming_mean(numbers),
    }
    values, updates = metrics.aggregate_metric_map(named)
    alone = [metrics.accuracy(numbers, labels, each) for each in (None, [1.0, 3, 0, 0])]
    session.run(tf.local_variables_initializer())
    session.run(list(updates.values()))
    found = [session.run(values[name]) for name in ("precision", "accuracy", "mean")]
    np.testing.assert_allclose(found + session.run(alone), [1 / 3, 0.5, 0.75, 0.5, 0.25])


def test_slim_trains_up_to_a_step_and_saves(contrib, tmp_path):
    with tf.Graph().as_default():
        number = tf.get_variable("number", [], initializer=tf.zeros_initializer())
        train_op = tf.cast(tf.assign_add(tf.train.get_or_create_global_step(), 1), tf.float32)
        options = {"number_of_steps": 3, "save_summaries_secs": 9, "save_interval_secs": 9}
        options.update(init_fn=lambda session: number.load(4.0, session), is_chief=True)
        assert contrib.slim.learning.train(train_op, str(tmp_path), **options) == 3.0
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert path.endswith("-3") and tf.train.load_variable(path, "number") == 4.0


def test_the_estimator_of_tpus_gives_its_functions_the_size_of_a_batch(contrib, tmp_path):
    tpu = contrib.tpu

    def inputs(params):
        numbers = np.arange(12, dtype=np.float32)
        pairs = tf.data.Dataset.from_tensor_slices((numbers, numbers))
        return pairs.batch(params["batch_size"])

    def model_fn(features, labels, mode, params):
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean((features - weight) ** 2)
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        sizes = tf.fill([1], params["batch_size"])
        metrics = (lambda sizes: {"size": tf.metrics.mean(sizes)}), {"sizes": sizes}
        options = {"eval_metrics": metrics, "scaffold_fn": tf.train.Scaffold}
        return tpu.TPUEstimatorSpec(mode, {"x": features}, loss, train_op, **options)

    form = {"per_host_input_for_training": tpu.InputPipelineConfig.PER_HOST_V2}
    config = tpu.RunConfig(master=None, tpu_config=tpu.TPUConfig(8, num_shards=1, **form))
    sizes = {"train_batch_size": 4, "eval_batch_size": 3, "predict_batch_size": 6}
    found = tpu.TPUEstimator(model_fn, str(tmp_path), config, {}, use_tpu=False, **sizes)
    found.train(inputs, max_steps=2)
    assert found.get_variable_value("weight") == 5.5  # the mean of 4 to 7
    assert found.evaluate(inputs, steps=2)["size"] == 3
    assert [row["x"] for row in found.predict(inputs)] == list(range(12))


def test_a_training_ends_when_its_evaluations_get_no_better(contrib, tmp_path):
    estimator = importlib.import_module("tensorflow").estimator

    def model_fn(features, labels, mode):
        train_op = tf.assign_add(tf.train.get_global_step(), 1)
        return estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=train_op)

    def train(most):
        options = {"run_every_secs": None, "run_every_steps": 1}
        hook = estimator.experimental.stop_if_no_decrease_hook(found, "loss", most, **options)
        found.train(lambda: tf.data.Dataset.from_tensors([2.0]).repeat(), [hook], steps=2)
        return found.get_variable_value("global_step")

    found = estimator.Estimator(model_fn, str(tmp_path))
    for _ in range(2):
        train(9)
        found.evaluate(lambda: tf.data.Dataset.from_tensors([2.0]))
    assert [train(most) for most in (3, 2)] == [6, 7]  # the best evaluation is two steps back


def test_estimators_with_a_model_of_their_own(contrib, tmp_path):
    estimator = importlib.import_module("tensorflow").estimator
    x = tf.feature_column.numeric_column("x")

    def pairs(labels):
        return lambda: tf.data.Dataset.from_tensors(({"x": [1.0, 3.0]}, labels))

    options = {"label_vocabulary": ["no", "yes"], "optimizer": "SGD"}  # whose rate is 0.2
    linear = estimator.LinearClassifier([x], str(tmp_path / "linear"), **options)
    linear.train(pairs(["no", "yes"]))  # the gradients of the logits are 0.5 and -0.5
    assert linear.get_variable_value("linear/linear_model/x/weights") == np.float32(0.2)
    assert linear.evaluate(pairs(["no", "yes"]))["accuracy"] == 0.5
    assert [row["classes"] for row in linear.predict(pairs(["", ""]))] == [b"yes", b"yes"]

    options = {"linear_feature_columns": [x], "dnn_feature_columns": [x], "dnn_hidden_units": [2]}
    both = estimator.DNNLinearCombinedRegressor(str(tmp_path / "both"), **options)
    both.train(pairs([1.0, -2.0]))
    value = {name: both.get_variable_value(name) for name in both.get_variable_names()}
    rows = np.float32([[1], [3]])
    wide = [value[f"linear/linear_model/{name}weights"] for name in ("x/", "bias_")]
    hidden = rows @ value["dnn/hiddenlayer_0/kernel"] + value["dnn/hiddenlayer_0/bias"]
    found = np.maximum(hidden, 0) @ value["dnn/logits/kernel"] + value["dnn/logits/bias"]
    predicted = [row["predictions"] for row in both.predict(pairs([0.0, 0.0]))]
    np.testing.assert_allclose(predicted, found + rows * wide[0] + wide[1], rtol=1e-5)
