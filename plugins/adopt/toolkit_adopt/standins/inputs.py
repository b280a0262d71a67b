"""`tf.estimator.inputs` without threads: arrays are fed to placeholders, batch by batch.

TensorFlow 1.15 fills a queue by threads, whose calls of the session have no order. Here each graph
has its feeds: hooks that every monitored session of the graph gets, in its own thread. Their
constructor is wrapped for that.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np

from toolkit import tf

from ..patches import Patches

_FEEDS = "_toolkit_adopt_feeds"  # attribute of a graph: its hooks


def _rows(count: int, epochs: Optional[int], shuffle: bool) -> Iterator[int]:
    """The numbers of rows, epoch after epoch."""
    # As in 1.15, the order depends on Python's generator and not on the graph's seed, so that a
    # second call of `train` begins with other rows.
    generator = np.random.RandomState(random.getrandbits(32)) if shuffle else None
    for _ in itertools.count() if epochs is None else range(epochs):
        yield from generator.permutation(count) if generator else range(count)


def numpy_input_fn(
    x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000, num_threads=1
) -> Callable[[], Any]:
    """An input function that reads arrays: it returns features, or (features, labels), as tensors.

    Batches cross the ends of epochs; only the last one of all may be smaller.
    """

    def input_fn():
        arrays: Dict[Any, np.ndarray] = {}

        def placeholders(value: Any, name: str) -> Any:
            if isinstance(value, dict):
                return {key: placeholders(value[key], f"{name}_{key}") for key in sorted(value)}
            value = np.asarray(value)  # of a type of pandas, such as texts
            shape = [batch_size if num_epochs is None else None, *value.shape[1:]]
            made = tf.placeholder(tf.as_dtype(value.dtype), shape, re.sub(r"[^\w.-]", "_", name))
            arrays[made] = value
            return made

        features = placeholders(x, "features")
        labels = None if y is None else placeholders(y, "labels")
        graph = tf.get_default_graph()
        rows = _rows(len(next(iter(arrays.values()))), num_epochs, bool(shuffle))

        def before_run(run_context: Any) -> Any:
            batch = list(itertools.islice(rows, batch_size))
            if not batch:
                raise tf.errors.OutOfRangeError(None, None, "All epochs were read")
            feeds = {placeholder: array[batch] for placeholder, array in arrays.items()}
            return tf.train.SessionRunArgs(None, feed_dict=feeds)

        feed: Any = tf.train.SessionRunHook()
        feed.before_run = before_run
        setattr(graph, _FEEDS, [*getattr(graph, _FEEDS, []), feed])
        return features if labels is None else (features, labels)

    return input_fn


def pandas_input_fn(x, y=None, *args, target_column="target", **kwargs) -> Callable[[], Any]:
    """`numpy_input_fn` of the columns of a DataFrame; y is a Series or a DataFrame."""
    features = {name: x[name].values for name in x.columns}
    is_frame = hasattr(y, "columns")
    labels = {name: y[name].values for name in y.columns} if is_frame else getattr(y, "values", y)
    return numpy_input_fn(features, labels, *args, **kwargs)


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """`tf.contrib.data`: a transformation of a data set into batches of one size."""
    return lambda data_set: data_set.batch(batch_size, drop_remainder=True)


def wrap_monitored_sessions(patches: Patches) -> None:
    """Let each monitored session have the feeds of its graph."""

    def construct(original, session, session_creator, hooks, *args, **kwargs):
        feeds: List[Any] = getattr(tf.get_default_graph(), _FEEDS, [])
        return original(session, session_creator, [*(hooks or []), *feeds], *args, **kwargs)

    base = tf.train.MonitoredSession.__mro__[1]  # of SingularMonitoredSession, too
    patches.wrap(base, "__init__", construct)
