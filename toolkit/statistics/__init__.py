"""Intervals of metrics, calibration, and whether two results differ by more than chance.

    from toolkit import statistics

    statistics.wilson(96, 100)            # of a share: Interval(low=0.902, high=0.984, ...)
    statistics.bootstrap(losses)          # of a mean, from the values of the examples

intervals: of shares, means, and other functions of counts.
calibration: whether probabilities are as often right as they say.
separation: whether two results differ; used by `toolkit compare`.
"""

from .calibration import Bin, Calibration, calibrate
from .intervals import Interval, bootstrap, bootstrap_counts, jackknife, t_interval, wilson
from .separation import Estimate, Separation, adjust, separate, tango

__all__ = [
    "Bin",
    "Calibration",
    "Estimate",
    "Interval",
    "Separation",
    "adjust",
    "bootstrap",
    "bootstrap_counts",
    "calibrate",
    "jackknife",
    "separate",
    "t_interval",
    "tango",
    "wilson",
]
