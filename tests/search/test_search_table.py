"""The table of a study: its order, its statuses, and its intervals."""

import numpy as np
import pytest
from search_fixtures import small_definition

from toolkit.search.definition import Configuration, TrialResult
from toolkit.search.table import describe_intervals, format_table, make_rows


def result(number, seed, value, status="finished", rung=0, reason=""):
    path = f"trials/{number:04d}-s{seed}"
    return TrialResult(number, seed, rung, status, reason, value, 100, 1.0, 2.0, path)


def configurations(count):
    return [Configuration(n, {"learning_rate": 1e-3, "batch_size": 16}) for n in range(count)]


def test_the_best_is_first_and_failures_are_last():
    study = small_definition(seeds=(1,), rungs=(0.5, 1.0), reduction=2)
    results = [
        result(0, 1, None, "diverged", reason="Training diverged in step 2."),
        result(1, 1, 0.9, "stopped", reason="stopped at rung 1"),
        result(2, 1, 0.5, rung=1),
        result(3, 1, 0.7, rung=1),
    ]
    rows = make_rows(study, configurations(5), results)
    assert [row.number for row in rows] == [3, 2, 1, 4, 0]
    statuses = [row.status for row in rows]
    assert statuses == ["finished", "finished", "stopped", "waiting", "diverged"]
    text = "\n".join(format_table(study, rows))
    assert "Training diverged in step 2." in text


def test_lower_values_are_better_where_the_direction_says_so():
    study = small_definition(seeds=(1,), direction="min")
    rows = make_rows(study, configurations(2), [result(0, 1, 0.5), result(1, 1, 0.4)])
    assert [row.number for row in rows] == [1, 0]


def test_the_interval_is_that_of_student_over_the_seeds():
    rows = make_rows(small_definition(), configurations(1), [result(0, 1, 0.5), result(0, 2, 0.7)])
    half = 12.7062 * np.std([0.5, 0.7], ddof=1) / np.sqrt(2)
    assert (rows[0].value, rows[0].seeds, rows[0].cpu_secs) == (pytest.approx(0.6), 2, 2.0)
    assert rows[0].low == pytest.approx(0.6 - half, rel=1e-4)
    assert rows[0].high == pytest.approx(0.6 + half, rel=1e-4)


def test_a_configuration_with_a_failed_seed_is_failed_and_says_which():
    results = [result(0, 1, 0.9), result(0, 2, None, "failed", reason="It broke.")]
    (row,) = make_rows(small_definition(), configurations(1), results)
    assert (row.status, row.reason, row.seeds) == ("failed", "Seed 2: It broke.", 1)


def test_with_one_seed_the_interval_is_that_over_the_examples():
    study = small_definition(seeds=(1,))
    results = [result(0, 1, 0.9)._replace(low=0.8, high=0.95), result(1, 1, 0.5)]
    rows = make_rows(study, configurations(2), results)
    assert [(row.low, row.high, row.interval) for row in rows] == [
        (0.8, 0.95, "examples"),
        (None, None, ""),
    ]
    lines = format_table(study, rows)
    assert "0.9000 [0.8000, 0.9500]" in lines[1] and "[" not in lines[2]
    assert describe_intervals(rows).startswith("95 % intervals over the examples of the validation")


def test_with_several_seeds_the_interval_is_that_over_the_seeds_alone():
    study = small_definition(seeds=(1, 2))
    results = [result(0, seed, 0.5 + seed / 10)._replace(low=0.4, high=0.9) for seed in (1, 2)]
    (row,) = make_rows(study, configurations(1), results)
    assert row.interval == "seeds" and row.low < 0.4
    assert describe_intervals([row]) == (
        "95 % intervals of the mean over the seeds, on one validation split."
    )
    (row,) = make_rows(study, configurations(1), results[:1])  # the other one is still to come
    assert (row.value, row.low, row.high, row.interval) == (0.6, None, None, "")
    assert describe_intervals([row]) == ""
