"""An animated GIF of images on disk. Imports no TensorFlow."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from toolkit import atomic_write

MAX_FRAMES = 120
PALETTE_FRAMES = 8  # the frames whose colours make the palette


def write_gif(
    paths: Sequence[str],
    out: str,
    seconds: float = 0.2,
    hold: float = 2.0,
    scale: int = 1,
    max_frames: int = MAX_FRAMES,
) -> int:
    """Write images as a GIF that repeats for ever; return the number of its frames.

    The file is written atomically.

    Args:
        paths: of the images, in order; all have one size.
        out: path of the GIF.
        seconds: duration of each frame but the last.
        hold: duration of the last frame, in seconds.
        scale: whole factor by which pixels are enlarged.
        max_frames: of more images, so many are used, evenly spaced from the first to the last.
    """
    frames = _share_palette([_read(path) for path in select_evenly(paths, max_frames)])
    frames = [_enlarge(frame, scale) for frame in frames]
    with atomic_write(out) as file:
        frames[0].save(
            file,
            "GIF",
            save_all=True,
            append_images=frames[1:],
            duration=[_milliseconds(seconds)] * (len(frames) - 1) + [_milliseconds(hold)],
            loop=0,
        )
    return len(frames)


def select_evenly(items: Sequence, limit: int) -> List:
    """At most `limit` of the items, evenly spaced from the first to the last."""
    if len(items) <= limit:
        return list(items)
    positions = np.rint(np.linspace(0, len(items) - 1, limit)).astype(int)
    return [items[position] for position in positions]


def _read(path: str):
    """Read an image as grey or RGB; GIFs have no partial transparency, so alpha is dropped."""
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("L" if image.mode == "L" else "RGB")


def _share_palette(frames: List) -> List:
    """Give colour frames one palette of 256 colours; separate ones make still pixels flicker."""
    if frames[0].mode == "L":  # 256 greys are a palette already
        return frames
    from PIL import Image

    palette = _join_frames(select_evenly(frames, PALETTE_FRAMES)).quantize(256)
    # Dithering would look like the noise that a generator makes.
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]


def _join_frames(frames: List):
    """One image with the frames side by side."""
    from PIL import Image

    width, height = frames[0].size
    sheet = Image.new("RGB", (width * len(frames), height))
    for column, frame in enumerate(frames):
        sheet.paste(frame, (column * width, 0))
    return sheet


def _enlarge(frame, scale: int):
    from PIL import Image

    if scale == 1:
        return frame
    return frame.resize((frame.width * scale, frame.height * scale), Image.Resampling.NEAREST)


def _milliseconds(seconds: float) -> int:
    return int(round(seconds * 1000))
