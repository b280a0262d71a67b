"""Moving averages of the weights, which evaluation, prediction and export use in their place.

For a weight w, the average is the variable `state/ema/w`. It is saved with the weights and moves
behind the guard of the step: not where a step is refused, nor where a step of --accumulate only
adds to the sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toolkit import tf

COLLECTION = "toolkit_extensions/ema"  # of the graph


class Averages:
    """The averages of one graph, and how many updates went into them.

    Create it in the hook `build`, after the model has made its variables. `run` is the
    `toolkit.Run`.
    """

    def __init__(self, run: Any):
        self._pairs = [(v, _create_average(run, v)) for v in tf.trainable_variables()]
        self._count = run.state("ema/count", np.int64(0))
        tf.add_to_collection(COLLECTION, self)

    @classmethod
    def find(cls) -> Averages:
        """Those of the present graph, for the other hooks."""
        averages: Averages = tf.get_collection(COLLECTION)[0]
        return averages

    def move(self, decay: float, warmup: int) -> Any:
        """An op that moves each average towards its weight, as the extension's docstring says."""
        count = self._count.read_value()
        t = tf.cast(count, tf.float32)
        share = tf.minimum(decay, t / (t + warmup))
        values = []
        for weight, average in self._pairs:
            d = tf.cast(share, weight.dtype)
            # Exact for d = 0.
            values.append(d * average.read_value() + (1 - d) * weight.read_value())
        with tf.control_dependencies([count, *values]):
            averages = [average for _, average in self._pairs]
            moves = [a.assign(value, read_value=False) for a, value in zip(averages, values)]
            return tf.group(*moves, self._count.assign(count + 1, read_value=False))

    def replace_weights(self) -> Any:
        """An op that gives each weight the value of its average, if there was an update."""
        has_average = self._count.read_value() > 0
        return tf.group(
            *[
                w.assign(tf.where(has_average, a.read_value(), w.read_value()))
                for w, a in self._pairs
            ]
        )


def _create_average(run: Any, weight: Any) -> Any:
    """The average of a weight; it starts at 0, and the first update replaces it."""
    dtype, shape = weight.dtype.base_dtype, weight.shape
    return run.state(f"ema/{weight.op.name}", lambda: tf.zeros(shape, dtype))
