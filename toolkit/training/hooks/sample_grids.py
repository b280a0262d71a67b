"""`SampleGrids`: pictures of what a model generates while it learns.

Legend: n images in a grid, H height, W width, C channels.
"""

from __future__ import annotations

import os
import re
from typing import Any, Optional

import numpy as np

from ...compat import tf
from ...display.grid import save_grid
from .base import Every, SessionHook

GRID = re.compile(r"step-(\d{8,})\.png$")


class SampleGrids(SessionHook):
    """Writes grids of samples to `samples/` in the run's folder, for the hook `session_hooks`.

    There is a grid, step-*.png, of step 0, of each due step and of the last one; the page of the
    run and TensorBoard show them, too.

    Args:
        folder: of the run.
        steps: due at each multiple of it.
        images: tensor float32 [n, H, W, C] in [0, 1], generated from numbers that are always the
            same. It is run on its own after the step, so it does not affect training.
        columns: of the grids; None for about a square.
        reals: images [n, H, W, C] for reals.png, to compare with; uint8, or floats in [0, 1].
    """

    name = "samples"

    def __init__(
        self,
        folder: str,
        steps: int,
        images: tf.Tensor,
        columns: Optional[int] = None,
        reals: Optional[np.ndarray] = None,
    ):
        self.every = Every(steps)
        self._folder = os.path.join(folder, "samples")
        self._images, self._columns, self._reals = images, columns, reals

    def on_restore(self, session, step):
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        for match in filter(None, map(GRID.match, names)):
            if int(match.group(1)) > step:  # it will be repeated
                os.remove(self._file(match.string))
        if self._reals is not None:
            save_grid(self._file("reals.png"), self._reals, self._columns)
        if step == 0:
            self._write(session, 0)

    def on_step(self, step, values, context):
        self._write(context.session, step)

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, session: Any, step: int) -> None:
        path = self._file(f"step-{step:08d}.png")
        save_grid(path, session.run(self._images), self._columns)
        with open(path, "rb") as file:
            image = tf.Summary.Image(encoded_image_string=file.read())
        value = tf.Summary.Value(tag=self.name, image=image)
        self.loop.summarize(step, tf.Summary(value=[value]))
