"""The plugin's own data: scenes of shapes, which are to be told from their background and apart.

Colours say nothing: shapes and background have random ones. Only the outline tells a disc from a
square, so the network has to look at more than the colour of a pixel.

Legend: M images, S side of an image in pixels.
"""

from __future__ import annotations

import math

import numpy as np

from toolkit import Column, Split

CLASSES = ("background", "triangle", "square", "disc")
CORNERS = (3, 4, 60)  # of the shapes, in the order of their classes
COUNTS = {"train": 800, "validation": 100, "test": 200}  # M
SIDE = 32  # S


def make_split(split) -> Split:
    """The images uint8 [M, S, S, 3] of a split, with the class of each pixel [M, S, S]."""
    random = np.random.RandomState(list(COUNTS).index(split))
    scenes = [draw_scene(random) for _ in range(COUNTS[split])]
    images, masks = (np.stack(arrays) for arrays in zip(*scenes))
    return Split(images, Column(masks, class_names=CLASSES))


def draw_scene(random):
    """An image of one to three shapes, uint8 [S, S, 3], and the class of each pixel, [S, S]."""
    image = np.tile(random.uniform(0, 255, 3), (SIDE, SIDE, 1))
    mask = np.zeros([SIDE, SIDE], np.uint8)
    for _ in range(random.randint(1, 4)):
        number = random.randint(len(CORNERS))
        inside = draw_polygon(CORNERS[number], random)
        image[inside] = random.uniform(0, 255, 3)
        mask[inside] = number + 1
    image += random.normal(0, 12, image.shape)
    return np.clip(image, 0, 255).astype(np.uint8), mask


def draw_polygon(corners, random):
    """The pixels of a regular polygon of random size and place, slightly turned, bool [S, S]."""
    y, x = np.mgrid[:SIDE, :SIDE] - random.uniform(6, SIDE - 6, [2, 1, 1])
    sides = random.uniform(-0.3, 0.3) + 2 * math.pi / corners * np.arange(corners)
    distances = [np.sin(side) * x + np.cos(side) * y for side in sides]  # from the centre
    area = random.uniform(70, 200)  # in pixels
    radius = math.sqrt(area / (corners * math.tan(math.pi / corners)))
    return np.max(distances, axis=0) < radius
