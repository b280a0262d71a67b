"""The session hooks of a GAN's training: grids of samples, and its health in words."""

from __future__ import annotations

import os

import numpy as np

import toolkit

from . import latents, sampling
from .grids import SampleGrids
from .monitor import HealthHook

LOOKED_AT = 500  # real images that the samples' spread is compared with


def hooks(model, losses, run, splits):
    """A list of `toolkit.Hook`s; empty where --sample-steps is 0."""
    steps = run.options.sample_steps
    if not steps or run.folder is None:
        return []
    inputs, columns = latents.rows_of_classes(
        run.options, run.data, run.options.sample_count, run.seed("samples")
    )
    images = sampling.sampled(model.average, inputs, run)
    reals = real_images(splits("train"), inputs, run)
    return [
        grids(run, steps, images, inputs, reals, columns),
        health(run, steps, images, losses, splits),
    ]


def grids(run, steps, images, inputs, reals, columns):
    folder = os.path.join(run.folder, "samples")
    columns = columns or int(np.ceil(np.sqrt(len(reals))))
    return SampleGrids(folder, toolkit.Every(steps), images, inputs, reals, columns)


def health(run, steps, images, losses, splits):
    scalars = {
        "critic_accuracy_real": losses["d_accuracy_real"],
        "critic_accuracy_fake": losses["d_accuracy_fake"],
        "critic_gradient_norm": run.logged["critic/gradient_norm"],
        "generator_gradient_norm": run.logged["generator/gradient_norm"],
    }
    reals = as_unit(splits("train").take(slice(0, LOOKED_AT))[0])
    return HealthHook(
        toolkit.Every(steps), scalars, lambda session: session.run(images), reals, None, ()
    )


def real_images(split, inputs, run):
    """As many training images as a grid has samples, in rows of one class where it has those."""
    count = len(inputs["z"])
    if run.options.conditional == "none":
        return split.take(np.arange(count) % len(split))[0]
    places = [np.flatnonzero(split.labels == k) for k in range(run.data.num_classes)]
    per_class = count // run.data.num_classes
    chosen = [np.resize(found if len(found) else [0], per_class) for found in places]
    return split.take(np.concatenate(chosen))[0]


def as_unit(features):
    """float32 in [0, 1] of stored images."""
    return features / np.float32(255) if features.dtype == np.uint8 else features
