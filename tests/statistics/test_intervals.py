"""Intervals of shares and means against published values, and calibration."""

import numpy as np
import pytest

from toolkit.statistics import calibrate
from toolkit.statistics.intervals import (
    bootstrap,
    bootstrap_counts,
    interval_of_mean,
    jackknife,
    reason_without_interval,
    wilson,
)


@pytest.mark.parametrize(
    "successes, count, low, high",
    [  # Newcombe (1998), Intervals for the single proportion, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_values(successes, count, low, high):
    interval = wilson(successes, count)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)
    assert interval.level == 0.95 and interval.method == "Wilson"


@pytest.mark.parametrize("successes, count", [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(successes, count):
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, count)


def test_the_bootstrap_of_symmetric_values_is_the_t_interval():
    interval = bootstrap(np.array([-1.0, 0, 1]))  # t with 2 degrees: 4.302653; s = 1 / sqrt(3)
    assert interval[:2] == pytest.approx((-4.302653 / 3**0.5, 4.302653 / 3**0.5), rel=1e-6)
    assert interval.method == "bootstrap" and bootstrap(np.array([1.0, 2, 3])).low == 0


def test_the_bootstrap_is_that_of_resampling():
    from scipy.special import ndtr, ndtri

    values = np.random.RandomState(0).exponential(size=400)
    draws = np.random.RandomState(1)
    means = np.array([values[draws.randint(0, 400, 400)].mean() for _ in range(20_000)])
    # BCa with its published formula, from resampled means.
    bias = ndtri((means < values.mean()).mean())
    deviations = values - values.mean()
    acceleration = (deviations**3).sum() / (6 * np.square(deviations).sum() ** 1.5)
    shares = [ndtr(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-1.96, 1.96)]
    resampled = np.percentile(means, [100 * share for share in shares])
    error = values.std(ddof=1) / 20
    assert bootstrap(values)[:2] == pytest.approx(resampled, abs=0.05 * error)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999999])
@pytest.mark.parametrize("values", [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0, -1.0], [1e-300, 1e300]])
def test_ends_lie_around_the_mean_even_for_few_values_at_a_high_level(values, level):
    interval = bootstrap(np.array(values), level)
    assert interval.low < np.mean(values) < interval.high


@pytest.mark.parametrize(
    "values, reason",
    [
        ([], "there are no examples"),
        ([0.5], "there is 1 example"),
        ([0.25, 0.25], "all 2 examples have the value 0.25"),
    ],
)
def test_values_without_an_interval_have_a_reason(values, reason):
    values = np.array(values, np.float32)
    assert reason_without_interval(values) == reason
    assert interval_of_mean(values) is None


def second_share(counts):
    return counts[:, 1] / counts.sum(axis=1)


def test_the_bootstrap_of_counts_is_close_to_wilsons_for_a_share():
    interval = bootstrap_counts(second_share, np.array([40, 60]))
    assert interval[:2] == pytest.approx(wilson(60, 100)[:2], abs=0.015)
    assert bootstrap_counts(second_share, np.array([40, 60])) == interval


@pytest.mark.parametrize("counts", [[5, 0], [0, 1], [1, 0]])
def test_the_bootstrap_of_counts_in_one_cell_has_no_width(counts):
    interval = bootstrap_counts(second_share, np.array(counts))
    assert interval.low == interval.high == counts[1] / sum(counts)


def test_the_jackknife_of_a_mean_is_its_t_interval():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    estimates = [np.delete(values, i).mean() for i in range(4)]
    half = 3.182446 * values.std(ddof=1) / 2  # Student's t with 3 degrees of freedom
    interval = jackknife(4.0, estimates)
    assert interval[:2] == pytest.approx((4 - half, 4 + half), rel=1e-6)


def test_the_error_is_the_mean_distance_of_the_bins():
    result = calibrate([0.95, 0.85, 0.85, 0.15], [True, True, False, True], num_bins=10)
    # One example 0.05 below, two of mean 0.85 with share 0.5, one of 0.15 with share 1.
    assert result.error == pytest.approx((0.05 + 2 * 0.35 + 0.85) / 4)
    assert [each.examples for each in result.bins] == [1, 2, 1]
    assert result.bins[1].confidence == pytest.approx(0.85)
    assert result.bins[1].accuracy == 0.5 and result.bins[1].interval == wilson(1, 2)


def test_a_bin_contains_its_upper_end():
    result = calibrate([0.0, 0.5, 0.50001, 1.0], [True] * 4, num_bins=2)
    bins = [(each.low, each.high, each.examples) for each in result.bins]
    assert bins == [(0, 0.5, 2), (0.5, 1, 2)]


def test_rounding_above_one_is_the_last_bin():
    assert calibrate(np.array([1.0000001], np.float32), [True]).bins[0].high == 1.0


@pytest.mark.parametrize("probabilities", [[], [1.5], [-0.1], [np.nan]])
def test_what_is_no_probability_is_refused(probabilities):
    with pytest.raises(ValueError, match="probabilities in"):
        calibrate(probabilities, np.ones(len(probabilities), bool))
