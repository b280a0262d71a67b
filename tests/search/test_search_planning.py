"""What a command leaves open, and how it follows from the model: metric, budget, rungs."""

import json

import process_fixtures
import pytest
from linear_fixtures import LINEAR, write_bars
from search_fixtures import SIZE, small_definition

from toolkit.api import load_plugins
from toolkit.errors import UsageError
from toolkit.options import CoreOptions
from toolkit.search import planning
from toolkit.search.definition import Budget, Dimension
from toolkit.search.planning import choose_metric, choose_rungs, complete, fill_in, with_more_trials
from toolkit.search.sampler import count_trials
from toolkit.search.trial_options import find_length

METRICS = {"loss": "min", "accuracy": "max", "size": ""}


def stated(**values):
    """What a command says that leaves everything open."""
    left_open = {"sampler": "", "trials": 0, "seeds": (1,), "budget": Budget("examples", 0)}
    left_open.update(rungs=(), metric="", direction="", moment="", options={}, flags=())
    return small_definition(**dict(left_open, **values))


def plan(epochs=10.0, best_metric=None, steps=None, **values):
    study = stated(epochs=epochs, **values)
    options = CoreOptions(batch_size=10, best_metric=best_metric, steps=steps)
    return fill_in(complete(study, study), options, METRICS, 1000)


@pytest.mark.parametrize(
    "text, best, expected",
    [
        ("", "", ("accuracy", "max")),
        ("", "loss", ("loss", "min")),
        ("", "max:size", ("size", "max")),
        ("loss", "accuracy", ("loss", "min")),
        ("min:accuracy", "", ("accuracy", "min")),
    ],
)
def test_the_metric_that_chooses(text, best, expected):
    direction, _, name = text.rpartition(":")
    assert choose_metric(name, direction, METRICS, best) == expected


@pytest.mark.parametrize(
    "text, message",
    [("size", "Nothing declares"), ("acuracy", "no metric 'acuracy'"), ("up:loss", "'up:loss'")],
)
def test_a_metric_without_a_meaning_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        direction, _, name = text.rpartition(":")
        choose_metric(name, direction, METRICS, "")


@pytest.mark.parametrize(
    "values, budget",
    [
        ({}, Budget("examples", 10000)),  # ten epochs
        ({"epochs": 3}, Budget("examples", 3000)),
        ({"epochs": 4.03}, Budget("examples", 4030)),  # the product of floats is above it
        ({"epochs": 0, "steps": 7}, Budget("steps", 7)),  # such as a preset of the data has
        ({"budget": Budget("examples", 500)}, Budget("examples", 500)),
    ],
)
def test_the_budget_is_stated_or_that_of_a_usual_run(values, budget):
    assert plan(**values).budget == budget


def test_the_length_of_a_trial_follows_from_the_budget_and_the_batch():
    plugins = load_plugins("classifier")
    for budget, steps in [(Budget("steps", 70), 70), (Budget("examples", 321), 6)]:
        assert find_length(plugins, stated(budget=budget), {"batch_size": 64}) == steps
    assert find_length(plugins, stated(budget=budget), {"batch_size": -1}) == 1  # its run says why


def test_a_small_space_of_lists_is_a_grid_and_another_one_is_not():
    grid = plan(space=(SIZE, Dimension("dropout", "float", 0.0, 0.2, 0.1)))
    assert (grid.sampler, grid.trials) == ("grid", 6)
    assert (plan().sampler, plan().trials) == ("tpe", planning.DEFAULT_TRIALS)
    assert plan(space=(SIZE,), sampler="random", trials=9).trials == 2  # there are no more
    large = tuple(Dimension(name, "int", 1, 200, 1) for name in ("a", "b"))
    with pytest.raises(UsageError, match="40,000 configurations") as error:
        plan(space=large, sampler="grid")
    assert error.value.hint == "Set --trials."


def test_the_moment_is_that_of_the_checkpoint_that_the_test_evaluates():
    assert plan().moment == "last"
    assert plan(best_metric="accuracy").moment == "best"


@pytest.mark.parametrize(
    "trials, rungs", [(9, (1 / 9, 1 / 3, 1.0)), (5, (1 / 3, 1.0)), (90, (1 / 9, 1 / 3, 1.0))]
)
def test_the_rungs(trials, rungs):
    assert choose_rungs(3, trials) == rungs


def test_rungs_end_with_an_evaluation_and_have_the_trials_that_the_halving_leaves():
    study = small_definition(sampler="random", trials=9, rungs=(1 / 9, 1 / 3, 1.0), reduction=3)
    assert count_trials(study) == [18, 6, 2]  # two seeds
    assert study.evaluation_interval(100) == 11
    assert [study.pause_step(100, rung) for rung in range(3)] == [11, 33, 100]
    study = study._replace(interval=20)
    assert [study.pause_step(100, rung) for rung in range(3)] == [20, 40, 100]


@pytest.mark.parametrize(
    "values, message",
    [
        ({"budget": Budget("steps", 3), "reduction": 3}, "two of them are the same"),
        ({"trials": 2, "reduction": 3}, "one of 3 configurations, and there are 2"),
        ({"sampler": "grid"}, "learning_rate is a range without a step"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(values, message):
    with pytest.raises(UsageError, match=message):
        plan(**values)


def test_a_command_that_repeats_a_study_defines_the_same_one():
    values = {"trials": 7, "seeds": (1, 2), "reduction": 2}
    study = plan(**values)
    assert complete(stated(**values), study) == study
    study.refuse_difference(complete(stated(**values, epochs=10.0), study), "s")
    with pytest.raises(UsageError, match="epochs was 10.0, now 20.0"):
        study.refuse_difference(complete(stated(**values, epochs=20.0), study), "s")


def test_what_a_command_leaves_open_is_that_of_the_study():
    study = plan(trials=7, sampler="random")
    assert complete(stated(), study) == study
    other = complete(stated(trials=9, metric="loss", direction="min"), study)
    assert other == study._replace(trials=9, metric="loss", direction="min")


@pytest.mark.parametrize(
    "values, trials, message",
    [
        ({"reduction": 2, "rungs": (0.5, 1.0)}, 6, "which of them continued after a rung depends"),
        ({"space": (SIZE,), "trials": 2}, 6, "has 2 trials, and cannot have 6"),
    ],
)
def test_more_trials_that_a_study_cannot_get_are_refused_with_the_reason(values, trials, message):
    with pytest.raises(UsageError, match=message):
        with_more_trials(small_definition(**values), trials)


def test_the_budget_of_a_configuration_file_and_the_ends_of_what_varies_are_planned(cli, here):
    process_fixtures.take_turn()
    (here / "my.toml").write_text("steps = 70\n")
    words = ["search", "--search-dir", "s", "--plugin", LINEAR, "--data", write_bars("bars.npz")]
    words += ["--vary", "learning_rate=1e-4..1e-2:log", "--vary", "batch_size=16,32"]
    words += ["--sampler", "random", "--trials", 3, "--config", "my.toml", "--dry-run", "--json"]
    result = cli.succeed(*words)
    assert json.loads(result.out)["study"]["budget"] == {"kind": "steps", "amount": 70}
    expected = "checked  the options of 3 configurations and of the space's limits; 4 graphs built"
    assert expected in result.err
