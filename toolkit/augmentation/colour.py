"""What changes colours: brightness, contrast, saturation, hue, grey.

All of them together are one linear map of the channels of each image, and a constant.

Legend: N examples in a batch, H W height and width, C channels. Images are float32 [N, H, W, C] in
[0, 1], and so are the results: each image is clipped once, after all its changes.
"""

from __future__ import annotations

import collections
import math

import numpy as np

from ..compat import tf
from ..errors import UsageError
from .geometry import same_shape

LUMA = np.array([0.299, 0.587, 0.114])  # Rec. 601, as in Pillow
_YIQ = np.array([LUMA, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
# Maps of a pixel, a row [3], from the right: to its grey, to its colour without the grey, and to
# this colour turned by 90 degrees, (Y, I, Q) -> (0, -Q, I).
_GREY = np.outer(LUMA, np.ones(3))
_COLOUR = np.eye(3) - _GREY
_TURNED = (np.linalg.inv(_YIQ) @ np.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]]) @ _YIQ).T
_COLOUR_OPTIONS = ("saturation", "hue", "grey")


def adjust_colour(images, run):
    """Change brightness, contrast, saturation and hue of each image as the options say, and turn
    some grey.

    In this order, with factors drawn from [1 - strength, 1 + strength]: the brightness multiplies
    all values, the contrast their difference to the mean grey, the saturation the difference of
    each pixel to its own grey. The hue is turned in the plane of YIQ, at the same grey. Images
    without colour have no saturation and no hue: these options change nothing there.

    Raises:
        UsageError: such an option is set for images without colour, other than by a preset.
    """
    options = run.options
    is_colour = images.shape.as_list()[-1] == 3
    presets = [vars(cls).get("presets", {}) for cls in type(options).__mro__]  # a plugin's first
    preset = collections.ChainMap(*presets).get(options.augment, {})
    for name in () if is_colour else _COLOUR_OPTIONS:
        value = getattr(options, name)
        if value and value != preset.get(name):  # someone set it by name
            raise UsageError(
                f"Option {name} is {value}, but the images have no colour: the number of their "
                f"channels is {images.shape.as_list()[-1]}, not 3.",
                hint=f"Leave {name} at 0, or read colour images (channels=3).",
            )
    changed = images
    if options.brightness or options.contrast:
        brightness = _draw_factors("brightness", images, run)
        contrast = _draw_factors("contrast", images, run)
        bias = mean_grey(images) * brightness * (1.0 - contrast)
        factors, bias = ((brightness * contrast)[:, None, None, None], bias[:, None, None, None])
        changed = changed * factors + bias
    if is_colour and any(getattr(options, name) for name in _COLOUR_OPTIONS):
        factor = _draw_factors("saturation", images, run)
        if options.grey:
            is_grey = run.uniform("augment/grey", [tf.shape(images)[0]]) < options.grey
            factor = tf.where(is_grey, tf.zeros_like(factor), factor)
        limit = 2 * math.pi * options.hue
        angle = run.uniform("augment/hue", [tf.shape(images)[0]], minval=-limit, maxval=limit)
        maps = chroma_map(factor * tf.cos(angle), factor * tf.sin(angle))
        changed = map_channels(changed, maps)
    return images if changed is images else tf.clip_by_value(changed, 0.0, 1.0)


def mean_grey(images):
    """The mean grey of each image, [N]: colours are weighted as the eye does."""
    means = tf.reduce_mean(images, axis=[1, 2])  # [N, C]
    if images.shape.as_list()[-1] != 3:
        return tf.reduce_mean(means, axis=1)
    return tf.reduce_sum(means * tf.constant(LUMA, tf.float32), axis=1)


def chroma_map(along, across):
    """Maps of channels that keep each pixel's grey, float32 [N, 3, 3], for `map_channels`.

    Args:
        along: float32 [N], the factor of the colour beside the grey.
        across: float32 [N], the factor of this colour turned by 90 degrees; with cosine and sine of
            an angle the hue turns by it.
    """
    grey, colour, turned = (tf.constant(m[None], tf.float32) for m in (_GREY, _COLOUR, _TURNED))
    return grey + along[:, None, None] * colour + across[:, None, None] * turned


def map_channels(images, maps):
    """The images with each pixel, a row [C], times the map of its image, [N, C, C]."""
    height, width, channels = images.shape.as_list()[1:]
    pixels = tf.reshape(images, [-1, height * width, channels])
    return same_shape(tf.reshape(tf.matmul(pixels, maps), tf.shape(images)), images)


def _draw_factors(name: str, images, run):
    """float32 [N] in [1 - strength, 1 + strength]."""
    strength, shape = getattr(run.options, name), [tf.shape(images)[0]]
    if not strength:
        return tf.ones(shape)
    return 1.0 + run.uniform("augment/" + name, shape, minval=-strength, maxval=strength)
