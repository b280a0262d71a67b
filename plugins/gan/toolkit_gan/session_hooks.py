"""The session hooks of a GAN's training: grids of samples, and warnings about its health."""

from __future__ import annotations

import os
from typing import Dict, List

import numpy as np

import toolkit

from . import latents, sampling
from .architecture import DISCRIMINATOR, GENERATOR, has_classes
from .clusters import check_clusters
from .grids import SampleGrids
from .health_hook import HealthHook
from .images import even_positions, to_unit_range

NUM_REALS = 500  # real images that the samples' spread is compared with


def create_hooks(model, losses, run, splits) -> List[toolkit.SessionHook]:
    """Create the hooks; with sample_steps=0 there are none, and for vectors there is no grid."""
    check_clusters(run.options, run.data, splits("train"))
    steps = run.options.sample_steps
    if not steps or run.folder is None:
        return []
    inputs, columns = latents.class_row_inputs(
        run.options, run.data, run.options.sample_count, run.seed("samples")
    )
    images = sampling.sample_fixed_inputs(model.average, inputs, run)
    health_hook = create_health_hook(run, steps, images, model, losses, splits)
    if len(run.data.shape) != 3:  # vectors make no grid
        return [health_hook]
    reals = real_grid_images(splits("train"), inputs, run)
    return [create_grid_hook(run, steps, images, inputs, reals, columns), health_hook]


def create_grid_hook(run, steps, images, inputs, reals, columns) -> SampleGrids:
    """The hook that writes grids of samples.

    Args:
        run: the `toolkit.Run`.
        steps: write a grid every so many steps.
        images: tensor float32 [n, H, W, C] in [0, 1].
        inputs: the arrays from which `images` are generated.
        reals: real images [n, H, W, C], for comparison.
        columns: images per row; None for a square grid.
    """
    folder = os.path.join(run.folder, "samples")
    columns = columns or int(np.ceil(np.sqrt(len(reals))))
    return SampleGrids(folder, toolkit.Every(steps), images, inputs, reals, columns)


def create_health_hook(run, steps, images, model, losses, splits) -> HealthHook:
    """The hook that checks the training's health.

    Args:
        run: the `toolkit.Run`.
        steps: check every so many steps.
        images: tensor float32 [n, H, W, C] in [0, 1], the samples.
        model: the `networks.Gan`.
        losses: the named losses of the step.
        splits: name -> `Split`, or None.
    """
    values = {**losses, **run.logged}  # of several updates the last, as in metrics.jsonl
    scalars = {
        "accuracy_real": values["d_accuracy_real"],
        "accuracy_fake": values["d_accuracy_fake"],
        "discriminator_gradient_norm": run.logged[DISCRIMINATOR + "/gradient_norm"],
        "generator_gradient_norm": run.logged[GENERATOR + "/gradient_norm"],
    }
    train = splits("train")
    # Evenly spaced: a folder of images is read class after class.
    reals = to_unit_range(train.take(even_positions(len(train), NUM_REALS))[0])
    classify = None
    names = run.data.class_names
    return HealthHook(
        toolkit.Every(steps), scalars, lambda session: session.run(images), reals, classify, names
    )


def real_grid_images(split, inputs: Dict[str, np.ndarray], run) -> np.ndarray:
    """As many training images as a grid has samples; with classes, in rows of one class."""
    count = len(inputs["z"])
    if not has_classes(run.options, run.data):
        return split.take(np.resize(even_positions(len(split), count), count))[0]
    positions = [np.flatnonzero(split.labels == k) for k in range(run.data.num_classes)]
    per_class = count // run.data.num_classes
    rows = [np.resize(row if len(row) else [0], per_class) for row in positions]
    return split.take(np.concatenate(rows))[0]
