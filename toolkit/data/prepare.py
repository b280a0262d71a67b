"""The hooks `filter` and `convert` on examples in memory: called per example, their answers
checked.

A filter is called with one example as stored (features: an array; labels: an int or None) and says
whether to keep it; a converter, with a kept one, returns the pair to train on.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, ToolkitError
from .examples import DataSpec, Split

Filter = Callable[[np.ndarray, Optional[int]], bool]
Convert = Callable[[np.ndarray, Optional[int]], Tuple[Any, Any]]
_CHUNK = 1024


class Shape(NamedTuple):
    """What a converter makes of the first example; every other must come out the same."""

    shape: Tuple[int, ...]
    dtype: str  # "uint8" or "float32"
    labelled: bool
    position: int  # of that example, in the split


def prepare(
    split: Split, filter: Optional[Filter] = None, convert: Optional[Convert] = None
) -> Split:
    """The split that a filter and a converter leave, in memory where there is a converter.

    Raises ToolkitError naming the hook where it fails or its answer is wrong, DataError where
    nothing is kept.
    """
    kept = split if filter is None else split.subset(keep_mask(split, filter))
    _check_any(split, kept)
    if convert is None:
        return kept
    positions = kept_positions(split, kept)
    first = None
    features: List[np.ndarray] = []
    labels: List[Any] = []
    for position, example in zip(positions, examples(kept)):
        made, label = converted(convert, example, int(position), first)
        if first is None:
            first = Shape(made.shape, str(made.dtype), label is not None, int(position))
        features.append(made)
        labels.append(label)
    return Split(np.stack(features), np.array(labels, np.int32) if first.labelled else None)


def kept_positions(split: Split, kept: Split) -> np.ndarray:
    """Where in `split` the examples of its subset `kept` are, int64 [len(kept)]."""
    if kept is split or kept.index is None:
        return np.arange(len(split))
    if split.index is None:
        return kept.index
    place = np.full(split.num_records, -1, np.int64)
    place[split.index] = np.arange(len(split))
    return place[kept.index]


def keep_mask(split: Split, filter: Filter) -> np.ndarray:
    """bool [N]: the examples that a filter keeps."""
    mask = np.zeros(len(split), bool)
    for position, (features, label) in enumerate(examples(split)):
        answer = _called("filter", filter, features, label, position)
        if not isinstance(answer, (bool, np.bool_)):
            raise ToolkitError(
                f"The hook 'filter' returned {answer!r} for example {position}, expected "
                "True or False.",
                hint="Return a bool.",
            )
        mask[position] = answer
    return mask


def probe(split: Split, convert: Optional[Convert], position: int = 0) -> Shape:
    """What the examples of a split look like once converted, told by the first.

    position: what to call that one in an error.
    """
    if convert is None:
        return Shape(split.shape, split.dtype, split.labels is not None, 0)
    made, label = converted(convert, next(examples(split)), position, None)
    return Shape(made.shape, str(made.dtype), label is not None, position)


def converted_spec(
    spec: DataSpec, split: Split, filter: Optional[Filter] = None, convert: Optional[Convert] = None
) -> DataSpec:
    """The spec of what a model sees after `convert`, told by the first example that is kept."""
    if convert is None:
        return spec
    for position, example in enumerate(examples(split)):
        if filter is None or _called("filter", filter, *example, position=position):
            made, label = converted(convert, example, position, None)
            spec = spec._replace(shape=made.shape, dtype=str(made.dtype))
            return spec if label is not None else spec._replace(num_classes=0, class_names=())
    raise _none_kept(split)


def examples(split: Split) -> Iterator[Tuple[np.ndarray, Optional[int]]]:
    """One example after the other, as hooks meet them, reading the split in chunks."""
    for start in range(0, len(split), _CHUNK):
        features, labels = split.take(slice(start, start + _CHUNK))
        for row in range(len(features)):
            yield features[row], None if labels is None else int(labels[row])


def converted(convert: Convert, example, position: int, first: Optional[Shape]):
    """The pair (uint8 or float32 array, int or None) that a converter makes of one example,
    checked.

    first: what the first example gave, or None where this is the first.
    """
    answer = _called("convert", convert, example[0], example[1], position)
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
        raise ToolkitError(
            f"The hook 'convert' returned {_kind(answer)} for example {position}, expected "
            "features and labels.",
            hint="Return features, labels; labels may be None.",
        )
    features, label = _as_features(answer[0], position), _as_label(answer[1], position)
    found = Shape(features.shape, str(features.dtype), label is not None, position)
    if first is not None and found[:3] != first[:3]:
        raise ToolkitError(
            f"The hook 'convert' made {_shown(found)} of example {position} but "
            f"{_shown(first)} of example {first.position}.",
            hint="Every example must come out with one shape and dtype.",
        )
    return features, label


def _called(name: str, hook: Callable, features, label, position: int):
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


def _as_features(value, position: int) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    raise ToolkitError(
        f"The hook 'convert' made features of type {array.dtype} of example {position}, "
        "expected uint8 or a float "
        "type.",
        hint="Convert them with .astype('float32').",
    )


def _as_label(value, position: int) -> Optional[int]:
    if value is None:
        return None
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "iu":
        return int(array)
    raise ToolkitError(
        f"The hook 'convert' made the label {value!r} of example {position}, expected an "
        "integer or None.",
        hint="Return the class number.",
    )


def _check_any(split: Split, kept: Split) -> None:
    if not len(kept):
        raise _none_kept(split)


def _none_kept(split: Split) -> DataError:
    return DataError(
        f"The hook 'filter' kept none of {len(split)} examples.",
        hint="Return True for the examples to keep.",
    )


def _kind(value) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values"
    return "None" if value is None else f"one {type(value).__name__}"


def _shown(shape: Shape) -> str:
    return f"{shape.dtype} {list(shape.shape)}{'' if shape.labelled else ' without a label'}"
