"""The faster way to make a step is found by timing and then kept."""

import pytest

from toolkit.training.autotune import MOST_CALLS, WARM_UP, Fastest


class Ways:
    """Functions that take given times a step on a clock of their own, and count their calls."""

    def __init__(self, *seconds):
        self.now = 0.0
        self.calls = [0] * len(seconds)
        self.functions = [self._make(i, s) for i, s in enumerate(seconds)]

    def _make(self, i, seconds):
        def make(steps):
            self.now += seconds * steps
            self.calls[i] += 1
            return i, steps

        return make

    def clock(self):
        return self.now


@pytest.mark.parametrize("seconds, best", [((0.001, 0.002), 0), ((0.002, 0.001), 1)])
def test_the_faster_way_is_chosen(seconds, best):
    ways = Ways(*seconds)
    fastest = Fastest(ways.functions, ways.clock)
    for _ in range(2 * (WARM_UP + MOST_CALLS)):
        assert fastest.chosen is fastest
        fastest.chosen(1)
    assert fastest.chosen is ways.functions[best]
    assert ways.calls == [WARM_UP + MOST_CALLS] * 2


def test_ways_are_compared_by_the_time_of_a_step_though_their_calls_make_different_numbers():
    ways = Ways(0.002, 0.001)  # the faster one makes ten steps a call, so that its calls are longer
    fastest = Fastest(ways.functions, ways.clock)
    for call in range(2 * (WARM_UP + MOST_CALLS)):
        fastest.chosen(10 if call % 2 else 1)
    assert fastest.chosen is ways.functions[1]


def test_steps_are_handed_on_and_what_the_way_returns_comes_back():
    ways = Ways(0.001, 0.002)
    fastest = Fastest(ways.functions, ways.clock)
    assert [fastest.chosen(7), fastest.chosen(8)] == [(0, 7), (1, 8)]


def test_slow_steps_are_not_tried_for_long():
    ways = Ways(1.0, 2.0)
    fastest = Fastest(ways.functions, ways.clock)
    while fastest.chosen is fastest:
        fastest.chosen(1)
    assert sum(ways.calls) == 2 * (WARM_UP + 5)


def test_the_only_way_is_not_timed():
    ways = Ways(1.0)
    assert Fastest(ways.functions, ways.clock).chosen is ways.functions[0]
