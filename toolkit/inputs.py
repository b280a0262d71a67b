"""From options and plugins to splits of examples: `--data` or the plugin's `data` hook, `filter`,
`convert`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

import numpy as np

from .data.examples import Dataset, DataSpec, Split, describe
from .data.prepare import converted_spec, prepare
from .data.sources import open_data
from .errors import DataError, ToolkitError
from .graph.run import Run
from .plugins import Plugins


class Inputs:
    """The examples of a run. spec: what the model sees, after `convert`."""

    def __init__(self, dataset: Dataset, plugins: Plugins):
        self.dataset = dataset
        self.filter = example_hook(plugins, "filter")
        self.convert = example_hook(plugins, "convert")
        spec = converted_spec(dataset.spec, dataset.splits["train"], self.filter, self.convert)
        self.spec: DataSpec = spec._replace(class_counts=_counts(dataset.splits["train"], spec))
        self._prepared: Dict[str, Split] = {}

    @property
    def splits(self) -> Dict[str, Split]:
        """The splits as they are stored."""
        return self.dataset.splits

    def prepared(self, name: str) -> Optional[Split]:
        """A split after `filter` and `convert`, for evaluation; None where there is none."""
        split = self.splits.get(name)
        if split is None or len(split) == 0:
            return None
        if name not in self._prepared:
            self._prepared[name] = prepare(split, self.filter, self.convert)
        return self._prepared[name]


def open_inputs(plugins: Plugins, options: Any, progress: Optional[Callable] = None) -> Inputs:
    """The examples that the options name, or that the plugin's `data` hook gives."""
    return Inputs(_from_plugin(plugins, options) or _from_option(options, progress), plugins)


def _from_option(options, progress) -> Dataset:
    return open_data(
        options.data,
        image_size=options.image_size,
        channels=options.channels,
        validation_share=options.validation_share,
        progress=progress,
    )


def _from_plugin(plugins: Plugins, options) -> Optional[Dataset]:
    if not plugins.has("data"):
        return None
    run = Run("train", options)
    splits = {}
    for name in ("train", "validation", "test"):
        split = plugins.ask("data", split=name, run=run)
        if split is None:
            continue
        if not isinstance(split, Split):
            raise ToolkitError(
                f"Hook 'data' of plugin '{plugins.model.name}' returned {split!r} for '{name}'.",
                hint="Return a toolkit.Split, or None.",
            )
        splits[name] = split
    if not splits:
        return None
    if "train" not in splits:
        raise DataError(f"The 'data' hook of plugin '{plugins.model.name}' gives no 'train'.")
    return Dataset(f"plugin {plugins.model.name}", describe(splits["train"]), splits)


def _counts(split: Split, spec: DataSpec):
    if not spec.num_classes or split.labels is None:
        return ()
    return tuple(int(n) for n in np.bincount(split.labels, minlength=spec.num_classes))


def example_hook(plugins: Plugins, hook: str) -> Optional[Callable]:
    """`filter` or `convert` as a function of one example, or None where no plugin has it."""
    if not plugins.has(hook):
        return None

    def asked(features, labels):
        return plugins.ask(hook, features=features, labels=labels)

    return asked


class Ink(NamedTuple):
    """Mean brightness in [0, 1] of the images' borders and of the whole: tells ink from paper."""

    border: float
    mean: float


def ink(split: Split, most: int = 1000) -> Optional[Ink]:
    """Measured on up to `most` images, evenly spread; None for what is not an image of uint8."""
    if len(split.shape) != 3 or split.dtype != "uint8":
        return None
    positions = np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(int))
    images = split.take(positions)[0].astype(np.float64) / 255
    return Ink(round(border_mean(images), 4), round(float(images.mean()), 4))


def border_mean(images: np.ndarray) -> float:
    """The mean over the outermost pixels of images [N, H, W, C]."""
    edges = [images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]]
    return float(np.mean([edge.mean() for edge in edges]))
