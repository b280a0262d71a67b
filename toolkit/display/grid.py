"""Contact sheets: many images in one PNG.

Legend: N images, H height, W width, C channels (1 grey, 3 RGB, 4 RGBA).
"""

from __future__ import annotations

import math
from typing import Optional, Sequence

import numpy as np

from ..errors import UsageError
from ..files import atomic_write

_CAPTION = 12  # pixels below an image for its label
_INK = 255


def grid(images, columns: Optional[int] = None, padding: int = 2, caption: int = 0) -> np.ndarray:
    """One picture, uint8 [rows * (H + caption + padding) + padding, ..., C], filled row by row.

    images: uint8, or float32 in [0, 1] (what lies outside is clipped), [N, H, W, C] or [N, H, W].
    columns: None makes the sheet about as wide as it is high. padding, caption: dark pixels between
    the images, and below each.
    """
    tiles = _as_tiles(images)
    count, height, width, channels = tiles.shape
    columns = min(count, columns or math.ceil(math.sqrt(count)))
    rows = -(-count // columns)
    down, across = height + caption + padding, width + padding
    sheet = np.zeros((rows * down + padding, columns * across + padding, channels), np.uint8)
    if channels == 4:
        sheet[..., 3] = 255
    for place, tile in enumerate(tiles):
        top = padding + place // columns * down
        left = padding + place % columns * across
        sheet[top : top + height, left : left + width] = tile
    return sheet


def save_grid(
    path: str,
    images,
    columns: Optional[int] = None,
    labels: Optional[Sequence[object]] = None,
    padding: int = 2,
) -> None:
    """Write `grid` as a PNG, whole or not at all. labels: N short texts, one below each image."""
    from PIL import Image

    sheet = grid(images, columns, padding, _CAPTION if labels is not None else 0)
    picture = Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet)
    if labels is not None:
        _write_labels(picture, _as_tiles(images).shape, columns, labels, padding)
    with atomic_write(path) as file:
        picture.save(file, "PNG")


def _as_tiles(images) -> np.ndarray:
    """uint8 [N, H, W, C]."""
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


def _write_labels(picture, shape, columns, labels, padding: int) -> None:
    from PIL import ImageDraw

    count, height, width = shape[:3]
    columns = min(count, columns or math.ceil(math.sqrt(count)))
    draw = ImageDraw.Draw(picture)
    ink = _INK if picture.mode == "L" else (_INK,) * len(picture.getbands())
    for place, label in enumerate(labels):
        left = padding + place % columns * (width + padding)
        top = padding + place // columns * (height + _CAPTION + padding) + height
        text = str(label)[: max(1, width // 6)]  # six pixels a letter in Pillow's own font
        draw.text((left, top), text, fill=ink)
