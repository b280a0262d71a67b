"""The best checkpoint: its metric and direction, ties and values that are not finite, resumes.

The metrics of these runs are known at each step, and so is the step that has to be the best.
"""

import io
import math
from types import SimpleNamespace

import pytest
from linear_fixtures import LINEAR, Linear, write_bars

from toolkit import Scorer, ScoreResult, ToolkitError, UsageError, hookimpl, testing, tf
from toolkit.audit.diagnosis import diagnose_folder
from toolkit.display.console import Console
from toolkit.inference.scorer_set import read_directions
from toolkit.storage.run_folder import RunFolder
from toolkit.training.best_metric import BestMetric, choose_best_metric
from toolkit.training.session_record import describe_best

NAN, INF = math.nan, math.inf
DECLARED = {"accuracy": "max", "loss": "min", "a:b": None}


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
def run(data):
    """`run(plugin, steps=5)` trains a new run, or resumes it: its summary, and what it logs."""

    def train(plugin, **options):
        values = {"data": data, "checkpoint_steps": 1, "batch_size": 4, "steps_per_call": 1}
        text = io.StringIO()
        options = dict(values, page=False, **options)
        return testing.train(plugin, "run", console=Console(text), **options), text.getvalue()

    return train


def manifest():
    return RunFolder("run").state()


@pytest.mark.parametrize(
    "text, direction",
    [("accuracy", "max"), ("loss", "min"), ("max:a:b", "max"), ("min:a:b", "min")],
)
def test_the_direction_is_the_declared_one_or_that_of_the_prefix(text, direction):
    metric = choose_best_metric(text, DECLARED)
    assert (metric.direction, metric.note) == (direction, "")
    assert text.endswith(metric.name)


@pytest.mark.parametrize("name", ["my_loss", "error", "distance"])
def test_no_direction_is_guessed_from_a_name(name):
    with pytest.raises(UsageError, match="nothing declares whether higher or lower") as raised:
        choose_best_metric(name, {name: None})
    assert f"Write min:{name} or max:{name}" in raised.value.hint
    assert "metric_directions" in raised.value.hint


@pytest.mark.parametrize("text", ["foo:loss", ":loss", "min:foo:loss", "MIN:loss", "min:", "loss "])
def test_a_malformed_choice_is_refused(text):
    with pytest.raises(UsageError, match="neither min: nor max:|There is no metric"):
        choose_best_metric(text, DECLARED)


def directions(*plugins, losses=("loss",)):
    answers = SimpleNamespace(call_hook=lambda hook, run: list(plugins))
    return read_directions(answers, None, losses, [])


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


def test_the_direction_is_printed_at_the_start_and_with_the_result(cli, here):
    argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", "4"]
    result = cli(*argv, "--best-metric", "max:loss", "--run-dir", "r")
    line = (
        "best   the highest loss on the validation split, although lower values are declared better"
    )
    assert line in result.err.splitlines()
    assert "\nbest    highest loss " in result.out and "(validation, step 2)" in result.out


@pytest.mark.parametrize(
    "direction, values, best",
    [
        ("max", [1.0, 2.0, 2.0, 2.0, 1.0], 2),  # of equal ones the first
        ("min", [NAN, NAN, -3.0, NAN, -4.0], 3),
        ("max", [1.0, INF, 2.0, -INF, 1.5], 3),
        ("max", [NAN, INF, -INF, NAN, NAN], None),
    ],
    ids=str,
)
def test_the_best_checkpoint_is_that_of_the_best_finite_value(run, values, best, direction):
    sign = 1 if direction == "max" else -1
    plugin = Scripted({"score": direction}, score=[sign * value for value in values])
    summary, _ = run(plugin, steps=5, best_metric="score")
    test = (summary["test"]["checkpoint"], summary["test"]["step"])
    if best is None:
        assert manifest()["best"] is None and summary["best"] is None and test == ("last", 5)
    else:
        assert manifest()["best"]["step"] == summary["best"]["step"] == best
        assert manifest()["best"]["value"] == pytest.approx(sign * values[best - 1])
        assert test == ("best", best)


@pytest.mark.parametrize(
    "values, patience, last",
    [
        ([1.0, 2.0, 1.0, 1.0, 3.0, 1.0], 2, 4),
        ([1.0, 2.0, 1.0, 1.0, 3.0, 1.0], 3, 6),
        ([NAN, NAN, NAN, 1.0, 1.0, 1.0], 3, 3),
        ([INF, 1.0, NAN, INF, 1.0, 9.0], 3, 5),
    ],
    ids=str,
)
def test_early_stopping_ends_at_the_known_step_and_leaves_nothing_to_do(
    run, values, patience, last
):
    plugin = Scripted({"score": "max"}, score=values)
    summary, _ = run(plugin, steps=6, best_metric="score", early_stopping=patience)
    assert summary["steps"] == last
    is_early = summary["reason"] == f"score has not improved in {patience} evaluations"
    assert is_early or last == 6
    (advice,) = diagnose_folder(RunFolder("run")).advice
    assert advice.endswith("--early-stopping 0" if last < 6 else "--steps N")
    for steps, other in ((6, patience), (7, patience), (6, 9)):
        options = {"steps": steps, "early_stopping": other}
        with testing.open_trainer(plugin, "run", **options) as trainer:
            assert trainer.is_finished() == (steps == 6 and (other == patience or last == 6))


TWO = {"a": "max", "b": "max"}
A, B = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0, 3.0, 2.0]
AGAIN = "note   the best checkpoint is chosen again from here: "


@pytest.mark.parametrize(
    "metric, reason, best",
    [
        ("b", "metric was a, now b", {"metric": "b", "direction": "max", "step": 5}),
        # The resumed step itself is evaluated again.
        ("min:a", "direction was max, now min", {"direction": "min", "step": 2}),
    ],
)
def test_another_metric_or_direction_begins_the_best_again(run, metric, reason, best):
    plugin = Scripted(TWO, a=A, b=B)
    run(plugin, steps=2, best_metric="a")
    assert manifest()["best"]["step"] == 1
    summary, log = run(plugin, steps=6, best_metric=metric)
    assert AGAIN + reason + "; step 1 was best\n" in log
    assert {name: manifest()["best"][name] for name in best} == best
    assert summary["test"]["step"] == best["step"]


def test_the_count_of_early_stopping_begins_again_too(run):
    plugin = Scripted(TWO, a=A, b=[1.0] * 6)
    run(plugin, steps=3, best_metric="a", early_stopping=3)
    assert manifest()["evaluations_since_best"] == 2
    summary, _ = run(plugin, steps=6, best_metric="b", early_stopping=3)
    assert (manifest()["best"]["step"], summary["steps"]) == (3, 6)


def test_another_validation_split_begins_the_best_again(run):
    plugin = Scripted(TWO, a=A)
    run(plugin, steps=2, best_metric="a")
    before = manifest()["best"]["depends_on"]["examples"][:40]
    write_bars("bars.npz", validation=8)
    _, log = run(plugin, steps=4)
    now = manifest()["best"]["depends_on"]["examples"][:40]
    assert AGAIN + f"examples was {before}, now {now}; step 1 was best\n" in log
    assert manifest()["best"]["step"] == 2


class Rated(Linear):
    """Its score is 9 at step 1, and then 1."""

    @hookimpl
    def scorers(self):
        return [Rating()]


class Rating(Scorer):
    names, directions = ("rating",), {"rating": "max"}

    calls = 0

    def score(self, split, predict, folder):
        self.calls += 1
        return ScoreResult({"rating": 9.0 if self.calls == 1 else 1.0})

    def dependencies(self, split):
        return {"sizes": (3, 4), "rate": 0.1}


def test_a_plain_resume_continues_with_the_best_so_far(run):
    for steps in 2, 4:
        _, log = run(Rated(), steps=steps, best_metric="rating")
    assert "chosen again" not in log
    assert (manifest()["best"]["step"], manifest()["evaluations_since_best"]) == (1, 3)


def test_without_a_metric_no_best_stays(run):
    plugin = Scripted(TWO, a=A)
    run(plugin, steps=2, best_metric="a")
    summary, log = run(plugin, steps=4, best_metric="none")
    assert "note   no metric chooses the best checkpoint any more; step 1 was best\n" in log
    assert manifest()["best"] is None and summary["test"]["checkpoint"] == "last"


def test_a_newer_value_within_the_noise_is_not_called_the_lowest():
    metric = BestMetric("distance", "min")
    best = metric.choose(metric.choose(None, 1, 4.0, 0.5), 2, 4.25, 0.5)
    assert describe_best(best) == (
        "distance 4.2500 (validation, step 2: the newest within the noise, 0.5000, of the lowest, "
        "4.0000)"
    )
