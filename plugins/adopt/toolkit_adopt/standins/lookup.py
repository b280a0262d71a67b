"""`tf.contrib.lookup`: two tables that take a `mapping`; the others TensorFlow has as they were."""

from __future__ import annotations

from tensorflow.python.ops import lookup_ops


def index_table_from_tensor(mapping, *args, **kwargs):
    """A table from the values of a list to their places."""
    return lookup_ops.index_table_from_tensor(mapping, *args, **kwargs)


def index_to_string_table_from_tensor(mapping, *args, **kwargs):
    """A table from places in a list to its texts."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, *args, **kwargs)
