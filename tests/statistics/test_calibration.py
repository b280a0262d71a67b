"""Calibration against values that one can compute by hand, and on calibrated predictions."""

import numpy as np
import pytest

from toolkit.statistics import calibrate, wilson


def test_the_error_is_the_mean_distance_of_the_bins():
    result = calibrate([0.95, 0.85, 0.85, 0.15], [True, True, False, True], num_bins=10)
    # One example 0.05 below, two of mean 0.85 with share 0.5, one of 0.15 with share 1.
    assert result.error == pytest.approx((0.05 + 2 * 0.35 + 0.85) / 4)
    assert [each.examples for each in result.bins] == [1, 2, 1]
    assert result.bins[1].confidence == pytest.approx(0.85)
    assert result.bins[1].accuracy == 0.5 and result.bins[1].interval == wilson(1, 2)


def test_a_bin_contains_its_upper_end():
    result = calibrate([0.0, 0.5, 0.50001, 1.0], [True] * 4, num_bins=2)
    assert [(each.low, each.high, each.examples) for each in result.bins] == [
        (0, 0.5, 2),
        (0.5, 1, 2),
    ]


def test_predictions_that_are_right_as_often_as_they_say_have_a_small_error():
    draws = np.random.RandomState(0)
    probabilities = draws.uniform(0.3, 1.0, 200_000)
    result = calibrate(probabilities, draws.rand(200_000) < probabilities)
    assert result.error < 0.01 and result.num_bins == 15
    covering = [b.interval.low <= b.confidence <= b.interval.high for b in result.bins]
    assert sum(covering) >= len(covering) - 2


def test_overconfident_predictions_have_their_excess_as_error():
    assert calibrate(np.full(100, 0.9), np.arange(100) < 60).error == pytest.approx(0.3)


def test_rounding_above_one_is_the_last_bin():
    assert calibrate(np.array([1.0000001], np.float32), [True]).bins[0].high == 1.0


@pytest.mark.parametrize("probabilities", [[], [1.5], [-0.1], [np.nan]])
def test_what_is_no_probability_is_refused(probabilities):
    with pytest.raises(ValueError, match="probabilities in"):
        calibrate(probabilities, np.ones(len(probabilities), bool))
