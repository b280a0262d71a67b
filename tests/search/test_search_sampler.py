"""Which configurations a study samples."""

import pytest
from search_fixtures import RATE, SIZE, row, small_definition

from toolkit.search.definition import GRID, RANDOM, TPE, Configuration, Dimension
from toolkit.search.sampler import batches, make_study, needs_results, sample_batch

DIMENSIONS = (
    RATE,
    Dimension("momentum", "float", 0.0, 0.9, step=0.1),
    Dimension("width", "int", 8, 1024, is_log=True),
    Dimension("depth", "int", 1, 8, step=2),
    Dimension("flip", "choice", choices=(True, False)),
    Dimension("hidden", "choice", choices=([64], [64, 32])),
)


def first_batch(definition):
    return [values for _, values in sample_batch(definition, batches(definition)[0], {})]


def sample(definition, count):
    """The configurations of the first batches, without results."""
    known = {}
    for numbers in batches(definition)[:count]:
        for number, values in sample_batch(definition, numbers, known):
            known[number] = Configuration(number, values)
    return known


def history(known, outcome):
    """A row for each configuration, with the rung and the value that `outcome` returns."""
    rows = []
    for number, configuration in known.items():
        rung, value = outcome(number, configuration.values)
        status = "failed" if value is None else "finished"
        rows.append(row(number, status, values=configuration.values, rung=rung, value=value))
    return rows


@pytest.mark.parametrize("sampler", [RANDOM, TPE])
def test_values_are_those_of_the_dimensions(sampler):
    definition = small_definition(space=DIMENSIONS, sampler=sampler, trials=5)
    for values in first_batch(definition):
        assert list(values) == [dimension.name for dimension in DIMENSIONS]
        assert 1e-4 <= values["learning_rate"] <= 1e-2
        assert 8 <= values["width"] <= 1024 and isinstance(values["width"], int)
        for dimension in DIMENSIONS[1:2] + DIMENSIONS[3:]:
            assert values[dimension.name] in dimension.values


def test_a_configuration_follows_from_the_seed_of_the_study_and_its_number():
    small = small_definition(sampler=RANDOM, trials=5)
    large = small_definition(sampler=RANDOM, trials=20)
    assert first_batch(small) == first_batch(large)[:5]
    assert first_batch(small) != first_batch(small_definition(sampler=RANDOM, study_seed=1))


def test_a_grid_has_each_combination_in_order():
    space = (Dimension("depth", "int", 1, 3, step=2), SIZE)
    definition = small_definition(sampler=GRID, space=space, trials=4)
    values = [tuple(values.values()) for values in first_batch(definition)]
    assert values == [(1, 16), (1, 32), (3, 16), (3, 32)]


@pytest.mark.parametrize("sampler", [RANDOM, TPE])
def test_no_configuration_is_sampled_twice_while_there_are_others(sampler):
    space = (Dimension("depth", "int", 1, 5), SIZE)
    definition = small_definition(sampler=sampler, space=space, trials=10)
    known = sample(definition, None)
    assert len({tuple(each.values.values()) for each in known.values()}) == 10


def test_tpe_leaves_no_configuration_out_for_one_that_it_likes():
    definition = small_definition(trials=30, space=(Dimension("depth", "int", 1, 30),))
    known = {}
    for numbers in batches(definition):
        rows = history(known, lambda number, values: (0, -values["depth"]))
        for number, values in sample_batch(definition, numbers, known, rows):
            known[number] = Configuration(number, values)
    assert len({each.values["depth"] for each in known.values()}) == 30


def test_tpe_waits_for_results_after_ten_configurations():
    definition = small_definition(trials=20)
    sizes = [(len(n), needs_results(definition, n)) for n in batches(definition)]
    assert sizes == [(5, False), (5, False), (5, True), (5, True)]


def test_a_batch_with_halving_fills_its_rungs():
    definition = small_definition(trials=20, rungs=(1 / 9, 1 / 3, 1.0), reduction=3)
    assert [len(numbers) for numbers in batches(definition)] == [9, 9, 2]


def test_tpe_samples_near_the_good_ones_and_far_from_failures():
    definition = small_definition(trials=40, space=(RATE,))
    known = sample(definition, 6)
    rows = history(
        known, lambda number, values: (0, 0.9 if values["learning_rate"] < 3e-4 else None)
    )
    batch = sample_batch(definition, batches(definition)[6], known, rows)
    rates = sorted(values["learning_rate"] for _, values in batch)
    assert rates[3] < 5e-4


def test_optuna_sees_a_failure_as_the_worst_and_a_stop_as_pruned():
    definition = small_definition(trials=3, rungs=(0.5, 1.0), reduction=2)
    standings = [(1, 0.9), (0, 0.7), (0, None)]
    rows = history(sample(definition, 1), lambda number, values: standings[number])
    trials = make_study(definition, rows).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert trials[2].value == float("-inf")
    assert trials[1].intermediate_values == {0: 0.7}


def test_a_part_of_a_grid_with_more_points_than_fit_in_memory():
    space = (Dimension("n", "int", 1, 10**15, 1), Dimension("width", "int", 8, 10**9, is_log=True))
    definition = small_definition(sampler=GRID, trials=3, space=space)
    points = first_batch(definition)
    assert points == first_batch(definition)
    assert points == sorted(points, key=lambda values: (values["n"], values["width"]))
    assert len({tuple(values.values()) for values in points}) == 3
    assert all(1 <= v["n"] <= 10**15 and 8 <= v["width"] <= 10**9 for v in points)
