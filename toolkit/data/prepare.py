"""The hooks `filter` and `convert`: called once per example, with their answers checked."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import DataError, ToolkitError
from .column import Column, Component, Sequences, as_array
from .examples import LENGTH, Split, describe, describe_form, iterate_slices, with_classes
from .spec import DataSpec
from .structure import LABELS, describe_key, flatten, pack

Filter = Callable[[Any, Any], bool]
Convert = Callable[[Any, Any], Tuple[Any, Any]]
Example = Tuple[Any, Any]  # features and label, structures of arrays; a class is an int


class ExampleHooks(NamedTuple):
    """The hooks that each example passes through, in this order.

    Both are called with the features (an array, as stored, or a dict of them) and the label (an int
    or None; else an array or a dict of them).
    """

    filter: Optional[Filter] = None  # returns whether to keep the example
    convert: Optional[Convert] = None  # returns the features and label to train on
    num_classes: int = 0  # of the one class that is the label which `convert` returns, if known


NO_HOOKS = ExampleHooks()


class ExampleConverter:
    """Calls the hook `convert` for examples of a split, as stored, and checks that its answers
    agree. A component that the hook returns under the same name keeps what was declared of it: its
    kind, its classes, and whether it is a sequence.
    """

    def __init__(self, hooks: ExampleHooks, split: Split):
        assert hooks.convert is not None
        # Of the first example that was converted, by flat key; all others must match it.
        self.form: Dict[str, Component] = {}
        self._first = 0  # the position of that example, in the split
        self._convert, self._num_classes = hooks.convert, hooks.num_classes
        self._split = split
        self._bound: Dict[str, Column] = {}  # those of the first example
        self._sequences = {key for key, each in split.components.items() if each.is_sequence}
        self._raw: Dict[str, Any] = {}  # flat key -> dtype, rank and sizes that match the form

    def convert(self, example: Example, position: int) -> Dict[str, np.ndarray]:
        """Convert an example, as stored: flat key -> array. The position is for error messages.

        Sequences are not padded and have no lengths.
        """
        answer = _call_hook("convert", self._convert, example, position)
        if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
            is_sequence = isinstance(answer, (tuple, list))
            found = f"{len(answer)} values" if is_sequence else f"one {type(answer).__name__}"
            raise ToolkitError(
                f"The hook 'convert' returned {'None' if answer is None else found} for example "
                f"{position}, expected features and labels{place_of(self._convert)}.",
                hint="Return features, labels; labels may be None.",
            )
        label = as_array(answer[1])
        is_class = bool(self._num_classes) and label.dtype.kind in "iu" and not label.ndim
        if is_class and not 0 <= label < self._num_classes:
            raise DataError(
                f"The hook 'convert' returned the label {label}, and the data has "
                f"{self._num_classes} classes.",
                hint=f"Return a label from 0 to {self._num_classes - 1}.",
            )
        try:
            flat = {key: as_array(value) for key, value in flatten(*answer).items()}
            for key in self._sequences & set(flat):
                if not flat[key].ndim:
                    raise DataError(f"{describe_key(key)} has no length.", hint="Return an array.")
            raw = {
                key: (a.dtype, a.ndim, a.shape[1:] if key in self._sequences else a.shape)
                for key, a in flat.items()
            }
            if raw != self._raw:
                columns = {key: self._join(key, [array]).bind(key) for key, array in flat.items()}
                form = {key: column.component for key, column in columns.items()}
                if not self.form:
                    self.form, self._first, self._bound = form, position, columns
                if form != self.form:
                    raise ToolkitError(
                        f"The hook 'convert' returned {describe_form(form)} for example {position} "
                        f"but {describe_form(self.form)} for example {self._first}.",
                        hint="Return one shape and dtype for every example.",
                    )
                self._raw = raw
            # Copies: a hook may refill its arrays.
            converted = {key: np.array(self._bound[key].convert(a)) for key, a in flat.items()}
            for key, component in self.form.items():
                if converted[key].ndim < len(component.shape):  # of an image [H, W]: [H, W, 1]
                    converted[key] = converted[key].reshape(component.shape)  # type: ignore
            return converted
        except DataError as error:
            raise ToolkitError(
                f"The hook 'convert' returned no example for example {position}: "
                f"{error.message.rstrip('.')}{place_of(self._convert)}.",
                hint=error.hint,
            ) from error

    def convert_all(self, hook: Optional[Filter] = None) -> Iterator[Dict[str, np.ndarray]]:
        """Convert the examples of the split that a filter keeps, one by one."""
        for position, example in _iterate_kept(self._split, hook):
            yield self.convert(example, position)

    def join(self, examples: Sequence[Mapping[str, np.ndarray]]) -> Split:
        """The split of converted examples, one or more."""
        return Split(*pack({key: self._join(key, [e[key] for e in examples]) for key in self.form}))

    def _join(self, key: str, arrays: Sequence[np.ndarray]) -> Column:
        """The values of a component, with what is declared of the stored one of the same key."""
        source = self._split.columns.get(key)
        values = Sequences.join(arrays) if key in self._sequences else np.stack(arrays)
        return Column(values) if source is None else source.with_values(values)


def prepare(split: Split, hooks: ExampleHooks) -> Split:
    """The examples that `filter` keeps, as `convert` returns them: in memory, if there is one.
    Raises ToolkitError, with its name, if a hook fails or returns something invalid; DataError if
    the filter keeps no example.
    """
    if hooks.convert is None:
        return filter_split(split, hooks.filter)[0]
    converter = ExampleConverter(hooks, split)
    return converter.join(list(converter.convert_all(hooks.filter)))


def filter_split(split: Split, filter: Optional[Filter]) -> Tuple[Split, Optional[np.ndarray]]:
    """The examples that a filter keeps, and their positions in the split, int64 [n]; None for all.

    Raises a DataError if there are none.
    """
    if filter is None:
        return split, None
    positions = np.array([position for position, _ in _iterate_kept(split, filter)], np.int64)
    return split.subset(positions), positions


def _iterate_kept(split: Split, filter: Optional[Filter]) -> Iterator[Tuple[int, Example]]:
    """Position and example of each that a filter keeps. Raises a DataError if there are none."""
    is_empty = True
    for position, example in enumerate(iterate(split)):
        answer = True if filter is None else _call_hook("filter", filter, example, position)
        if not isinstance(answer, (bool, np.bool_)):
            text = str(answer) if np.ndim(answer) == 0 else f"an array {list(np.shape(answer))}"
            raise ToolkitError(
                f"The hook 'filter' returned {text} for example {position}, expected True or False"
                f"{place_of(filter)}.",
                hint="Return a bool.",
            )
        if answer:
            is_empty = False
            yield position, example
    if is_empty:
        raise DataError(
            f"The hook 'filter' kept none of {len(split)} examples{place_of(filter)}.",
            hint="Return True for the examples to keep.",
        )


def model_spec(spec: DataSpec, split: Split, hooks: ExampleHooks) -> DataSpec:
    """The spec of the examples as the model sees them, from that as stored and the first one."""
    if hooks.convert is None:
        return spec
    converter = ExampleConverter(hooks, split)
    only = converter.join([next(converter.convert_all(hooks.filter))])
    converted = describe(only)
    has_class = only.class_labels is not None and spec.num_classes
    return with_classes(converted, spec.class_names) if has_class else converted


def iterate(split: Split) -> Iterator[Example]:
    """The examples one by one, as the hooks get them; the split is read in chunks.

    Sequences have their own length, and their lengths are left out.
    """
    for part in iterate_slices(split):
        yield from unbatch(split, split.read(part))


def unbatch(split: Split, flat: Mapping[str, np.ndarray]) -> Iterator[Example]:
    """The examples of a batch of a split, flat key -> [n, ...], as the hooks get them."""
    arrays, components = dict(flat), split.components
    lengths = {key: arrays.pop(key + LENGTH) for key in flat if components[key].is_sequence}
    is_class = split.class_labels is not None
    for row in range(len(next(iter(arrays.values())))):
        example = {key: array[row] for key, array in arrays.items()}
        example.update((key, example[key][: size[row]]) for key, size in lengths.items())
        if is_class:
            example[LABELS] = int(example[LABELS])
        yield pack(example)


def _call_hook(name: str, hook: Callable, example: Example, position: int) -> Any:
    try:
        return hook(*example)
    except ToolkitError:
        raise
    except Exception as error:
        arguments = [
            f"{key} {a.dtype} {list(a.shape)}" if hasattr(a, "dtype") else f"{key} {a}"
            for key, a in flatten(*example).items()
        ]
        text = " and ".join(arguments + ["label None"] * (example[1] is None))
        raise ToolkitError(
            f"The hook '{name}' failed on example {position}: {type(error).__name__}: "
            f"{str(error).rstrip('.')}.",
            hint=f"It is called with {text.replace('labels ', 'label ')}.",
        ) from error


def place_of(hook: Any) -> str:
    """` (hook 'filter' of plugin NAME, file:line)` of a hook of a plugin; "" for a function."""
    return getattr(hook, "place", "")
