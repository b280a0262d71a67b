"""The data that a plugin's hook `data` returns, and the options that have no effect on it."""

from __future__ import annotations

import copy
import hashlib
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set

import numpy as np

from .data.column import Column, Sequences
from .data.decoded import hash_texts
from .data.examples import (
    Dataset,
    Split,
    check_alike,
    describe,
    iterate_slices,
    with_classes,
    without_lengths,
)
from .data.reading_options import ColumnOptions, ImageOptions
from .data.spec import DataSpec
from .data.structure import LABELS, pack
from .errors import DataError, ToolkitError, UsageError
from .graph.run import Run
from .options import NOT_SET, CoreOptions, Origin, flag_name
from .plugins import Plugins

FROM_PLUGIN = "plugin "  # begins the name of data that the hook `data` returned
SPLITS = ("train", "validation", "test")
SOURCE_OPTIONS = (  # those that choose and shape the data of a source
    "data",
    *ImageOptions._fields,
    *ColumnOptions._fields,
    *("validation_share", "test_share", "folds", "fold", "split_seed"),
)


def open_from_plugin(
    plugins: Plugins, options: CoreOptions, origins: Optional[Mapping[str, Origin]] = None
) -> Optional[Dataset]:
    """The data set that the hook `data` returns; None if there is no hook or it returns None.

    Raises UsageError if a person set an option (see `origins`) that shapes data and that the hook
    does not read, and ToolkitError, with the plugin's name, if the hook failed or returned
    something else.
    """
    if not plugins.has_hook("data"):
        return None
    watched = _WatchedOptions(options)
    run = Run("train", watched)
    answers = {name: _call_hook(plugins, name, run) for name in SPLITS}
    splits = {name: split for name, split in answers.items() if split is not None}
    if not splits:
        return None
    plugin = plugins.model.name
    place = _describe_hook(plugins)
    for name in SOURCE_OPTIONS:
        origin = (origins or {}).get(name, NOT_SET)
        if name not in watched.names and origin.is_choice:
            raise UsageError(
                f"{flag_name(name)} ({origin}) has no effect: plugin '{plugin}' has data of "
                "its own.",
                hint="Leave it out.",
            )
    if "train" not in splits:
        raise DataError(
            f"{place} returned a split for {', '.join(splits)} but none for 'train'.",
            hint="Return a toolkit.Split for 'train', or None for all.",
        )
    if not len(splits["train"]):
        raise DataError(
            f"The split 'train' of the data '{FROM_PLUGIN}{plugin}' is empty.",
            hint="Give at least one example to train on.",
        )
    keys = {k for split in splits.values() for k, c in split.components.items() if c.is_sequence}
    splits = {name: _as_sequences(split, sorted(keys)) for name, split in splits.items()}
    if not plugins.has_hook("convert"):
        check_alike(splits, place)
    spec = _describe_all(splits)
    for name, split in splits.items():
        _check_classes(f"{place}, split '{name}'", split, spec)
    # Before rows are decoded: then they come from the cache.
    reads_files = any(map(_identities, splits.values()))
    hashes = {n: _hash_split(splits[n]) for n in sorted(splits)} if reads_files else None
    dataset = Dataset(FROM_PLUGIN + plugin, spec, splits, sha256=hashes)
    dataset.option_names = watched.names
    return dataset


class _WatchedOptions:
    """The options of a run, and the `names` of those that were read: all of them if a method was
    called.
    """

    def __init__(self, options: CoreOptions):
        self.names: Set[str] = set()
        self._options = options

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while a copy of this object has no attributes yet
            raise AttributeError(name)
        value = getattr(self._options, name)
        fields = type(self._options).model_fields
        self.names.update([name] if name in fields else fields)
        return value

    def __iter__(self) -> Iterator[Any]:
        self.names.update(type(self._options).model_fields)
        return iter(self._options)


def _call_hook(plugins: Plugins, name: str, run: Run) -> Optional[Split]:
    """The split that the hook returns, or None."""
    place = _describe_hook(plugins)
    try:
        split = plugins.call_hook("data", split=name, run=run)
    except DataError as error:
        message = f"{place} failed for '{name}': {error.message}"
        raise DataError(message, hint=error.hint) from error
    if split is None or isinstance(split, Split):
        return split
    raise ToolkitError(
        f"{place} returned an object of type {type(split).__name__} for '{name}', expected a "
        "toolkit.Split.",
        hint="Return toolkit.Split(features, labels) of arrays or lists, "
        "toolkit.read_dataset(make_dataset, count), or None.",
    )


def _describe_hook(plugins: Plugins) -> str:
    """The hook, with the plugins that answer it, to begin a message."""
    functions = [each for each in plugins.hook_functions("data") if not each.is_wrapper]
    names = dict.fromkeys(each.plugin.name for each in functions)
    return f"Hook 'data' of plugin {' or '.join(map(repr, names))}"


# ------------------------------------------------------------------------------------------- splits


def _identities(split: Split) -> Dict[str, str]:
    """Flat key -> identity of the components that are known without being decoded."""
    found = {k: getattr(c.values, "identity", "") for k, c in sorted(split.columns.items())}
    return {key: identity for key, identity in found.items() if identity}


def _hash_split(split: Split) -> str:
    """A hash of the files that a split reads, of its index, and of what is in memory."""
    index = b"" if split.index is None else np.ascontiguousarray(split.index, "<i8").tobytes()
    known, rest = _identities(split), copy.copy(split)
    rest.columns = {key: column for key, column in split.columns.items() if key not in known}
    texts = [text for pair in known.items() for text in pair]
    content = rest.sha256() if rest.columns else ""
    return hash_texts([hashlib.sha256(index).hexdigest(), *texts, content])


def _as_sequences(split: Split, keys: List[str]) -> Split:
    """The split with components as sequences.

    A split whose examples happen to have one length looks like an array; if a component has several
    lengths in another split, it is made a sequence in all.
    """
    columns = dict(split.columns)
    missing = [key for key in keys if key in columns and not columns[key].component.is_sequence]
    if not missing or any(not columns[key].component.shape for key in missing):
        return split
    for key in missing:
        values = np.asarray(columns[key].values)
        columns[key] = columns[key].with_values(Sequences.join(list(values)))
    aligned = Split(*pack(without_lengths(columns)), index=split.index)
    aligned.make_dataset = split.make_dataset
    return aligned


def _check_classes(place: str, split: Split, spec: DataSpec) -> None:
    """Refuse a label that is none of the declared classes, before the first step."""
    columns, rows = split.columns, split.index
    if split.class_labels is not None:  # whose number another split may declare
        rows, columns = None, {LABELS: Column(split.class_labels, "class", spec.num_classes)}
        columns[LABELS] = columns[LABELS].bind(LABELS)
    for key, column in columns.items():
        is_class = column.component.kind == "class" and column.component.num_classes
        if not (key.startswith(LABELS) and is_class and column.is_decoded):
            continue
        try:
            for part in iterate_slices(split):
                column.take(part if rows is None else rows[part], 0)
        except DataError as error:
            raise DataError(f"{place}: {error.message}", hint=error.hint) from error


def _declared_classes(split: Split, key: str) -> int:
    """The number of classes that a component declares; 0 if it declares none."""
    column = split.columns.get(key)
    return column.num_classes if column is not None else 0


def _describe_all(splits: Dict[str, Split]) -> DataSpec:
    """The spec of the examples.

    What a split declares of its classes holds for all. Without a declaration, all splits are
    counted: a class may be missing among those of "train".
    """
    specs = {name: describe(split) for name, split in splits.items() if len(split)}
    spec = specs["train"]
    declared = [specs[name] for name in specs if _declared_classes(splits[name], LABELS)]
    names = max((each.class_names for each in declared[:1] or specs.values()), key=len)
    if names:
        spec = with_classes(spec, names)
    components = []
    for key, component in spec.components:
        counts = [_declared_classes(split, key) for split in splits.values()]
        others = [dict(other.components) for other in specs.values()]
        known = [each[key].num_classes for each in others if key in each]
        count = next(filter(None, counts), max(known))
        components.append((key, component._replace(num_classes=count)))
    return spec._replace(components=tuple(components))
