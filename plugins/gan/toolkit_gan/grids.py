"""The session hook that shows training: grids of samples from noise that never changes.

Legend: n images of a grid, H height, W width, C channels.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

import toolkit
from toolkit import tf

from .animation import write_gif

SEEN_AT = 56  # pixels that an image of the animation is enlarged to, by a whole factor
GRID = re.compile(r"step-(\d{8,})\.png$")


class SampleGrids(toolkit.Hook):
    """Writes step-*.png on due steps and on the last, progress.gif when training has stopped.

    folder: where the files go. images: tensor float32 [n, H, W, C] in [0, 1], made from `noise`; it
    is run on its own after the step, so that training takes no notice. noise: the arrays behind it,
    kept in noise.npz. reals: uint8 or float32 in [0, 1], [n, H, W, C], for reals.png. columns: of
    both grids. labels: n short texts to write below the samples.
    """

    name = "samples"

    def __init__(
        self,
        folder: str,
        every: toolkit.Every,
        images: tf.Tensor,
        noise: Dict[str, np.ndarray],
        reals: np.ndarray,
        columns: int,
        labels: Optional[Sequence[object]] = None,
    ):
        self.every = every
        self._folder = folder
        self._images = images
        self._noise = noise
        self._reals = reals
        self._columns = columns
        self._labels = labels

    def on_restore(self, session, step):
        self._keep_noise()
        self._forget_after(step)
        if step == 0 or not os.path.exists(self._file("reals.png")):
            toolkit.save_grid(self._file("reals.png"), self._reals, self._columns)
        if step == 0:
            self._write(session, 0)

    def on_step(self, step, values, context):
        self._write(context.session, step)

    def on_stop(self, session, step, error):
        # A divergence is worth watching; after a fault nothing may hide what went wrong.
        if error is None or isinstance(error, (toolkit.InterruptedRun, toolkit.DivergedError)):
            paths = grids(self._folder)
            if paths:
                write_gif(paths, self._file("progress.gif"), scale=self._scale())

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, session: Any, step: int) -> None:
        path = self._file(f"step-{step:08d}.png")
        toolkit.save_grid(path, session.run(self._images), self._columns, self._labels)
        value = tf.Summary.Value(tag=self.name, image=as_summary(path))
        self.loop.summarize(step, tf.Summary(value=[value]))

    def _keep_noise(self) -> None:
        """Write noise.npz, or see that the one there is the noise of these grids."""
        path = self._file("noise.npz")
        if not os.path.exists(path):
            with toolkit.atomic_write(path) as file:
                np.savez(file, **self._noise)
        elif not same_arrays(path, self._noise):
            raise toolkit.UsageError(
                f"{path} holds other noise than this run draws.",
                hint="Go on with the seed and the options that the run began with.",
            )

    def _forget_after(self, step: int) -> None:
        """Delete what tells of steps that are to be made again."""
        later = [path for path in grids(self._folder) if step_of(path) > step]
        if later:
            later += [self._file("progress.gif")] * os.path.exists(self._file("progress.gif"))
        for path in later:
            os.remove(path)

    def _scale(self) -> int:
        return max(1, int(round(SEEN_AT / int(self._images.shape[1]))))


def grids(folder: str) -> List[str]:
    """The step-*.png files in a folder, by step; none where somebody deleted it."""
    if not os.path.isdir(folder):
        return []
    found = [name for name in os.listdir(folder) if GRID.match(name)]
    return [os.path.join(folder, name) for name in sorted(found, key=step_of)]


def step_of(path: str) -> int:
    return int(GRID.search(path).group(1))


def same_arrays(path: str, arrays: Dict[str, np.ndarray]) -> bool:
    """Whether an .npz file holds exactly these arrays."""
    with np.load(path) as kept:
        return set(kept.files) == set(arrays) and all(
            np.array_equal(kept[name], arrays[name]) for name in arrays
        )


def as_summary(path: str) -> tf.Summary.Image:
    """A PNG file as TensorBoard takes it: the very bytes."""
    from PIL import Image

    with Image.open(path) as picture:
        width, height, channels = picture.width, picture.height, len(picture.getbands())
    with open(path, "rb") as file:
        content = file.read()
    return tf.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=content
    )
