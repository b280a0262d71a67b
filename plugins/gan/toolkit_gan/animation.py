"""One animated GIF from pictures on disk. Imports no TensorFlow."""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from toolkit import atomic_write

MOST_FRAMES = 120
_PALETTE_FROM = 8  # frames that the colours are chosen from


def write_gif(
    paths: Sequence[str],
    out: str,
    seconds: float = 0.2,
    hold: float = 2.0,
    scale: int = 1,
    most: int = MOST_FRAMES,
) -> int:
    """Write the pictures at `paths`, in this order, as a GIF without end; return its frames.

    The pictures are of one size. seconds: how long each is seen, and hold: the last one. scale: a
    whole factor by which pixels grow. most: of more pictures so many are taken, evenly, with the
    first and the last. The file appears whole or not at all.
    """
    frames = _with_one_palette([_read(path) for path in thinned(paths, most)])
    frames = [_enlarged(frame, scale) for frame in frames]
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


def thinned(items: Sequence, most: int) -> List:
    """At most `most` of the items, evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    places = np.rint(np.linspace(0, len(items) - 1, most)).astype(int)
    return [items[place] for place in places]


def _read(path: str):
    """Grey pictures stay grey; a GIF has no partly transparent pixels, so alpha is left out."""
    from PIL import Image

    with Image.open(path) as picture:
        return picture.convert("L" if picture.mode == "L" else "RGB")


def _with_one_palette(frames: List) -> List:
    """Colour frames with 256 colours in common: a palette for each makes still pixels flicker."""
    if frames[0].mode == "L":  # 256 greys are a palette already
        return frames
    from PIL import Image

    palette = _side_by_side(thinned(frames, _PALETTE_FROM)).quantize(256)
    # Dithering would look like the noise that a generator makes.
    return [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]


def _side_by_side(frames: List):
    from PIL import Image

    width, height = frames[0].size
    sheet = Image.new("RGB", (width * len(frames), height))
    for place, frame in enumerate(frames):
        sheet.paste(frame, (place * width, 0))
    return sheet


def _enlarged(frame, scale: int):
    from PIL import Image

    if scale == 1:
        return frame
    return frame.resize((frame.width * scale, frame.height * scale), Image.Resampling.NEAREST)


def _milliseconds(seconds: float) -> int:
    return int(round(seconds * 1000))
