"""Pictures of reconstructions during the training, in the run's folder under `samples/`."""

from __future__ import annotations

import os

import numpy as np

from toolkit import SessionHook, save_grid, tf


class Pictures(SessionHook):
    """Draws images above their reconstructions, every `dump_steps` steps and at the end.

    A due step also fetches the images on which it trained, and then feeds them to a second pass.
    The training is unaffected: no batch is taken from the input.
    """

    name = "pictures"

    def __init__(self, model, features, run):
        self._steps = run.options.dump_steps
        self._folder = os.path.join(run.folder, "samples")
        self._originals = features[: run.options.dump_images]  # [n, H, W, C]
        self._images = tf.placeholder(tf.float32, [None] + list(run.data.shape))
        self._reconstruction = model(self._images)["reconstruction"]

    def next_due_step(self, step):
        return (step // self._steps + 1) * self._steps

    def is_due(self, step):
        return step % self._steps == 0 or self.loop.is_last(step)

    def fetches(self):
        return self._originals

    def on_step(self, step, values, context):
        reconstructions = context.session.run(self._reconstruction, {self._images: values})
        os.makedirs(self._folder, exist_ok=True)
        save_grid(
            os.path.join(self._folder, f"reconstruction-{step:06d}.png"),
            np.concatenate([values, reconstructions]),
            columns=len(values),
        )
