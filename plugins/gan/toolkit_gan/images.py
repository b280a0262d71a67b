"""Images of a split, for the parts that need a few of them."""

from __future__ import annotations

import numpy as np


def even_positions(count: int, limit: int) -> np.ndarray:
    """int64: at most `limit` of the positions 0 to count - 1, evenly spaced.

    A folder of images is read class after class: its first images would be of one class.
    """
    return np.linspace(0, count - 1, min(count, limit)).astype(np.int64)


def to_unit_range(images: np.ndarray) -> np.ndarray:
    """float32 in [0, 1], from uint8 images or from floats, which are in that range."""
    return images / np.float32(255) if images.dtype == np.uint8 else images
