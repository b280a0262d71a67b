"""`SampleGrids`: pictures of what a model generates while it learns, and an animation of them.

Legend: n images in a grid, H height, W width, C channels.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

import numpy as np

from ...compat import tf
from ...display.grid import save_grid
from ...errors import DivergedError, InterruptedRun
from ...files import atomic_write
from .base import Every, SessionHook

GRID = re.compile(r"step-(\d{8,})\.png$")
SHOWN_SIDE = 56  # pixels: images in the animation are enlarged to about this height
MAX_FRAMES = 120
SECONDS, LAST_SECONDS = 0.2, 2.0  # for which each frame is shown, and the last one


class SampleGrids(SessionHook):
    """Writes grids of samples to `samples/` in the run's folder, for the hook `session_hooks`.

    There is a grid, step-*.png, of step 0, of each due step and of the last one; TensorBoard shows
    them, too. When training stops, progress.gif shows all.

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
        later = [path for made, path in self._grids().items() if made > step]  # will be repeated
        for path in later + [self._file("progress.gif")] * bool(later):
            if os.path.exists(path):
                os.remove(path)
        if self._reals is not None:
            save_grid(self._file("reals.png"), self._reals, self._columns)
        if step == 0:
            self._write(session, 0)

    def on_step(self, step, values, context):
        self._write(context.session, step)

    def on_stop(self, session, step, error):
        # A divergence is worth seeing. After another error, no second one may hide it.
        if error is None or isinstance(error, (InterruptedRun, DivergedError)):
            scale = max(1, round(SHOWN_SIDE / int(self._images.shape[1])))
            write_gif(list(self._grids().values()), self._file("progress.gif"), scale)

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _grids(self) -> Dict[int, str]:
        """The paths of the grids in the folder, by step."""
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        found = {int(m.group(1)): self._file(m.string) for m in map(GRID.match, names) if m}
        return dict(sorted(found.items()))

    def _write(self, session: Any, step: int) -> None:
        path = self._file(f"step-{step:08d}.png")
        save_grid(path, session.run(self._images), self._columns)
        with open(path, "rb") as file:
            image = tf.Summary.Image(encoded_image_string=file.read())
        value = tf.Summary.Value(tag=self.name, image=image)
        self.loop.summarize(step, tf.Summary(value=[value]))


def write_gif(paths: List[str], out: str, scale: int = 1) -> None:
    """Write pictures of one size as a GIF that repeats for ever, atomically; no file without any.
    Of many, `MAX_FRAMES` are shown. `scale` is the whole factor by which pixels are enlarged.
    """
    from PIL import Image

    if len(paths) > MAX_FRAMES:
        chosen = np.rint(np.linspace(0, len(paths) - 1, MAX_FRAMES)).astype(int)
        paths = [paths[position] for position in chosen]
    frames = []
    for path in paths:
        with Image.open(path) as image:
            frames.append(image.convert("L" if image.mode == "L" else "RGB"))
    if not frames:
        return
    if frames[0].mode != "L":  # one palette for all: separate ones make still pixels flicker
        palette = frames[-1].quantize(256)
        # Dithering would look like the noise that a generator makes.
        frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    size = (frames[0].width * scale, frames[0].height * scale)
    frames = [frame.resize(size, Image.Resampling.NEAREST) for frame in frames]
    durations = [int(1000 * SECONDS)] * (len(frames) - 1) + [int(1000 * LAST_SECONDS)]
    with atomic_write(out) as file:
        frames[0].save(
            file, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0
        )
