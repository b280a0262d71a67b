"""The examples of one run: opened from `--data` or the plugin's `data` hook, passed through the
hooks `filter` and `convert`.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

import numpy as np

from .data import normalization
from .data.column import Component
from .data.examples import Dataset, Split, describe, iterate_slices
from .data.held_out import NOTHING
from .data.images.image_file import format_size
from .data.prepare import ExampleConverter, ExampleHooks, model_spec, prepare
from .data.readers.batches import RESIDENT_LIMIT
from .data.readers.mapped import decode_splits
from .data.reading_options import ColumnOptions, ImageOptions, reading_settings
from .data.same_data import match_classes
from .data.sources import open_data, uses_option
from .data.spec import DataSpec
from .data.structure import FEATURES
from .errors import DataError, UsageError
from .options import CoreOptions, Origin
from .plugin_data import open_from_plugin
from .plugins import Plugins


class RunData:
    """The data set of a run as stored (`dataset`), the `hooks` that its examples pass through, and
    the `spec` of one example as the model sees it. The range of values of the spec with which the
    run began holds, if it has one.
    """

    def __init__(self, dataset: Dataset, plugins: Plugins, recorded: Optional[DataSpec] = None):
        self.dataset = dataset
        self.hooks = ExampleHooks(
            filter=example_hook(plugins, "filter"),
            convert=example_hook(plugins, "convert"),
        )
        spec = model_spec(dataset.spec, dataset.splits["train"], self.hooks)
        if dataset.spec.num_classes:  # of others, the hook `convert` makes the classes
            self.hooks = self.hooks._replace(num_classes=spec.num_classes)
        self._cache: Dict[str, Split] = {}
        stored = dataset.spec.flat
        if spec is not dataset.spec and any(
            component.kind == "class" and not (key in stored and stored[key].num_classes)
            for key, component in spec.flat.items()
        ):  # the hook `convert` returns classes whose number is not that of the stored data
            train_split = self._prepare_train()
            if train_split is None:
                raise DataError(
                    "The number of classes that the hook 'convert' returns is not known, and the "
                    "data is too large to count them.",
                    hint="Declare it for the stored labels: "
                    "toolkit.Column(values, num_classes=...).",
                )
            spec = describe(train_split)
            self.hooks = self.hooks._replace(num_classes=spec.num_classes)
        self.spec: DataSpec = spec._replace(
            class_counts=self._count_classes(spec), value_range=self._value_range(spec, recorded)
        )

    @property
    def splits(self) -> Dict[str, Split]:
        """The splits as stored, before `filter` and `convert`."""
        return self.dataset.splits

    def prepare_split(self, name: str) -> Optional[Split]:
        """The split after `filter` and `convert`, in memory; None if there is no such split.

        The result is cached.
        """
        split = self.splits.get(name)
        if split is None or len(split) == 0:
            return None
        if name not in self._cache:
            self._cache[name] = prepare(split, self.hooks)
        return self._cache[name]

    def _prepare_train(self) -> Optional[Split]:
        """The training split after the hooks; None if to convert it takes as long as an epoch."""
        is_large = self.splits["train"].nbytes > RESIDENT_LIMIT
        return None if is_large and self.hooks.convert else self.prepare_split("train")

    def normalize(self, recorded: Optional[DataSpec] = None) -> None:
        """Give the spec the mean and deviation of the training split after `filter` and `convert`;
        those with which the run began hold if it has some.
        """
        if recorded is not None and recorded.mean:
            mean, deviation = recorded.mean, recorded.deviation
        else:
            chunks, features = self._iterate_features(), self.spec.features
            if not isinstance(features, dict) and features.kind == "value":  # bytes as they are
                chunks = (np.asarray(chunk, features.dtype).astype(np.float32) for chunk in chunks)
            mean, deviation = normalization.measure_moments(chunks)
        self.spec = self.spec._replace(mean=mean, deviation=deviation)

    def _iterate_features(self) -> Iterator[np.ndarray]:
        """The features of the training split after `filter` and `convert`, in chunks."""
        stored = self.splits["train"]
        count = max(1, normalization.CHUNK_BYTES // max(1, stored.nbytes // len(stored)))
        if self.hooks.convert is None:
            train = prepare(stored, self.hooks)
            for start in range(0, len(train), count):
                yield train.take(slice(start, min(start + count, len(train))))[0]
            return
        converter = ExampleConverter(self.hooks, stored)
        examples = converter.convert_all(self.hooks.filter)
        for chunk in iter(lambda: list(itertools.islice(examples, count)), []):
            yield converter.join(chunk).features

    def _value_range(self, spec: DataSpec, recorded: Optional[DataSpec]) -> Tuple[float, ...]:
        """The lowest and the highest value of the float images of the training split, with names or
        without; empty without some. Both are NaN if a value is.
        """
        keys = [key for key, each in spec.flat.items() if _is_image(each, "float32")]
        keys = [key for key in keys if key.partition("/")[0] == FEATURES]
        if recorded is not None:
            return recorded.value_range
        train = self._prepare_train() if keys else None
        if train is None:
            return ()
        lowest, highest = np.inf, -np.inf
        for part in iterate_slices(train):
            for images in train.read(part, keys).values():
                lowest = np.minimum(lowest, images.min())  # unlike `min`, it returns NaN if one is
                highest = np.maximum(highest, images.max())
        return float(lowest), float(highest)

    def _count_classes(self, spec: DataSpec) -> Tuple[int, ...]:
        """Training examples of each class after `filter` and `convert`; empty without classes."""
        if not spec.num_classes or self.splits["train"].class_labels is None:
            return ()
        train = self._prepare_train()
        labels = None if train is None else train.class_labels
        if labels is None:
            return ()
        return tuple(int(n) for n in np.bincount(labels, minlength=spec.num_classes))


def open_run_data(
    plugins: Plugins,
    options: CoreOptions,
    recorded: Optional[DataSpec] = None,
    is_training: bool = False,
    origins: Optional[Mapping[str, Origin]] = None,
) -> RunData:
    """Open the data of the plugin's `data` hook, or else what the options name.

    The mean, deviation and range of the spec that the run recorded when it began are used, not
    measured again: it may continue with other data. For training, examples are read many times, so
    that what is encoded is decoded once. `origins` says where the values of options were set, to
    refuse those that a person set and that have no effect on a plugin's own data.
    """
    own = open_from_plugin(plugins, options, origins)
    dataset = own or open_from_options(_without_idle_defaults(plugins, options))
    dataset.splits = decode_splits(
        dataset.splits,
        options.reader,
        options.resident_limit << 20,
        is_repeated=is_training,
    )
    run_data = RunData(dataset, plugins, recorded)
    if options.normalize:
        run_data.normalize(recorded)
    return run_data


def _without_idle_defaults(plugins: Plugins, options: CoreOptions) -> CoreOptions:
    """The options without what a plugin, and no person, sets for columns that a source has not."""
    declared = {name for _, cls in plugins.options() for name in cls.core_defaults}
    names = [n for n in declared & {*ColumnOptions._fields} if not uses_option(options.data, n)]
    return options.model_copy(update={n: CoreOptions.model_fields[n].default for n in names})


def open_other_data(
    plugins: Plugins, options: CoreOptions, value: str, stored: DataSpec
) -> RunData:
    """Open data by a `--data` value on which a model was not trained, to evaluate it there.

    Nothing is held out: a source without splits is the split "train" as a whole. Images get the
    size and channels of the model's, and classes its numbers. Columns and keys are those of the
    run, if its data is of the same kind. Raises DataError if the data cannot be read, or has a
    class that the model does not know.
    """
    images, columns = ImageOptions(), ColumnOptions()
    if uses_option(value, "image_size"):
        skips = options.skip_damaged and uses_option(value, "skip_damaged")
        images = images_like(stored, options)._replace(skip_damaged=skips)
    labels = stored.labels
    has_values = isinstance(labels, Component) and labels.kind == "value"
    if has_values and uses_option(value, "label_kind"):
        columns = ColumnOptions(label_kind="value")
    if value.partition(":")[0] == options.data.partition(":")[0]:
        columns = reading_settings(options)["columns"]
    dataset = open_data(
        value,
        images=images,
        columns=columns,
        shares=NOTHING,
        model=stored,
    )
    return RunData(match_classes(dataset, stored), plugins)


def images_like(stored: DataSpec, options: CoreOptions) -> ImageOptions:
    """How to read other images for a model with these options of its run, of whose data `stored` is
    the spec as stored.
    """
    try:
        has_pictures = uses_option(options.data, "image_size")
    except UsageError:  # the data are of the hook `data`
        has_pictures = False
    if is_images(stored):
        height, width, channels = stored.shape
        size = format_size(width, height)
        images = ImageOptions(size, channels, options.fit, options.background)
        return images._replace(extends_border=not has_pictures)
    images = reading_settings(options)["images"] if has_pictures else ImageOptions()
    features = stored.features if isinstance(stored.features, dict) else {}
    shapes = [(name, each.shape) for name, each in features.items() if _is_image(each)]
    return images._replace(shapes=tuple(shapes))


def is_images(spec: DataSpec) -> bool:
    """Whether examples are images of bytes, [H, W, C]."""
    features = spec.features
    return not isinstance(features, dict) and _is_image(features)


def _is_image(component: Component, dtype: str = "uint8") -> bool:
    is_rank_3 = len(component.shape) == 3 and None not in component.shape
    return is_rank_3 and component.dtype == dtype


def open_from_options(options: CoreOptions) -> Dataset:
    """Open the data that the options name, without a plugin."""
    return open_data(options.data, **reading_settings(options))


def example_hook(plugins: Plugins, name: str) -> Optional[Callable]:
    """The hook "filter" or "convert" as a function of one example, or None if no plugin has it.

    Its attribute `place` names plugin and line, to end a message.
    """
    if not plugins.has_hook(name):
        return None

    def hook(features: Any, labels: Any) -> Any:
        return plugins.call_hook(name, features=features, labels=labels)

    hook.place = plugins.describe_place(name)  # type: ignore[attr-defined]
    return hook


def measure_brightness(split: Split) -> Optional[Dict[str, float]]:
    """The mean brightness in [0, 1] of a split of uint8 images, of at most 1000, spread evenly
    over it: of the outermost pixels, which are the paper ("border"), and of all pixels ("mean"),
    and the highest ("max"); None for other data.
    """
    features = split.components.get(FEATURES)
    if features is None or len(features.shape) != 3 or features.dtype != "uint8":
        return None
    positions = np.unique(np.linspace(0, len(split) - 1, min(1000, len(split))).astype(int))
    images = split.take(positions)[0].astype(np.float64) / 255
    border = float(border_means(images).mean())
    facts = {"border": border, "mean": float(images.mean()), "max": float(images.max())}
    return {name: round(value, 4) for name, value in facts.items()}


def border_means(images: np.ndarray) -> np.ndarray:
    """The mean over the outermost pixels of each image; images [N, H, W, C] -> float64 [N]."""
    edges = [images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]]
    return np.mean([edge.mean(axis=(1, 2)) for edge in edges], axis=0)
