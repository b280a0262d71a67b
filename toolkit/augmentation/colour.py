"""What changes colours: brightness, contrast, saturation, hue, grey.

Legend: N examples in a batch, H W height and width, C channels. Images are float32 [N, H, W, C] in
[0, 1], and so are the results: each image is clipped once, after all its changes.
"""

from __future__ import annotations

import math

import numpy as np

from ..compat import tf
from ..errors import UsageError
from ..options import AugmentationOptions

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # Rec. 601, as in Pillow
_YIQ = np.array([LUMA, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
# The derivative of a turn of the hue: (Y, I, Q) -> (0, -Q, I), in RGB.
_TURN = np.linalg.inv(_YIQ) @ np.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]]) @ _YIQ
_COLOURS = ("saturation", "hue", "grey")


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
    if not is_colour:
        _check_colour(images, options)
    changed = images
    if options.brightness:
        changed = changed * _draw_factor("brightness", images, run)
    if options.contrast:
        mean = tf.reduce_mean(luma(changed), axis=[1, 2], keepdims=True)  # [N, 1, 1, 1]
        changed = mean + (changed - mean) * _draw_factor("contrast", images, run)
    if is_colour and any(getattr(options, name) for name in _COLOURS):
        changed = _change_chroma(changed, images, run)
    return images if changed is images else tf.clip_by_value(changed, 0.0, 1.0)


def luma(images):
    """The grey of each pixel, [N, H, W, 1]: of colours weighted as the eye does, else the mean."""
    channels = images.shape.as_list()[-1]
    if channels == 1:
        return images
    if channels != 3:
        return tf.reduce_mean(images, axis=-1, keepdims=True)
    return _multiply_pixels(images, LUMA[:, None])


def turn_hue(images, angles):
    """The images with the hue turned by `angles` (float32 [N, 1, 1, 1], radians), not clipped."""
    return shift_chroma(images, tf.cos(angles), tf.sin(angles))


def shift_chroma(images, along, across):
    """Grey, plus `along` times the colour, plus `across` times the colour a quarter turn on.

    Args:
        images: float32 [N, H, W, 3].
        along: float32 [N, 1, 1, 1].
        across: float32 [N, 1, 1, 1], or None for nothing.
    """
    grey = luma(images)
    changed = grey + (images - grey) * along
    if across is None:
        return changed
    return changed + _multiply_pixels(images, _TURN.T.astype(np.float32)) * across


def _change_chroma(changed, images, run):
    options = run.options
    factor = tf.ones([tf.shape(images)[0], 1, 1, 1])
    if options.saturation:
        factor = _draw_factor("saturation", images, run)
    if options.grey:
        is_grey = run.uniform("augment/grey", [tf.shape(images)[0], 1, 1, 1]) < options.grey
        factor = tf.where_v2(is_grey, tf.zeros_like(factor), factor)
    if not options.hue:
        return shift_chroma(changed, factor, None)
    limit = 2 * math.pi * options.hue
    shape = [tf.shape(images)[0], 1, 1, 1]
    angle = run.uniform("augment/hue", shape, minval=-limit, maxval=limit)
    return shift_chroma(changed, factor * tf.cos(angle), factor * tf.sin(angle))


def _draw_factor(name: str, images, run):
    """float32 [N, 1, 1, 1] in [1 - strength, 1 + strength]."""
    strength = getattr(run.options, name)
    shape = [tf.shape(images)[0], 1, 1, 1]
    return 1.0 + run.uniform("augment/" + name, shape, minval=-strength, maxval=strength)


def _multiply_pixels(images, matrix):
    """Each pixel's row of channels times a matrix [C, D]: [N, H, W, C] -> [N, H, W, D]."""
    height, width, channels = images.shape.as_list()[1:]
    product = tf.matmul(tf.reshape(images, [-1, channels]), tf.constant(matrix))
    return tf.reshape(product, [-1, height, width, matrix.shape[1]])


def _check_colour(images, options) -> None:
    """Refuse a strength that someone set by name and that cannot change these images."""
    preset = AugmentationOptions.presets[options.augment]
    for name in _COLOURS:
        value = getattr(options, name)
        if value and value != preset[name]:
            raise UsageError(
                f"Option {name} is {value}, but the images have no colour: they have "
                f"{images.shape.as_list()[-1]} channels, not 3.",
                hint=f"Leave {name} at 0, or read colour images (channels=3).",
            )
