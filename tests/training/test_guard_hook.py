"""The hook that ends a run in which every step was skipped, after a resume."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolkit.errors import DivergedError
from toolkit.training.hooks.guard import Guard


def make_guard(state):
    guard = Guard({"skipped_steps": None}, 1000, lambda record: None, lambda text: None)
    guard.loop = SimpleNamespace(is_last=lambda step: False)
    guard.set_state(state)
    return guard


def report_count(guard, step, count):
    guard.on_step(step, {"skipped_steps": count}, None)


@pytest.mark.parametrize(
    "state, step",
    [({}, 100), ({"seen": {"skipped_steps": 50}, "window": {"skipped_steps": 50}, "at": 150}, 200)],
)
def test_a_window_in_which_all_steps_were_skipped_ends_the_run(state, step):
    guard = make_guard(state)
    with pytest.raises(DivergedError, match=f"up to step {step} were non-finite"):
        report_count(guard, step, 150 if step == 200 else 100)
