"""The tensors that a graph is fed, by the rules of a plan."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Sequence

import numpy as np

from toolkit import UsageError, tf

from .rules import RULES, Rule


class Batch(NamedTuple):
    """What feeds are made of."""

    features: Any  # of the hooks; None where there are none
    labels: Any
    run: Any
    size: Any  # of the batch: an int, or an int32 scalar tensor
    call: int = 1  # the number of the call in its period
    sharing: Mapping[str, Sequence[int]] = {}  # tensor -> the calls that divide the batch for it


def make_feed(name: str, rule: Rule, dtype: Any, shape: Any, batch: Batch) -> Any:
    """The tensor that a rule gives for one of the graph; its dtype is None for unknown.

    Raises UsageError if the rule does not fit the tensor or the data.
    """
    parts = batch.sharing.get(name, ()) if "part" in rule.words else ()
    if len(parts) > 1:
        batch = batch._replace(size=batch.size // len(parts))
    if rule.kind == "given":
        return _first(batch.features)
    name = name[:-2] if name.endswith(":0") else name
    sizes = None if shape.ndims is None else shape.as_list()
    if rule.kind in ("features", "labels"):
        value = _rows(name, rule, sizes, batch, parts)
    elif rule.kind in ("uniform", "normal"):
        key = f"feed/{name}" if "shared" in rule.words else f"feed/{name}@{batch.call}"
        sizes = _known_sizes(name, sizes, batch)
        value = getattr(batch.run, rule.kind)(key, sizes, *rule.numbers)
    else:
        number = _number(rule, batch.run)
        value = number if sizes is None else tf.fill(_known_sizes(name, sizes, batch), number)
    if dtype == tf.bool:
        value = tf.not_equal(value, 0)
    value = tf.cast(value, dtype) if dtype is not None else value
    if not value.shape.is_compatible_with(shape):
        is_batch = value.shape.ndims == shape.ndims
        is_batch = is_batch and value.shape[1:].is_compatible_with(shape[1:])
        hint = f"A rule is {RULES}."
        if is_batch:
            hint = f"Set --batch-size {shape.as_list()[0]}, which the graph has fixed."
        raise UsageError(
            f"'{name}' takes {shape}, but its rule '{rule.kind}' gives {value.shape}.", hint=hint
        )
    return tf.identity(value)  # never what the run itself fetches


def _known_sizes(name: str, sizes: Any, batch: Batch) -> List[Any]:
    """The sizes of a tensor; an unknown first one is that of the batch."""
    if sizes is None or None in sizes[1:]:
        raise UsageError(
            f"The rule of '{name}' needs its sizes, of which the graph tells {sizes or 'none'}.",
            hint="Save the graph with sizes: tf.train.import_meta_graph(FILE, input_map="
            f"{{'{name}:0': PLACEHOLDER}}), then tf.train.export_meta_graph(FILE).",
        )
    return [batch.size if size is None else size for size in sizes]


def _rows(name: str, rule: Rule, sizes: Any, batch: Batch, parts: Sequence[int]) -> Any:
    """Rows of the run's data in the form that the tensor takes."""
    data = batch.features if rule.kind == "features" else batch.labels
    names = sorted(data) if isinstance(data, dict) else []
    if data is None or bool(rule.component) != bool(names) or names and rule.component not in names:
        there = "none" if data is None else ", ".join(names) or "one without a name"
        raise UsageError(
            f"The data has no {rule.kind} '{rule.component}' for '{name}': it has {there}.",
            hint=f"Write --feed {name}={rule.kind}.NAME for a component with a name.",
        )
    rows = data[rule.component] if names else data
    if len(parts) > 1:
        size = rows.shape.as_list()[0] or 0
        if size % len(parts):
            raise UsageError(
                f"'{name}' divides batches of {size} among {len(parts)} calls.",
                hint="Set a --batch-size that is a multiple of the calls.",
            )
        count = size // len(parts)
        start = parts.index(batch.call) * count
        rows = rows[start : start + count]
    packed = batch.run.data.features if rule.kind == "features" else batch.run.data.labels
    num_classes = (packed[rule.component] if rule.component else packed).num_classes
    one, wanted = rows.shape.as_list()[1:], None if sizes is None else sizes[1:]
    if "one-hot" in rule.words or not one and num_classes and wanted == [num_classes]:
        rows = tf.one_hot(rows, num_classes)
    elif "flat" in rule.words:
        rows = tf.reshape(rows, [-1, _count(one)])
    elif wanted and None not in wanted and wanted != one and _count(wanted) == _count(one):
        rows = tf.reshape(rows, [-1, *wanted])
    elif wanted == [1] and not one:
        rows = tf.expand_dims(rows, -1)
    if "range" in rule.words:
        low, high = rule.numbers
        rows = tf.cast(rows, tf.float32) * (high - low) + low
    return rows


def _count(sizes: Sequence[Any]) -> int:
    """How many values a row of these sizes has; 0 for unknown."""
    return int(np.prod([size or 0 for size in sizes]))


def _number(rule: Rule, run: Any) -> Any:
    """float32 scalar: a constant, or a function of the number of steps so far."""
    numbers = rule.numbers
    if rule.kind == "constant":
        return tf.constant(numbers[0], tf.float32)
    step = tf.cast(run.step_index, tf.float32)
    if rule.kind == "table":
        reached = step >= tf.constant(numbers[::2], tf.float32)
        return tf.constant(numbers[1::2])[tf.reduce_sum(tf.cast(reached, tf.int32)) - 1]
    first, end, steps = numbers
    return first + (end - first) * tf.minimum(step / steps, 1.0)


def guess_rule(dtype: Any, shape: Any, data: Any) -> str:
    """The rule that a placeholder's form suggests, for the run's `DataSpec`; "" for none."""
    if data is None or not shape.ndims:
        return ""
    wanted, found = shape.as_list()[1:], []
    for key, component in sorted(data.flat.items()):
        role, _, name = key.partition("/")
        one = list(component.shape)
        if component.num_classes and not one:
            fits = wanted == [component.num_classes] or not wanted and dtype.is_integer
        else:
            is_float = component.kind in ("image", "value")
            is_float = is_float and component.dtype in ("uint8", "float32")
            fits = is_float and dtype.is_floating and _count(wanted) == _count(one)
            fits = fits and (role == "labels" or bool(one))
        if fits:
            found.append(f"{role}.{name}" if name else role)
    return found[0] if len(found) == 1 else ""


def batch_size(features: Any) -> Any:
    """int32 scalar: the number of examples of a batch."""
    return tf.shape(_first(features))[0]


def _first(features: Any) -> Any:
    return next(iter(features.values())) if isinstance(features, dict) else features
