"""Helpers for tests of the classifier: its options, runs on data of any shape, sessions."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, Tuple

from toolkit_classifier.options import ClassifierOptions

from toolkit import tf
from toolkit.graph.run import Run
from toolkit.options import resolve


class Data(NamedTuple):
    """The fields of a `DataSpec` that the classifier reads."""

    shape: Tuple[int, ...] = (28, 28, 1)
    num_classes: int = 10
    class_names: Tuple[str, ...] = ()
    class_counts: Tuple[int, ...] = ()
    value_range: Tuple[float, ...] = ()
    dtype: str = "uint8"
    mean: Tuple[float, ...] = ()
    deviation: Tuple[float, ...] = ()
    feature_names: Tuple[str, ...] = ()
    labels: Any = None  # only of data without one class for each example


PLAIN = {"shift": 0, "rotate": 0.0, "zoom": 0.0, "elastic": 0.0, "mixup": 0.0, "dropout": 0.0}


def options(**values):
    """Resolved options, without augmentation and dropout unless `values` set them."""
    layer = ("test", dict(PLAIN, **values))
    return resolve([("classifier", ClassifierOptions)], [layer]).options


def make_run(mode="train", data=None, **values):
    return Run(mode, options(**values), data or Data(), total_steps=100)


@contextlib.contextmanager
def graph():
    """A new default graph."""
    with tf.Graph().as_default() as fresh:
        yield fresh


def evaluate(*tensors, **kwargs):
    """The values of tensors in a new session with initialized variables: a list, or one array."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        values = session.run(list(tensors), feed_dict=kwargs.get("feed"))
    return values[0] if len(values) == 1 else values
