"""Trials time the variants of a step, and all later calls use the fastest one."""

import pytest

from toolkit.training.step_runner import MAX_TRIAL_CALLS, WARM_UP_CALLS, FastestVariant


def variants(count):
    """Functions that return their index, so many of them."""
    return [lambda steps, index=index: index for index in range(count)]


def call(fastest, *step_secs, steps=1):
    """Call the next variant for `steps` steps, which take so long each; returns its index."""
    index = fastest.next(steps)
    fastest.observe(step_secs[index] * steps, steps)
    return index


@pytest.mark.parametrize("step_secs, best", [((0.001, 0.002), 0), ((0.002, 0.001), 1)])
def test_the_fastest_variant_wins_after_an_equal_number_of_calls_of_each(step_secs, best):
    fastest = FastestVariant(variants(2))
    indices = []
    while not fastest.is_decided:
        indices.append(call(fastest, *step_secs))
    assert indices == [0, 1] * (WARM_UP_CALLS + MAX_TRIAL_CALLS)
    assert [call(fastest, *step_secs) for _ in range(3)] == [best] * 3


def test_variants_compare_by_the_time_of_a_step_whatever_their_steps_per_call():
    fastest = FastestVariant(variants(2))
    while not fastest.is_decided:
        # The faster one makes ten steps per call, so that its calls are longer.
        call(fastest, 0.002, 0.001, steps=10 if fastest.next(1) else 1)
    assert fastest.next(1) == 1


def test_a_trial_of_slow_steps_is_short():
    fastest = FastestVariant(variants(2))
    calls = 0
    while not fastest.is_decided:
        call(fastest, 1.0, 2.0)
        calls += 1
    assert calls == 2 * (WARM_UP_CALLS + 5)


def test_a_later_slow_call_does_not_change_the_choice():
    fastest = FastestVariant(variants(2))
    while not fastest.is_decided:
        call(fastest, 0.001, 0.002)
    assert [call(fastest, 9.0, 0.002) for _ in range(100)] == [0] * 100
