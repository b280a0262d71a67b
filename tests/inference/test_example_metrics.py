"""The hook `example_metrics`: metrics from the values of examples, their intervals, their file."""

import json

import numpy as np
import pytest
from inference_fixtures import evaluator_of
from linear_fixtures import Linear, write_bars

from toolkit import Split, hookimpl, tf
from toolkit.errors import ToolkitError
from toolkit.inference.example_values import compute_intervals, write_examples
from toolkit.statistics.intervals import bootstrap, wilson


class ByExample(Linear):
    """Linear with the loss of each example."""

    @hookimpl
    def example_metrics(self, labels, outputs):
        values = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=outputs["logits"]
        )
        return {"loss": values}


class WithMetrics(Linear):
    """Linear with values of the examples for a metric of the hook `metrics`, and for none."""

    @hookimpl
    def example_metrics(self, labels, outputs):
        hits = tf.equal(tf.argmax(outputs["logits"], axis=1, output_type=tf.int32), labels)
        return {"accuracy": hits, "miss": 1 - tf.cast(hits, tf.int32), "parity": labels % 2 > 5}


@pytest.fixture
def run(golden):
    return golden("--steps", 4, plugin="test_example_metrics:WithMetrics") / "run"


def result_of(run):
    return json.loads((run / "manifest.json").read_text())["summary"]["test"]


def evaluate(plugin, count=13, folder=None):
    split = Split(ROWS[:count], (np.arange(count) % 2).astype(np.int32))
    return evaluator_of(plugin).evaluate(split, 5, folder=folder)


ROWS = np.random.RandomState(0).rand(13, 4).astype(np.float32)


class OwnValues(Linear):
    """Its metrics are the first feature of each example."""

    @hookimpl
    def metrics(self):
        return {}

    @hookimpl
    def example_metrics(self, features):
        first = tf.reshape(features, [-1, int(np.prod(features.shape[1:]))])[:, 0]
        return {
            "first": first,
            "double": tf.cast(first, tf.float64),
            "half": tf.cast(first, tf.float16),
            "count": tf.cast(100 * first, tf.int32),
            "large": first > 0.5,
        }


def test_a_metric_is_the_mean_of_its_examples_in_float64():
    metrics = evaluate(OwnValues).metrics
    first = ROWS[:, 0]
    assert metrics["first"] == metrics["double"] == first.astype(np.float64).mean()
    assert metrics["half"] == first.astype(np.float16).astype(np.float64).mean()
    assert metrics["count"] == (100 * first).astype(np.int32).mean()
    assert metrics["large"] == (first > 0.5).mean()


def test_a_metric_of_the_examples_replaces_a_loss_of_its_name(tmp_path):
    assert evaluate(ByExample).metrics["loss"] == pytest.approx(evaluate(Linear).metrics["loss"])
    assert "loss" in evaluate(ByExample, folder=str(tmp_path)).values


@pytest.mark.parametrize(
    "value, message",
    [
        (lambda hits: [hits], "expected a dict of tensors"),
        (lambda hits: {"a": tf.reduce_mean(tf.cast(hits, tf.float32))}, r"one value for each"),
        (lambda hits: {"a": hits[:, None]}, r"expected one value for each example, \[N\]"),
        (lambda hits: {"a": 0.5}, "expected a tensor"),
        (lambda hits: {"a": tf.as_string(hits)}, "expected bools or numbers"),
        # Only the evaluation can tell how many there are.
        (lambda hits: {"a": tf.boolean_mask(hits, [1, 0, 1, 0, 0])}, r"'a' \[2\] for 5 examples"),
    ],
)
def test_what_is_no_value_of_each_example_is_refused(value, message):
    def example_metrics(self, labels, outputs):
        return value(tf.equal(tf.argmax(outputs["logits"], 1), tf.cast(labels, tf.int64)))

    hooks = {"example_metrics": hookimpl(example_metrics), "__module__": __name__}
    with pytest.raises(ToolkitError, match=message) as info:
        evaluate(type("Broken", (Linear,), hooks), 5)
    assert "Hook 'example_metrics'" in info.value.message and info.value.hint


@pytest.mark.parametrize(
    "metric, values, interval",
    [
        (2 / 3, [True, False, True], wilson(2, 3)),
        (7 / 3, [1.0, 2.0, 4.0], bootstrap(np.array([1.0, 2.0, 4.0]))),
        (2.5, [1.0, 3.0], "it is 2.5, and the mean of its examples 2"),
        (np.nan, [1.0, np.nan], "1 of 2 examples have a value that is not finite"),
    ],
)
def test_a_metric_has_an_interval_of_its_examples_or_a_reason_for_none(metric, values, interval):
    result = compute_intervals({"a": metric}, {"a": np.array(values)})
    assert {**result.by_name, **result.omissions} == {"a": interval}


def test_values_with_another_mean_than_the_metric_are_not_in_the_file(tmp_path):
    values = {"loss": np.array([1.0, 3.0]), "mean": np.array([1.0, 3.0])}
    write_examples(str(tmp_path), {"loss": 2.5, "mean": 2.0}, values)
    assert np.load(str(tmp_path / "examples.npz")).files == ["mean"]


def test_the_file_has_the_values_of_the_examples_under_any_name(tmp_path):
    metrics = {"file": 0.5, "a/b": 0.15}
    values = {"file": np.array([True, False]), "a/b": np.array([0.1, 0.2])}
    path = tmp_path / "examples.npz"
    contents = []
    for _ in range(2):
        write_examples(str(tmp_path), metrics, values)
        contents.append(path.read_bytes())
        with np.load(str(path)) as arrays:
            assert arrays["file"].dtype == bool and arrays["file"].tolist() == [True, False]
            assert arrays["a/b"].dtype == np.float32
        path.unlink()
    assert contents[0] == contents[1]
    path.write_bytes(b"mine")  # a plugin's own file of this name stays
    write_examples(str(tmp_path), metrics, values)
    assert path.read_bytes() == b"mine"


def test_the_result_of_the_test_has_intervals_and_that_of_the_validation_none(run):
    test = result_of(run)
    hits = round(13 * test["metrics"]["accuracy"])
    assert test["intervals"]["accuracy"] == wilson(hits, 13).as_json()
    assert test["intervals"]["parity"]["low"] == 0.0
    assert test["intervals"]["miss"]["method"] == "bootstrap"
    assert "loss" not in test["intervals"] and "intervals_omitted" not in test
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert "interval" not in next(line for line in lines if "miss" in line)


def test_the_values_of_the_examples_are_among_the_reports(run):
    path = run / result_of(run)["reports"] / "examples.npz"
    with np.load(str(path)) as arrays:
        assert sorted(arrays.files) == ["accuracy", "miss", "parity"]
        assert (arrays["miss"] == ~arrays["accuracy"]).all()


def test_a_run_prints_the_interval_and_why_there_is_none(cli):
    argv = ["--plugin", "test_example_metrics:OwnValues", "--data", write_bars("bars.npz")]
    out = cli("run", *argv, "--steps", 4, "--run-dir", "run").out
    assert "  half 0.0000  large 0.0000 [0.0000, 0.2281]  loss " in out
    assert "last checkpoint, step 4; 95 % intervals in brackets)" in out
    assert "first has no interval: all 13 examples have the value 0" in out
