"""An evaluation passes over a split in batches; its results equal those computed in numpy."""

import glob
import os

import numpy as np
import pytest
from inference_fixtures import evaluator_of
from linear_fixtures import Linear, bars

import toolkit
from toolkit import (
    DataError,
    DataSpec,
    RetryError,
    Split,
    ToolkitError,
    UsageError,
    hookimpl,
    testing,
    tf,
)
from toolkit.inference.model_features import ModelFeatures

IMAGES = DataSpec((6, 6, 1), "uint8", 3)
LABELS = np.arange(13) * 7 % 3


def numbers(count, columns=4):
    """float32 [count, columns]: 0, 1, 2 and so on, where TensorFlow reads them without a copy."""
    memory = np.zeros(count * columns + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    array = memory[start : start + count * columns].reshape(count, columns)
    array[:] = np.arange(array.size).reshape(array.shape)
    return array


@pytest.mark.parametrize("batch_size", [4, 100])
def test_neither_the_batch_size_nor_a_repetition_changes_the_results(batch_size):
    evaluator = evaluator_of(Linear, spec=IMAGES)
    split = Split(bars(LABELS), LABELS)
    metrics, examples = evaluator.evaluate(split, batch_size, keep_examples=True)[:2]
    variables = evaluator.graph.tf_graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    w = next(each for each in variables if each.op.name == "linear/w")
    logits = (bars(LABELS).reshape(13, -1) / 255).dot(evaluator.session.run(w))
    assert np.allclose(examples["logits"], logits, atol=1e-5)
    assert metrics["accuracy"] == pytest.approx((logits.argmax(1) == LABELS).mean())
    likelihoods = np.exp(logits)[np.arange(13), LABELS] / np.exp(logits).sum(axis=1)
    assert metrics["loss"] == pytest.approx(-np.log(likelihoods).mean(), rel=1e-5)
    assert evaluator.evaluate(split, batch_size, keep_examples=False).metrics == metrics


def test_examples_are_returned_in_the_order_of_the_split():
    split = Split(bars(LABELS), LABELS).subset([7, 2, 11, 0, 5])
    examples = evaluator_of(Linear, spec=IMAGES).evaluate(split, 2, keep_examples=True).examples
    stored = bars(LABELS)[[7, 2, 11, 0, 5]] * np.float32(1 / 255)
    features = examples["features"]
    assert features.tolist() == stored.tolist() and len(features) == 5
    assert features[1].tolist() == features[np.array([3, 1])][1].tolist() == stored[1].tolist()
    assert examples["labels"].tolist() == LABELS[[7, 2, 11, 0, 5]].tolist()


def test_an_evaluation_holds_no_copy_of_the_features(monkeypatch):
    largest, read = [], Split.read

    def measure(self, *arguments, **named):
        arrays = read(self, *arguments, **named)
        largest.append(len(arrays["features"]))
        return arrays

    monkeypatch.setattr(Split, "read", measure)
    split = Split(bars(LABELS), LABELS)
    examples = evaluator_of(Linear, spec=IMAGES).evaluate(split, 4, keep_examples=True).examples
    assert examples["features"][7].shape == (6, 6, 1)
    assert max(largest) == 4  # a batch


class Positions(Linear):
    """Predicts the position of each example in its split."""

    @hookimpl
    def predict(self, outputs, run):
        count = tf.shape(outputs["logits"], out_type=tf.int64)[0]
        return {"position": run.position + tf.range(count)}


def test_a_batch_has_the_position_of_its_first_example():
    split = Split(bars(LABELS), LABELS)
    evaluator = evaluator_of(Positions, spec=IMAGES)
    for _ in range(2):
        examples = evaluator.evaluate(split, 4, keep_examples=True).examples
        assert examples["position"].tolist() == list(range(13))
    predictions = evaluator_of(Positions, "predict", IMAGES).predict(bars(LABELS), 4)
    assert predictions["position"].tolist() == list(range(13))
    run = testing.make_run(Linear, "train", IMAGES)
    with pytest.raises(ToolkitError, match="position was read in mode 'train'"):
        assert run.position is None


class Rectified(Linear):
    """Its first op could write into its input."""

    @hookimpl
    def call(self, model, features, run):
        return Linear.call(self, model, tf.nn.relu(-features), run)


def test_the_examples_are_not_changed():
    features = numbers(8)
    evaluator_of(Rectified).evaluate(Split(features, np.arange(8) % 2), 4, keep_examples=True)
    evaluator_of(Rectified, "predict").predict(features, 4)
    assert features.tolist() == numbers(8).tolist()


class Echo(Linear):
    """Predicts its input, twice."""

    @hookimpl
    def inputs(self):
        return {"code": ("float32", [4])}

    @hookimpl
    def call(self, features):
        return features

    @hookimpl
    def predict(self, outputs):
        return {"code": outputs["code"], "again": outputs["code"]}


def test_a_prediction_may_be_an_input():
    code = numbers(2)
    predictions = evaluator_of(Echo, "predict").predict({"code": code})
    code[:] = -1
    assert predictions["code"].tolist() == predictions["again"].tolist() == numbers(2).tolist()


class ExampleCounts(Linear):
    """Counts examples with update ops that are no tensors; has no loss."""

    @hookimpl
    def loss(self):
        return {}

    @hookimpl
    def metrics(self, outputs):
        one = tf.train.batch([tf.constant(1)], 1)[0]  # of a queue, which threads fill
        count = one * tf.shape(outputs["logits"])[0]
        settings = {"dtype": tf.int32, "initializer": tf.zeros_initializer()}
        settings["collections"] = [tf.GraphKeys.LOCAL_VARIABLES]
        op, value = (tf.get_variable(name, [], **settings) for name in ("op", "value"))
        return {
            "op": (op, op.assign_add(count, read_value=False)),
            "value": (value, value.assign_add(count)),
        }


def test_an_update_may_be_an_op_or_a_variable():
    evaluator = evaluator_of(ExampleCounts)
    split = Split(numbers(5), np.zeros(5, int))
    for _ in range(2):
        assert evaluator.evaluate(split, 2).metrics == {"op": 5, "value": 5}


def test_a_split_of_another_type_is_refused_with_both():
    with pytest.raises(DataError) as caught:
        evaluator_of(Linear).evaluate(Split(np.zeros([5, 4], "u1"), np.zeros(5, int)), 2)
    assert caught.value.message == (
        "The split has examples [4] uint8, the model was trained on [4] float32."
    )


class Pairs(Linear):
    @hookimpl
    def predict(self, outputs):
        return {"pairs": tf.matmul(outputs["logits"], outputs["logits"], transpose_b=True)}


def test_predictions_of_another_size_in_another_batch_are_refused():
    with pytest.raises(ToolkitError, match=r"returned 'pairs' \[1, 1\] for 1 examples"):
        evaluator_of(Pairs, "predict").predict(numbers(5), 4)


def test_a_batch_without_examples_is_refused():
    with pytest.raises(UsageError, match="The batch size is 0, not at least 1"):
        evaluator_of(Linear, "predict").predict(numbers(5), 0)


def test_a_checkpoint_that_retention_deletes_while_it_is_read_is_named(trained):
    with toolkit.open_trained(str(trained / "run")) as run:
        for path in glob.glob(run.checkpoint + ".*"):
            os.remove(path)
        with pytest.raises(RetryError, match="model.ckpt-6 was deleted while it was read") as error:
            run.predict(run.split("test").features)
    assert error.value.hint == (
        "A process trains its run and keeps newer checkpoints; repeat the command."
    )


VALUES = np.arange(24, dtype=np.float32).reshape(4, 2, 3) / 8


@pytest.fixture
def floats():
    """Four examples [2, 3] of floats; afterwards they must be what they were."""
    split = Split(VALUES.copy(), np.arange(4))
    yield split
    np.testing.assert_array_equal(split.take(slice(None))[0], VALUES)


@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        lambda features: features[1],
        lambda features: features[..., 0],
        lambda features: features.astype(np.float32, copy=False),
    ],
)
def test_what_is_read_of_floats_is_a_copy(floats, read):
    array = read(ModelFeatures(floats))
    assert array.dtype == np.float32
    array *= 2
    array[...] = -1


def test_features_are_numbers_among_other_arrays(floats):
    features = ModelFeatures(floats)
    total = np.ones_like(VALUES)
    total += features
    np.testing.assert_array_equal(total, 1 + VALUES)
    np.testing.assert_array_equal(2 * features - 1, 2 * VALUES - 1)
    np.testing.assert_array_equal(np.sort(features, axis=0), VALUES)
    np.testing.assert_array_equal(list(features), VALUES)
    for index in (None, np.array([[0, 1], [2, 3]]), np.int64(2), slice(0)):
        np.testing.assert_array_equal(features[index], VALUES[index])
    assert features.max() == VALUES.max() and float(np.mean(features)) == VALUES.mean()


def test_bytes_become_floats_from_0_to_1():
    features = ModelFeatures(Split(np.array([[0, 51, 255]], np.uint8)))
    np.testing.assert_allclose(features[0], [0, 0.2, 1], rtol=1e-6)
    assert features.shape == (1, 3) and features.dtype == np.float32 and features.ndim == 2
