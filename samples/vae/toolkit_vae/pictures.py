"""Pictures during the training, in the run's folder under `samples/`; in the report of an
evaluation; and samples after it.
"""

from __future__ import annotations

import os

import numpy as np

from toolkit import Every, SessionHook, save_grid, tf

WORST = {
    "file": "worst.png",
    "title": "The worst reconstructions",
    "alt": "Above the images with the largest squared error, below what the decoder makes of their "
    "codes",
}


class Pictures(SessionHook):
    """Draws images of the batch, their reconstructions, and images from random codes: a row each.

    The images are fetched from the training step and fed to a second pass. The training is
    unaffected: no batch is taken from the input, and no random number of it is used.
    """

    name = "pictures"

    def __init__(self, network, features, run):
        self.every = Every(steps=run.options.dump_steps)
        self._folder = os.path.join(run.folder, "samples")
        self._columns = run.options.dump_images
        self._originals = features[: self._columns]  # [n, H, W, C]
        self._images = tf.placeholder(tf.float32, [None, *run.data.shape])
        random = np.random.RandomState(run.seed("pictures"))
        codes = random.normal(size=[self._columns, run.options.code])
        self._rows = tf.nn.sigmoid(
            tf.concat(
                [
                    network.decode(network.encode(self._images).mean),
                    network.decode(tf.constant(codes, tf.float32)),
                ],
                axis=0,
            )
        )

    def fetches(self):
        return self._originals

    def on_step(self, step, values, context):
        rows = context.session.run(self._rows, {self._images: values})
        path = os.path.join(self._folder, f"images-{step:06d}.png")
        save_grid(path, np.concatenate([values, rows]), columns=len(values))


def write_report(run, examples, folder):
    """Write `worst.png`: images and, below them, their reconstructions, the worst on the left.

    Args:
        run: gives the options.
        examples: "features" and "reconstruction" [N, H, W, C].
        folder: of the report.

    Returns:
        What the page of the run shows.
    """
    images, reconstructions = examples["features"], examples["reconstruction"]
    errors = np.square(images - reconstructions).mean(axis=(1, 2, 3))
    worst = np.argsort(-errors)[: run.options.dump_images]
    rows = np.concatenate([images[worst], reconstructions[worst]])
    save_grid(os.path.join(folder, WORST["file"]), rows, columns=len(worst))
    return {"page": {"picture": WORST}}


def sample(request, run):
    """Yield images from random codes, part by part.

    The code of an image is one of the outputs of `call`. To predict with a code, that one is fed.
    """
    for part in request.parts():
        codes = part.normal("code", [run.options.code])
        yield {"images": part.predict({"code": codes})["reconstruction"]}
