"""What the length of a run means for its time, its learning rate and its accumulated gradients."""

from __future__ import annotations

import pytest

from toolkit import UsageError
from toolkit.options import CoreOptions
from toolkit.training.length import (
    check_accumulation,
    check_other_length,
    describe_early_end,
    describe_length,
)
from toolkit.training.setup import check_threads, total_steps


def options(**values):
    return CoreOptions(**dict({"learning_rate": 0.5}, **values))


@pytest.mark.parametrize(
    "values, num_examples, total",
    [
        ({"steps": 7}, 100, 7),
        ({"epochs": 2, "batch_size": 10}, 100, 20),
        ({"epochs": 1, "batch_size": 64}, 100, 2),
        ({"epochs": 0.001, "batch_size": 64}, 100, 1),
        ({"epochs": 0.05, "batch_size": 64}, 4000, 4),  # 3.125
        ({"epochs": 1e12, "batch_size": 1}, 10, 10**13),
        ({"steps": 2**63 - 1}, 100, 2**63 - 1),
    ],
)
def test_the_length_is_that_of_the_steps_or_of_the_epochs_rounded_up(values, num_examples, total):
    assert total_steps(options(**values), num_examples) == total


@pytest.mark.parametrize("epochs", [1e18, 1e300])
def test_more_steps_than_can_be_counted_are_refused(epochs):
    with pytest.raises(UsageError, match=r"^--epochs 1e\+\d+ is .* more than 2\^63 - 1"):
        total_steps(options(epochs=epochs, batch_size=1), 1000)


@pytest.mark.parametrize(
    "total, update_counts, steps",
    [
        (7, {"": 1}, "7 steps"),
        (1, {"": 1}, "1 step"),
        (3, {"a": 2, "b": 1}, "3 steps"),  # at most six gradients of one name
    ],
)
def test_an_accumulation_that_is_longer_than_the_run_is_refused(total, update_counts, steps):
    with pytest.raises(UsageError, match=f"^--accumulate is 8, but the run has {steps}: no weight"):
        check_accumulation(options(accumulate=8), total, update_counts)


@pytest.mark.parametrize(
    "total, update_counts", [(8, {"": 1}), (4, {"a": 2, "b": 1}), (1, {"a": 8}), (1, {})]
)
def test_an_accumulation_that_a_run_completes_is_allowed(total, update_counts):
    check_accumulation(options(accumulate=8), total, update_counts)


@pytest.mark.parametrize(
    "values, total, notes",
    [
        ({}, 100, []),
        ({"schedule": "cosine"}, 1000, []),
        ({"schedule": "step", "decay_rate": 0.5}, 1000, []),
        ({"schedule": "step", "decay_rate": 0.1}, 1000, ["after step 700 of 1000 "]),
        ({"accumulate": 4}, 12, []),
        ({"warmup_steps": 11}, 12, []),
        ({"accumulate": 4}, 10, ["the last 2 steps change no weight: "]),
        (
            {"warmup_steps": 20},
            10,
            ["is longer than the run: the learning rate ends at 50 % of the full rate"],
        ),
        ({"warmup_steps": 10}, 10, []),
        ({"warmup_steps": 10, "schedule": "cosine"}, 10, ["the cosine never begins"]),
        ({"warmup_steps": 10**9, "schedule": "cosine"}, 100, ["ends at 1e-05 % of the full rate"]),
        ({"schedule": "cosine", "decay_steps": 50}, 100, ["after step 50 of 100 "]),
        # A factor of 1/2 in each step is less than a millionth after 20.
        ({"schedule": "step", "decay_steps": 1}, 100, ["after step 20 of 100 "]),
        ({}, 3 * 10**14, ["3e+14 steps take 10 years at a million steps a second"]),
        ({"max_secs": 60}, 3 * 10**14, ["a second; it ends after 60 seconds"]),
    ],
)
def test_what_a_user_may_not_expect_of_a_length_is_noted(values, total, notes):
    texts = describe_length(options(**values), total, {"": 1})
    assert len(texts) == len(notes)
    for text, note in zip(texts, notes):
        assert note in text


@pytest.mark.parametrize(
    "accumulate, total, update_counts, notes",
    [
        (4, 10, {"a": 2, "b": 1}, []),  # "a" changes in every second step
        (
            7,
            5,
            {"a": 2, "b": 1},
            [
                "the last step changes no weight: --accumulate makes one update of 7 gradients, "
                "and 5 steps have 10"
            ],
        ),
        (2, 5, {"a": 3}, []),  # of its three last gradients, one is left over
        (4, 10, {}, []),  # a plugin that applies its gradients itself
    ],
)
def test_last_steps_without_an_update_are_counted_by_gradients(
    accumulate, total, update_counts, notes
):
    assert describe_length(options(accumulate=accumulate), total, update_counts) == notes


# A cosine over 100 steps: at step 50 half the full rate, at step 99 sin(pi/200)^2 = 2.47e-4 of it.
@pytest.mark.parametrize(
    "step, now, rates",
    [
        (100, 200, "50 % of the full rate after step 100, and was 0.0247 % before"),
        (50, 100 * 2, "85.4 % of the full rate after step 50, and was 51.6 % before"),
        (100, 1000, "97.6 % of the full rate after step 100, and was 0.0247 % before"),
        (50, 75, "25 % of the full rate after step 50, and was 51.6 % before"),
    ],
)
def test_another_length_whose_rate_jumps_has_to_be_allowed(step, now, rates):
    cosine = options(schedule="cosine")
    with pytest.raises(UsageError) as error:
        check_other_length(cosine, step, 100, now, False)
    length = f"the cosine schedule follows the length of the run, {now} steps instead of 100"
    assert error.value.message == f"With this length the learning rate is {rates}: {length}."
    assert "--allow steps" in error.value.hint
    has_keep = "--decay-steps 100 --allow decay_steps" in error.value.hint
    assert has_keep == (step < 100)  # after its end the schedule has a rate of 0
    assert check_other_length(cosine, step, 100, now, True) == (
        f"the learning rate is {rates}: {length}"
    )


def test_a_small_change_of_the_rate_is_a_note():
    note = check_other_length(options(schedule="cosine"), 100, 100, 101, False)
    rates = "the learning rate is 0.0242 % of the full rate after step 100, and was 0.0247 % before"
    assert note.startswith(rates)


@pytest.mark.parametrize(
    "values", [{}, {"warmup_steps": 5}, {"schedule": "step", "decay_steps": 10}]
)
def test_a_schedule_that_does_not_follow_the_length_allows_any_length(values):
    assert check_other_length(options(**values), 100, 100, 400, False) == ""


@pytest.mark.parametrize("step, before, now", [(0, 100, 400), (100, 100, 100), (100, 100, 50)])
def test_the_same_length_or_no_step_left_says_nothing_of_the_rate(step, before, now):
    assert check_other_length(options(schedule="cosine"), step, before, now, False) == ""


def test_a_run_that_ends_early_says_how_high_its_rate_still_is():
    cosine = options(schedule="cosine")
    assert describe_early_end(cosine, 50, 100) == (
        "the learning rate is still 50 % of the full rate at step 50; the cosine schedule ends at "
        "0.0247 % after step 100"
    )
    assert describe_early_end(cosine, 99, 100) == describe_early_end(cosine, 100, 100) == ""
    assert describe_early_end(options(), 50, 100) == ""


@pytest.mark.parametrize("name", ["intra_op_threads", "inter_op_threads"])
def test_more_threads_than_cores_can_use_are_refused(monkeypatch, name):
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 20)  # 16 threads on each are allowed
    check_threads(options(**{name: 320}))
    with pytest.raises(UsageError, match="-op-threads is 321, at most 320 are possible on 20 cor"):
        check_threads(options(**{name: 321}))
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 1)
    check_threads(options(**{name: 256}))
    with pytest.raises(UsageError, match="is 257, at most 256 are possible"):
        check_threads(options(**{name: 257}))
