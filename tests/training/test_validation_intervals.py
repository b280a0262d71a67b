"""The intervals of the validation during training: in the commit log, after each kind of end."""

import pytest
from linear_fixtures import Linear, write_bars

from toolkit import Scorer, ScoreResult, hookimpl, statistics, testing, tf
from toolkit.storage.run_folder import RunFolder
from toolkit.training import run_evaluator


class Rating(Scorer):
    names, directions = ("rating",), {"rating": "max"}

    def score(self, split, predict, folder):
        interval = statistics.Interval(1.0, 3.0, 0.95, "own")
        return ScoreResult({"rating": 2.0}, intervals={"rating": interval})


class ByExample(Linear):
    """Linear whose evaluation has the values of its examples and of a scorer, and whose best step
    is known.
    """

    @hookimpl
    def example_metrics(self, labels, outputs):
        hits = tf.equal(tf.argmax(outputs["logits"], axis=1, output_type=tf.int32), labels)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=outputs["logits"]
        )
        return {"accuracy": hits, "entropy": losses, "same": 0 * losses}

    @hookimpl
    def metrics(self, labels, outputs):
        hits = tf.equal(tf.argmax(outputs["logits"], axis=1, output_type=tf.int32), labels)
        rank = -tf.abs(tf.cast(tf.train.get_global_step().read_value(), tf.float32) - 2.0)
        return {"accuracy": tf.metrics.mean(tf.cast(hits, tf.float32)), "rank": (rank, rank)}

    @hookimpl
    def metric_directions(self):
        return {"rank": "max", "entropy": "min", "accuracy": "max"}

    @hookimpl
    def scorers(self):
        return [Rating()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz", validation=9)


@pytest.fixture
def train(data, tmp_path):
    """`train(name, **options)` trains a run, or resumes it: its folder."""

    def call(name="run", **options):
        values = {"data": data, "batch_size": 4, "steps": 4, "checkpoint_steps": 1}
        values.update(evaluate_steps=1, best_metric="rank", page=False, steps_per_call=1)
        testing.train(ByExample, str(tmp_path / name), **dict(values, **options))
        return RunFolder(str(tmp_path / name))

    return call


def evaluations_of(folder):
    return folder.state()["validation"]


def test_the_commit_log_has_the_last_and_the_best_evaluation_with_intervals(train):
    folder = train()
    evaluations = evaluations_of(folder)
    records = {r["step"]: r for r in folder.metrics.read() if r["kind"] == "eval"}
    assert (evaluations["last"]["step"], evaluations["best"]["step"]) == (4, 2)
    for evaluation in evaluations.values():
        record = records[evaluation["step"]]
        assert evaluation["examples"] == 9
        assert {name: record[name] for name in evaluation["metrics"]} == evaluation["metrics"]
        hits = round(9 * record["accuracy"])
        assert evaluation["intervals"]["accuracy"] == statistics.wilson(hits, 9).as_json()
        entropy = evaluation["intervals"]["entropy"]
        assert entropy["low"] < record["entropy"] < entropy["high"]
        rating = {"low": 1.0, "high": 3.0, "level": 0.95, "method": "own"}  # as the scorer says
        assert evaluation["intervals"].pop("rating") == rating
        assert set(evaluation["intervals"]) == {"accuracy", "entropy"}
        assert evaluation["intervals_omitted"] == {"same": "all 9 examples have the value 0"}
        assert not [name for name in record if "interval" in name]


def test_a_run_without_a_best_metric_has_the_last_evaluation_and_one_without_any_none(train):
    evaluations = evaluations_of(train(best_metric=None, steps=2))
    assert evaluations["best"] is None
    assert evaluations["last"]["step"] == 2
    assert train("without", evaluate=False, steps=1, best_metric=None).state()["validation"] is None


def test_a_split_that_is_too_large_has_the_metrics_alone(train, monkeypatch):
    monkeypatch.setattr(run_evaluator, "MAX_EXAMPLES", 8)
    large = evaluations_of(train(steps=1))["last"]
    assert {"accuracy", "entropy"} <= set(large["metrics"]) and set(large["intervals"]) == {
        "rating"
    }
    reason = "in training, none is computed over more than 8 examples"
    assert large["intervals_omitted"] == {"entropy": reason, "same": reason}


def test_the_intervals_are_those_of_the_command_evaluate(cli, data):
    argv = ["--plugin", "test_validation_intervals:ByExample", "--data", data, "--steps", 2]
    assert cli("run", *argv, "--run-dir", "run").code == 0
    last = evaluations_of(RunFolder("run"))["last"]
    result = cli("evaluate", "run", "--split", "validation", "--json").json()
    for name in ("metrics", "intervals", "intervals_omitted"):
        assert result[name] == last[name]
    assert cli("verify", "run").code == 0
