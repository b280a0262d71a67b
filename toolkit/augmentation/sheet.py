"""A sheet of what the options of augmentation do: examples, and changed versions of each.

Legend: N examples, H W height and width, C channels.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np

from ..compat import tf
from ..data.spec import DataSpec
from ..display.grid import save_grid
from ..graph.run import Run
from ..options import OFF, AugmentationOptions
from .apply import augment

MIN_TILE, MAX_TILE = 96, 256  # pixels of width: room for a caption, and a sheet that can be opened
_SETTINGS = ("fill",)  # options that are no strengths


# One version of each example: what was applied, the strengths, and the global step, on which the
# random numbers depend.
Version = Tuple[str, AugmentationOptions, int]


def active_strengths(options: AugmentationOptions) -> List[Tuple[str, Any]]:
    """The names and values of the strengths that are not 0."""
    values = [(name, getattr(options, name)) for name in OFF if name not in _SETTINGS]
    return [(name, value) for name, value in values if value]


def save_sheet(
    path: str,
    images: np.ndarray,
    captions: Sequence[str],
    options: AugmentationOptions,
    versions: int,
) -> None:
    """Write a PNG with a row for each example.

    A row has the example, then for each strength of the options a version with this change alone,
    then versions with all changes together, as training steps would see them.

    Args:
        path: the PNG file to write.
        images: uint8 [N, H, W, C], or float32 in [0, 1].
        captions: of the examples, [N].
        options: the strengths.
        versions: how many versions with all changes.
    """
    divisor = 255 if images.dtype == np.uint8 else 1
    images = images.astype(np.float32) / divisor
    columns = list(_columns(options, versions))
    sides = [images, *_change(images, columns)]
    tiles = np.stack([_fit_tiles(side) for side in sides], axis=1)  # [N, columns, H, W, C]
    labels = [text for caption in captions for text in [caption, *(text for text, *_ in columns)]]
    save_grid(path, tiles.reshape((-1, *tiles.shape[2:])), len(sides), labels, padding=4)


def _columns(options: AugmentationOptions, versions: int) -> Iterator[Version]:
    strengths = active_strengths(options)
    for name, value in strengths if len(strengths) > 1 else ():
        alone = dict(OFF, fill=options.fill, **{name: value})
        yield f"{name} {value:g}", options.model_copy(update=alone), 0
    for step in range(versions if strengths else 0):
        title = "all" if len(strengths) > 1 else "{} {:g}".format(*strengths[0])
        yield f"{title}, step {step}", options, step


def _change(images: np.ndarray, columns: Sequence[Version]) -> Iterator[np.ndarray]:
    """The images of each column, [N, H, W, C]."""
    spec = DataSpec(images.shape[1:], "float32")
    with tf.Graph().as_default():
        feed = tf.placeholder(tf.float32, images.shape)
        runs = [Run("train", options, spec) for _, options, _ in columns]
        changed = [augment(feed, run) for run in runs]
        with tf.Session() as session:
            for (_, _, step), run, result in zip(columns, runs, changed):
                session.run(run.global_step.assign(step))
                yield session.run(result, {feed: images})


def _fit_tiles(images: np.ndarray) -> np.ndarray:
    """Images at a size that a sheet can show, enlarged or thinned out by a whole factor."""
    width = images.shape[2]
    thin = -(-max(images.shape[1:3]) // MAX_TILE)
    images = images[:, ::thin, ::thin]
    factor = -(-MIN_TILE // width)
    return images.repeat(factor, axis=1).repeat(factor, axis=2)
