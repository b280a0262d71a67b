"""Scorers: created with an evaluation, called after it, reported beside its metrics."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from file_fixtures import edit, read_json
from generator_fixtures import SCORED_GENERATOR, Brightness, Generator, expected_images
from graph_fixtures import make_plugin
from linear_fixtures import LINEAR, write_bars

from toolkit import DataSpec, Scorer, ScoreResult, Split, ToolkitError, hookimpl, tf
from toolkit.inference.evaluator import Evaluator
from toolkit.options import resolve
from toolkit.plugins import Plugins
from toolkit.storage.run_folder import RunFolder
from toolkit.training.best_metric import BestMetric

STEPS = ["--steps", "6", "--checkpoint-steps", "2"]


@pytest.fixture
def train(cli, here):
    data = write_bars("bars.npz")

    def call(*argv):
        argv = [*STEPS, "--run-dir", "r", *argv]
        return cli("run", "--plugin", SCORED_GENERATOR, "--data", data, *argv)

    return call


@pytest.fixture
def run(golden, monkeypatch):
    """A finished run `run` with its data in the working directory."""
    monkeypatch.chdir(golden(*STEPS, plugin=SCORED_GENERATOR))
    return "run"


def brightness(step, run="r"):
    w = tf.train.NewCheckpointReader(RunFolder(run).checkpoints.prefix(step)).get_tensor("linear/w")
    return float(expected_images(w, [[1, 1]], [1]).mean())


def records(kind="eval"):
    return [r for r in RunFolder("r").metrics.read() if r["kind"] == kind]


# ----------------------------------------------------------------------------------- in a whole run


def test_a_score_is_recorded_with_the_metrics_of_each_evaluation(train):
    result = train("--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["test"]["metrics"]["brightness"] == pytest.approx(brightness(6))
    scores = {record["step"]: record["brightness"] for record in records()}
    assert scores == {step: pytest.approx(brightness(step)) for step in (2, 4, 6)}


def test_lines_details_and_reports_of_a_scorer_are_in_the_result(train, here):
    result = json.loads(train("--json").out)["test"]
    assert result["lines"] == ["brightness against 13 of 40"]
    assert result["details"] == {"brightness": {"with_folder": True}}
    assert (here / "r" / result["reports"] / "brightness.txt").read_text() == "bright"
    assert read_json(here, "r", "manifest.json")["summary"]["test"]["lines"] == result["lines"]


def test_a_result_says_what_a_comparison_needs(train, monkeypatch):
    monkeypatch.setattr(Brightness, "dependencies", lambda self, split: {"lamp": [len(split), 2]})
    result = json.loads(train("--json").out)["test"]
    assert result["depends_on"]["brightness"] == {"lamp": [result["examples"], 2]}
    assert result["directions"] == {"accuracy": "max", "loss": "min"}
    assert len(result["examples_sha256"]) == 64


def test_the_lines_are_printed_below_the_test_of_a_run_and_of_evaluate(cli, train):
    for result in (train(), cli("evaluate", "r")):
        lines = result.out.splitlines()
        (place,) = [i for i, line in enumerate(lines) if line.startswith("test ")]
        assert "brightness_noise 0.2500" in lines[place]
        assert lines[place + 1] == "        brightness against 13 of 40"


def evaluate_other_data(cli):
    return cli("evaluate", "run", "--json", "--data", write_bars("other.npz", train=25, test=9))


def lose_data():
    """Remove the data of the run, of which the original has another copy."""
    os.remove("bars.npz")
    edit("run/config.json", read_json("run", "config.json")["folder"], os.path.abspath("run"))


def test_other_data_is_scored_with_the_splits_of_the_run(cli, run):
    result = json.loads(evaluate_other_data(cli).out)
    assert result["lines"] == ["brightness against 9 of 40"]
    assert result["data"] == "npz:other.npz" and result["examples"] == 9


def test_the_runs_data_at_another_place_gives_its_splits(cli, run):
    os.mkdir("moved")
    shutil.copy("bars.npz", "moved/bars.npz")
    lose_data()
    evaluation = cli("evaluate", run, "--json", "--data", "npz:moved/bars.npz")
    assert evaluation.code == 0, evaluation.err
    result = json.loads(evaluation.out)
    assert result["lines"] == ["brightness against 13 of 40"]
    assert result["data"] == "npz:moved/bars.npz"


def test_scores_that_need_the_data_of_the_run_say_so_when_it_is_gone(cli, run):
    lose_data()
    result = evaluate_other_data(cli)
    assert result.code == 4 and "bars.npz" in result.err
    assert "data that the run was trained on" in result.err and "Traceback" not in result.err


def test_a_model_without_scorers_needs_no_data_of_its_run(cli, trained, monkeypatch):
    monkeypatch.chdir(trained)
    lose_data()
    result = evaluate_other_data(cli)
    assert result.code == 0, result.err


def test_a_score_during_training_gets_no_folder(train, monkeypatch):
    folders = []
    plain = Brightness.score

    def score(self, split, predict, folder):
        folders.append(folder and os.path.basename(folder))
        return plain(self, split, predict, folder)

    monkeypatch.setattr(Brightness, "score", score)
    assert train().code == 0
    assert folders == [None, None, None, "test-6"]


def test_scorers_are_closed_once_with_the_run(train, monkeypatch):
    monkeypatch.setattr(Brightness, "closed", 0)
    assert train().code == 0
    assert Brightness.closed == 1


def test_a_score_may_name_the_best_checkpoint(train, here):
    assert train("--best-metric", "min:brightness").code == 0
    best = read_json(here, "r", "manifest.json")["best"]
    assert (best["metric"], best["step"], best["noise"]) == ("brightness", 6, 0.25)


def test_a_newer_checkpoint_within_the_noise_is_best_and_its_record_says_so(train, here):
    assert train("--best-metric", "max:brightness").code == 0
    values = [record["brightness"] for record in records()]
    assert max(values) - min(values) < 0.25
    best = read_json(here, "r", "manifest.json")["best"]
    assert (best["step"], best["value"], best["reached"]) == (6, values[-1], max(values))
    is_best_value = [value == max(values[: i + 1]) for i, value in enumerate(values)]
    assert [not record.get("within_noise", False) for record in records()] == is_best_value


# ---------------------------------------------------------------------------------- a noisy metric


def choose_among(direction, *evaluations):
    """The record of the best checkpoint after evaluations, (value, noise) of the steps 1, 2, ..."""
    metric, best = BestMetric("x", direction), None
    for step, (value, noise) in enumerate(evaluations, start=1):
        best = metric.choose(best, step, value, noise)
    return best


@pytest.mark.parametrize(
    "value, noise, is_chosen",
    [(5.0, 0.9, False), (5.0, 1.0, True), (3.0, 9.0, True), (3.0, 0.0, True), (4.0, 0.0, False)],
)
def test_the_newest_within_the_noise_of_the_best_value_is_best(value, noise, is_chosen):
    step = 2 if is_chosen else 1
    assert choose_among("min", (4.0, 0.5), (value, noise))["step"] == step
    assert choose_among("max", (-4.0, 0.5), (-value, noise))["step"] == step


def test_steps_within_the_noise_do_not_add_up():
    # Each is within the noise of the one before it, and the last no longer of the best value.
    best = choose_among("min", (4.0, 1.0), (4.9, 1.0), (5.8, 1.0))
    assert (best["step"], best["value"], best["reached"]) == (2, 4.9, 4.0)


def test_small_gains_count_as_gains():
    assert choose_among("min", (4.0, 1.0), (3.9, 1.0), (3.8, 1.0))["reached"] == 3.8


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_no_number_is_never_the_best(value):
    assert choose_among("min", (value, 1.0)) is None
    assert choose_among("min", (4.0, 1.0), (value, 1.0))["step"] == 1


def test_the_first_value_is_the_best_whatever_its_noise():
    assert choose_among("min", (3.0, 100.0))["step"] == 1


def test_noise_that_is_not_a_number_counts_for_nothing():
    assert choose_among("min", (4.0, 1.0), (4.0, float("nan")))["step"] == 1


# ------------------------------------------------------------------------------------ without a run


def evaluator_of(scorers, base=Generator):
    plugin = type("Tested", (base,), {"scorers": hookimpl(scorers), "__module__": __name__})
    plugins = Plugins(make_plugin(plugin, "tested"))
    options = resolve(plugins.options()).options
    return Evaluator(plugins, options, SPEC, splits={"test": SPLIT}.get)


SPEC = DataSpec((6, 6, 1), "uint8", 3)
SPLIT = Split(np.zeros([3, 6, 6, 1], np.uint8), np.arange(3))


class Fixed(Scorer):
    names = ("fixed",)

    def __init__(self, result):
        self._result = result

    def score(self, split, predict, folder):
        return self._result() if callable(self._result) else self._result


def test_the_names_of_scorers_are_among_the_metric_names():
    names = evaluator_of(lambda self: [Fixed(None)]).metric_names
    assert names == ["accuracy", "fixed", "loss"]


def test_without_splits_no_scorer_is_created():
    def scorers(self):
        raise AssertionError("called")

    plugin = type("Tested", (Generator,), {"scorers": hookimpl(scorers), "__module__": __name__})
    plugins = Plugins(make_plugin(plugin, "tested"))
    options = resolve(plugins.options()).options
    assert Evaluator(plugins, options, SPEC).metric_names == ["accuracy", "loss"]


class Loss(Fixed):
    names = ("loss",)


@pytest.mark.parametrize(
    "scorers, message",
    [
        ([Loss(None)], "Metric 'loss' of scorer Loss is already a metric of the model"),
        (
            [Fixed(None), Fixed(None)],
            "Metric 'fixed' of scorer Fixed is already a metric of scorer Fixed",
        ),
        ([object()], "Hook 'scorers' of a plugin returned <object"),
    ],
    ids=["a loss", "twice", "no scorer"],
)
def test_invalid_scorers_are_refused(scorers, message):
    with pytest.raises(ToolkitError, match=message):
        evaluator_of(lambda self: scorers)


def fail():
    raise ValueError("too few")


@pytest.mark.parametrize(
    "result, message",
    [
        (None, "Scorer Fixed returned None"),
        (ScoreResult({"other": 1.0}), "Scorer Fixed returned ScoreResult"),
        (fail, "Plugin 'tested' failed in its scorer Fixed: ValueError: too few .*test_scorer"),
    ],
    ids=["nothing", "another name", "a fault"],
)
def test_an_invalid_score_is_refused(trained, result, message):
    evaluator = evaluator_of(lambda self: [Fixed(result)])
    evaluator.load(RunFolder(str(trained / "run")).checkpoints.prefix(6))
    with pytest.raises(ToolkitError, match=message):
        evaluator.evaluate(SPLIT, 2)


def test_a_scorer_predicts_with_the_loaded_checkpoint(trained):
    evaluator = evaluator_of(lambda self, splits: [Brightness(lambda name: splits("test"))])
    folder = RunFolder(str(trained / "run"))
    for step in (2, 6, 2):
        evaluator.load(folder.checkpoints.prefix(step))
        evaluation = evaluator.evaluate(SPLIT, 2)
        expected = brightness(step, str(trained / "run"))
        assert evaluation.metrics["brightness"] == pytest.approx(expected, abs=1e-6)


def test_a_scorer_creates_ops_in_a_graph_of_its_own(trained):
    def score():
        value = tf.constant(3.0)
        with tf.Session() as session:
            return ScoreResult({"fixed": session.run(value)})

    evaluator = evaluator_of(lambda self: [Fixed(score)])
    evaluator.load(RunFolder(str(trained / "run")).checkpoints.prefix(6))
    with tf.Graph().as_default() as around:
        around.finalize()
        assert evaluator.evaluate(SPLIT, 2).metrics["fixed"] == 3.0


SCORELESS = """
from toolkit import Scorer, hookimpl

class Sharpness(Scorer):
    names = ("sharpness",)

@hookimpl
def scorers():
    return [Sharpness()]
"""


def test_a_scorer_without_score_is_an_error_that_names_its_plugin_and_class(cli, here):
    (here / "scoreless.py").write_text(SCORELESS)
    data = write_bars("bars.npz")
    argv = ["--data", data, *STEPS, "--run-dir", "r"]
    result = cli("run", "--plugin", LINEAR, "--with", "./scoreless.py", *argv)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[-2:] == [
        "Error: Scorer Sharpness of plugin 'scoreless' does not implement 'score'.",
        "Define score(self, split, predict, folder) in the class.",
    ]
    assert "Traceback" not in result.err
    assert records() == []  # no evaluation was recorded
