"""`tf.contrib.data`: the functions that are in `tf.data.experimental` today."""

from __future__ import annotations

from typing import Any, Callable

from toolkit import tf

_NAMES = (
    "group_by_window",
    "ignore_errors",
    "make_csv_dataset",
    "map_and_batch",
    "parallel_interleave",
    "prefetch_to_device",
    "rejection_resample",
    "scan",
    "shuffle_and_repeat",
    "unbatch",
)

__all__ = ["AUTOTUNE", "batch_and_drop_remainder", *_NAMES]

AUTOTUNE = tf.data.experimental.AUTOTUNE

globals().update({name: getattr(tf.data.experimental, name) for name in _NAMES})


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """A transformation of a data set into batches of one size."""
    return lambda data_set: data_set.batch(batch_size, drop_remainder=True)
