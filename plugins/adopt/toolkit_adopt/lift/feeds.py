"""The tensors that a graph is fed, by the rules of a plan."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from toolkit import UsageError, tf

from .rules import RULES, Rule


class Batch(NamedTuple):
    """What feeds are made of.

    Attributes:
        features, labels: of the hooks; None where there are none.
        run: the `toolkit.Run`.
        size: of the batch: an int, or an int32 scalar tensor.
        call: the number of the call in its period, from 1.
        sharing: for a tensor by name, the calls that divide the batch among them.
    """

    features: Any
    labels: Any
    run: Any
    size: Any
    call: int = 1
    sharing: Mapping[str, Sequence[int]] = {}


def make_feed(name: str, rule: Rule, dtype: Any, shape: Any, batch: Batch) -> Any:
    """One tensor.

    Args:
        name: of the tensor in the graph.
        rule: for it.
        dtype, shape: as the graph has them; None for unknown.
        batch: of the step.

    Raises:
        UsageError: the rule does not fit the tensor or the data.
    """
    parts = batch.sharing.get(name, ()) if "part" in rule.words else ()
    if len(parts) > 1:
        batch = batch._replace(size=batch.size // len(parts))
    name = name[:-2] if name.endswith(":0") else name
    if rule.kind in ("features", "labels"):
        value = _rows(name, rule, shape, batch, parts)
    elif rule.kind in ("uniform", "normal"):
        sizes = _sizes(name, shape if not rule.shape else _noise_shape(rule, shape), batch)
        key = f"feed/{name}" if "shared" in rule.words else f"feed/{name}@{batch.call}"
        value = getattr(batch.run, rule.kind)(key, sizes, *rule.numbers)
    else:
        number = _number(rule, batch.run)
        is_known = shape is not None and shape.ndims is not None
        value = tf.fill(_sizes(name, shape, batch), number) if is_known else number
    if dtype == tf.bool:
        value = tf.not_equal(value, 0)
    value = tf.cast(value, dtype) if dtype is not None else value
    if shape is not None and not value.shape.is_compatible_with(shape):
        raise UsageError(
            f"'{name}' takes {shape}, but its rule '{rule.kind}' gives {value.shape}.",
            hint=_batch_hint(value.shape, shape) or f"A rule is {RULES}.",
        )
    return tf.identity(value)  # never what the run itself fetches


def _batch_hint(given: Any, shape: Any) -> str:
    sizes = shape.as_list()
    same = given.ndims == len(sizes) and given[1:].is_compatible_with(shape[1:])
    return f"Set --batch-size {sizes[0]}, which the graph has fixed." if same and sizes else ""


def _noise_shape(rule: Rule, shape: Any) -> Any:
    """The rule's shape, with the batch before it where the tensor has one more dimension."""
    has_batch = shape is None or shape.ndims is None or shape.ndims > len(rule.shape)
    return tf.TensorShape([None] * has_batch + list(rule.shape))


def _sizes(name: str, shape: Any, batch: Batch) -> List[Any]:
    """The sizes of a tensor; an unknown first one is that of the batch."""
    sizes = None if shape is None or shape.ndims is None else shape.as_list()
    if sizes is None or None in sizes[1:]:
        raise UsageError(
            f"The graph does not tell the shape of '{name}', which is {shape}.",
            hint="Write it in the rule: uniform:-1:1:shape:62.",
        )
    return [batch.size if size is None else size for size in sizes]


def _rows(name: str, rule: Rule, shape: Any, batch: Batch, parts: Sequence[int]) -> Any:
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
    one = rows.shape.as_list()[1:]
    wanted = None if shape is None or shape.ndims is None else shape.as_list()[1:]
    component = _component(rule, batch.run.data)
    is_hot = not one and component.num_classes and wanted == [component.num_classes]
    if "one-hot" in rule.words or is_hot:
        rows = tf.one_hot(rows, component.num_classes)
    elif "flat" in rule.words:
        rows = tf.reshape(rows, [-1, _count(one)])
    elif wanted and None not in wanted and wanted != one and _count(wanted) == _count(one):
        rows = tf.reshape(rows, [-1, *wanted])
    elif wanted == [1] and not one:
        rows = tf.expand_dims(rows, -1)
    if rule.scale:
        low, high = rule.scale
        rows = tf.cast(rows, tf.float32) * (high - low) + low
    return rows


def _component(rule: Rule, data: Any) -> Any:
    packed = data.features if rule.kind == "features" else data.labels
    return packed[rule.component] if rule.component else packed


def _count(sizes: Sequence[Optional[int]]) -> int:
    result = 1
    for size in sizes:
        result *= size or 0
    return result


def _number(rule: Rule, run: Any) -> Any:
    """float32 scalar: a constant, or a function of the number of steps so far."""
    numbers = rule.numbers
    if rule.kind == "constant":
        return tf.constant(numbers[0], tf.float32)
    step = tf.cast(run.step_index, tf.float32)
    if rule.kind == "table":
        reached = tf.cast(run.step_index, tf.float32) >= tf.constant(numbers[::2], tf.float32)
        return tf.constant(numbers[1::2])[tf.reduce_sum(tf.cast(reached, tf.int32)) - 1]
    if rule.kind == "exponential":
        full, factor, steps = numbers
        return full * tf.pow(factor, step / steps)
    if rule.kind == "linear":
        first, end, steps = numbers
        return first + (end - first) * tf.minimum(step / steps, 1.0)
    steps = numbers[1] if len(numbers) > 1 else run.total_steps
    if not steps:
        raise UsageError("The rule cosine needs the length of the run.", hint="cosine:FULL:STEPS")
    return numbers[0] * 0.5 * (1 + tf.cos(3.14159265 * tf.minimum(step / steps, 1.0)))


def guess_rule(dtype: Any, shape: Any, data: Any) -> str:
    """The rule that a placeholder's form suggests; "" for none.

    Args:
        dtype, shape: of the placeholder.
        data: the `DataSpec` of the run.
    """
    if shape is None or shape.ndims is None or shape.ndims == 0 or data is None:
        return ""
    wanted: List[Optional[int]] = shape.as_list()[1:]
    found = []
    for key, component in sorted(data.flat.items()):
        role, _, name = key.partition("/")
        rule = f"{role}.{name}" if name else role
        one = list(component.shape)
        is_float = component.kind in ("image", "value") and component.dtype in ("uint8", "float32")
        if role == "features" and one and _count(wanted) == _count(one) and is_float:
            found += [rule] * bool(dtype.is_floating)
        elif component.num_classes and not one:
            is_hot = wanted == [component.num_classes]
            found += [rule] * bool(is_hot or not wanted and dtype.is_integer)
        elif role == "labels" and is_float and _count(wanted) == _count(one):
            found += [rule] * bool(dtype.is_floating)
    return found[0] if len(found) == 1 else ""
