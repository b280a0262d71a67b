"""The numbers to predict, in units of their deviation: names, loss and metrics.

Legend: N examples in a batch, L numbers of an example.
"""

from __future__ import annotations

import re

import numpy as np

from toolkit import DataError, tf

OTHER_MEANING = ("label", "labels", "class", "probability", "probabilities", "features", "file")


def label_names(data):
    """The names of the L numbers: those of their columns, in letters, digits and underscores.
    Raises DataError if there are no labels, or they are no numbers.
    """
    label = data.labels
    if label is None:
        raise DataError(
            "The data has no labels, and a regressor needs a number for each example.",
            hint="Images with numbers are a table with a column of their paths: --data table:FILE.",
        )
    if isinstance(label, dict) or label.kind != "value" or label.is_sequence:
        parts = label if isinstance(label, dict) else {"labels": label}
        found = ", ".join(f"{name} {part.describe()}" for name, part in sorted(parts.items()))
        raise DataError(
            f"The data has {found}, and a regressor needs numbers in one array.",
            hint="For classes choose --plugin classifier. Images with numbers are a table with a "
            "column of their paths; its whole numbers are values by --label-kind value.",
        )
    columns = (data.table or {}).get("labels", ())
    if len(columns) != label.size:
        columns = ["value"] * label.size
    names = [re.sub(r"[^A-Za-z0-9]+", "_", column).strip("_") or "value" for column in columns]
    names = ["value" if name in OTHER_MEANING else name for name in names]
    numbered = [f"{name}_{i}" for i, name in enumerate(names)]
    some = [n if names.count(n) == 1 else other for n, other in zip(names, numbered)]
    return some if len({*some}) == len(some) else numbered


def new_moments(scope, size):
    """Mean and deviation, float32 [size] each: variables that are saved, exported, not trained."""
    return [
        tf.get_variable(f"{scope}/{name}", [size], initializer=start(), trainable=False)
        for name, start in (("mean", tf.zeros_initializer), ("deviation", tf.ones_initializer))
    ]


class Targets:
    """The labels, with their mean and deviation in the training split."""

    def __init__(self, run):
        self.names = label_names(run.data)
        self._mean, self._deviation = moments = new_moments("target", len(self.names))
        # Of the run's data also where --init-from gives weights: labels may have another unit.
        run.fit_initial_values(moments, self._measure, is_of_data=True)

    def restore(self, deviations):
        """Deviations from the mean [N, L] -> numbers in the units of the labels [N, L]."""
        return deviations * self._deviation.read_value() + self._mean.read_value()

    def loss(self, labels, outputs, kind):
        """The mean cost of the errors of "deviations", a scalar; kind is the option `loss`."""
        true = (self._join(labels) - self._mean.read_value()) / self._deviation.read_value()
        functions = {
            "squared": tf.losses.mean_squared_error,
            "absolute": tf.losses.absolute_difference,
            "huber": tf.losses.huber_loss,
        }
        return functions[kind](true, outputs["deviations"])

    def absolute_errors(self, labels, outputs):
        """float32 [N], of several numbers the mean."""
        return tf.reduce_mean(tf.abs(outputs["values"] - self._join(labels)), axis=1)

    def metrics(self, labels, outputs):
        """Root mean squared error, and the explained share of the variance; of several numbers the
        mean, as in scikit-learn: name -> (value, update_op).

        `explained` is 1 without an error, 0 if each prediction is the mean of the split, below 0
        for what is worse. It leaves out a number that is equal in all examples, and is nan if there
        is no other.
        """
        true = tf.cast(self._join(labels), tf.float64)
        offsets = true - tf.cast(self._mean.read_value(), tf.float64)  # small: squares are exact
        errors = tf.cast(outputs["values"], tf.float64) - true
        parts = tf.stack([tf.ones_like(true), tf.square(errors), offsets, tf.square(offsets)])
        sums = tf.Variable(  # [4, L]
            tf.zeros([4, len(self.names)], tf.float64),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
            use_resource=True,
            name="evaluation/sums",
        )
        update = sums.assign_add(tf.reduce_sum(parts, axis=1), read_value=False)
        count, squares, offset, spread = tf.unstack(sums.read_value())  # [L] each
        variance = spread - tf.square(offset) / count
        varies = variance > 1e-12 * spread  # by more than rounding
        explained = tf.boolean_mask(1 - squares / variance, varies)
        values = {"rmse": tf.sqrt(squares / count), "explained": explained}
        return {n: (tf.cast(tf.reduce_mean(v), tf.float32), update) for n, v in values.items()}

    def _join(self, labels):
        """Labels [N, ...] -> float32 [N, L]."""
        return tf.reshape(tf.cast(labels, tf.float32), [-1, len(self.names)])

    def _measure(self, split):
        labels = np.reshape(split.labels, [len(split), -1]).astype(np.float64)
        for name, column in zip(self.names, labels.T):
            if column.min() == column.max():
                raise DataError(
                    f"The label '{name}' is {column[0]:g} in all training examples: there is "
                    "nothing to learn.",
                    hint="Choose another label with --label-column.",
                )
        return [labels.mean(axis=0), labels.std(axis=0)]
