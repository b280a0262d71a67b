"""Grids of images in one PNG.

Legend: N images, H height, W width, C channels (1 grey, 3 RGB, 4 RGBA).
"""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import numpy as np

from ..errors import UsageError
from ..files import atomic_write

_CAPTION = 12  # pixels below an image for its label


def save_grid(
    path: str,
    images: Any,
    columns: Optional[int] = None,
    labels: Optional[Sequence[object]] = None,
    padding: int = 2,
) -> None:
    """Write one image with all images, row by row, as a PNG, atomically.

    Args:
        path: the file to write; its folder is created if needed.
        images: [N, H, W, C] or [N, H, W], uint8, or floats in [0, 1] (clipped to that range).
        columns: images in a row; None makes the grid about square.
        labels: N short texts, one below each image.
        padding: dark pixels between the images.

    Raises:
        UsageError: the images have another shape.
    """
    from PIL import Image, ImageDraw

    tiles = np.asarray(images)
    if tiles.ndim == 3:
        tiles = tiles[..., np.newaxis]  # [N, H, W, 1]
    if tiles.ndim != 4 or tiles.shape[-1] not in (1, 3, 4) or not len(tiles):
        raise UsageError(
            f"A grid of images has shape {list(tiles.shape)}, expected [N, H, W, C] with C "
            "1, 3 or 4.",
            hint="Give one image or more, of grey, colour, or colour and transparency.",
        )
    if tiles.dtype != np.uint8:
        tiles = np.rint(np.clip(np.nan_to_num(tiles), 0, 1) * 255).astype(np.uint8)
    count, height, width, channels = tiles.shape
    columns = min(count, columns or math.ceil(math.sqrt(count)))
    row_height, column_width = height + padding + _CAPTION * (labels is not None), width + padding
    size = columns * column_width + padding, -(-count // columns) * row_height + padding
    black: Any
    mode, black = {1: ("L", 0), 3: ("RGB", 0), 4: ("RGBA", (0, 0, 0, 255))}[channels]
    sheet = Image.new(mode, size, black)
    draw = ImageDraw.Draw(sheet)
    for position, tile in enumerate(tiles):
        left = padding + position % columns * column_width
        top = padding + position // columns * row_height
        sheet.paste(Image.fromarray(tile[..., 0] if channels == 1 else tile), (left, top))
        if labels is not None and position < len(labels):
            # Six pixels per letter in Pillow's default font, which may have those of Latin-1 alone.
            text = str(labels[position])[: max(1, width // 6)].encode("latin-1", "replace")
            draw.text((left, top + height), text.decode("latin-1"), fill="white")
    with atomic_write(path) as file:
        sheet.save(file, "PNG")
