"""Whether a metric is the mean of the values of its examples."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

TOLERANCE = 1e-3  # of a metric beside the mean of its examples: the rounding of float32 counters


def mean(values: np.ndarray) -> float:
    """The mean of bools or numbers [N], in float64."""
    return float(np.mean(values, dtype=np.float64))


def is_mean(value: float, values: np.ndarray) -> bool:
    """Whether a metric is the mean of these values, as far as its rounding allows."""
    return math.isclose(value, mean(values), rel_tol=TOLERANCE, abs_tol=1e-6)


def exact_mean(values: np.ndarray) -> Optional[float]:
    """The mean of bools or numbers [N] with one rounding, the same bits in every version of NumPy;
    None if there are none, or one is not finite.
    """
    if not len(values) or not np.isfinite(values).all():
        return None
    return math.fsum(values.tolist()) / len(values)
