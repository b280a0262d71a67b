"""Drawings of what the autoencoder can do so far, in the run's folder under `samples/`."""

from __future__ import annotations

import os

import numpy as np

from toolkit import Hook, save_grid, tf


class Pictures(Hook):
    """Every `dump_steps` steps, and on the last: images of the batch above their reconstructions.

    A due step also fetches the images that it trained on. They are fed back afterwards: asking the
    input for a batch of its own would take it away from the training.
    """

    name = "pictures"

    def __init__(self, model, features, run):
        self._steps = run.options.dump_steps
        self._folder = os.path.join(run.folder, "samples")
        self._originals = features[: run.options.dump_images]  # [n, H, W, C]
        self._images = tf.placeholder(tf.float32, [None] + list(run.data.shape))
        self._reconstruction = model(self._images)["reconstruction"]

    def next_step(self, step):
        return (step // self._steps + 1) * self._steps

    def is_due(self, step):
        return step % self._steps == 0 or self.loop.is_last(step)

    def fetches(self):
        return self._originals

    def on_step(self, step, values, context):
        drawn = context.session.run(self._reconstruction, {self._images: values})
        os.makedirs(self._folder, exist_ok=True)
        save_grid(
            os.path.join(self._folder, f"reconstruction-{step:06d}.png"),
            np.concatenate([values, drawn]),
            columns=len(values),
        )
