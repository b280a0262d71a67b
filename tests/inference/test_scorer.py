"""Scorers: created with an evaluation, called after it, reported beside its metrics."""

import json
import os
import shutil
from unittest import mock

import numpy as np
import pytest
from file_fixtures import edit, read_json, read_text
from generator_fixtures import SCORED_GENERATOR, Brightness, Generator, expected_images
from inference_fixtures import evaluator_of
from linear_fixtures import read_weights, write_bars
from run_fixtures import records

from toolkit import DataSpec, Scorer, ScoreResult, Split, ToolkitError, hookimpl, tf
from toolkit.training.best_metric import BestMetric

STEPS = ["--steps", "6", "--checkpoint-steps", "2"]


@pytest.fixture
def run(golden, monkeypatch):
    """A finished run `run` with its data in the working directory."""
    monkeypatch.chdir(golden(*STEPS, plugin=SCORED_GENERATOR))
    return "run"


def brightness(step):
    return float(expected_images(read_weights("r", step)[0], [[1, 1]], [1]).mean())


def test_a_score_is_recorded_with_the_metrics_of_each_evaluation(cli, here, monkeypatch):
    folders, plain = [], Brightness.score

    def score(self, split, predict, folder):
        folders.append(folder and os.path.basename(folder))
        return plain(self, split, predict, folder)

    monkeypatch.setattr(Brightness, "score", score)
    monkeypatch.setattr(Brightness, "dependencies", lambda self, split: {"lamp": [len(split), 2]})
    monkeypatch.setattr(Brightness, "closed", 0)
    argv = ["--data", write_bars("bars.npz"), "--run-dir", "r", "--best-metric", "min:brightness"]
    outcome = cli.succeed("run", "--plugin", SCORED_GENERATOR, *STEPS, *argv, "--json")
    result = outcome.json()["test"]
    assert result["metrics"]["brightness"] == pytest.approx(brightness(6))
    scores = {record["step"]: record["brightness"] for record in records("r", "eval")}
    assert scores == {step: pytest.approx(brightness(step)) for step in (2, 4, 6)}
    assert result["lines"] == ["brightness against 13 of 40"]
    assert result["details"] == {"brightness": {"with_folder": True}}
    assert (here / "r" / result["reports"] / "brightness.txt").read_text() == "bright"
    assert folders == [None, None, None, "test-6"]  # none during training
    assert result["depends_on"]["brightness"] == {"lamp": [13, 2]}
    assert result["directions"] == {"accuracy": "max", "loss": "min"}
    assert len(result["examples_sha256"]) == 64
    manifest = read_json("r", "manifest.json")
    assert manifest["summary"]["test"]["lines"] == result["lines"]
    best = manifest["best"]
    assert (best["metric"], best["step"], best["noise"]) == ("brightness", 6, 0.25)
    assert Brightness.closed == 1


def test_a_scorer_without_metrics_is_not_asked_what_they_depend_on(cli, run, monkeypatch):
    asked = mock.Mock()  # of image scores, it would train a network
    monkeypatch.setattr(Brightness, "score", lambda *_: ScoreResult({}, ["no score"]))
    monkeypatch.setattr(Brightness, "dependencies", asked)
    assert "no score" in cli.succeed("evaluate", "run").out and not asked.called


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
    result = json.loads(cli("evaluate", run, "--json", "--data", "moved/bars.npz").out)
    assert result["lines"] == ["brightness against 13 of 40"]
    assert result["data"] == "npz:moved/bars.npz"


@pytest.mark.parametrize("has_scorer", [True, False])
def test_only_scores_need_the_data_of_the_run_and_say_so_when_it_is_gone(
    cli, golden, trained, monkeypatch, has_scorer
):
    scored = golden(*STEPS, plugin=SCORED_GENERATOR, name="scored")
    monkeypatch.chdir(scored if has_scorer else trained)
    lose_data()
    result = evaluate_other_data(cli)
    assert result.code == (4 if has_scorer else 0)
    if has_scorer:
        assert "bars.npz" in result.err and "Traceback" not in result.err
        assert "data that the run was trained on" in result.err


def test_the_lines_of_a_scorer_are_below_the_test(cli, run):
    log = [line.partition("Z ")[2] for line in read_text(run, "console.log").splitlines()]
    for lines in (log, cli.succeed("evaluate", run).out.splitlines()):
        (place,) = [i for i, line in enumerate(lines) if line.startswith("test ")]
        assert "brightness_noise 0.2500" in lines[place]
        assert lines[place + 1] == "        brightness against 13 of 40"


@pytest.mark.parametrize(
    "evaluations, best",
    [
        ([(4.0, 0.5), (5.0, 0.9)], (1, 4.0, 4.0)),
        ([(4.0, 0.5), (5.0, 1.0)], (2, 5.0, 4.0)),
        ([(4.0, 0.5), (3.0, 9.0)], (2, 3.0, 3.0)),
        ([(4.0, 0.5), (4.0, 0.0)], (1, 4.0, 4.0)),
        ([(4.0, 0.5), (4.0, float("nan"))], (1, 4.0, 4.0)),
        # Each is within the noise of the one before it, and the last no longer of the best value.
        ([(4.0, 1.0), (4.9, 1.0), (5.8, 1.0)], (2, 4.9, 4.0)),
        ([(4.0, 1.0), (3.9, 1.0), (3.8, 1.0)], (3, 3.8, 3.8)),  # small gains count as gains
        ([(4.0, 1.0), (float("nan"), 1.0)], (1, 4.0, 4.0)),
    ],
)
@pytest.mark.parametrize("direction, sign", [("min", 1), ("max", -1)])
def test_the_newest_within_the_noise_of_the_best_value_is_best(direction, sign, evaluations, best):
    metric, chosen = BestMetric("x", direction), None
    for step, (value, noise) in enumerate(evaluations, start=1):
        chosen = metric.choose(chosen, step, sign * value, noise)
    step, value, reached = best
    assert (chosen["step"], chosen["value"]) == (step, sign * value)
    assert chosen.get("reached", chosen["value"]) == sign * reached


SPLIT = Split(np.zeros([3, 6, 6, 1], np.uint8), np.arange(3))


def scored_by(*scorers, splits={"test": SPLIT}.get):
    """An evaluator of a plugin with these scorers."""
    hooks = {"scorers": hookimpl(lambda self: list(scorers)), "__module__": __name__}
    plugin = type("Tested", (Generator,), hooks)
    return evaluator_of(plugin, spec=DataSpec((6, 6, 1), "uint8", 3), name="tested", splits=splits)


class Fixed(Scorer):
    names = ("fixed",)

    def __init__(self, result, *names):
        self._result = result
        self.names = names or Fixed.names

    def score(self, split, predict, folder):
        return self._result() if callable(self._result) else self._result


class Sharpness(Scorer):
    names = ("sharpness",)


def test_the_names_of_scorers_are_among_the_metric_names_where_there_are_splits():
    assert list(scored_by(Fixed(None)).metric_directions()) == ["accuracy", "fixed", "loss"]
    assert list(scored_by(Fixed(None), splits=None).metric_directions()) == ["accuracy", "loss"]


@pytest.mark.parametrize(
    "scorers, message",
    [
        ([Fixed(None, "loss")], "Metric 'loss' of scorer Fixed is already a metric of the model"),
        ([Fixed(None)] * 2, "Metric 'fixed' of scorer Fixed is already a metric of scorer Fixed"),
        ([object()], "Hook 'scorers' of a plugin returned <object"),
        ([Sharpness()], "Scorer Sharpness of plugin 'tested' does not implement 'score'"),
    ],
    ids=["a loss", "twice", "no scorer", "no score"],
)
def test_invalid_scorers_are_refused(scorers, message):
    with pytest.raises(ToolkitError, match=message):
        scored_by(*scorers)


@pytest.mark.parametrize(
    "result, message",
    [
        (None, "Scorer Fixed returned None"),
        (ScoreResult({"other": 1.0}), "Scorer Fixed returned ScoreResult"),
        (ScoreResult({"fixed": None}), "Scorer Fixed returned ScoreResult"),
        (ScoreResult({"fixed": 1.0}, details={"curve": np.ones(2)}), "Scorer Fixed returned Score"),
        (
            lambda: int("few"),
            "Plugin 'tested' failed in its scorer Fixed: ValueError: invalid .*test_scorer",
        ),
    ],
    ids=["nothing", "another name", "no number", "no JSON", "a fault"],
)
def test_an_invalid_score_is_refused(result, message):
    evaluator = scored_by(Fixed(result))
    with pytest.raises(ToolkitError, match=message):
        evaluator.evaluate(SPLIT, 2)


def test_a_scorer_creates_ops_in_a_graph_of_its_own():
    def score():
        value = tf.constant(3.0)
        with tf.Session() as session:
            return ScoreResult({"fixed": session.run(value)})

    evaluator = scored_by(Fixed(score))
    with tf.Graph().as_default() as around:
        around.finalize()
        assert evaluator.evaluate(SPLIT, 2).metrics["fixed"] == 3.0
