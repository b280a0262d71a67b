"""Boxes in images, and cutout (DeVries and Taylor, "Improved Regularization of Convolutional Neural
Networks with Cutout", 2017).

Legend: N examples in a batch, H W height and width, C channels.
"""

from __future__ import annotations

from ..compat import tf


def cut_out(images, run, share: float):
    """Cover a box in each image with the image's mean colour.

    Args:
        images: float32 [N, H, W, C].
        run: gives random numbers.
        share: height and width of the box as a share of the image's, in [0, 1]. Its centre is any
            pixel, so a part of the box may lie outside.
    """
    height, width = images.shape.as_list()[1:3]
    centres = run.uniform("augment/cutout", [tf.shape(images)[0], 2])
    sizes = [tf.fill([tf.shape(images)[0]], float(round(share * s))) for s in (height, width)]
    mean = tf.reduce_mean(images, axis=[1, 2], keepdims=True)  # [N, 1, 1, C]
    covered = tf.where_v2(box_mask(centres, sizes[0], sizes[1], height, width), mean, images)
    covered.set_shape(images.shape)
    return covered


def box_mask(centres, box_heights, box_widths, height: int, width: int):
    """Whether each pixel is in the box of its image, bool [N, H, W, 1].

    Args:
        centres: float32 [N, 2] in [0, 1), shares of height and width.
        box_heights, box_widths: float32 [N], whole numbers of pixels.
        height, width: of the images, in pixels.
    """
    is_row = _on_side(centres[:, 0], box_heights, height)  # [N, H]
    is_column = _on_side(centres[:, 1], box_widths, width)  # [N, W]
    return tf.logical_and(is_row[:, :, None], is_column[:, None, :])[..., None]


def _on_side(centres, sizes, length: int):
    """bool [N, length]: which pixels of a side are within a box."""
    first = tf.floor(centres * length) - tf.floor(sizes / 2.0)  # [N]
    place = tf.range(length, dtype=tf.float32)[None, :]
    return tf.logical_and(place >= first[:, None], place < (first + sizes)[:, None])
