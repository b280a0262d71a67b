"""Boxes in images, and cutout (DeVries and Taylor, "Improved Regularization of Convolutional Neural
Networks with Cutout", 2017).

Legend: N examples in a batch, H W height and width, C channels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..compat import tf
from .geometry import same_shape


def cut_out(images, run, share: float):
    """Cover a box in each image with the image's mean colour.

    Args:
        images: float32 [N, H, W, C].
        run: gives random numbers.
        share: height and width of the box as a share of the image's, in [0, 1]. Its centre is any
            pixel, so a part of the box may lie outside.
    """
    height, width = images.shape.as_list()[1:3]
    count = tf.shape(images)[0]
    down, right = (tf.fill([count], float(round(share * side))) for side in (height, width))
    box = Box.around(run.uniform("augment/cutout", [count, 2]), down, right, height, width)
    mean = tf.reduce_mean(images, axis=[1, 2], keepdims=True)  # [N, 1, 1, C]
    return box.fill(images, mean + tf.zeros_like(images))


class Box(NamedTuple):
    """A box in each image of a batch, clipped to the image.

    Attributes:
        rows: bool [N, H], which rows it has.
        columns: bool [N, W].
    """

    rows: Any
    columns: Any

    @classmethod
    def around(cls, centres, box_heights, box_widths, height: int, width: int) -> Box:
        """The box around a centre.

        Args:
            centres: float32 [N, 2] in [0, 1), shares of height and width.
            box_heights, box_widths: float32 [N], whole numbers of pixels.
            height, width: of the images, in pixels.
        """
        rows = _on_side(centres[:, 0], box_heights, height)
        return cls(rows, _on_side(centres[:, 1], box_widths, width))

    @property
    def area(self):
        """float32 [N]: its share of the image."""
        shares = [tf.reduce_mean(tf.cast(side, tf.float32), axis=1) for side in self]
        return shares[0] * shares[1]

    def fill(self, images, filling):
        """The images with the pixels of another batch in the box, both [N, H, W, C]."""
        height, width, channels = images.shape.as_list()[1:]
        # A mask of all values: one that is broadcast over the channels takes ten times as long.
        columns = tf.tile(self.columns[:, :, None], [1, 1, channels])
        columns = tf.reshape(columns, [-1, 1, width * channels])
        mask = tf.logical_and(self.rows[:, :, None], columns)  # [N, H, W * C]
        shape = [-1, height, width * channels]
        joint = tf.where(mask, tf.reshape(filling, shape), tf.reshape(images, shape))
        return same_shape(tf.reshape(joint, tf.shape(images)), images)


def _on_side(centres, sizes, length: int):
    """bool [N, length]: which pixels of a side are within a box."""
    first = tf.floor(centres * length) - tf.floor(sizes / 2.0)  # [N]
    place = tf.range(length, dtype=tf.float32)[None, :]
    return tf.logical_and(place >= first[:, None], place < (first + sizes)[:, None])
