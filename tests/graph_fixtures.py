"""What a graph needs to be built without a trainer: a run, a reader, a plugin, a session."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from toolkit.data.spec import DataSpec


class Spec(DataSpec):
    """Four floats and two classes, unless other fields are given."""

    __slots__ = ()

    def __new__(cls, shape: Any = (4,), dtype: str = "float32", num_classes: int = 2, **fields):
        return super().__new__(cls, shape, dtype, num_classes, **fields)


@pytest.fixture(autouse=True)
def fresh_graph(graph):
    """For the folders whose conftest.py imports it: each test builds in a graph of its own."""


class Constant:
    """A reader that returns the same batch at every step."""

    def __init__(self, features, labels):
        self._batch = features, labels
        self.num_examples = self.batch_size = len(features)

    def batch(self, step):
        from toolkit import tf

        features, labels = self._batch
        return tf.constant(features, tf.float32), tf.constant(labels, tf.int32)


class Stream(Constant):
    """A reader that a loop asks for each batch, of a tensor that is not a constant.

    TensorFlow computes what follows from a constant by other code than the step does.
    """

    in_memory = False

    def batch(self, step):
        from toolkit import tf

        features, labels = super().batch(step)
        return tf.identity(tf.placeholder_with_default(features, features.shape)), labels


def make_run(mode="train", data=None, classes=(), total_steps=None, **options):
    """A Run with resolved options, without a command line."""
    from toolkit import Run
    from toolkit.options import resolve

    resolved = resolve(classes, [("test", options)]).options
    return Run(mode, resolved, data or Spec(), total_steps=total_steps)


@contextlib.contextmanager
def session():
    """A session of the default graph with initialised variables."""
    from toolkit import tf

    with tf.Session() as current:
        current.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        yield current


def make_plugin(hooks, name="tiny", kind="model"):
    """A `Plugin` from an object or a class with hooks, checked as by `--plugin` and `--with`."""
    from toolkit.plugins import Plugin

    return Plugin.from_object(hooks, kind, name)


def evaluate(*tensors):
    """The values of tensors in a new session with initialised variables: a list, or one array."""
    with session() as current:
        values = current.run(list(tensors))
    return values[0] if len(values) == 1 else values
