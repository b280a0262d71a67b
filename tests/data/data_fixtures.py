"""Shared by the tests of data: IDX bytes, and images with their numbers as pixels."""

from __future__ import annotations

import struct

import numpy as np


def idx_bytes(array, code=8):
    """The content of an IDX file of `array`."""
    header = struct.pack(">HBB", 0, code, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def numbered_images(count, side=4):
    """uint8 [count, side, side]; the first two pixels of image i encode i."""
    images = np.zeros((count, side, side), np.uint8)
    images[:, 0, 0] = np.arange(count) % 256
    images[:, 0, 1] = np.arange(count) // 256
    return images
