"""`tf.contrib.image`: images that are turned, moved and transformed.

Images are [N, H, W, C], or one [H, W, C] or [H, W]. What comes from outside of them is zero.
"""

from __future__ import annotations

from typing import Any

from toolkit import tf


def transform(images, transforms, interpolation="NEAREST", output_shape=None, name=None):
    """The point (x, y) of each output, [H, W], is taken from ((a x + b y + c) / k,
    (d x + e y + f) / k), where k = g x + h y + 1, for eight numbers, or for eight of each image.
    """
    images = tf.convert_to_tensor(images)
    rank = len(images.shape)
    batch = images if rank == 4 else images[None] if rank == 3 else images[None, ..., None]
    size = batch.shape[1:3] if output_shape is None else output_shape
    if output_shape is None and not size.is_fully_defined():
        size = tf.shape(batch)[1:3]
    transforms = tf.reshape(tf.cast(transforms, tf.float32), [-1, 8])
    moved = tf.raw_ops.ImageProjectiveTransformV2(
        images=batch,
        transforms=transforms,
        output_shape=size,
        interpolation=interpolation.upper(),
        name=name,
    )
    return moved if rank == 4 else moved[0] if rank == 3 else moved[0, ..., 0]


def _rows(*columns: Any) -> Any:
    """Eight numbers of each image: the six that are given, and no perspective."""
    ones = tf.ones_like(sum(columns))
    return tf.stack([each * ones for each in (*columns, 0.0, 0.0)], 1)


def angles_to_projective_transforms(angles, image_height, image_width, name=None):
    """What `transform` takes to turn images about their centres."""
    angles = tf.reshape(tf.convert_to_tensor(angles, tf.float32), [-1])
    sine, cosine = tf.sin(angles), tf.cos(angles)
    x, y = (tf.cast(each, tf.float32) - 1.0 for each in (image_width, image_height))
    right, down = (x - (cosine * x - sine * y)) / 2.0, (y - (sine * x + cosine * y)) / 2.0
    return _rows(cosine, -sine, right, sine, cosine, down)


def rotate(images, angles, interpolation="NEAREST", name=None):
    """Images that are turned counterclockwise by an angle, or by one each, in radians."""
    images = tf.convert_to_tensor(images)
    sides = tf.unstack(tf.shape(images)[:2] if len(images.shape) < 4 else tf.shape(images)[1:3])
    return transform(images, angles_to_projective_transforms(angles, *sides), interpolation)


def translate(images, translations, interpolation="NEAREST", name=None):
    """Images that are moved by (dx, dy), or by one pair each."""
    moves = tf.reshape(tf.convert_to_tensor(translations, tf.float32), [-1, 2])
    return transform(images, _rows(1.0, 0.0, -moves[:, 0], 0.0, 1.0, -moves[:, 1]), interpolation)
