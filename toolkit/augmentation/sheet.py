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
    then so many versions with all changes together, as training steps would see them. Images are
    uint8 [N, H, W, C], or float32 in [0, 1].
    """
    images = images.astype(np.float32) / (255 if images.dtype == np.uint8 else 1)
    strengths = active_strengths(options)
    # Of each column its caption, its options, and the global step of the random numbers.
    columns: List[Tuple[str, AugmentationOptions, int]] = []
    for name, value in strengths if len(strengths) > 1 else ():
        alone = dict(OFF, fill=options.fill, **{name: value})
        columns.append((f"{name} {value:g}", options.model_copy(update=alone), 0))
    for step in range(versions if strengths else 0):
        title = "all" if len(strengths) > 1 else "{} {:g}".format(*strengths[0])
        columns.append((f"{title}, step {step}", options, step))
    sides = [images, *_change(images, [column[1:] for column in columns])]
    # A size that a sheet can show: thinned out or enlarged by a whole factor.
    thin = -(-max(images.shape[1:3]) // MAX_TILE)
    factor = -(-MIN_TILE // images.shape[2])
    tiles = np.stack(sides, axis=1)[:, :, ::thin, ::thin]  # [N, columns, H, W, C]
    tiles = tiles.repeat(factor, axis=2).repeat(factor, axis=3)
    labels = [text for caption in captions for text in [caption, *(text for text, *_ in columns)]]
    save_grid(path, tiles.reshape((-1, *tiles.shape[2:])), len(sides), labels, padding=4)


def _change(
    images: np.ndarray, columns: Sequence[Tuple[AugmentationOptions, int]]
) -> Iterator[np.ndarray]:
    """The images of each column, [N, H, W, C], by its options and global step."""
    spec = DataSpec(images.shape[1:], "float32")
    with tf.Graph().as_default():
        feed = tf.placeholder(tf.float32, images.shape)
        runs = [Run("train", options, spec) for options, _ in columns]
        changed = [augment(feed, run) for run in runs]
        with tf.Session() as session:
            for (_, step), run, result in zip(columns, runs, changed):
                session.run(run.global_step.assign(step))
                yield session.run(result, {feed: images})
