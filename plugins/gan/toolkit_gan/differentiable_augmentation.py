"""DiffAugment: random changes of every image that the discriminator sees, real or generated.

Zhao et al. 2020, Differentiable Augmentation for Data-Efficient GAN Training. From few images the
discriminator learns each of them by heart; it cannot where it never sees one twice. The generator
is trained through the same changes, drawn by the same rule, so that only its images match the real
ones, unchanged.

Pixels that a change leaves without a value become 0, grey. As it shows where an image was moved
or cut, generated images do not come out moved or cut themselves.

A gradient penalty takes its points among the changed images and its gradient there: it bounds the
slope of the discriminator, which sees no other images, and needs no second derivative of a change.
An evaluation changes its images by the same rule, each by numbers that follow from its position.

Legend: N batch, H W height and width, C channels. Images are float32 [N, H, W, C] in [-1, 1]; after
a change of colour, their values may be beyond. The random numbers `u` are in [0, 1).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

from toolkit import tf

from .architecture import augmentations
from .layers import batch_size

SHIFT = 1 / 8  # the largest shift, as a share of a side
HOLE = 1 / 2  # the sides of the hole, as shares of those of the image


def augment(images, run, stream: str):
    """Change each image [N, H, W, C] as `diff_augment` says; "none" takes any float32 tensor.
    `stream`, one per pass and kind of image, begins the names of the random numbers.
    """
    for name in augmentations(run.options, run.data):
        change, count = CHANGES[name]
        u = run.uniform(f"{stream}/{name}", [batch_size(images), count])
        images = change(images, u)
    return images


def flip(images, u):
    """Mirror an image left to right where u [N, 1] is below 1/2."""
    return tf.where(u[:, 0] < 0.5, tf.reverse(images, axis=[2]), images)


def change_colour(images, u):
    """Change brightness, saturation and contrast, in this order; u [N, 3].

    The brightness adds u0 - 1/2. The saturation multiplies the difference of each value to the mean
    of its pixel by 2 u1, the contrast its difference to the mean of its image by 1/2 + u2.
    """
    brightness, saturation, contrast = (u[:, k, None, None, None] for k in range(3))
    images += brightness - 0.5
    if images.shape.as_list()[3] > 1:
        images = _scale(images, tf.reduce_mean(images, axis=3, keepdims=True), 2.0 * saturation)
    return _scale(images, tf.reduce_mean(images, axis=[1, 2, 3], keepdims=True), 0.5 + contrast)


def _scale(images, centre, factor):
    return centre + (images - centre) * factor


def translate(images, u):
    """Shift an image by whole pixels, at most an eighth of its side each way; u [N, 2]."""
    _, height, width, channels = images.shape.as_list()
    rows, has_row = _shifted_positions(height, u[:, 0])
    columns, has_column = _shifted_positions(width, u[:, 1])
    starts = tf.range(batch_size(images))[:, None, None] * (height * width)
    pixels = starts + rows[:, :, None] * width + columns[:, None, :]  # [N, H, W]
    # Unlike that of one op with two axes of batches, its gradient has a gradient in both versions.
    values = tf.gather(tf.reshape(images, [-1, channels]), pixels)  # [N, H, W, C]
    return values * (has_row[:, :, None] * has_column[:, None, :])[..., None]


def _shifted_positions(side: int, u) -> Tuple[Any, Any]:
    """For each place [N, side], the position its value comes from, and 1 if that exists, else 0."""
    limit = _round(side * SHIFT)
    shifts = tf.cast(tf.floor(u * (2 * limit + 1)), tf.int32) - limit  # [N]
    positions = tf.range(side)[None, :] - shifts[:, None]
    inside = tf.clip_by_value(positions, 0, side - 1)
    return inside, tf.cast(tf.equal(positions, inside), tf.float32)


def cut_out(images, u):
    """Set a rectangle to 0, half as high and as wide as the image, centred anywhere; u [N, 2]."""
    _, height, width, _ = images.shape.as_list()
    hole = _in_hole(height, u[:, 0])[:, :, None] * _in_hole(width, u[:, 1])[:, None, :]
    return images * (1.0 - hole[..., None])


def _in_hole(side: int, u):
    """[N, side]: 1 where a hole, which the border may cut off, has a part, else 0."""
    size = _round(side * HOLE)
    # An even size has its centre between two places, and one more of them.
    starts = tf.cast(tf.floor(u * (side + 1 - size % 2)), tf.int32) - size // 2  # [N]
    offsets = tf.range(side)[None, :] - starts[:, None]
    return tf.cast((offsets >= 0) & (offsets < size), tf.float32)


def _round(x: float) -> int:
    """Round to the nearest integer, half upwards."""
    return int(x + 0.5)


# Name -> (change of images by random numbers [N, n], n), as the option lists them. They are made in
# the order of `architecture.AUGMENTATIONS`.
CHANGES: Dict[str, Tuple[Callable[[Any, Any], Any], int]] = {
    "flip": (flip, 1),
    "colour": (change_colour, 3),
    "translation": (translate, 2),
    "cutout": (cut_out, 2),
}
