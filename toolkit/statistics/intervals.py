"""Intervals of a metric: the values that are plausible on other examples of the same kind."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Union

import numpy as np

LEVEL = 0.95
WILSON = "Wilson"
BOOTSTRAP = "bootstrap"
JACKKNIFE = "jackknife"
STUDENT = "Student's t"

_MAX_CELLS = 2 * 10**6  # that `bootstrap_counts` draws: below a second
_TOLERANCE = 1e-3  # of a metric beside the mean of its examples: the rounding of float32 counters
_MIN_DRAWS, _MAX_DRAWS, _DRAWS_AT_ONCE = 200, 2000, 20


class Interval(NamedTuple):
    """The values that are plausible for a metric.

    Attributes:
        low: its lower end.
        high: its upper end.
        level: the share of such intervals that contain the true value, in (0, 1).
        method: how it was computed, such as "Wilson" or "bootstrap".
    """

    low: float
    high: float
    level: float
    method: str

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())


def wilson(successes: int, count: int, level: float = LEVEL) -> Interval:
    """The score interval of a share, by Wilson.

    With p = successes / count and the normal quantile z, the ends solve
    (p - share)^2 = z^2 share (1 - share) / count. It lies in [0, 1] and has a width above 0 for
    shares of 0 and 1, too.

    Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22;
    recommended for any count by Brown, Cai and DasGupta (2001), Statistical Science 16.

    Args:
        successes: in [0, count].
        count: number of examples, at least 1.
        level: in (0, 1).
    """
    if not 0 <= successes <= count or count < 1:
        raise ValueError(f"{successes} of {count} is no share.")
    z, share = normal_quantile(0.5 + level / 2), successes / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) * z / (1 + z * z / count)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == count else min(1.0, centre + half)
    return Interval(low, high, level, WILSON)


def bootstrap(values: np.ndarray, level: float = LEVEL) -> Interval:
    """The bootstrap interval of a mean, by the formula to which resampling converges (ABC).

    The accelerated bootstrap (BCa) of a mean needs no resampling: with the standard error s, the
    quantile z, the acceleration a = sum(d^3) / (6 sum(d^2)^1.5) of the deviations d, and
    w = a + z, its ends are mean + s w / (1 - a w)^2. It follows skewed values to the second order,
    costs one pass over the values, and has no random numbers. As in the t interval, s has the
    divisor n - 1 and z is the quantile of Student's t, which widens it for few examples. Of values
    none of which is negative, such as losses, it ends at 0.

    DiCiccio and Efron (1992), More accurate confidence intervals in exponential families,
    Biometrika 79; Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 14.4.

    Args:
        values: finite, [N], N at least 2.
        level: in (0, 1).
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"The bootstrap needs at least 2 values, not {values.shape}.")
    count, mean = len(values), float(values.mean())
    deviations = values - mean
    scale = float(np.abs(deviations).max())
    if scale == 0.0:
        return Interval(mean, mean, level, BOOTSTRAP)
    deviations /= scale  # squares and cubes of any values are finite
    squares = float(np.square(deviations).sum())
    error = scale * math.sqrt(squares / (count - 1) / count)
    acceleration = float((deviations**3).sum()) / (6 * squares**1.5)
    z = t_quantile(0.5 + level / 2, count - 1)
    low = mean + error * _abc_deviate(-z, acceleration)
    high = mean + error * _abc_deviate(z, acceleration)
    return Interval(low if values.min() < 0 else max(0.0, low), high, level, BOOTSTRAP)


def _abc_deviate(z: float, acceleration: float) -> float:
    """The end of an interval in standard errors: w / (1 - a w)^2, where that rises with w.

    It does so for |a w| < 1, which holds but for a few examples at a level near 1.
    """
    w = acceleration + z
    if abs(acceleration * w) >= 1:
        w = math.copysign(0.999 / abs(acceleration), w)
    return w / (1 - acceleration * w) ** 2


def bootstrap_counts(
    statistic: Callable[[np.ndarray], np.ndarray],
    counts: np.ndarray,
    level: float = LEVEL,
) -> Interval:
    """The bootstrap interval of a function of counts, such as the F1 of a confusion matrix.

    To draw the examples again with replacement is to draw the counts from a multinomial
    distribution. The ends are the quantiles of the values of these draws, shifted by the bias of
    their median (BC). The draws have a fixed seed, so equal counts give equal ends.

    Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 14.3.

    Args:
        statistic: counts [D, M] -> values [D], of D draws.
        counts: how often each of M kinds of examples occurs, [M].
        level: in (0, 1).
    """
    from scipy.special import ndtr, ndtri

    counts = np.asarray(counts, np.int64)
    total = int(counts.sum())
    cells = np.flatnonzero(counts)
    num_draws = int(np.clip(_MAX_CELLS // max(1, len(cells)), _MIN_DRAWS, _MAX_DRAWS))
    draws = np.random.RandomState(0)
    value = float(statistic(counts[None])[0])
    values = []
    for _ in range(0, num_draws, _DRAWS_AT_ONCE):
        block = np.zeros([_DRAWS_AT_ONCE, len(counts)], np.int64)
        block[:, cells] = draws.multinomial(total, counts[cells] / total, _DRAWS_AT_ONCE)
        values.append(statistic(block))
    sample = np.concatenate(values)
    below = ((sample < value).sum() + 0.5 * (sample == value).sum() + 0.5) / (len(sample) + 1)
    bias, z = float(ndtri(below)), normal_quantile(0.5 + level / 2)
    low, high = np.percentile(sample, [100 * float(ndtr(2 * bias + side * z)) for side in (-1, 1)])
    return Interval(float(low), float(high), level, BOOTSTRAP)


def jackknife(value: float, estimates: np.ndarray, level: float = LEVEL) -> Interval:
    """The interval of a statistic from its values without one block of the examples each.

    The standard error is sqrt((B - 1) / B sum((estimate - mean)^2)) of B blocks of equal size, the
    quantile that of Student's t with B - 1 degrees of freedom. A bias that is common to all
    estimates does not enter it.

    Tukey (1958); Shao and Tu (1995), The Jackknife and Bootstrap, section 2.3.

    Args:
        value: of all examples.
        estimates: finite, [B], B at least 2.
        level: in (0, 1).
    """
    estimates = np.asarray(estimates, np.float64)
    count = len(estimates)
    squares = float(np.square(estimates - estimates.mean()).sum())
    half = t_quantile(0.5 + level / 2, count - 1) * math.sqrt(squares * (count - 1) / count)
    return Interval(value - half, value + half, level, JACKKNIFE)


def t_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Student's interval of the mean of a few values, such as those of several seeds.

    Args:
        values: finite, [N], N at least 2.
        level: in (0, 1).
    """
    mean, count = float(np.mean(values)), len(values)
    half = t_quantile(0.5 + level / 2, count - 1) * math.sqrt(sample_variance(values)) / count**0.5
    return Interval(mean - half, mean + half, level, STUDENT)


def mean(values: np.ndarray) -> float:
    """The mean of bools or numbers [N], in float64."""
    return float(np.mean(values, dtype=np.float64))


def sample_variance(values: Union[Sequence[float], np.ndarray]) -> float:
    """The unbiased variance; 0 of equal numbers, from which their mean may differ by rounding."""
    return 0.0 if np.min(values) == np.max(values) else float(np.var(values, ddof=1))


def is_mean(value: float, values: np.ndarray) -> bool:
    """Whether a metric is the mean of these values, as far as its rounding allows."""
    return math.isclose(value, mean(values), rel_tol=_TOLERANCE, abs_tol=1e-6)


def interval_of_mean(values: np.ndarray, level: float = LEVEL) -> Optional[Interval]:
    """The interval of the mean of examples, bool or real [N]: Wilson's or the bootstrap's; None
    where `reason_without_interval` has a reason.
    """
    if reason_without_interval(values):
        return None
    if values.dtype == np.bool_:
        return wilson(int(values.sum()), len(values), level)
    return bootstrap(values, level)


def reason_without_interval(values: np.ndarray) -> str:
    """Why values of examples give no interval, as the end of a sentence; '' if they give one."""
    if len(values) == 0:
        return "there are no examples"
    if values.dtype == np.bool_:
        return ""
    faults = int(np.count_nonzero(~np.isfinite(values)))
    if faults:
        return f"{faults:,} of {len(values):,} examples have a value that is not finite"
    if len(values) == 1:
        return "there is 1 example"
    if values.min() == values.max():
        return f"all {len(values):,} examples have the value {float(values[0]):.6g}"
    return ""


def normal_quantile(probability: float) -> float:
    """The number below which a standard normal variable is with this probability."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def t_quantile(probability: float, degrees: float) -> float:
    """The number below which Student's t with these degrees of freedom is with this probability."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))
