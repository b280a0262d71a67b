"""One component of examples: what it is, and the values of it that many examples have.

Legend: M examples, n of them, ... the shape of the component in one example, T values of all
sequences together, L the length to which sequences are padded.
"""

from __future__ import annotations

import contextlib
import copy
import os
from typing import AbstractSet, Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import DataError
from .decoded import Decoded, as_rows
from .structure import FEATURES, LABELS, describe_key

MAX_CLASSES = 1 << 20
VOID = 255  # in images of classes: a pixel of no class
TEXT = "string"  # the dtype of text, as TensorFlow names it
# The dtypes in memory that values of each kind may have.
KINDS = {
    "image": ("uint8", "float32"),
    "class": ("uint8", "int32", "int64"),
    "value": ("uint8", "int32", "int64", "float32", "bool"),
    "text": (TEXT,),
}
_BE = ("is", "are")  # verbs of a sentence
_TEXT_BYTES = 64  # assumed of one text
_CHUNK = 4096  # examples that are checked at once
_NUMBERS = (bool, int, float, np.bool_, np.number)


class Component(NamedTuple):
    """One named array of each example."""

    shape: Tuple[Optional[int], ...]  # the first size is None if it varies (a sequence)
    dtype: str  # in memory: "uint8", "int32", "int64", "float32", "bool" or "string"
    # "image" (uint8 reaches the graph as x / 255), "class" (from 0), "value" or "text" (bytes).
    kind: str
    num_classes: int = 0  # K of classes; in images of classes, VOID marks what has none
    class_names: Tuple[str, ...] = ()  # in the order of the classes; may be empty
    padding: Any = 0  # fills a sequence up to the length of its batch

    @property
    def size(self) -> int:
        """The number of values of one example that is no sequence."""
        return int(np.prod([size or 1 for size in self.shape], dtype=np.int64))

    @property
    def is_sequence(self) -> bool:
        """Whether examples have different lengths."""
        return bool(self.shape) and self.shape[0] is None

    @property
    def model_dtype(self) -> str:
        """The dtype of a batch as hooks get it: images are float32, classes int32."""
        return {"image": "float32", "class": "int32"}.get(self.kind, self.dtype)

    def describe(self) -> str:
        """`image uint8 28x28x1`, `class of 10`, `class of 3 uint8 4x6`, `float32 ?x3`, `text`."""
        kind = {"class": f"class of {self.num_classes}", "value": ""}.get(self.kind, self.kind)
        is_plain = self.kind == "text" or (self.kind == "class" and not self.shape)
        sizes = "x".join("?" if size is None else str(size) for size in self.shape)
        return " ".join(filter(None, (kind, "" if is_plain else self.dtype, sizes)))


def describe_shape(shape: Sequence[Any]) -> str:
    """`[N, ?, 3]`: the sizes of an array, of which some are None, or have a name."""
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


class Sequences:
    """M sequences of different lengths: all their values [T, ...], one after the other, and where
    each begins, int64 [M + 1], of which the last is T.
    """

    def __init__(self, values: Any, starts: np.ndarray):
        self.values = values
        self.starts = np.asarray(starts, np.int64)

    @classmethod
    def join(cls, parts: Sequence[np.ndarray]) -> Sequences:
        """The sequences of a list of arrays [length, ...] that agree in all but their lengths."""
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        values = np.concatenate(parts) if len(parts) else np.zeros(0, np.float32)
        # Texts as objects, among which a padding may be longer than all of them.
        return cls(as_text(values) if values.dtype.kind in "SU" else values, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> Tuple[Optional[int], ...]:
        return (len(self), None, *self.values.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def lengths(self) -> np.ndarray:
        """int32 [M]."""
        return np.diff(self.starts).astype(np.int32)

    def select(self, rows: np.ndarray) -> Sequences:
        """The sequences of some examples, int64 [n], in their order."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        offsets = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        return Sequences(self.values[np.repeat(self.starts[rows], lengths) + offsets], starts)

    def pad(self, rows: np.ndarray, length: int, padding: Any) -> np.ndarray:
        """The sequences of some examples, int64 [n], padded: [n, length, ...]."""
        starts, lengths = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        offsets = np.arange(length)
        is_value = offsets < lengths[:, np.newaxis]  # [n, length]
        padding = padding.encode() if isinstance(padding, str) else padding
        padded = np.full((len(rows), length, *self.values.shape[1:]), padding, self.dtype)
        padded[is_value] = self.values[(starts[:, np.newaxis] + offsets)[is_value]]
        return padded


class Column:
    """One component of M examples.

    Args:
        values: an array [M, ...], a memory map, a list of arrays of different lengths (sequences),
            or `toolkit.Decoded`, which decodes examples when they are read.
        kind: as in `Component`. None: uint8 features are images, integer labels are classes, texts
            are text, all others are values.
        num_classes: of classes; 0 for the largest value + 1.
        class_names: of classes, in their order.
        padding: of sequences, as in `Component`.

    Attributes:
        key: flat, as whose component the column was bound.
        component: what the values are; both are set by `bind`.

    Raises:
        DataError: the values are of no known type or shape.
    """

    key: str
    component: Component

    def __init__(
        self,
        values: Any,
        kind: Optional[str] = None,
        num_classes: int = 0,
        class_names: Sequence[str] = (),
        padding: Any = 0,
    ):
        if kind is not None and kind not in KINDS:
            raise DataError(f"The kind is '{kind}', expected one of {', '.join(KINDS)}.")
        self.values = values
        self.kind = kind
        self.class_names = tuple(str(name) for name in class_names)
        is_count = isinstance(num_classes, (int, np.integer)) and num_classes >= 0
        if not is_count or isinstance(num_classes, bool):
            raise DataError(f"num_classes is {num_classes!r:.50}, expected a whole number.")
        self.num_classes = int(num_classes or len(self.class_names))
        self.padding = padding

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_decoded(self) -> bool:
        """Whether a read only copies; False if it decodes."""
        return not isinstance(self.values, Decoded)

    def with_values(self, values: Any) -> Column:
        """A column of other values with the same declarations, not yet bound."""
        column = copy.copy(self)
        column.values = values
        return column

    def bind(self, key: str) -> Column:
        """The column as the component of a flat key, with its values checked."""
        column = copy.copy(self)
        column.key = key
        column.values = _as_values(key, self.values)
        component = column.component = self._describe(key, column.values)
        if component.is_sequence:  # of padded ones, the padding is not checked
            column._check_range(column.values.values)
        elif component.kind == "image" and len(component.shape) == 2:  # [H, W] becomes [H, W, 1]
            column.component = component._replace(shape=(*component.shape, 1))
            if isinstance(column.values, np.ndarray):
                column.values = column.values[..., np.newaxis]
        return column

    def take(self, rows: Any, length: Optional[int] = None) -> np.ndarray:
        """Read some examples.

        Args:
            rows: a slice or integers [n].
            length: to which sequences are padded; else not used.

        Returns:
            [n, ...] of the component's dtype, in the machine's byte order.

        Raises:
            DataError: a value is out of range.
        """
        mapped = memory_map(self.values)
        if mapped is not None and os.path.exists(str(mapped.filename)):  # a removed file stays
            size, expected = os.path.getsize(str(mapped.filename)), mapped.offset + mapped.nbytes
            if size < expected:  # reading it would end the process
                raise DataError(
                    f"{mapped.filename}: expected {expected:,} bytes, found {size:,}: it changed "
                    "while it was used.",
                    hint="Put the same file back.",
                )
        if self.component.is_sequence:
            padding = self.component.padding
            array = self.values.pad(as_rows(rows, len(self)), length, padding)
            is_text = self.component.dtype == TEXT
            return as_text(array) if is_text else np.asarray(array, self._dtype)
        array = np.asarray(self.values[rows])
        shape: Any = (len(array), *self.component.shape)  # of an image [H, W]: [H, W, 1]
        return self.convert(array.reshape(shape), rows)

    def convert(self, array: np.ndarray, rows: Any = None) -> np.ndarray:
        """Values of the column's kind, of some rows, in the dtype of the component. Raises a
        DataError if one is out of range.
        """
        if self.component.dtype == TEXT:
            return as_text(array)
        self._check_range(array, rows)
        return np.asarray(array, self._dtype)

    def _check_range(self, array: np.ndarray, rows: Any = None) -> None:
        """Refuse class numbers out of range, and integers that the dtype in memory cannot hold."""
        is_class = self.component.kind == "class"
        is_integer = array.dtype.kind in "iu" and array.size
        if not is_integer or (not is_class and np.can_cast(array.dtype, self._dtype)):
            return
        if is_class:
            lowest, highest = 0, (self.component.num_classes or MAX_CLASSES) - 1
            mark = f", or mark what has no class by {VOID}" if self.component.shape else ""
            hint = f"Number classes from 0{mark}; leave out examples without a class."
        else:
            lowest, highest = int(np.iinfo(self._dtype).min), int(np.iinfo(self._dtype).max)
            hint = "Store smaller numbers."
        if lowest <= int(array.min()) and int(array.max()) <= highest:
            return
        is_wrong = (array < lowest) | (array > highest)
        if is_class and self.component.shape:
            is_wrong &= array != VOID
        if is_wrong.any():
            place = ""
            if rows is not None:
                place = f" in example {as_rows(rows, len(self))[np.argwhere(is_wrong)[0][0]]}"
            raise DataError(
                f"{_subject(self.key)} the value {array[is_wrong][0]}{place}, expected {lowest} to "
                f"{highest}.",
                hint=hint,
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the M examples in memory, in their dtype."""
        component = self.component
        count = self.values.values.size if component.is_sequence else len(self) * component.size
        return count * (_TEXT_BYTES if component.dtype == TEXT else self._dtype.itemsize)

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(self.component.dtype)

    def _padding(self, key: str, dtype: str) -> Any:
        """The padding as a JSON value of the dtype."""
        padding = self.padding
        if dtype == TEXT and isinstance(padding, (int, str, bytes)):
            text = "" if isinstance(padding, int) else padding
            return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        errors = (TypeError, ValueError, OverflowError)
        with contextlib.suppress(*errors), np.errstate(all="ignore"):
            value = np.array(padding).astype(dtype).item()
            if value == padding and np.isfinite(value):
                return value
        raise DataError(
            f"{_subject(key)} the padding {self.padding!r}, which is no {dtype}.",
            hint="Pad with a value of the component's own type; a number has to be finite.",
        )

    def _describe(self, key: str, values: Any) -> Component:
        stored = np.dtype(values.dtype)
        if stored.kind not in "SUOfiub":
            raise DataError(
                f"{_subject(key, _BE)} of type {stored}, expected numbers or text.",
                hint="Store images as uint8 from 0 to 255, other numbers as float32 or int32.",
            )
        if stored.kind in "SUO":
            dtype = TEXT
        elif stored.kind == "f" or stored in (np.uint8, np.bool_):
            dtype = "float32" if stored.kind == "f" else stored.name
        else:
            dtype = "int32" if stored.itemsize < 4 or stored == np.int32 else "int64"
        default = "image" if dtype == "uint8" else "text" if dtype == TEXT else "value"
        if key.partition("/")[0] == LABELS and dtype != TEXT:
            default = "class" if dtype in KINDS["class"] else "value"
        kind = self.kind or default
        if dtype not in KINDS[kind]:
            raise DataError(
                f"{_subject(key, _BE)} of type {dtype}, which is no {kind}.",
                hint=f"The kind {kind} is {' or '.join(KINDS[kind])}.",
            )
        shape = tuple(values.shape[1:])
        if 0 in shape:
            raise DataError(
                f"{_subject(key)} shape {list(values.shape)}, expected one "
                "value or more in each example.",
                hint="Save arrays without empty dimensions.",
            )
        if kind == "class" and not (shape and dtype == "uint8"):
            dtype = "int32"
        padding = self._padding(key, dtype)
        return Component(shape, dtype, kind, self.num_classes, self.class_names, padding)


# ------------------------------------------------------------------------------------------ values


def _subject(key: str, verbs: Tuple[str, str] = ("has", "have")) -> str:
    """`Features have`, `The feature 'left' has`; or other verbs for one and for several."""
    text = describe_key(key)
    return f"{text[:1].upper()}{text[1:]} {verbs['/' not in key]}"


def memory_map(values: Any) -> Optional[np.memmap]:
    """The memory map behind an array or behind sequences; None if there is none."""
    base: Any = getattr(values, "values", values)
    mapped = None  # the outermost one: a slice of it has its offset, not its own
    while base is not None:
        mapped = base if isinstance(base, np.memmap) else mapped
        base = getattr(base, "base", None)
    return None if mapped is None or mapped.filename is None else mapped


def first_not_finite(values: np.ndarray) -> Optional[int]:
    """The first row of values [M, ...] that has NaN or infinity; None if none has."""
    for start in range(0, len(values) if values.dtype.kind == "f" else 0, _CHUNK):
        part = values[start : start + _CHUNK]
        is_finite = np.isfinite(part).all(axis=tuple(range(1, part.ndim)))
        if not is_finite.all():
            return start + int(np.argmin(is_finite))
    return None


def as_text(array: Any) -> np.ndarray:
    """Texts as an array of bytes objects, in UTF-8."""
    array = np.asarray(array)
    if array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    return array.astype(object)


def as_array(value: Any) -> np.ndarray:
    """A value as an array; of objects if it is ragged."""
    try:
        array = np.asarray(value)
        are_numbers = array.dtype == object and array.size > 0
        if are_numbers and all(isinstance(each, _NUMBERS) for each in array.flat):
            return np.asarray(array.tolist())  # of a frame with truth values beside numbers
        return array
    except NotImplementedError:  # TensorFlow's, of a tensor of a graph
        raise DataError(
            f"'{getattr(value, 'name', value)}' is a tensor of a graph, which has no value yet.",
            hint="Compute it with NumPy, or in the graph, in the hook 'call'.",
        ) from None
    except ValueError:  # of NumPy since 1.24; earlier ones return objects themselves
        array = np.empty(1, object)
        array[0] = value
        return array


def _as_values(key: str, values: Any) -> Any:
    """An array, `Sequences` or `Decoded`, with a first axis of examples."""
    if hasattr(values, "__array__") and not isinstance(values, np.ndarray):
        values = as_array(values)  # of another library, such as pandas
    is_array = isinstance(values, np.ndarray) and values.dtype != object
    is_ready = is_array or isinstance(values, (Sequences, Decoded))
    array = values if is_ready else _as_array(key, values)
    if isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.dtype.itemsize != 4:
        # A memory map of big-endian floats remains a map: `take` converts the part it reads.
        with np.errstate(over="ignore"):  # too large for float32: infinity, which sources refuse
            array = array.astype(np.float32)
    if key == FEATURES and isinstance(array, Sequences):
        raise DataError(
            "The examples have different lengths, and sequences need a name.",
            hint='Name them: Split({"words": sequences}); their lengths come as "words_length". '
            "A tf.data.Dataset gives single examples: leave batch() out.",
        )
    if not array.shape or (key == FEATURES and len(array.shape) < 2 and array.dtype.kind in "fiub"):
        raise DataError(
            f"{_subject(key)} shape {list(array.shape)}, expected [N, ...]"
            f"{' of rank 2 or more' if key == FEATURES else ''}.",
            hint="Put the examples along the first axis.",
        )
    return array


def _as_array(key: str, values: Any) -> Any:
    """A list, a scalar or an array of objects as an array, or as `Sequences`."""
    if isinstance(values, (Mapping, AbstractSet, Iterator)):
        raise DataError(
            f"{_subject(key, _BE)} of type {type(values).__name__}, expected a list or an array.",
            hint="Examples are read by their position, in any order and again in each epoch.",
        )
    try:
        items = list(values)
    except TypeError:
        return np.asarray(values)
    leaves = list(values.flat) if isinstance(values, np.ndarray) else items
    if leaves and all(isinstance(leaf, (str, bytes)) for leaf in leaves):
        array = np.empty(len(leaves), object)
        array[:] = [leaf.encode() if isinstance(leaf, str) else leaf for leaf in leaves]
        return array.reshape(getattr(values, "shape", -1))
    parts = [as_array(item) for item in items]
    objects = [part for part in parts if part.dtype == object]
    if objects:
        raise DataError(
            f"{_subject(key, _BE)} of type {type(objects[0].ravel()[0]).__name__}, expected "
            "numbers or text.",
            hint="Give each example an array of numbers, or a text.",
        )
    if len({(part.ndim, part.shape[1:]) for part in parts}) > 1:
        shapes = " and ".join(sorted({str(list(part.shape)) for part in parts})[:2])
        raise DataError(
            f"The examples of {describe_key(key)} have the shapes {shapes}.",
            hint="Only the first size of an example may differ.",
        )
    if len({part.shape for part in parts}) > 1:
        return Sequences.join(parts)
    return np.asarray(values) if not parts else np.stack(parts)
