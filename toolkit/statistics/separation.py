"""Whether two results differ by more than chance."""

from __future__ import annotations

import math
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from .intervals import LEVEL, normal_quantile, sample_variance, t_quantile

MCNEMAR = "McNemar's exact test over examples"
PAIRED_T = "paired t test over examples"
SEEDS_AND_EXAMPLES = "t test over seeds and examples"
SEEDS = "Welch's t test over seeds"
OWN_INTERVALS = "the intervals of both values"

ONE_SEED_EACH = "1 seed each: other seeds may differ"
THESE_EXAMPLES = "for these test examples: others may differ"

_LEAST_P = 1e-12  # smaller values are not computed
_OFF_ESTIMATE = 1e-9  # of the way from an estimate to the end of the range


class Estimate(NamedTuple):
    """A metric's value with the ends of its own interval, at the level of the comparison."""

    value: float
    low: float
    high: float


# What one seed contributes: the value of each example [N], or one value, perhaps with an interval.
Seed = Union[np.ndarray, float, Estimate]


class Separation(NamedTuple):
    """The difference of two results, and whether chance explains it.

    Attributes:
        difference: mean of a minus mean of b.
        low: lower end of its interval; nan if it has none.
        high: upper end; likewise.
        is_separated: whether p is at most 1 - level.
        p: the probability of a difference of at least this size if there is none; nan if unknown.
        method: the test; '' if there is none.
        seeds: the numbers of seeds of a and of b.
        note: what the result does not say; '' if it holds for other seeds and other examples.
    """

    difference: float
    low: float
    high: float
    is_separated: bool
    p: float
    method: str
    seeds: Tuple[int, int]
    note: str


def separate(a: Sequence[Seed], b: Sequence[Seed], level: float = LEVEL) -> Separation:
    """Compare two methods, each by one run or by several that differ in their seed.

    One run each, with values of examples: McNemar's exact test for bool, else a t test over the
    differences of the examples; this compares the two models. Several runs: a t test whose variance
    has a part of the seeds and a part of the examples; this compares the methods. Without values of
    examples: Welch's t test over the seeds, or the two intervals of one run each.

    Args:
        a: for each seed the values of the examples, bool or real [N], where position i is the same
            example everywhere; or one value of the metric, or an `Estimate`. All of one kind;
            values of examples are preferred where all have them.
        b: likewise.
        level: the share of pairs without a difference that are not separated, in (0, 1).

    Raises:
        ValueError: a or b is empty, or numbers of examples differ.
    """
    if not len(a) or not len(b):
        raise ValueError("A comparison needs at least one seed on each side.")
    if not all(isinstance(seed, np.ndarray) and seed.ndim == 1 for seed in [*a, *b]):
        return _compare_values(
            [_estimate(seed) for seed in a], [_estimate(seed) for seed in b], level
        )
    rows_a, rows_b = _stack(a), _stack(b)
    if rows_a.shape[1] != rows_b.shape[1]:
        raise ValueError(f"{rows_a.shape[1]} examples cannot be paired with {rows_b.shape[1]}.")
    difference = float(rows_a.mean() - rows_b.mean())
    seeds = (len(a), len(b))
    if not (np.isfinite(rows_a).all() and np.isfinite(rows_b).all()):
        return _unknown(difference, seeds, "some values are not finite")
    if rows_a.shape[1] < 2:
        values_a, values_b = ([_estimate(row) for row in rows] for rows in (rows_a, rows_b))
        return _compare_values(values_a, values_b, level)
    if max(seeds) > 1:
        return _several_seeds(rows_a, rows_b, level)
    is_bool = rows_a.dtype == rows_b.dtype == np.bool_
    return (_mcnemar if is_bool else _paired_t)(rows_a[0], rows_b[0], level)


def adjust(separate_at: Sequence[Callable[[float], Separation]], level: float) -> List[Separation]:
    """Several comparisons whose verdicts and intervals hold together with a probability.

    Each is made at the level 1 - (1 - level) / count, and its p is multiplied by the count
    (Bonferroni), so that verdict, p and interval agree. Comparisons without a p do not count.

    Args:
        separate_at: for each comparison a function of the level, as `separate` is.
        level: of all together, in (0, 1).
    """
    results = [separate_one(level) for separate_one in separate_at]
    count = sum(not math.isnan(result.p) for result in results)
    if count < 2:
        return results
    results = [separate_one(1 - (1 - level) / count) for separate_one in separate_at]
    return [
        result if math.isnan(result.p) else result._replace(p=min(1.0, result.p * count))
        for result in results
    ]


def _estimate(seed: Seed) -> Estimate:
    if isinstance(seed, Estimate):
        return seed
    value = float(np.mean(seed))
    return Estimate(value, math.nan, math.nan)


def _stack(seeds: Sequence[Seed]) -> np.ndarray:
    """The values of the examples, [seeds, N]: bool if all are, else float64."""
    rows = [np.asarray(seed) for seed in seeds]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("The seeds of one side have different numbers of examples.")
    return np.stack(rows) if all(r.dtype == np.bool_ for r in rows) else np.stack(rows).astype("f8")


def _unknown(difference: float, seeds: Tuple[int, int], note: str) -> Separation:
    return Separation(difference, math.nan, math.nan, False, math.nan, "", seeds, note)


def _t_test(
    difference: float,
    variance: float,
    degrees: float,
    level: float,
    method: str,
    seeds: Tuple[int, int],
    note: str = "",
) -> Separation:
    """Compare a difference with Student's t."""
    from scipy.special import stdtr

    if variance == 0.0 and difference == 0.0:
        return Separation(0.0, 0.0, 0.0, False, 1.0, method, seeds, note)
    if variance == 0.0:
        return _unknown(difference, seeds, "the values do not vary")
    error = math.sqrt(variance)
    half = t_quantile(0.5 + level / 2, degrees) * error
    p = float(2 * stdtr(degrees, -abs(difference) / error))
    low, high = difference - half, difference + half
    return Separation(difference, low, high, p <= 1 - level, p, method, seeds, note)


# ------------------------------------------------------------------------------ one run each


def _mcnemar(a: np.ndarray, b: np.ndarray, level: float) -> Separation:
    """McNemar's test: of the examples on which the models differ, is each right on half?

    The interval is Tango's, for which the number of such examples is random, too. Where the exact
    test and this interval disagree about 0, the test decides: the interval is widened to 0, or its
    end is that of the exact interval of the half. So it excludes 0 exactly where p is at most
    1 - level.

    McNemar (1947), Psychometrika 12; the exact form: Fleiss, Levin and Paik (2003), Statistical
    Methods for Rates and Proportions, section 13.1.
    """
    from scipy.special import bdtr, betaincinv

    wins, losses = int((a & ~b).sum()), int((b & ~a).sum())
    discordant = wins + losses
    p = min(1.0, float(2 * bdtr(min(wins, losses), discordant, 0.5))) if discordant else 1.0
    low, high = tango(wins, losses, len(a), level)
    if p > 1 - level:
        low, high = min(low, 0.0), max(high, 0.0)
    elif low <= 0.0 <= high:
        # Clopper and Pearson (1934), Biometrika 26, for the share of wins among these examples.
        more, less = max(wins, losses), min(wins, losses)
        share = float(betaincinv(more, less + 1, (1 - level) / 2))
        end = (2 * share - 1) * discordant / len(a)
        low, high = (end, high) if wins > losses else (low, -end)
    difference = (wins - losses) / len(a)
    return Separation(difference, low, high, p <= 1 - level, p, MCNEMAR, (1, 1), ONE_SEED_EACH)


def tango(wins: int, losses: int, count: int, level: float = LEVEL) -> Tuple[float, float]:
    """The score interval of the difference of two shares of the same examples.

    Its ends are the differences d that are z standard errors away from (wins - losses) / count,
    where the error is that under d: the share of losses is its most likely value for this d.

    Tango (1998), Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, Statistics in Medicine 17; recommended by Fagerland, Lydersen and Laake
    (2014), Statistics in Medicine 33.

    Args:
        wins: number of examples on which the first is right and the second is wrong.
        losses: number of examples on which it is the other way round.
        count: number of all examples, at least 1.
        level: in (0, 1).
    """
    from scipy.optimize import brentq

    z, estimate = normal_quantile(0.5 + level / 2), (wins - losses) / count

    def excess(d: float, sign: float) -> float:
        linear = (2 * count - wins + losses) * d - wins - losses
        root = math.sqrt(max(0.0, linear**2 + 8 * count * losses * d * (1 - d)))
        share = (root - linear) / (4 * count)  # of losses
        variance = max(0.0, count * (2 * share + d * (1 - d)))
        return count * (estimate - d) + sign * z * math.sqrt(variance)

    # The error may be 0 at the estimate itself, where no end is.
    low, high = (estimate + (side - estimate) * _OFF_ESTIMATE for side in (-1.0, 1.0))
    low = -1.0 if estimate == -1.0 else float(brentq(excess, -1.0, low, (-1.0,)))
    high = 1.0 if estimate == 1.0 else float(brentq(excess, high, 1.0, (1.0,)))
    return low, high


def _paired_t(a: np.ndarray, b: np.ndarray, level: float) -> Separation:
    differences = np.asarray(a, np.float64) - b
    variance = sample_variance(differences) / len(differences)
    mean, degrees = float(differences.mean()), len(differences) - 1
    return _t_test(mean, variance, degrees, level, PAIRED_T, (1, 1), ONE_SEED_EACH)


def _difference_of_estimates(a: Estimate, b: Estimate, level: float) -> Separation:
    """The difference of two independent values whose intervals are known.

    low = d - sqrt((a - low of a)^2 + (high of b - b)^2), and high likewise; for intervals that are
    symmetric this is the usual sum of variances. p is that of a normal distribution.

    Zou and Donner (2008), Construction of confidence intervals about effect measures, Statistics in
    Medicine 27.
    """
    from scipy.special import ndtr

    difference = a.value - b.value
    below = math.hypot(a.value - a.low, b.high - b.value)
    above = math.hypot(a.high - a.value, b.value - b.low)
    low, high = difference - below, difference + above
    side = below if difference > 0 else above
    z = normal_quantile(0.5 + level / 2)
    if side == 0.0:
        return _t_test(difference, 0.0, 1.0, level, OWN_INTERVALS, (1, 1), ONE_SEED_EACH)
    p = float(2 * ndtr(-abs(difference) / side * z))
    is_separated = p <= 1 - level
    return Separation(difference, low, high, is_separated, p, OWN_INTERVALS, (1, 1), ONE_SEED_EACH)


# ------------------------------------------------------------------------------ several seeds


def _compare_values(a: Sequence[Estimate], b: Sequence[Estimate], level: float) -> Separation:
    """Compare values of the metric alone, one of each seed.

    All seeds have the same examples, whose part in the difference the values do not tell.
    """
    seeds = (len(a), len(b))
    values_a, values_b = np.array([e.value for e in a]), np.array([e.value for e in b])
    difference = float(_mean(values_a) - _mean(values_b))
    if not math.isfinite(difference):
        return _unknown(difference, seeds, "some values are not finite")
    if max(seeds) > 1:
        parts, note = _seed_variances([values_a, values_b])
        note = "; ".join(filter(None, [note, THESE_EXAMPLES]))
        return _t_test(difference, *_satterthwaite(parts), level, SEEDS, seeds, note)
    if math.isfinite(sum(a[0] + b[0])):
        return _difference_of_estimates(a[0], b[0], level)
    return _unknown(difference, seeds, "1 seed each, without intervals")


def _several_seeds(a: np.ndarray, b: np.ndarray, level: float) -> Separation:
    """Compare means over seeds and examples, both of which are samples.

    The means of the seeds vary by the seed and by noise of single examples; what is common to all
    seeds of a side, such as examples on which one method is better, adds a variance of its own: the
    variance of the examples' differences (of means over the seeds) / N, less the noise. The squared
    half width of the interval is the sum of those of both parts: a variance from few seeds so keeps
    its wide interval next to one from many examples, where the degrees of freedom of the sum would
    be too many.

    Gallas et al. (2009), A framework for random-effects ROC analysis, Communications in Statistics
    38, has the variances of such crossed samples; Howe (1974), Approximate confidence limits on the
    mean of X + Y, JASA 69, their interval.
    """
    from scipy.optimize import brentq

    sides = [np.asarray(rows, np.float64) for rows in (a, b)]
    means = [_mean(rows) for rows in sides]
    sample = means[0] - means[1]
    of_examples = sample_variance(sample) / len(sample)
    parts, note = _seed_variances([rows.mean(1) for rows in sides])
    # The noise of single examples in the mean of a side, for one of 1 seed that of the other.
    noises = [_residual_variance(rows) / rows.shape[1] for rows in sides if len(rows) > 1]
    noise = noises[0] / len(a) + noises[-1] / len(b)
    parts = [_satterthwaite(parts), (max(0.0, of_examples - noise), len(sample) - 1.0)]
    difference, seeds = float(means[0].mean() - means[1].mean()), (len(a), len(b))

    def half(p: float) -> float:
        """The half width of the interval of level 1 - p."""
        return math.sqrt(sum(v * t_quantile(p / 2, degrees) ** 2 for v, degrees in parts))

    width = half(1 - level)
    if width == 0.0 and difference != 0.0:
        return _unknown(difference, seeds, "the values do not vary")
    p = 1.0  # at which the interval ends at 0
    if difference != 0.0:
        is_less = half(_LEAST_P) <= abs(difference)
        p = _LEAST_P if is_less else float(brentq(lambda p: half(p) - abs(difference), _LEAST_P, 1))
    low, high = difference - width, difference + width
    return Separation(difference, low, high, p <= 1 - level, p, SEEDS_AND_EXAMPLES, seeds, note)


def _mean(seeds: np.ndarray) -> Any:
    """The mean over the seeds, the first axis; rounding does not part it from equal values."""
    return np.clip(seeds.mean(0), seeds.min(0), seeds.max(0))


def _seed_variances(sides: Sequence[np.ndarray]) -> Tuple[List[Tuple[float, float]], str]:
    """The variance of the mean of each side, or of the only one, with its degrees; a note."""
    if min(map(len, sides)) > 1:
        return [(sample_variance(v) / len(v), len(v) - 1.0) for v in sides], ""
    several = max(sides, key=len)
    variance = sample_variance(several) * (1 + 1 / len(several))
    side = "the first" if len(sides[0]) == 1 else "the second"
    note = f"{side} has 1 seed; its seeds are taken to vary like the other's"
    return [(variance, len(several) - 1.0)], note


def _residual_variance(rows: np.ndarray) -> float:
    """The variance of [seeds, N] that is neither that of the seeds nor that of the examples."""
    residuals = rows - rows.mean(0) - rows.mean(1, keepdims=True) + rows.mean()
    return float(np.square(residuals).sum()) / ((len(rows) - 1) * (rows.shape[1] - 1))


def _satterthwaite(parts: Sequence[Tuple[float, float]]) -> Tuple[float, float]:
    """The sum of variances with degrees of freedom each, and the degrees of the sum."""
    total = sum(variance for variance, _ in parts)
    if total == 0.0:
        return 0.0, 1.0
    return total, total**2 / sum(variance**2 / degrees for variance, degrees in parts)
