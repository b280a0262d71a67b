"""The best checkpoint: its metric and direction, ties and values that are not finite, resumes.

The metrics of these runs are known at each step, and so is the step that has to be the best.
"""

from __future__ import annotations

import io
import math

import pytest
from linear_fixtures import LINEAR, Linear, write_bars

from toolkit import DataSpec, Scorer, ScoreResult, ToolkitError, UsageError, hookimpl, testing, tf
from toolkit.display.console import Console
from toolkit.inference.metric_directions import read_directions
from toolkit.plugins import Plugins
from toolkit.storage.run_folder import RunFolder
from toolkit.training.best_metric import BestMetric, choose_best_metric

NAN, INF = math.nan, math.inf
DECLARED = {"accuracy": "max", "loss": "min", "brightness": None}


class Scripted(Linear):
    """Linear whose evaluation has metrics with a known value at each step.

    Args:
        directions: what the plugin declares.
        metrics: name -> the value at step 1, at step 2, ...
    """

    def __init__(self, directions=None, **metrics):
        self.directions, self.values = directions or {}, metrics

    @hookimpl
    def metrics(self):
        step = tf.train.get_global_step().read_value()
        values = {n: tf.gather(tf.constant(v), step - 1) for n, v in self.values.items()}
        return {name: (value, value) for name, value in values.items()}

    @hookimpl
    def metric_directions(self):
        return self.directions


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


@pytest.fixture
def run(data, tmp_path):
    """`run(plugin, steps=5)` trains a new run, or resumes it: its summary, and what it logs."""
    text = io.StringIO()

    def train(plugin, **options):
        text.truncate(0)
        values = {"data": data, "checkpoint_steps": 1, "batch_size": 4, "steps_per_call": 1}
        options = dict(values, page=False, **options)
        trainer = testing.open_trainer(
            plugin, str(tmp_path / "run"), console=Console(text), **options
        )
        try:
            return trainer.train_and_test(), text.getvalue().replace("\0", "")
        finally:
            trainer.close()

    return train


@pytest.fixture
def manifest(tmp_path):
    return lambda: RunFolder(str(tmp_path / "run")).read_manifest()


# ------------------------------------------------------------------------------------ directions


@pytest.mark.parametrize(
    "text, direction",
    [
        ("accuracy", "max"),
        ("loss", "min"),
        ("max:brightness", "max"),
        ("min:brightness", "min"),
    ],
)
def test_the_direction_is_the_declared_one_or_that_of_the_prefix(text, direction):
    metric = choose_best_metric(text, DECLARED)
    assert (metric.direction, metric.note) == (direction, "")


def test_a_direction_against_the_declared_one_is_taken_with_a_note():
    metric = choose_best_metric("max:loss", DECLARED)
    assert metric.direction == "max"
    assert metric.summary == (
        "the highest loss on the validation split, although lower values are declared better"
    )


@pytest.mark.parametrize("name", ["brightness", "my_loss", "error", "distance"])
def test_no_direction_is_guessed_from_a_name(name):
    with pytest.raises(UsageError, match="nothing declares whether higher or lower") as raised:
        choose_best_metric(name, {name: None})
    assert f"Write min:{name} or max:{name}" in raised.value.hint
    assert "metric_directions" in raised.value.hint


@pytest.mark.parametrize("text", ["foo:loss", ":loss", "min:foo:loss", "MIN:loss", "min:", "loss "])
def test_a_malformed_choice_is_refused(text):
    with pytest.raises(UsageError, match="neither min: nor max:|There is no metric"):
        choose_best_metric(text, DECLARED)


def test_a_name_with_a_colon_needs_a_direction():
    assert choose_best_metric("max:a:b", {"a:b": None}).name == "a:b"


def test_a_metric_without_a_direction_is_refused_before_training(run, tmp_path):
    plugin = Scripted(my_loss=[1.0] * 5)
    with pytest.raises(UsageError, match="--best-metric is my_loss, but nothing declares"):
        run(plugin, steps=5, best_metric="my_loss")
    assert not (tmp_path / "run").exists()


def directions(*plugins, losses=("loss",), scorers=()):
    class Answers:
        def call_hook(self, hook, run):
            return list(plugins)

    return read_directions(Answers(), None, losses, scorers)


def test_the_only_loss_of_a_model_is_min_unless_the_plugin_declares_otherwise():
    assert directions() == {"loss": "min"}
    assert directions(losses=("evidence",)) == {"evidence": "min"}
    assert directions({"evidence": "max"}, losses=("evidence",)) == {"evidence": "max"}
    assert directions(losses=("d_loss", "g_loss")) == {}
    assert directions({"a": "max"}, {"b": "min"}, losses=()) == {"a": "max", "b": "min"}


@pytest.mark.parametrize(
    "answer", [["loss"], None, {"loss": "lower"}, {"loss": None}, "loss"], ids=str
)
def test_a_declaration_that_is_none_is_refused(answer):
    with pytest.raises(ToolkitError, match="^The hook 'metric_directions' declares the directions"):
        directions(answer)


def test_two_declarations_that_contradict_each_other_are_refused():
    with pytest.raises(ToolkitError, match="declares 'min' for the metric 'a', which is declared"):
        directions({"a": "max"}, {"a": "min"})


class Extension:
    """Adds a metric, and declares it."""

    @hookimpl
    def metrics(self):
        value = tf.cast(tf.train.get_global_step().read_value(), tf.float32)
        return {"step_error": (value, value)}

    @hookimpl
    def metric_directions(self):
        return {"step_error": "min"}


def test_an_extension_declares_its_own_metric(data, tmp_path):
    options = {"data": data, "steps": 3, "checkpoint_steps": 1, "best_metric": "step_error"}
    summary = testing.train(Linear, str(tmp_path / "run"), [Extension()], **options)
    assert (summary["best"]["step"], summary["best"]["direction"]) == (1, "min")


def test_the_direction_is_printed_at_the_start_and_with_the_result(cli, here):
    argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", "4"]
    result = cli(*argv, "--best-metric", "max:loss", "--run-dir", "r")
    line = (
        "best   the highest loss on the validation split, although lower values are declared better"
    )
    assert line in result.err.splitlines()
    assert "\nbest    highest loss " in result.out and "(validation, step 2)" in result.out


# -------------------------------------------------------------------------------- the known best


@pytest.mark.parametrize(
    "values, best",
    [
        ([1.0, 3.0, 2.0, 0.5, 2.5], 2),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 5),
        ([5.0, 4.0, 3.0, 2.0, 1.0], 1),
        ([1.0, 2.0, 2.0, 2.0, 1.0], 2),  # of equal ones the first
        ([NAN, NAN, -3.0, NAN, -4.0], 3),
        ([1.0, INF, 2.0, -INF, 1.5], 3),
        ([-INF, -1e30, INF, NAN, INF], 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("direction", ["max", "min"])
def test_the_best_checkpoint_is_that_of_the_best_finite_value(
    run, manifest, values, best, direction
):
    sign = 1 if direction == "max" else -1
    plugin = Scripted({"score": direction}, score=[sign * value for value in values])
    summary, _ = run(plugin, steps=5, best_metric="score")
    assert manifest()["best"]["step"] == summary["best"]["step"] == best
    assert manifest()["best"]["value"] == pytest.approx(sign * values[best - 1])
    assert (summary["test"]["checkpoint"], summary["test"]["step"]) == ("best", best)


def test_without_a_finite_value_there_is_no_best(run, manifest):
    summary, _ = run(
        Scripted({"score": "max"}, score=[NAN, INF, -INF]), steps=3, best_metric="score"
    )
    assert manifest()["best"] is None and summary["best"] is None
    assert (summary["test"]["checkpoint"], summary["test"]["step"]) == ("last", 3)


@pytest.mark.parametrize(
    "values, patience, last",
    [
        ([1.0, 2.0, 1.0, 1.0, 3.0, 1.0], 2, 4),
        ([1.0, 2.0, 1.0, 1.0, 3.0, 1.0], 3, 6),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1, 2),
        ([NAN, NAN, NAN, 1.0, 1.0, 1.0], 3, 3),
        ([INF, 1.0, NAN, INF, 1.0, 9.0], 3, 5),
    ],
    ids=str,
)
def test_early_stopping_ends_at_the_known_step(run, values, patience, last):
    plugin = Scripted({"score": "max"}, score=values)
    summary, _ = run(plugin, steps=6, best_metric="score", early_stopping=patience)
    assert summary["steps"] == last


def test_the_manifest_says_what_the_best_value_is_of(run, manifest):
    run(Linear(), steps=2, best_metric="accuracy")
    best = manifest()["best"]
    assert (best["metric"], best["direction"], best["split"]) == ("accuracy", "max", "validation")
    assert set(best["depends_on"]) == {"examples"} and len(best["depends_on"]["examples"]) == 64


# ------------------------------------------------------------------------------------- on a resume


TWO = {"a": "max", "b": "max"}
A, B = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0, 3.0, 2.0]
AGAIN = "note   the best checkpoint is chosen again from here: "


def test_another_metric_begins_the_best_again(run, manifest):
    plugin = Scripted(TWO, a=A, b=B)
    run(plugin, steps=2, best_metric="a")
    assert manifest()["best"]["step"] == 1
    summary, log = run(plugin, steps=6, best_metric="b")
    assert AGAIN + "the metric was a, now b; step 1 was best\n" in log
    assert (manifest()["best"]["metric"], manifest()["best"]["step"]) == ("b", 5)
    assert summary["test"]["step"] == 5


def test_another_direction_begins_the_best_again(run, manifest):
    plugin = Scripted(TWO, a=A)
    run(plugin, steps=2, best_metric="a")
    _, log = run(plugin, steps=4, best_metric="min:a")
    assert AGAIN + "the highest a was best, now the lowest; step 1 was best\n" in log
    assert manifest()["best"]["step"] == 2  # the resumed step itself is evaluated again


def test_the_count_of_early_stopping_begins_again_too(run, manifest):
    plugin = Scripted(TWO, a=A, b=[1.0] * 6)
    run(plugin, steps=3, best_metric="a", early_stopping=3)
    assert manifest()["evaluations_since_best"] == 2
    summary, _ = run(plugin, steps=6, best_metric="b", early_stopping=3)
    assert (manifest()["best"]["step"], summary["steps"]) == (3, 6)


def test_another_validation_split_begins_the_best_again(run, manifest, data, tmp_path):
    plugin = Scripted(TWO, a=A)
    run(plugin, steps=2, best_metric="a")
    before = manifest()["best"]["depends_on"]["examples"]
    write_bars(tmp_path / "bars.npz", validation=8)
    _, log = run(plugin, steps=4)
    now = manifest()["best"]["depends_on"]["examples"]
    assert AGAIN + f"examples was {before[:12]}, now {now[:12]}; step 1 was best\n" in log
    assert manifest()["best"]["step"] == 2


class Rated(Linear):
    """Its score is 9 at step 1, and then 1."""

    def __init__(self, **dependencies):
        self.dependencies = dependencies

    @hookimpl
    def scorers(self):
        return [Rating(self.dependencies)]


class Rating(Scorer):
    names, directions = ("rating",), {"rating": "max"}

    def __init__(self, dependencies):
        self.answer, self.calls = dependencies, 0

    def score(self, split, predict, folder):
        self.calls += 1
        return ScoreResult({"rating": 9.0 if self.calls == 1 else 1.0})

    def dependencies(self, split):
        return self.answer


def test_a_score_by_other_features_begins_the_best_again(run, manifest):
    run(Rated(features="a" * 64, size=3), steps=2, best_metric="rating")
    assert manifest()["best"]["depends_on"]["features"] == "a" * 64
    _, log = run(Rated(features="b" * 64, size=3), steps=4)
    assert AGAIN + "features was aaaaaaaaaaaa, now bbbbbbbbbbbb; step 1 was best\n" in log
    assert manifest()["best"]["step"] == 2


def test_equal_dependencies_of_a_score_change_nothing_on_a_resume(run, manifest):
    run(Rated(sizes=(3, 4), rate=0.1), steps=2, best_metric="rating")
    _, log = run(Rated(sizes=(3, 4), rate=0.1), steps=4)
    assert "chosen again" not in log


@pytest.mark.parametrize("value", [NAN, object(), {1}], ids=["nan", "object", "set"])
def test_dependencies_that_are_no_json_values_are_refused_before_training(run, tmp_path, value):
    with pytest.raises(ToolkitError, match="^Scorer Rating returned the dependencies"):
        run(Rated(value=value), steps=2, best_metric="rating")
    assert not (tmp_path / "run").exists()


def test_a_plain_resume_continues_with_the_best_so_far(run, manifest):
    plugin = Scripted(TWO, a=A)
    run(plugin, steps=2, best_metric="a")
    _, log = run(plugin, steps=4)
    assert "chosen again" not in log
    assert (manifest()["best"]["step"], manifest()["evaluations_since_best"]) == (1, 3)


def test_without_a_metric_no_best_stays(run, manifest):
    plugin = Scripted(TWO, a=A)
    run(plugin, steps=2, best_metric="a")
    summary, log = run(plugin, steps=4, best_metric="none")
    assert "note   no metric chooses the best checkpoint any more; step 1 was best\n" in log
    assert manifest()["best"] is None and summary["test"]["checkpoint"] == "last"


@pytest.mark.parametrize("value", [INF, NAN, None])
def test_a_recorded_value_that_is_not_finite_is_not_compared(value):
    metric = BestMetric("a", "max")
    assert metric.find_difference({"step": 1, "metric": "a", "value": value})


def test_the_classifier_declares_all_of_its_metrics():
    plugins = Plugins.load("classifier")
    run = testing.make_run("classifier", "eval", DataSpec((8, 8, 1), "uint8", 2))
    assert read_directions(plugins, run, ["loss"], []) == {
        "accuracy": "max",
        "top2": "max",
        "loss": "min",
    }
