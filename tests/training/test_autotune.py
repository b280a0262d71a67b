"""The fastest variant of a step is found by timing and then used."""

import pytest

from toolkit.training.autotune import MAX_TRIAL_CALLS, WARM_UP_CALLS, FastestVariant


def variants(count):
    """So many functions, which return their number."""
    return [lambda steps, number=number: number for number in range(count)]


def call(fastest, *step_secs, steps=1):
    """Call the next variant, which takes so many seconds per step; return its number.

    Args:
        step_secs: of each variant.
    """
    number = fastest.next(steps)
    fastest.observe(step_secs[number] * steps, steps)
    return number


@pytest.mark.parametrize("step_secs, best", [((0.001, 0.002), 0), ((0.002, 0.001), 1)])
def test_the_fastest_variant_is_chosen_after_as_many_calls_of_each(step_secs, best):
    fastest = FastestVariant(variants(2))
    numbers = []
    while not fastest.is_decided:
        numbers.append(call(fastest, *step_secs))
    assert numbers == [0, 1] * (WARM_UP_CALLS + MAX_TRIAL_CALLS)
    assert [call(fastest, *step_secs) for _ in range(3)] == [best] * 3


def test_variants_are_compared_by_the_time_of_a_step_whatever_their_calls_make():
    fastest = FastestVariant(variants(2))
    while not fastest.is_decided:
        # The faster one makes ten steps per call, so that its calls are longer.
        call(fastest, 0.002, 0.001, steps=10 if fastest.next(1) else 1)
    assert fastest.next(1) == 1


def test_slow_steps_are_not_tried_for_long():
    fastest = FastestVariant(variants(2))
    calls = 0
    while not fastest.is_decided:
        call(fastest, 1.0, 2.0)
        calls += 1
    assert calls == 2 * (WARM_UP_CALLS + 5)


def test_a_later_slow_call_changes_no_choice():
    fastest = FastestVariant(variants(2))
    while not fastest.is_decided:
        call(fastest, 0.001, 0.002)
    assert [call(fastest, 9.0, 0.002) for _ in range(100)] == [0] * 100


def test_the_only_variant_needs_no_trial():
    assert FastestVariant(variants(1)).is_decided
