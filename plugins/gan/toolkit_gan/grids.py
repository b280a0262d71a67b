"""The session hook that writes grids of samples, always from the same noise.

Legend: n images in a grid, H height, W width, C channels.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

import toolkit
from toolkit import tf

from .animation import write_gif

DISPLAY_SIZE = 56  # pixels: images in the animation are enlarged to about this height
GRID = re.compile(r"step-(\d{8,})\.png$")


class SampleGrids(toolkit.SessionHook):
    """Writes step-*.png on due steps and on the last one, and progress.gif when training stops.

    Args:
        folder: for the files.
        every: when it is due.
        images: tensor float32 [n, H, W, C] in [0, 1], generated from `noise`. It is run on its own
            after the step, so it does not affect training.
        noise: the arrays from which `images` are generated, for noise.npz.
        reals: uint8 [n, H, W, C], or float32 in [0, 1], for reals.png.
        columns: of both grids.
        labels: n short texts to write below the samples.
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
        self._save_noise()
        self._delete_after(step)
        if step == 0 or not os.path.exists(self._file("reals.png")):
            toolkit.save_grid(self._file("reals.png"), self._reals, self._columns)
        if step == 0:
            self._write(session, 0)

    def on_step(self, step, values, context):
        self._write(context.session, step)

    def on_stop(self, session, step, error):
        # A divergence is worth seeing. After another error, no second one may hide it.
        if error is None or isinstance(error, (toolkit.InterruptedRun, toolkit.DivergedError)):
            paths = grids(self._folder)
            if paths:
                write_gif(paths, self._file("progress.gif"), scale=self._scale())

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, session: Any, step: int) -> None:
        path = self._file(f"step-{step:08d}.png")
        toolkit.save_grid(path, session.run(self._images), self._columns, self._labels)
        value = tf.Summary.Value(tag=self.name, image=image_summary(path))
        self.loop.summarize(step, tf.Summary(value=[value]))

    def _save_noise(self) -> None:
        """Write noise.npz, or check that an existing one has the noise of these grids."""
        path = self._file("noise.npz")
        if not os.path.exists(path):
            with toolkit.atomic_write(path) as file:
                arrays: Dict[str, Any] = self._noise
                np.savez(file, **arrays)
        elif not has_arrays(path, self._noise):
            raise toolkit.UsageError(
                f"{path} has other noise than this run draws.",
                hint="Continue with the seed and the options that the run started with.",
            )

    def _delete_after(self, step: int) -> None:
        """Delete the grids of later steps, and the animation of them: they will be repeated."""
        later = [path for path in grids(self._folder) if step_of(path) > step]
        if later:
            later += [self._file("progress.gif")] * os.path.exists(self._file("progress.gif"))
        for path in later:
            os.remove(path)

    def _scale(self) -> int:
        return max(1, int(round(DISPLAY_SIZE / int(self._images.shape[1]))))


def grids(folder: str) -> List[str]:
    """The paths of the step-*.png files in a folder, by step; none if there is no folder."""
    if not os.path.isdir(folder):
        return []
    names = [name for name in os.listdir(folder) if GRID.match(name)]
    return [os.path.join(folder, name) for name in sorted(names, key=step_of)]


def step_of(path: str) -> int:
    """The step in the name of a grid's file."""
    match = GRID.search(path)
    if match is None:
        raise ValueError(f"{path} is not named step-*.png")
    return int(match.group(1))


def has_arrays(path: str, arrays: Dict[str, np.ndarray]) -> bool:
    """Whether an .npz file holds exactly these arrays."""
    with np.load(path) as file:
        return set(file.files) == set(arrays) and all(
            np.array_equal(file[name], arrays[name]) for name in arrays
        )


def image_summary(path: str) -> tf.Summary.Image:
    """A PNG file for TensorBoard, with the same bytes."""
    from PIL import Image

    with Image.open(path) as image:
        width, height, channels = image.width, image.height, len(image.getbands())
    with open(path, "rb") as file:
        content = file.read()
    return tf.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=content
    )
