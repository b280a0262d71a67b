"""Pictures of samples during the training, in the run's folder under `samples/`."""

from __future__ import annotations

import os

import numpy as np

from toolkit import Every, SessionHook, save_grid, tf

from .sampler import generate, noise_shape


class Pictures(SessionHook):
    """Makes images of the same noise every `dump_steps` steps and at the end.

    The training is unaffected: no batch is taken from the input, and no random number of it is
    used. Ops are created in the constructor, before the session exists.
    """

    name = "pictures"

    def __init__(self, network, run):
        self.every = Every(steps=run.options.dump_steps)
        self._folder = os.path.join(run.folder, "samples")
        random = np.random.RandomState(run.seed("pictures"))
        self._values = random.normal(size=[run.options.dump_images, *noise_shape(run)])
        self._noise = tf.placeholder(tf.float32, self._values.shape)
        self._images = generate(network, self._noise, run)

    def on_step(self, step, values, context):
        images = context.session.run(self._images, {self._noise: self._values})
        save_grid(os.path.join(self._folder, f"sample-{step:06d}.png"), images)
