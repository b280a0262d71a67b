"""The hook `example_metrics`: metrics from the values of examples, their intervals, their file."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from graph_fixtures import Spec, make_plugin, make_run
from linear_fixtures import Linear, write_bars

from toolkit import Split, hookimpl, tf
from toolkit.cli import run_command
from toolkit.errors import ToolkitError
from toolkit.graph.build import build_inference
from toolkit.inference import example_values
from toolkit.inference.evaluator import Evaluator
from toolkit.inference.example_values import compute_intervals, write_examples
from toolkit.plugins import Plugins
from toolkit.statistics.intervals import bootstrap, wilson


class ByExample(Linear):
    """Linear whose metrics are those of its examples alone."""

    @hookimpl
    def metrics(self):
        return {}

    @hookimpl
    def example_metrics(self, labels, outputs):
        values = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=outputs["logits"]
        )
        hits = tf.equal(tf.argmax(outputs["logits"], axis=1, output_type=tf.int32), labels)
        return {"accuracy": hits, "loss": values}


class WithMetrics(Linear):
    """Linear with values of the examples for a metric of the hook `metrics`, and for none."""

    @hookimpl
    def example_metrics(self, labels, outputs):
        hits = tf.equal(tf.argmax(outputs["logits"], axis=1, output_type=tf.int32), labels)
        return {"accuracy": hits, "miss": 1 - tf.cast(hits, tf.int32), "parity": labels % 2 > 5}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("run"), "test_example_metrics:WithMetrics")


def train(folder, plugin, *flags):
    data = write_bars(folder / "bars.npz")
    argv = ["run", "--plugin", plugin, "--data", data, "--steps", "4"]
    assert run_command([*argv, "--run-dir", str(folder / "run"), *flags]) == 0
    return folder / "run"


def result_of(run):
    return json.loads((run / "manifest.json").read_text())["summary"]["test"]


# ------------------------------------------------------------------------------- values and means


def evaluate(plugin, count=13, batch_size=5, folder=None, values=None):
    plugins = Plugins(make_plugin(plugin, "tiny"))
    run = make_run("eval", Spec(), plugins.options())
    evaluator = Evaluator(plugins, run.options, run.data)
    evaluator.session.run(tf_initializer(evaluator))
    rows = np.random.RandomState(0).rand(count, 4).astype(np.float32) if values is None else values
    split = Split(rows, (np.arange(count) % 2).astype(np.int32))
    try:
        return evaluator.evaluate(split, batch_size, folder=folder)
    finally:
        evaluator.close()


def tf_initializer(evaluator):
    with evaluator.graph.tf_graph.as_default():
        return [v.initializer for v in tf.global_variables() + tf.local_variables()]


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


@pytest.mark.parametrize("batch_size", [1, 5, 13, 100])
def test_a_metric_is_the_mean_of_its_examples_in_float64(batch_size):
    rows = np.random.RandomState(0).rand(13, 4).astype(np.float32)
    metrics = evaluate(OwnValues, 13, batch_size).metrics
    first = rows[:, 0]
    assert metrics["first"] == first.astype(np.float64).mean()
    assert metrics["double"] == metrics["first"]
    assert metrics["half"] == first.astype(np.float16).astype(np.float64).mean()
    assert metrics["count"] == (100 * first).astype(np.int32).mean()
    assert metrics["large"] == (first > 0.5).mean()


def test_one_example_is_its_own_mean():
    result = evaluate(OwnValues, 1)
    intervals = compute_intervals(result.metrics, result.values)
    assert result.metrics["first"] == result.values["first"][0]
    assert intervals.omissions["first"] == "there is 1 example"
    assert intervals.by_name["large"] == wilson(int(result.metrics["large"]), 1)


def test_nan_of_an_example_makes_the_metric_nan_and_leaves_no_interval():
    rows = np.random.RandomState(0).rand(13, 4).astype(np.float32)
    rows[3, 0] = np.nan
    result = evaluate(OwnValues, values=rows)
    intervals = compute_intervals(result.metrics, result.values)
    assert np.isnan(result.metrics["first"])
    reason = "1 of 13 examples have a value that is not finite"
    assert intervals.omissions["first"] == reason
    assert "large" in intervals.by_name


def test_values_that_only_an_interval_needs_are_left_out_of_a_quick_evaluation(tmp_path):
    quick, full = evaluate(WithMetrics), evaluate(WithMetrics, folder=str(tmp_path))
    assert sorted(quick.values) == ["miss", "parity"]
    assert sorted(full.values) == ["accuracy", "miss", "parity"]
    assert quick.metrics == full.metrics


def test_a_metric_of_the_examples_replaces_a_loss_of_its_name(tmp_path):
    assert evaluate(ByExample).metrics["loss"] == pytest.approx(evaluate(Linear).metrics["loss"])
    assert "loss" in evaluate(ByExample, folder=str(tmp_path)).values


# --------------------------------------------------------------------------------------- the hook


def graph_of(function):
    hooks = {"example_metrics": hookimpl(function), "__module__": __name__}
    plugins = Plugins(make_plugin(type("Broken", (Linear,), hooks), "broken"))
    return build_inference(plugins, make_run("eval", Spec(), plugins.options()))


@pytest.mark.parametrize(
    "value, message",
    [
        (lambda hits: [hits], "expected a dict of tensors"),
        (lambda hits: {"a": tf.reduce_mean(tf.cast(hits, tf.float32))}, r"one value for each"),
        (lambda hits: {"a": hits[:, None]}, r"expected one value for each example, \[N\]"),
        (lambda hits: {"a": tf.zeros([3])}, "expected one value for each example"),
        (lambda hits: {"a": tf.metrics.mean(hits)}, "expected a tensor"),
        (lambda hits: {"a": 0.5}, "expected a tensor"),
        (lambda hits: {"a": tf.as_string(hits)}, "expected bools or numbers"),
    ],
)
def test_what_is_no_value_of_each_example_is_refused(value, message):
    def example_metrics(self, labels, outputs):
        return value(tf.equal(tf.argmax(outputs["logits"], 1), tf.cast(labels, tf.int64)))

    with pytest.raises(ToolkitError, match=message) as info:
        graph_of(example_metrics)
    assert "Hook 'example_metrics'" in info.value.message and info.value.hint


def test_a_tensor_of_another_length_is_refused_in_the_evaluation():
    def example_metrics(self, labels):
        return {"a": tf.boolean_mask(labels, labels > 0)}

    hooks = {"example_metrics": hookimpl(example_metrics), "__module__": __name__}
    with pytest.raises(ToolkitError, match=r"'example_metrics' returned 'a' \[2\] for 5 examples"):
        evaluate(type("Broken", (Linear,), hooks))


# ----------------------------------------------------------------------------- intervals and file


def test_intervals_are_wilsons_of_bools_and_the_bootstraps_of_numbers():
    values = {"hit": np.array([True, False, True]), "error": np.array([1.0, 2.0, 4.0])}
    result = compute_intervals({"hit": 2 / 3, "error": 7 / 3}, values)
    assert result.by_name == {"hit": wilson(2, 3), "error": bootstrap(values["error"])}


def test_values_with_another_mean_than_the_metric_give_no_interval(tmp_path):
    values = {"loss": np.array([1.0, 3.0]), "mean": np.array([1.0, 3.0])}
    result = compute_intervals({"loss": 2.5, "mean": 2.0}, values)
    assert result.omissions == {"loss": "it is 2.5, and the mean of its examples 2"}
    write_examples(str(tmp_path), {"loss": 2.5, "mean": 2.0}, values)
    assert np.load(str(tmp_path / "examples.npz")).files == ["mean"]


def test_the_file_has_the_values_of_the_examples_under_any_name(tmp_path):
    values = {"file": np.array([True, False]), "a/b": np.array([0.1, 0.2])}
    write_examples(str(tmp_path), {"file": 0.5, "a/b": 0.15}, values)
    with np.load(str(tmp_path / "examples.npz")) as arrays:
        assert arrays["file"].dtype == bool and arrays["file"].tolist() == [True, False]
        assert arrays["a/b"].dtype == np.float32
    first = (tmp_path / "examples.npz").read_bytes()
    os.remove(str(tmp_path / "examples.npz"))
    write_examples(str(tmp_path), {"file": 0.5, "a/b": 0.15}, values)
    assert (tmp_path / "examples.npz").read_bytes() == first


def test_the_file_is_bounded_and_has_examples_at_equal_distances(tmp_path, monkeypatch):
    monkeypatch.setattr(example_values, "MAX_EXAMPLES", 4)
    means = write_examples(str(tmp_path), {"a": 4.5}, {"a": np.arange(10)})
    assert means == {"a": 3.5}  # of the values in the file
    assert np.load(str(tmp_path / "examples.npz"))["a"].tolist() == [0, 2, 5, 7]


def test_a_file_of_this_name_that_a_plugin_wrote_stays(tmp_path):
    (tmp_path / "examples.npz").write_bytes(b"mine")
    assert write_examples(str(tmp_path), {"a": 0.5}, {"a": np.array([True, False])}) == {}
    assert (tmp_path / "examples.npz").read_bytes() == b"mine"


# ------------------------------------------------------------------------------------------- a run


def test_the_result_of_the_test_has_intervals_and_says_which_metrics_have_none(run):
    test = result_of(run)
    hits = round(13 * test["metrics"]["accuracy"])
    assert test["intervals"]["accuracy"] == wilson(hits, 13).as_json()
    assert test["intervals"]["parity"]["low"] == 0.0
    assert test["intervals"]["miss"]["method"] == "bootstrap"
    assert "loss" not in test["intervals"] and "intervals_omitted" not in test


def test_the_values_of_the_examples_are_sealed_with_the_reports(run, capsys):
    place = result_of(run)["reports"]
    with np.load(str(run / place / "examples.npz")) as arrays:
        assert sorted(arrays.files) == ["accuracy", "miss", "parity"]
        assert (arrays["miss"] == ~arrays["accuracy"]).all()
        means = {name: float(arrays[name].mean(dtype=np.float64)) for name in arrays.files}
    assert result_of(run)["example_means"] == pytest.approx(means, rel=1e-12)
    assert run_command(["verify", str(run)]) == 0
    content = (run / place / "examples.npz").read_bytes()
    (run / place / "examples.npz").write_bytes(content + b" ")
    try:
        assert run_command(["verify", str(run)]) != 0
    finally:
        (run / place / "examples.npz").write_bytes(content)


def test_evaluate_prints_the_interval_behind_the_metric(run, capsys):
    assert run_command(["evaluate", str(run)]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    interval = result_of(run)["intervals"]["accuracy"]
    assert f" [{interval['low']:.4f}, {interval['high']:.4f}]  loss " in line
    assert line.endswith("(13 examples, step 4; 95 % intervals in brackets)")


def test_a_run_prints_the_interval_and_why_there_is_none(tmp_path, capsys):
    train(tmp_path, "test_example_metrics:OwnValues")
    out = capsys.readouterr().out
    assert "  half 0.0000  large 0.0000 [0.0000, 0.2281]  loss " in out
    assert "last checkpoint, step 4; 95 % intervals in brackets)" in out
    assert "first has no interval: all 13 examples have the value 0" in out


def test_validation_during_training_has_the_metric_and_no_interval(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    record = next(line for line in lines if "miss" in line)
    assert "interval" not in record
