"""The table of a study: its order, its statuses, and its intervals."""

import numpy as np
import pytest
from fake_trials import open_study
from search_fixtures import small_definition

from toolkit.search.definition import Configuration, Result
from toolkit.search.table import describe_intervals, format_table, make_rows, sort_rows


def result(value, status="finished", **values):
    return Result(status, "", 1.0, 100, value)._replace(**values)


@pytest.fixture
def rows(tmp_path):
    def call(definition, results):
        """The rows of configurations 0, 1, ... from the results by configuration, seed and rung."""
        study = open_study(definition, tmp_path)
        study.results = results
        numbers = range(1 + max(number for number, _, _ in results))
        values = {"learning_rate": 1e-3, "batch_size": 16}
        study.configurations = {n: Configuration(n, values) for n in numbers}
        return sort_rows(definition, make_rows(study, list(numbers)))

    return call


def test_the_best_is_first_and_failures_are_last(rows):
    study = small_definition(seeds=(1,), rungs=(0.5, 1.0), reduction=2)
    failure = Result("diverged", "Training diverged in step 2.")
    results = {(0, 1, 0): failure, (1, 1, 0): result(0.4, "paused"), (1, 1, 1): result(0.9)}
    results.update({(2, 1, 0): result(0.3, "paused"), (3, 1, 0): result(0.5, "paused")})
    table = rows(study, {**results, (3, 1, 1): result(0.7)})
    assert [row.number for row in table] == [1, 3, 2, 0]
    assert [row.status for row in table] == ["finished", "finished", "stopped", "diverged"]
    assert table[2].reason == ("stopped at rung 1 of 2 (step 100): 2 of 4 configurations continued")
    text = "\n".join(format_table(study, table))
    assert "Training diverged in step 2." in text and "stopped at" not in text


@pytest.mark.parametrize("direction, best", [("min", 1), ("max", 0)])
def test_the_direction_says_which_values_are_better(rows, direction, best):
    study = small_definition(seeds=(1,), direction=direction)
    assert rows(study, {(0, 1, 0): result(0.5), (1, 1, 0): result(0.4)})[0].number == best


@pytest.mark.parametrize(
    "others, status, reason, seeds",
    [
        ({(0, 2, 0): Result("failed", "It broke.", 1.0, 100)}, "failed", "Seed 2: It broke.", 1),
        ({(0, 2, 0): result(0.8)}, "finished", "", 2),
        ({}, "waiting", "", 1),
    ],
)
def test_a_configuration_has_the_status_of_its_worst_seed(rows, others, status, reason, seeds):
    (row,) = rows(small_definition(), {(0, 1, 0): result(0.9), **others})
    assert (row.status, row.reason, row.seeds) == (status, reason, seeds)
    assert row.cpu_secs == 1.0 + len(others)
    assert row.paths == ["trials/0000-s1", "trials/0000-s2"][: 1 + len(others)]


def test_with_one_seed_the_interval_is_that_over_the_examples(rows):
    study = small_definition(seeds=(1,))
    results = {(0, 1, 0): result(0.9, low=0.8, high=0.95), (1, 1, 0): result(0.5)}
    table = rows(study, results)
    assert [(row.low, row.high, row.interval) for row in table] == [
        (0.8, 0.95, "examples"),
        (None, None, ""),
    ]
    lines = format_table(study, table)
    assert "0.9000 [0.8000, 0.9500]" in lines[1] and "[" not in lines[2]
    assert describe_intervals(table).startswith("95 % intervals over the examples of the validatio")


def test_with_several_seeds_the_interval_is_that_of_student_over_the_seeds_alone(rows):
    results = {(0, seed, 0): result(0.3 + seed / 5, low=0.4, high=0.9) for seed in (1, 2)}
    (row,) = rows(small_definition(), results)
    half = 12.7062 * np.std([0.5, 0.7], ddof=1) / np.sqrt(2)
    assert (row.value, row.seeds, row.interval) == (pytest.approx(0.6), 2, "seeds")
    assert (row.low, row.high) == pytest.approx((0.6 - half, 0.6 + half), rel=1e-4)
    assert describe_intervals([row]) == (
        "95 % intervals of the mean over the seeds, on one validation split."
    )
    del results[0, 2, 0]  # it is still to come
    (row,) = rows(small_definition(), results)
    assert (row.value, row.low, row.high, row.interval) == (0.5, None, None, "")
    assert describe_intervals([row]) == ""
