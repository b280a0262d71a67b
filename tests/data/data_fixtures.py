"""What the tests of data share: IDX bytes, and images that tell their number."""

from __future__ import annotations

import struct

import numpy as np


def idx_bytes(array, code=8):
    """What an IDX file of `array` holds."""
    header = struct.pack(">HBB", 0, code, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def numbered_images(count, side=4):
    """uint8 [count, side, side]; the first pixels of image i tell i."""
    images = np.zeros((count, side, side), np.uint8)
    images[:, 0, 0] = np.arange(count) % 256
    images[:, 0, 1] = np.arange(count) // 256
    return images
