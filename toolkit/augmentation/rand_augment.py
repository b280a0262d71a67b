"""RandAugment: a few operations per image, chosen at random, all of one magnitude.

Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2020
(CVPR workshops).
Of the paper's 14 operations these are 13; "equalize" is left out, since it needs a histogram of
each image. The geometric ones of an image are joined to one map, before the others. Each other
operation is computed for the whole batch and selected per image, so the cost does not depend on the
choice.

Legend: N examples in a batch, H W height and width, C channels. Images are float32 [N, H, W, C] in
[0, 1]; m is the magnitude divided by 10.
"""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple

from ..compat import tf
from .colour import chroma_map, map_channels, mean_grey
from .geometry import LinearMap, same_shape

OPERATIONS = (
    "identity",
    "rotate",  # by up to 30 degrees: 30 m
    "shear_rows",  # 0.3 m
    "shear_columns",
    "translate_rows",  # 0.45 m of the side
    "translate_columns",
    "autocontrast",  # lowest value of a channel 0, highest 1
    "brightness",  # factor 1 +- 0.9 m
    "contrast",
    "colour",
    "sharpness",
    "solarize",  # values above 1 - m are inverted
    "posterize",  # 8 - 4 m bits
)


class Layer(NamedTuple):
    """One operation for each image."""

    choices: Any  # int32 [N], indices of OPERATIONS
    signs: Any  # float32 [N], -1 or 1

    def has(self, operation: str):
        """bool [N]: which images get the operation."""
        return tf.equal(self.choices, OPERATIONS.index(operation))

    def amount(self, operation: str, size: float):
        """float32 [N]: +-size for the images that get the operation, 0 for the others."""
        return tf.cast(self.has(operation), tf.float32) * self.signs * size


def draw_layers(images, run) -> List[Layer]:
    """The operations of each image of a batch, as many as the option `rand_augment` says."""
    layers = []
    for number in range(run.options.rand_augment):
        # One number decides both: its whole part the operation, its fraction the sign.
        shape = [tf.shape(images)[0]]
        place = run.uniform(f"augment/rand_augment{number}", shape) * len(OPERATIONS)
        whole = tf.minimum(tf.floor(place), len(OPERATIONS) - 1.0)
        signs = tf.where(place - whole < 0.5, -tf.ones_like(place), tf.ones_like(place))
        layers.append(Layer(tf.cast(whole, tf.int32), signs))
    return layers


def geometric_map(layers: List[Layer], magnitude: float, height: int, width: int):
    """The joint map of the geometric operations, a `LinearMap`; None without layers."""
    m, total = magnitude / 10, None
    for layer in layers:
        angle = layer.amount("rotate", math.radians(30) * m)
        shear_rows = layer.amount("shear_rows", 0.3 * m)
        shear_columns = layer.amount("shear_columns", 0.3 * m)
        cosine, sine = tf.cos(angle), tf.sin(angle)
        offset = (
            layer.amount("translate_rows", 0.45 * m * height),
            layer.amount("translate_columns", 0.45 * m * width),
        )
        matrix = ((cosine, shear_rows - sine), (shear_columns + sine, cosine))
        current = LinearMap(matrix, offset)
        total = current if total is None else current.after(total)
    return total


def change_values(images, layers: List[Layer], magnitude: float):
    """The operations that change values and move no pixel."""
    m = magnitude / 10
    for layer in layers:
        images = _change_linearly(images, layer, m)
        smooth = _blur(images)  # the difference to it becomes larger, or smaller
        factor = (1.0 + 0.9 * m * layer.signs)[:, None, None, None]
        sharpened = tf.clip_by_value(smooth + (images - smooth) * factor, 0.0, 1.0)
        images = _select(layer, "sharpness", sharpened, images)
        inverted = tf.where(images > 1.0 - m, 1.0 - images, images)
        images = _select(layer, "solarize", inverted, images)
        steps = 2.0 ** round(8 - 4 * m)
        rough = tf.minimum(tf.floor(images * steps), steps - 1.0) / (steps - 1.0)
        images = _select(layer, "posterize", rough, images)
    return images


def _change_linearly(images, layer: Layer, m: float):
    """Brightness, contrast, colour and autocontrast, as factors of the channels and constants.

    For other operations the factors are 1 and the constants 0: exactly the image comes out.
    """
    scale, bias = layer.amount("brightness", 0.9 * m), layer.amount("contrast", 0.9 * m)
    factors = (1.0 + scale + bias)[:, None]  # [N, 1]
    bias = (-bias * mean_grey(images))[:, None]
    low, high = tf.reduce_min(images, axis=[1, 2]), tf.reduce_max(images, axis=[1, 2])  # [N, C]
    is_flat = high - low < 1e-6
    stretch = 1.0 / tf.where(is_flat, tf.ones_like(low), high - low)
    has_stretch = tf.logical_and(layer.has("autocontrast")[:, None], tf.logical_not(is_flat))
    factors = tf.where(has_stretch, stretch, factors + tf.zeros_like(low))
    bias = tf.where(has_stretch, -low * stretch, bias + tf.zeros_like(low))
    changed = images * factors[:, None, None, :]
    if images.shape.as_list()[-1] == 3:
        along = 1.0 + layer.amount("colour", 0.9 * m)
        changed = map_channels(images, chroma_map(along, 0.0 * along) * factors[:, None, :])
    return tf.clip_by_value(changed + bias[:, None, None, :], 0.0, 1.0)


def _blur(images):
    """Pillow's SMOOTH filter: a mean in which the middle of 3 x 3 pixels counts five times."""
    height, width, channels = images.shape.as_list()[1:]
    rows = tf.reshape(images, [-1, height, width * channels])
    left = tf.concat([rows[:, :, :channels], rows[:, :, :-channels]], axis=2)
    right = tf.concat([rows[:, :, channels:], rows[:, :, -channels:]], axis=2)
    triples = rows + left + right
    above = tf.concat([triples[:, :1], triples[:, :-1]], axis=1)
    below = tf.concat([triples[:, 1:], triples[:, -1:]], axis=1)
    smooth = (triples + above + below + 4.0 * rows) * (1.0 / 13.0)
    return same_shape(tf.reshape(smooth, tf.shape(images)), images)


def _select(layer: Layer, operation: str, changed, images):
    """`changed` for the images that get the operation, else `images`."""
    # A condition for each example copies whole images; a broadcast one takes twenty times as long.
    return same_shape(tf.where(layer.has(operation), changed, images), images)
