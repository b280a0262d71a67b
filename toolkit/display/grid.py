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
_INK = 255


def grid(
    images: Any, columns: Optional[int] = None, padding: int = 2, caption: int = 0
) -> np.ndarray:
    """One image with all images, row by row.

    Args:
        images: [N, H, W, C] or [N, H, W], uint8, or floats in [0, 1] (clipped to that range).
        columns: images in a row; None makes the grid about square.
        padding: dark pixels between the images.
        caption: dark pixels below each image.

    Returns:
        uint8 [rows * (H + caption + padding) + padding, columns * (W + padding) + padding, C].
    """
    tiles = _as_tiles(images)
    count, height, width, channels = tiles.shape
    columns = _num_columns(count, columns)
    rows = -(-count // columns)
    row_height, column_width = height + caption + padding, width + padding
    sheet = np.zeros(
        (rows * row_height + padding, columns * column_width + padding, channels), np.uint8
    )
    if channels == 4:
        sheet[..., 3] = 255
    for position, tile in enumerate(tiles):
        top = padding + position // columns * row_height
        left = padding + position % columns * column_width
        sheet[top : top + height, left : left + width] = tile
    return sheet


def save_grid(
    path: str,
    images: Any,
    columns: Optional[int] = None,
    labels: Optional[Sequence[object]] = None,
    padding: int = 2,
) -> None:
    """Write the grid of images as a PNG, atomically.

    Args:
        path: the file to write; its folder is created if needed.
        images: [N, H, W, C] or [N, H, W], uint8, or floats in [0, 1] (clipped to that range).
        columns: images in a row; None makes the grid about square.
        labels: N short texts, one below each image.
        padding: dark pixels between the images.
    """
    from PIL import Image, ImageDraw

    tiles = _as_tiles(images)
    count, height, width = tiles.shape[:3]
    sheet = grid(tiles, columns, padding, _CAPTION if labels is not None else 0)
    picture = Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet)
    draw, columns = ImageDraw.Draw(picture), _num_columns(count, columns)
    ink = _INK if picture.mode == "L" else (_INK,) * len(picture.getbands())
    for position, label in enumerate([] if labels is None else labels):  # below its image
        left = padding + position % columns * (width + padding)
        top = padding + position // columns * (height + _CAPTION + padding) + height
        text = str(label)[: max(1, width // 6)]  # six pixels per letter in Pillow's default font
        draw.text((left, top), text, fill=ink)
    with atomic_write(path) as file:
        picture.save(file, "PNG")


def _num_columns(count: int, columns: Optional[int]) -> int:
    return min(count, columns or math.ceil(math.sqrt(count)))


def _as_tiles(images: Any) -> np.ndarray:
    """The images as uint8 [N, H, W, C]."""
    array = np.asarray(images)
    if array.ndim == 3:
        array = array[..., np.newaxis]  # [N, H, W, 1]
    if array.ndim != 4 or array.shape[-1] not in (1, 3, 4) or not len(array):
        raise UsageError(
            f"A grid of images has shape {list(array.shape)}, expected [N, H, W, C] with C "
            "1, 3 or 4.",
            hint="Give one image or more.",
        )
    if array.dtype == np.uint8:
        return array
    return np.rint(np.clip(np.nan_to_num(array), 0, 1) * 255).astype(np.uint8)
