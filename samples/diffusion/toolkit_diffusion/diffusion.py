"""The forward process, which adds noise to images, and what a network finds in a noisy image.

At time t in [0, 1], an image x (with values from -1 to 1) has become

    y = sqrt(alpha) x + sqrt(1 - alpha) noise,    noise from N(0, 1),

where alpha falls from 1 at t = 0 to 0 at t = 1 (Ho, Jain, Abbeel: Denoising Diffusion Probabilistic
Models, 2020). The network is fed y and t. It does not estimate the noise itself, but the direction

    v = sqrt(alpha) noise - sqrt(1 - alpha) x

(Salimans and Ho, 2022): image and noise both follow from y and v without a division, so an error of
the network is not amplified where little of the image is left.

Legend: N examples in a batch, H height, W width, C channels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from toolkit import tf


class Estimate(NamedTuple):
    """What a network finds in noisy images, each float32 [N, H, W, C]."""

    direction: Any
    image: Any  # from about -1 to 1
    noise: Any


def add_and_find_noise(network, images, run):
    """Add noise to images, each at a time of its own, and let the network find it.

    Args:
        network: a `UNet`.
        images: float32 [N, H, W, C] in [0, 1].
        run: draws times and noise.

    Returns:
        The "noise" and its "estimate", the "error" of each example's direction [N], and the
        "denoised" images in [0, 1].
    """
    time = run.uniform("time", [tf.shape(images)[0]])  # [N]
    noise = run.normal("noise", tf.shape(images))
    alpha, images = share_of_image(time, run.options.noise_schedule), 2 * images - 1
    noisy = tf.sqrt(alpha) * images + tf.sqrt(1 - alpha) * noise
    direction = tf.sqrt(alpha) * noise - tf.sqrt(1 - alpha) * images
    estimate = find_noise(network, noisy, time, alpha)
    error = tf.squared_difference(direction, estimate.direction)
    return {
        "noise": noise,
        "estimate": estimate.noise,
        "error": tf.reduce_mean(error, axis=[1, 2, 3]),
        "denoised": to_pixels(estimate.image),
    }


def share_of_image(time, schedule):
    """alpha, the share of the variance that comes from the image; the rest is noise.

    Args:
        time: float32 [N], in [0, 1].
        schedule: "cosine" (Nichol and Dhariwal, 2021) or "linear" (Ho et al.).

    Returns:
        float32 [N, 1, 1, 1], to be combined with images.
    """
    time = tf.reshape(time, [-1, 1, 1, 1])
    if schedule == "cosine":
        return tf.square(tf.cos(time * math.pi / 2))
    return tf.exp(-0.1 * time - 9.95 * tf.square(time))


def find_noise(network, noisy, time, alpha) -> Estimate:
    """Let the network find image and noise in a noisy image.

    Args:
        network: a `UNet`.
        noisy: float32 [N, H, W, C].
        time: float32 [N].
        alpha: of these times, [N, 1, 1, 1].
    """
    direction = network(noisy, time)
    return Estimate(
        direction,
        image=tf.sqrt(alpha) * noisy - tf.sqrt(1 - alpha) * direction,
        noise=tf.sqrt(1 - alpha) * noisy + tf.sqrt(alpha) * direction,
    )


def to_pixels(images):
    """Values from -1 to 1 -> from 0 to 1; what is beyond is clipped."""
    return (tf.clip_by_value(images, -1, 1) + 1) / 2


def loss(outputs):
    """The mean squared error of the direction, a scalar."""
    return tf.reduce_mean(outputs["error"])


def example_metrics(outputs):
    """Name -> the value of each image, [N]: the mean squared error of its noise."""
    squares = tf.square(outputs["noise"] - outputs["estimate"])
    return {"noise_error": tf.reduce_mean(squares, axis=[1, 2, 3])}
