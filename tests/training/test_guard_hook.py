"""The hook that ends a run in which every step was skipped, after a resume."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolkit.errors import DivergedError
from toolkit.training.hooks.guard import Guard

EARLIER = {"seen": {"skipped_steps": 10}, "at": 900}  # as version 0.1 saved it at step 1050


def make_guard(state):
    guard = Guard({"skipped_steps": None}, 1000, lambda record: None, lambda text: None)
    guard.loop = SimpleNamespace(is_last=lambda step: False)
    guard.set_state(state)
    return guard


def report_count(guard, step, count):
    guard.on_step(step, {"skipped_steps": count}, None)


def test_steps_before_the_state_of_an_earlier_version_do_not_end_the_run():
    guard = make_guard(EARLIER)
    report_count(guard, 1100, 150)  # 140 since step 900, but at most 50 since the state
    with pytest.raises(DivergedError, match="All of the last 100 steps up to step 1200"):
        report_count(guard, 1200, 250)


def test_a_state_that_was_saved_before_the_first_window_does_not_end_the_run_either():
    guard = make_guard(make_guard(EARLIER).state())
    report_count(guard, 1100, 150)
    report_count(guard, 1200, 249)
    with pytest.raises(DivergedError, match="All of the last 100 steps up to step 1300"):
        report_count(guard, 1300, 349)


@pytest.mark.parametrize(
    "state, step",
    [({}, 100), ({"seen": {"skipped_steps": 50}, "window": {"skipped_steps": 50}, "at": 150}, 200)],
)
def test_a_window_in_which_all_steps_were_skipped_ends_the_run(state, step):
    guard = make_guard(state)
    with pytest.raises(DivergedError, match=f"up to step {step} were non-finite"):
        report_count(guard, step, 150 if step == 200 else 100)
