"""Scores of a classifier that are no means over examples: F1 over all classes, and calibration.

Legend: N examples, K classes. A confusion matrix is int [K, K]: true class in rows, predicted class
in columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit import statistics


class Confusion(NamedTuple):
    """A confusion matrix by the cells that are not 0: the whole of 20,000 classes has 3 GB."""

    cells: np.ndarray  # int [M], rising: positions in the flat matrix
    counts: np.ndarray  # int [M]
    num_classes: int

    @classmethod
    def of(cls, labels, predicted, num_classes):
        cells = labels.astype(np.int64) * num_classes + predicted
        return cls(*np.unique(cells, return_counts=True), num_classes)

    def matrix(self):
        cells = np.zeros(self.num_classes**2, np.int64)
        cells[self.cells] = self.counts
        return cells.reshape(self.num_classes, self.num_classes)


def f1_scores(confusion):
    """Macro and weighted F1, each with its `toolkit.statistics.Interval`, by name.

    Macro is the mean over the classes that are a label or a prediction at least once, weighted the
    mean with the number of examples as weight; both as in scikit-learn. An interval without width
    is None: that of no mistake, of which no draw of the examples has one either.
    """
    cells, counts, num_classes = confusion
    scores = {}
    for name, average in (("macro", macro_f1), ("weighted", weighted_f1)):

        def statistic(draws, average=average):
            return np.array([average(*class_sums(cells, draw, num_classes)) for draw in draws])

        value = float(statistic(counts[None])[0])
        interval = statistics.bootstrap_counts(statistic, counts)
        scores[name] = value, interval if interval.low < interval.high else None
    return scores


def class_sums(cells, counts, num_classes):
    """Right predictions, examples and predictions of each class, float [K] each, from positions in
    a flat confusion matrix, int [M], and what these cells contain, int [M].
    """
    labels, predicted = np.divmod(cells, num_classes)
    diagonal = labels == predicted
    return (
        np.bincount(labels[diagonal], counts[diagonal], num_classes),
        np.bincount(labels, counts, num_classes),
        np.bincount(predicted, counts, num_classes),
    )


def class_f1(hits, examples, predicted):
    return 2 * hits / np.maximum(examples + predicted, 1)


def macro_f1(hits, examples, predicted):
    occurs = examples + predicted > 0
    return class_f1(hits, examples, predicted)[occurs].mean()


def weighted_f1(hits, examples, predicted):
    return (class_f1(hits, examples, predicted) * examples).sum() / examples.sum()


def calibration(examples):
    """The `toolkit.statistics.Calibration` of the predicted classes, of arrays [N] "labels",
    "label" and "probability"; None if some are not finite.
    """
    probabilities = examples["probability"]
    if not np.isfinite(probabilities).all():
        return None
    return statistics.calibrate(probabilities, examples["labels"] == examples["label"])


def accuracy(confusion):
    """The accuracy and its interval."""
    hits, examples, _ = class_sums(*confusion)
    hits, total = int(hits.sum()), int(examples.sum())
    return hits / total, statistics.wilson(hits, total)


def to_json(confusion, calibrated):
    """The scores as JSON values."""
    scores = {
        "f1": {name: with_ends(*score) for name, score in f1_scores(confusion).items()},
        "calibration": None,
    }
    if calibrated is not None:
        bins = [dict(each._asdict(), interval=each.interval.as_json()) for each in calibrated.bins]
        scores["calibration"] = {
            "ece": calibrated.error,
            "num_bins": calibrated.num_bins,
            "bins": bins,
        }
    return scores


def with_ends(value, interval):
    return {"value": value, **(interval.as_json() if interval else {})}
