"""Summaries of tensors and collections, as `tf.contrib.layers` makes them."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, List

from toolkit import tf

__all__ = [
    "summarize_activation",
    "summarize_activations",
    "summarize_collection",
    "summarize_tensor",
    "summarize_tensors",
]


def summarize_tensor(tensor: Any, tag=None) -> Any:
    """A scalar's value, else a histogram; None for texts and booleans."""
    if tensor.dtype.base_dtype in (tf.string, tf.bool):
        return None
    summary = tf.summary.scalar if tensor.shape.ndims == 0 else tf.summary.histogram
    return summary(tag or f"{tensor.op.name}_summary", tensor)


def summarize_activation(op: Any) -> Any:
    """A histogram; of ReLUs and the like also the share of zeros, of ReLU6 that of sixes."""
    name, inputs = op.op.name, op.op.inputs
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        zeros = tf.cast(tf.less(inputs[0], 0), tf.float32)
        tf.summary.scalar(f"{name}/zeros", tf.reduce_mean(zeros))
    if op.op.type == "Relu6":
        sixes = tf.cast(tf.greater(inputs[0], 6), tf.float32)
        tf.summary.scalar(f"{name}/sixes", tf.reduce_mean(sixes))
    return tf.summary.histogram(f"{name}/activation", op)


def summarize_tensors(
    tensors: Iterable[Any], summarizer: Callable[[Any], Any] = summarize_tensor
) -> List[Any]:
    """A summary of each."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: str, name_filter=None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> List[Any]:
    """A summary of each tensor of a collection whose name begins as a regular expression says."""
    tensors = tf.get_collection(collection)
    chosen = [each for each in tensors if not name_filter or re.match(name_filter, each.op.name)]
    return summarize_tensors(chosen, summarizer)


def summarize_activations(
    name_filter=None, summarizer: Callable[[Any], Any] = summarize_activation
) -> List[Any]:
    """`summarize_collection` of ACTIVATIONS."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)
