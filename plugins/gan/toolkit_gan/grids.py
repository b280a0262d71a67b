"""The session hook that writes grids of samples, always from the same noise.

Legend: n images in a grid, H height, W width, C channels.
"""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

import toolkit
from toolkit import tf

from .animation import write_gif

DISPLAY_SIZE = 56  # pixels: images in the animation are enlarged to about this height
GRID = re.compile(r"step-(\d{8,})\.png$")
FORMER_NOISE = re.compile(r"noise-to-step-(\d{8,})\.npz$")  # of the grids up to that step


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
        self._delete_after(step)
        self._save_noise(step)
        if step == 0 or not os.path.exists(self._file("reals.png")):
            toolkit.save_grid(self._file("reals.png"), self._reals, self._columns)
        if step == 0:
            self._write(session, 0)

    def on_step(self, step, values, context):
        self._write(context.session, step)

    def on_stop(self, session, step, error):
        # A divergence is worth seeing. After another error, no second one may hide it.
        if error is None or isinstance(error, (toolkit.InterruptedRun, toolkit.DivergedError)):
            first = last_change_of_noise(self._folder)
            paths = [path for path in grids(self._folder) if step_of(path) >= first]
            if paths:
                write_gif(paths, self._file("progress.gif"), scale=self._scale())

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, session: Any, step: int) -> None:
        path = self._file(f"step-{step:08d}.png")
        toolkit.save_grid(path, session.run(self._images), self._columns, self._labels)
        value = tf.Summary.Value(tag=self.name, image=image_summary(path))
        self.loop.summarize(step, tf.Summary(value=[value]))

    def _save_noise(self, step: int) -> None:
        """Write noise.npz. Keep an existing file of other noise under another name.

        A run draws other noise after a resume that was allowed to change its seed or its grids.
        """
        path = self._file("noise.npz")
        if os.path.exists(path):
            if has_arrays(path, self._noise):
                return
            former = self._file(f"noise-to-step-{step:08d}.npz")
            if not os.path.exists(former):  # otherwise no grid of this noise is left
                os.replace(path, former)
            self._remove(["reals.png"])
            self.loop.log(
                f"note: the grids after step {step} show other samples than those before; the "
                f"earlier noise is in {former}"
            )
        with toolkit.atomic_write(path) as file:
            arrays: Dict[str, Any] = self._noise
            np.savez(file, **arrays)

    def _delete_after(self, step: int) -> None:
        """Delete the grids of later steps, and the animation of them: they will be repeated."""
        later = [os.path.basename(p) for p in grids(self._folder) if step_of(p) > step]
        if later:
            self._remove([*later, "progress.gif"])

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._file(name))

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


def last_change_of_noise(folder: str) -> int:
    """The step of the last resume with other noise, whose grids are later; 0 without one."""
    matches = [FORMER_NOISE.match(name) for name in os.listdir(folder)]
    return max([int(match.group(1)) + 1 for match in matches if match], default=0)


def has_arrays(path: str, arrays: Dict[str, np.ndarray]) -> bool:
    """Whether a file is an .npz of exactly these arrays."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return set(file.files) == set(arrays) and all(
                np.array_equal(file[name], arrays[name]) for name in arrays
            )
    except (AttributeError, EOFError, ValueError, zipfile.BadZipFile):  # no whole archive
        return False


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
