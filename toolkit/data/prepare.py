"""The hooks `filter` and `convert`: called once per example, with their answers checked."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, ToolkitError
from .examples import DataSpec, Split

Filter = Callable[[np.ndarray, Optional[int]], bool]
Convert = Callable[[np.ndarray, Optional[int]], Tuple[Any, Any]]
Example = Tuple[np.ndarray, Optional[int]]
_CHUNK = 1024  # examples


class ExampleHooks(NamedTuple):
    """The hooks that each example passes through, in this order.

    Both are called with the features (an array, as stored) and the label (an int or None).
    """

    filter: Optional[Filter] = None  # returns whether to keep the example
    convert: Optional[Convert] = None  # returns the features and label to train on


NO_HOOKS = ExampleHooks()


class ExampleShape(NamedTuple):
    """The features and label of the first example that `convert` returns; all others must match."""

    shape: Tuple[int, ...]
    dtype: str  # "uint8" or "float32"
    has_label: bool
    position: int  # of that example, in the split


def prepare(split: Split, hooks: ExampleHooks) -> Split:
    """The examples that `filter` keeps, as `convert` returns them.

    The result is in memory if there is a `convert` hook.

    Raises:
        ToolkitError: a hook fails or returns something invalid; the message names it.
        DataError: the filter keeps no example.
    """
    subset = filter_split(split, hooks.filter)
    if hooks.convert is None:
        return subset
    positions = subset_positions(split, subset)
    first = None
    features: List[np.ndarray] = []
    labels: List[Any] = []
    for position, example in zip(positions, iterate(subset)):
        array, label = convert_example(hooks.convert, example, int(position), first)
        first = first or _shape_of(array, label, int(position))
        features.append(array)
        labels.append(label)
    has_labels = labels[0] is not None
    return Split(np.stack(features), np.array(labels, np.int32) if has_labels else None)


def filter_split(split: Split, filter: Optional[Filter]) -> Split:
    """The examples that a filter keeps. Raises DataError if there are none."""
    subset = split if filter is None else split.subset(filter_mask(split, filter))
    if not len(subset):
        raise _empty_filter_error(split)
    return subset


def subset_positions(split: Split, subset: Split) -> np.ndarray:
    """The positions in `split` of the examples of its subset, int64 [len(subset)]."""
    if subset is split or subset.index is None:
        return np.arange(len(split))
    if split.index is None:
        return subset.index
    position_of_record = np.full(split.num_records, -1, np.int64)
    position_of_record[split.index] = np.arange(len(split))
    return position_of_record[subset.index]


def filter_mask(split: Split, filter: Filter) -> np.ndarray:
    """bool [N]: whether the filter keeps each example."""
    mask = np.zeros(len(split), bool)
    for position, (features, label) in enumerate(iterate(split)):
        answer = _call_hook("filter", filter, features, label, position)
        if not isinstance(answer, (bool, np.bool_)):
            raise ToolkitError(
                f"The hook 'filter' returned {answer!r} for example {position}, expected "
                "True or False.",
                hint="Return a bool.",
            )
        mask[position] = answer
    return mask


def probe_shape(split: Split, convert: Optional[Convert], position: int = 0) -> ExampleShape:
    """The shape of the split's examples after `convert`, found by converting the first one.

    Args:
        split: the examples, as stored.
        convert: the hook, or None.
        position: the number of the first example in error messages.
    """
    if convert is None:
        return ExampleShape(split.shape, split.dtype, split.labels is not None, 0)
    features, label = convert_example(convert, next(iterate(split)), position, None)
    return _shape_of(features, label, position)


def model_spec(spec: DataSpec, split: Split, hooks: ExampleHooks) -> DataSpec:
    """The spec of the examples as the model sees them, found by converting the first one.

    Args:
        spec: of the examples as stored.
        split: the examples, as stored.
        hooks: `filter` and `convert`.
    """
    if hooks.convert is None:
        return spec
    for position, example in enumerate(iterate(split)):
        if hooks.filter is None or _call_hook("filter", hooks.filter, *example, position=position):
            features, label = convert_example(hooks.convert, example, position, None)
            spec = spec._replace(shape=features.shape, dtype=str(features.dtype))
            return spec if label is not None else spec._replace(num_classes=0, class_names=())
    raise _empty_filter_error(split)


def iterate(split: Split) -> Iterator[Example]:
    """The examples one by one, as the hooks get them; the split is read in chunks."""
    for start in range(0, len(split), _CHUNK):
        features, labels = split.take(slice(start, start + _CHUNK))
        for row in range(len(features)):
            yield features[row], None if labels is None else int(labels[row])


def convert_example(
    convert: Convert, example: Example, position: int, first: Optional[ExampleShape]
) -> Example:
    """Convert one example and check the result.

    Args:
        convert: the hook.
        example: features and label, as stored.
        position: the number of the example in the split, for error messages.
        first: the shape of the first example, or None if this is the first.

    Returns:
        features: uint8 or float32.
        label: an int, or None.
    """
    answer = _call_hook("convert", convert, example[0], example[1], position)
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
        raise ToolkitError(
            f"The hook 'convert' returned {_describe(answer)} for example {position}, expected "
            "features and labels.",
            hint="Return features, labels; labels may be None.",
        )
    features, label = _as_features(answer[0], position), _as_label(answer[1], position)
    shape = _shape_of(features, label, position)
    if first is not None and shape[:3] != first[:3]:
        raise ToolkitError(
            f"The hook 'convert' returned {_describe_shape(shape)} for example {position} but "
            f"{_describe_shape(first)} for example {first.position}.",
            hint="Return one shape and dtype for every example.",
        )
    return features, label


def _shape_of(features: np.ndarray, label: Optional[int], position: int) -> ExampleShape:
    return ExampleShape(features.shape, str(features.dtype), label is not None, position)


def _call_hook(
    name: str, hook: Callable, features: np.ndarray, label: Optional[int], position: int
) -> Any:
    try:
        return hook(features, label)
    except ToolkitError:
        raise
    except Exception as error:
        raise ToolkitError(
            f"The hook '{name}' failed on example {position}: {type(error).__name__}: "
            f"{str(error).rstrip('.')}.",
            hint=(
                f"It is called with features {features.dtype} {list(features.shape)} and "
                f"label {label}."
            ),
        ) from error


def _as_features(value: Any, position: int) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    raise ToolkitError(
        f"The hook 'convert' returned features of type {array.dtype} for example {position}, "
        "expected uint8 or a float type.",
        hint="Convert them with .astype('float32').",
    )


def _as_label(value: Any, position: int) -> Optional[int]:
    if value is None:
        return None
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "iu":
        return int(array)
    raise ToolkitError(
        f"The hook 'convert' returned the label {value!r} for example {position}, expected an "
        "integer or None.",
        hint="Return the class number.",
    )


def _empty_filter_error(split: Split) -> DataError:
    return DataError(
        f"The hook 'filter' kept none of {len(split)} examples.",
        hint="Return True for the examples to keep.",
    )


def _describe(value: Any) -> str:
    """What a hook returned, in few words."""
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values"
    return "None" if value is None else f"one {type(value).__name__}"


def _describe_shape(shape: ExampleShape) -> str:
    return f"{shape.dtype} {list(shape.shape)}{'' if shape.has_label else ' without a label'}"
