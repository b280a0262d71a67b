"""Averages of the trained weights, which evaluation, prediction and export use in their place.

For a weight w, the average is the variable `state/NAME/w`. It is saved with the weights and moves
behind the guard of the step: not where a step is refused, nor where a step of --accumulate only
adds to the sums.
"""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import numpy as np

from toolkit import UsageError, tf

COLLECTION = "toolkit_extensions/"  # of the graph, followed by the name of the extension
Pairs = List[Tuple[Any, Any]]  # (weight, its average)


class Averages:
    """The averages of one graph, and how many updates went into them.

    An extension creates it in the hook `build`, after the model has made its variables. Raises
    UsageError if another extension averages the weights, too.
    """

    def __init__(self, run: Any, name: str):
        for key in tf.get_default_graph().get_all_collection_keys():
            if str(key).startswith(COLLECTION):
                raise UsageError(
                    f"Both '{key[len(COLLECTION) :]}' and '{name}' average the weights; an "
                    "evaluation can use one average.",
                    hint="Omit one of these extensions.",
                )
        self.pairs: Pairs = [(v, _create_average(run, name, v)) for v in tf.trainable_variables()]
        self.count = run.state(f"{name}/count", np.int64(0))
        tf.add_to_collection(COLLECTION + name, self)

    @classmethod
    def find(cls, name: str) -> Averages:
        """Those of the present graph, for the other hooks of the extension."""
        averages: Averages = tf.get_collection(COLLECTION + name)[0]
        return averages

    def assign(self, value_of: Callable[[Any, Any], Any], count: Any) -> Any:
        """An op that gives each average, and the count, an int64 scalar tensor, a new value:
        `value_of` returns it for a weight and its average, both tensors.
        """
        values = [value_of(w.read_value(), a.read_value()) for w, a in self.pairs]
        with tf.control_dependencies([count, *values]):
            moves = [a.assign(value, read_value=False) for (_, a), value in zip(self.pairs, values)]
            return tf.group(*moves, self.count.assign(count, read_value=False))

    def replace_weights(self) -> Any:
        """An op that gives each weight the value of its average, if there was an update."""
        has_average = self.count.read_value() > 0
        return tf.group(
            *[
                w.assign(tf.where(has_average, a.read_value(), w.read_value()))
                for w, a in self.pairs
            ]
        )


def _create_average(run: Any, name: str, weight: Any) -> Any:
    """The average of a weight; it starts at 0, and the first update replaces it."""
    dtype, shape = weight.dtype.base_dtype, weight.shape
    return run.state(f"{name}/{weight.op.name}", lambda: tf.zeros(shape, dtype))
