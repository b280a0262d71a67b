"""Whether results differ by more than chance: against published tests, and by error rates."""

import math

import numpy as np
import pytest
from scipy import stats

from toolkit.statistics.separation import Estimate, adjust, separate, tango


def pairs(both, a_alone, b_alone, neither):
    """Two bool arrays with these counts."""
    counts = [both, a_alone, b_alone, neither]
    a = np.repeat([True, True, False, False], counts)
    return a, np.repeat([True, False, True, False], counts)


@pytest.mark.parametrize("wins, losses", [(0, 0), (1, 0), (5, 0), (6, 0), (3, 12), (40, 70)])
def test_mcnemar_is_the_exact_binomial_test(wins, losses):
    a, b = pairs(100, wins, losses, 10)
    result = separate([a], [b])
    exact = getattr(stats, "binomtest", None) or stats.binom_test
    p = exact(wins, wins + losses, 0.5) if wins + losses else 1.0
    assert result.p == pytest.approx(getattr(p, "pvalue", p))
    assert result.difference == pytest.approx((wins - losses) / len(a))
    assert result.seeds == (1, 1) and "other seeds may differ" in result.note


def test_real_values_of_one_seed_each_are_compared_by_the_paired_t_test():
    draws = np.random.RandomState(0)
    a = draws.standard_normal(50)
    b = a + 0.1 + 0.3 * draws.standard_normal(50)
    result = separate([a], [b])
    assert result.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert result.is_separated == (result.p <= 0.05)


def test_values_of_seeds_alone_are_compared_by_welch_and_say_nothing_of_other_examples():
    a, b = [0.91, 0.92, 0.90], [0.95, 0.96, 0.93, 0.94]
    result = separate(a, b)
    assert result.p == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert result.is_separated
    assert result.note == "for these test examples: others may differ"


def test_two_values_with_intervals_are_compared_by_these():
    result = separate([Estimate(10.0, 9.0, 11.0)], [Estimate(12.0, 11.5, 12.5)])
    assert result[:3] == pytest.approx((-2.0, -2 - 1.25**0.5, -2 + 1.25**0.5))
    assert result.is_separated and result.p < 0.05
    assert not separate([Estimate(10.0, 9.0, 11.0)], [Estimate(11.0, 10.5, 11.5)]).is_separated


def test_examples_that_hardly_vary_between_seeds_leave_the_test_over_seeds():
    draws, shifts = np.random.RandomState(0), np.array([0.0, 1.0, 2.0, 5.0, 4.0, 6.5])
    examples = draws.standard_normal(30)
    rows = [examples + shift for shift in shifts]
    result = separate(rows[:3], rows[3:])
    expected = stats.ttest_ind(shifts[:3], shifts[3:], equal_var=False).pvalue
    assert result.p == pytest.approx(expected)


def test_one_seed_takes_the_variance_of_the_other_sides_seeds():
    result = separate([1.0], [2.0, 2.1, 2.2])
    error = 0.1 * (1 + 1 / 3) ** 0.5  # Student's t with 2 degrees of freedom: 4.302653
    assert result[:3] == pytest.approx((-1.1, -1.1 - 4.302653 * error, -1.1 + 4.302653 * error))
    assert result.note == (
        "the first has 1 seed; its seeds are taken to vary like the other's; "
        "for these test examples: others may differ"
    )


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("dtype", [bool, np.float32])
def test_equal_results_are_not_separated(dtype, seeds):
    rows = [np.random.RandomState(seed).rand(40) < 0.7 for seed in range(seeds)]
    rows = [row.astype(dtype) for row in rows]
    result = separate(rows, rows)
    assert result.difference == 0.0 and not result.is_separated and result.p == 1.0


@pytest.mark.parametrize("value", [0.9, np.random.RandomState(0).rand(165)])
def test_equal_results_of_any_numbers_of_seeds_do_not_differ_by_rounding(value):
    results = [separate([value] * n, [value] * m) for n in range(1, 9) for m in range(2, 9)]
    assert [result.difference for result in results] == [0.0] * len(results)
    assert not any(result.is_separated for result in results)


@pytest.mark.parametrize(
    "a, b, note",
    [
        ([np.array([0.5, np.nan])], [np.array([0.5, 0.1])], "some values are not finite"),
        ([float("nan"), 1.0], [1.0, 2.0], "some values are not finite"),
        ([0.5, 0.5], [0.7, 0.7], "the values do not vary"),
        ([np.array([0.5, 0.5])], [np.array([0.7, 0.7])], "the values do not vary"),
        ([Estimate(1.0, 1.0, 1.0)], [Estimate(0.5, 0.5, 0.5)], "the values do not vary"),
        ([np.array([True])], [np.array([False])], "1 seed each, without intervals"),
        ([0.9], [0.8], "1 seed each, without intervals"),
    ],
)
def test_what_cannot_be_compared_has_a_note_and_no_verdict(a, b, note):
    result = separate(a, b)
    assert not result.is_separated and math.isnan(result.p) and result.note == note


def test_pairs_need_the_same_number_of_examples():
    with pytest.raises(ValueError, match="3 examples cannot be paired with 2"):
        separate([np.zeros(3)], [np.zeros(2)])
    with pytest.raises(ValueError, match="at least one seed"):
        separate([], [0.5])


def test_the_order_of_the_sides_changes_only_the_sign():
    draws = np.random.RandomState(3)
    a = [draws.rand(60) < 0.8 for _ in range(3)]
    b = [draws.rand(60) < 0.6 for _ in range(2)]
    there, back = separate(a, b), separate(b, a)
    assert there[:3] == pytest.approx((-back.difference, -back.high, -back.low))
    assert there.p == pytest.approx(back.p)


@pytest.mark.parametrize("seeds", [(1, 1), (1, 3), (2, 2), (3, 3), (5, 5)])
@pytest.mark.parametrize("is_bool", [True, False])
def test_at_most_the_promised_share_of_equal_methods_is_separated(seeds, is_bool):
    draws = np.random.RandomState(11)
    seed_error = 0.05 if max(seeds) > 1 else 0.0  # one seed each promises nothing for other seeds

    def draw():
        hard = draws.standard_normal(100)
        rows = [
            hard + draws.standard_normal(100) + seed_error * 2 * draws.standard_normal()
            for _ in range(sum(seeds))
        ]
        rows = [row < 1.0 for row in rows] if is_bool else rows
        return rows[: seeds[0]], rows[seeds[0] :]

    errors = sum(separate(*draw()).is_separated for _ in range(400))
    assert errors / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


def test_paired_shares_have_tangos_interval():
    # Fagerland, Lydersen and Laake (2014), airway reactivity: 1 and 7 of 21 pairs differ.
    assert tango(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)
    z = 1.959964  # without differences, the ends solve n d = z^2 (1 - d)
    assert tango(0, 0, 50) == pytest.approx((-(z**2) / (50 + z**2), z**2 / (50 + z**2)))
    assert tango(5, 0, 5)[1] == 1.0 and tango(0, 5, 5)[0] == -1.0


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999, 0.999999])
@pytest.mark.parametrize("discordant", [0, 1, 5, 8, 12, 16, 40])
def test_mcnemars_verdict_and_interval_agree_at_any_level(level, discordant):
    for wins in range(discordant + 1):
        result = separate(*[[each] for each in pairs(30, wins, discordant - wins, 5)], level)
        assert result.is_separated == (result.p <= 1 - level)
        assert result.is_separated == (not result.low <= 0 <= result.high)
        assert result.low <= result.difference <= result.high


def test_several_comparisons_have_intervals_that_agree_with_their_verdicts():
    draws = np.random.RandomState(5)
    base = draws.standard_normal((3, 200))
    sides = [base + shift for shift in (0.0, 0.02, 0.3, 0.4)]
    sides = [list(each + 0.3 * draws.standard_normal((3, 200))) for each in sides]
    separators = [
        lambda level, a=a, b=b: separate(a, b, level)
        for i, a in enumerate(sides)
        for b in sides[:i]
    ]
    separators.append(lambda level: separate([0.9], [0.8], level))  # has no p
    results = adjust(separators, 0.95)
    single = [separator(0.95) for separator in separators]
    assert [each.p for each in results[:-1]] == pytest.approx(
        [min(1.0, 6 * each.p) for each in single[:-1]]
    )
    for result, alone in zip(results[:-1], single[:-1]):
        assert result.is_separated == (not result.low <= 0 <= result.high)
        assert result.low < alone.low and alone.high < result.high
    assert {each.is_separated for each in results[:-1]} == {True, False}
    assert math.isnan(results[-1].p) and adjust(separators[:1], 0.95) == single[:1]
