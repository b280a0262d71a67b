"""Calibration: whether predictions of probability p are right in a share p of the cases."""

from __future__ import annotations

from typing import List, NamedTuple

import numpy as np

from .intervals import LEVEL, Interval, wilson

NUM_BINS = 15


class Bin(NamedTuple):
    """The examples with a probability in (low, high].

    Attributes:
        low: lower end of the probabilities.
        high: upper end.
        examples: how many they are.
        confidence: their mean probability.
        accuracy: the share of them that is right.
        interval: of that share.
    """

    low: float
    high: float
    examples: int
    confidence: float
    accuracy: float
    interval: Interval


class Calibration(NamedTuple):
    """How far probabilities are from the shares that are right.

    Attributes:
        error: the expected calibration error (ECE), in [0, 1].
        num_bins: of equal width in [0, 1], the empty ones included.
        bins: those with examples, by rising probability.
    """

    error: float
    num_bins: int
    bins: List[Bin]


def calibrate(
    probabilities: np.ndarray, hits: np.ndarray, num_bins: int = NUM_BINS, level: float = LEVEL
) -> Calibration:
    """The expected calibration error and its reliability diagram.

    ECE is the mean over the examples of |accuracy - mean probability| of their bin. The bins have
    equal width, and each contains its upper end. With few examples in a bin, chance alone makes it
    larger than 0.

    Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using Bayesian
    binning, AAAI; with 15 bins as Guo et al. (2017), On calibration of modern neural networks,
    ICML.

    Args:
        probabilities: of the predicted classes, [N] in [0, 1].
        hits: whether each prediction is right, bool [N].
        num_bins: of equal width.
        level: of the intervals of the bins.

    Raises:
        ValueError: there are no examples, or a probability is outside of [0, 1].
    """
    probabilities = np.asarray(probabilities, np.float64)
    # A float32 softmax may exceed 1 by rounding.
    if not len(probabilities) or not (np.abs(probabilities - 0.5) <= 0.5 + 1e-5).all():
        raise ValueError("Calibration needs probabilities in [0, 1], of one example or more.")
    numbers = np.clip(np.ceil(probabilities * num_bins).astype(int) - 1, 0, num_bins - 1)
    counts = np.bincount(numbers, minlength=num_bins)
    sums = np.bincount(numbers, weights=probabilities, minlength=num_bins)
    right = np.bincount(numbers[np.asarray(hits, bool)], minlength=num_bins)
    error = float(np.abs(sums - right).sum() / len(probabilities))
    bins = [
        Bin(
            number / num_bins,
            (number + 1) / num_bins,
            int(counts[number]),
            float(sums[number] / counts[number]),
            float(right[number] / counts[number]),
            wilson(int(right[number]), int(counts[number]), level),
        )
        for number in np.flatnonzero(counts).tolist()
    ]
    return Calibration(error, num_bins, bins)
