"""The reverse process: from noise to an image, in a loop of the graph.

Each step finds image and noise in x, and mixes them as they were a little earlier. With eta = 0 the
result follows from the first noise (Song, Meng, Ermon: Denoising Diffusion Implicit Models, 2021,
equation 12). With eta = 1 a part of the noise is new in each step, as in DDPM, which corrects
errors of earlier steps.

All noise is an input of the model. An image is therefore a function of its noise alone.

Legend: N images, H height, W width, C channels, S steps.
"""

from __future__ import annotations

import numpy as np

from toolkit import SampleGrids, tf

from .diffusion import find_noise, share_of_image, to_pixels

PART_SIZE = 100  # images that are drawn together: each needs S images of noise


def noise_shape(run):
    """The shape of the noise of one image, [S, H, W, C]: what x starts from, and new noise.

    Without new noise it is [1, H, W, C].
    """
    return [run.options.sampler_steps if run.options.eta else 1, *run.data.shape]


def generate(network, noise, run):
    """Images in [0, 1] from noise.

    Args:
        network: a `UNet`.
        noise: float32 [N, S, H, W, C] from N(0, 1), see `noise_shape`.
        run: gives the options.

    Returns:
        float32 [N, H, W, C].
    """
    steps, schedule, eta = (
        run.options.sampler_steps,
        run.options.noise_schedule,
        run.options.eta,
    )
    count, parts = tf.shape(noise)[0], tf.shape(noise)[1]

    def step_back(step, x):
        left = tf.cast(steps - step, tf.float32)
        time = tf.fill([count], left / steps)
        alpha = share_of_image(time, schedule)
        earlier = share_of_image(tf.fill([count], (left - 1) / steps), schedule)
        estimate = find_noise(network, x, time, alpha)
        image = tf.clip_by_value(estimate.image, -1, 1)
        new = eta**2 * (1 - earlier) / (1 - alpha) * (1 - alpha / earlier)  # variance
        old = tf.maximum(1 - earlier - new, 0)  # rounding may give less than 0
        x = tf.sqrt(earlier) * image + tf.sqrt(old) * estimate.noise
        return step + 1, x + tf.sqrt(new) * noise[:, (step + 1) % parts]

    _, x = tf.while_loop(lambda step, _: step < steps, step_back, [0, noise[:, 0]])
    return to_pixels(x)


def sample(request, run):
    """Yield the images of a `toolkit.SampleRequest`, part by part."""
    for part in request.parts(PART_SIZE):
        noise = part.normal("noise", noise_shape(run))
        yield {"images": part.predict({"noise": noise})["image"]}


def create_grids(network, run):
    """The session hook that draws images of the same noise while the network is trained."""
    random = np.random.RandomState(run.seed("pictures"))
    noise = random.normal(size=[run.options.dump_images, *noise_shape(run)])
    images = generate(network, tf.constant(noise, tf.float32), run)
    return [SampleGrids(run.folder, run.options.dump_steps, images)]
