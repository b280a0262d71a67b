"""The regressor: what it learns, what it says of it, and which data it refuses."""

import os

import matplotlib
import numpy as np
import pytest
from graph_fixtures import evaluate, session
from toolkit_regressor import reports
from toolkit_regressor.targets import Targets, label_names

from toolkit import DataError, Split, UsageError, open_trained, testing, tf
from toolkit.data.examples import describe

NO_LABELS = {"label_column": ["none"], "label_kind": "auto"}
SMALL = {"batch_size": 8, "evaluate_steps": 100, "page": False}


def train(run="run", **options):
    """The metrics of the test split."""
    return testing.train("regressor", run, **dict(SMALL, **options))["test"]["metrics"]


def predictions_of(run="run"):
    """The labels of the test split, [N] or [N, L], and what is predicted there, by name."""
    with open_trained(run) as trained:
        features, labels = trained.split("test").take(slice(None))
        return labels, trained.predict(features)


def write_rows(path, header, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return f"table:{path}"


@pytest.fixture
def prices(here):
    """A table of a number, a text of two values, and two labels with different units."""
    rows = [(a, "ab"[a % 2], 1000 * a + 50000 * (a % 2), 7.5 - a) for a in range(40, 160)]
    return write_rows("prices.csv", "area,town,price in EUR,rent", rows[::3] + rows[1::3])


def test_houses_are_predicted_nearly_as_well_as_chance_allows(here):
    metrics = train(batch_size=64, epochs=60)
    assert metrics["mean_absolute_error"] < 12  # 8 by chance alone; 133 by the mean alone
    labels, predicted = predictions_of()
    errors = predicted["value"] - labels
    expected = {
        "mean_absolute_error": np.abs(errors).mean(),
        "rmse": np.sqrt(np.square(errors).mean()),
        "explained": 1 - np.square(errors).sum() / np.square(labels - labels.mean()).sum(),
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_a_row_of_a_table_is_predicted_by_the_name_of_its_label(cli, prices):
    flags = ["--data", prices, "--label-column", "price in EUR", "--ignore-columns", "rent"]
    flags += ["--steps", 300, "--batch-size", 16, "--run-dir", "run"]
    cli.succeed("run", "regressor", *flags)
    name, value = cli("predict", "run", "prices.csv").out.splitlines()[0].split()[-2:]
    assert name == "price_in_EUR" and abs(float(value) - 40000) < 8000
    (folder,) = os.listdir("run/reports")
    assert "scatter.png" in os.listdir(f"run/reports/{folder}")


def test_several_labels_have_a_scale_each_and_the_mean_of_their_metrics(prices):
    metrics = train(data=prices, label_column=["price in EUR", "rent"], steps=300)
    labels, predicted = predictions_of()
    errors = np.stack([predicted["price_in_EUR"], predicted["rent"]], 1) - labels
    shares = 1 - np.square(errors).sum(0) / np.square(labels - labels.mean(0)).sum(0)
    assert shares.min() > 0.8
    assert metrics["explained"] == pytest.approx(shares.mean(), rel=1e-4)
    assert metrics["mean_absolute_error"] == pytest.approx(np.abs(errors).mean(), rel=1e-5)


def test_other_weights_begin_with_the_scale_of_the_labels_of_their_run(prices):
    options = {"data": prices, "steps": 2, "feature_columns": ["area"]}
    train("first", label_column=["price in EUR"], **options)
    train("second", label_column=["rent"], init_from="first", **options)
    first, second = testing.tensors("first"), testing.tensors("second")
    assert second["target/deviation"] < first["target/deviation"] / 100
    assert np.array_equal(first["inputs/mean"], second["inputs/mean"])


def spec_of(labels, features=None):
    features = np.zeros((len(labels), 2), np.float32) if features is None else features
    return describe(Split(features, labels), ())


@pytest.mark.parametrize("loss, cost", [("squared", 4.5), ("absolute", 1.5), ("huber", 1.25)])
def test_errors_of_0_and_3_deviations_cost_what_the_option_says(graph, loss, cost):
    targets = Targets(testing.make_run("regressor", "eval", spec_of(np.float32([0, 1]))))
    value = targets.loss(tf.constant([0.0, 3.0]), {"deviations": tf.zeros([2, 1])}, loss)
    assert evaluate(value) == pytest.approx(cost)


def test_a_number_that_is_equal_in_all_examples_is_left_out_of_what_is_explained(graph):
    targets = Targets(testing.make_run("regressor", "eval", spec_of(np.float32([[0, 1], [1, 2]]))))
    labels, predicted = tf.constant([[0.1, 0.0], [0.1, 2.0]]), tf.constant([[5.0, 0.0], [5.0, 1.0]])
    value, update = targets.metrics(labels, {"values": predicted})["explained"]
    with session() as tf_session:
        tf_session.run(update)
        assert tf_session.run(value) == pytest.approx(0.5)  # 1 - 1 / 2 of the second number


@pytest.mark.parametrize(
    "columns, names",
    [
        (["price (\u20ac)"], ["price"]),
        (["label"], ["value"]),  # a prediction of this name would be a class
        (["labels"], ["value"]),  # which in a report are the true ones
        (["a b", "a-b"], ["a_b_0", "a_b_1"]),
        (["a", "a.", "a_0"], ["a_0", "a_1", "a_0_2"]),
        ([], ["value_0", "value_1"]),
    ],
)
def test_the_names_of_predictions_are_those_of_columns_in_plain_letters(columns, names):
    labels = np.zeros((2, len(names)), np.float32)
    spec = spec_of(labels[:, 0] if len(names) == 1 else labels)
    assert label_names(spec._replace(table={"labels": columns})) == names


def test_metrics_have_intervals_around_them_and_the_mean_explains_nothing():
    true = np.arange(40.0)
    error, root, share = reports.score(true, true + np.tile([1.0, -3.0], 20))
    assert (error["value"], root["value"]) == (2.0, 5**0.5)
    assert error["low"] < 2 < error["high"] and root["low"] < 5**0.5 < root["high"]
    assert share["value"] == pytest.approx(1 - 5 / 133.25) and share["low"] < share["value"] < 1
    assert reports.score(true, np.full(40, 19.5))[2]["value"] == 0
    assert len(reports.score(np.ones(3), np.zeros(3))) == 2  # equal labels have no variance
    assert "low" not in reports.score(np.ones(1), np.zeros(1))[0]


def test_a_report_does_not_follow_a_matplotlibrc_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    numbers = np.arange(4, dtype=np.float32)
    examples = {"features": np.zeros((4, 2)), "labels": numbers, "value": numbers}
    assert reports.write(examples, spec_of(numbers), str(tmp_path))["files"] == ["scatter.png"]


@pytest.mark.parametrize(
    "header, rows, flags, message",
    [
        ("a,label", [(i, 7) for i in range(40)], {}, "is 7 in all training examples"),
        ("a,label", [(i % 7, "xy"[i % 2]) for i in range(40)], {}, "expected a number in 'label'"),
        ("a,label", [(i % 7, i % 3) for i in range(40)], {"label_kind": "auto"}, "class of 3"),
        ("a,label", [(i % 7, 1) for i in range(40)], NO_LABELS, "no labels"),
        ("t,label", [(f"word {i}", i) for i in range(40)], {"normalize": False}, "has t text"),
        ("t,label", [("xy"[i % 2], i) for i in range(40)], {"flip": 0.5}, "flip changes images"),
    ],
)
def test_what_a_regressor_cannot_learn_or_change_is_refused(here, header, rows, flags, message):
    with pytest.raises(UsageError if "flip" in flags else DataError, match=message):
        train(data=write_rows("rows.csv", header, rows), steps=1, **flags)


def test_named_float_images_that_a_change_of_colour_would_clip_are_refused(here):
    depth = np.linspace(0, 7, 40 * 64).reshape(40, 8, 8, 1).astype(np.float32)
    np.savez("d.npz", x_depth=depth, x_weight=np.arange(40) / 40, y=np.arange(40.0))
    options = {"data": "npz:d.npz", "steps": 1, "normalize": False}
    with pytest.raises(DataError, match="values from"):
        train(contrast=0.2, **options)
    assert "rmse" in train("other", **options)


def test_each_plugin_names_the_other_where_the_labels_are_of_its_kind(cli, prices):
    flags = ["--data", prices, "--label-column", "rent", "--feature-columns", "area"]
    cli.refuse(4, "--plugin regressor", "run", "classifier", "--network", "mlp", *flags)
    cli.refuse(4, "--plugin classifier", "run", "regressor", "--data", "mnist5k")
