"""Pictures during the training, in the run's folder under `samples/`; in the report of an
evaluation; and samples after it.
"""

from __future__ import annotations

import os

import numpy as np

from toolkit import SampleGrids, save_grid, tf

WORST = {
    "file": "worst.png",
    "title": "The worst reconstructions",
    "alt": "Above the images with the largest squared error, below what the decoder makes of their "
    "codes",
}


def create_grids(network, run, train):
    """The session hook that draws pictures in training: a row each of images, of their
    reconstructions, and of images from random codes, always of the same images and codes.
    """
    images = train.take(np.arange(min(run.options.dump_images, len(train))))[0]
    if images.dtype == np.uint8:
        images = images / np.float32(255)
    random = np.random.RandomState(run.seed("pictures"))
    codes = random.normal(size=[len(images), run.options.code])
    originals = tf.constant(images, tf.float32)  # [n, H, W, C]
    decoded = [
        tf.nn.sigmoid(network.decode(code))
        for code in (network.encode(originals).mean, tf.constant(codes, tf.float32))
    ]
    rows = tf.concat([originals, *decoded], axis=0)  # [3n, H, W, C]
    return [SampleGrids(run.folder, run.options.dump_steps, rows, columns=len(images))]


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
