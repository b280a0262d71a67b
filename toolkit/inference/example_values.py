"""The values of examples whose means are metrics: their intervals, and the file that has them."""

from __future__ import annotations

import math
import os
import zipfile
from typing import Any, Dict, Mapping, NamedTuple

import numpy as np

from ..statistics.intervals import (
    Interval,
    interval_of_mean,
    is_mean,
    mean,
    reason_without_interval,
)
from ..storage.report_folder import EXAMPLES

MAX_EXAMPLES = 10**6  # of more, no values are kept


class Intervals(NamedTuple):
    """The intervals of the metrics of an evaluation."""

    by_name: Dict[str, Interval]  # of a metric
    omissions: Dict[str, str]  # a metric whose values are known -> why it has no interval

    def as_json(self) -> Dict[str, Any]:
        """ "intervals" and "intervals_omitted", where there are any."""
        intervals = {name: each.as_json() for name, each in self.by_name.items()}
        facts = {"intervals": intervals, "intervals_omitted": dict(self.omissions)}
        return {name: each for name, each in facts.items() if each}


def compute_intervals(metrics: Mapping[str, float], values: Mapping[str, np.ndarray]) -> Intervals:
    """The intervals of metrics from the values of their examples: the name of a metric -> [N]."""
    result = Intervals({}, {})
    for name, array in values.items():
        reason = _find_mismatch(metrics[name], array) or reason_without_interval(array)
        interval = None if reason else interval_of_mean(array)
        if interval is None:
            result.omissions[name] = reason
        else:
            result.by_name[name] = interval
    return result


def _find_mismatch(value: float, array: np.ndarray) -> str:
    """Why a value is no mean of these, as the end of a sentence; '' if it is, or if one is nan."""
    average = mean(array)
    if not math.isfinite(value + average) or is_mean(value, array):
        return ""
    return f"it is {value:.6g}, and the mean of its examples {average:.6g}"


def write_examples(
    folder: str, metrics: Mapping[str, float], values: Mapping[str, np.ndarray]
) -> None:
    """Write the values [N] of the examples, by the names of the metrics of which they are the
    means, into a folder for reports, unless a plugin wrote a file of this name.

    Bools are kept as such, numbers as float32; there is no file of more than MAX_EXAMPLES examples.
    """
    path = os.path.join(folder, EXAMPLES)
    arrays = {
        name: array if array.dtype == np.bool_ else array.astype(np.float32)
        for name, array in values.items()
        if len(array) <= MAX_EXAMPLES and not _find_mismatch(metrics[name], array)
    }
    if not arrays or os.path.lexists(path):
        return
    # The bytes follow from the arrays. `numpy.savez` has the time, and refuses the name "file".
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w") as file:
                np.lib.format.write_array(file, arrays[name], allow_pickle=False)
