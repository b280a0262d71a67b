"""The session hooks of a GAN's training: grids of samples, and its health in words."""

from __future__ import annotations

import os

import numpy as np

import toolkit
from toolkit import tf

from . import latents, sampling
from .grids import SampleGrids
from .monitor import HealthHook
from .scores import extractor
from .scores.scoring import check_selection
from .scores.sides import spread, to_bytes
from .sizes import condition

LOOKED_AT = 500  # real images that the samples are compared with
COUNTED = 256  # samples whose classes are counted: of ten classes more than twenty each


def hooks(model, losses, run, splits):
    """A list of `toolkit.Hook`s; empty where --sample-steps is 0."""
    check_selection(run.options, splits("validation"))
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
        health(run, steps, images, model, losses, splits),
    ]


def grids(run, steps, images, inputs, reals, columns):
    folder = os.path.join(run.folder, "samples")
    columns = columns or int(np.ceil(np.sqrt(len(reals))))
    return SampleGrids(folder, toolkit.Every(steps), images, inputs, reals, columns)


def health(run, steps, images, model, losses, splits):
    scalars = {
        "discriminator_accuracy_real": losses["d_accuracy_real"],
        "discriminator_accuracy_fake": losses["d_accuracy_fake"],
        "critic_gradient_norm": run.logged["critic/gradient_norm"],
        "generator_gradient_norm": run.logged["generator/gradient_norm"],
    }
    train = splits("train")
    # Not the first ones: a folder of images is read class after class.
    reals = as_unit(train.take(spread(len(train), LOOKED_AT))[0])
    classify = None
    if may_know_classes(run, train):
        classify = Classes(run, train)
        inputs = latents.draw(run.options, run.data, COUNTED, run.seed("health"))
        images = sampling.sampled(model.average, inputs, run)
    names = run.data.class_names
    return HealthHook(
        toolkit.Every(steps), scalars, lambda session: session.run(images), reals, classify, names
    )


def may_know_classes(run, train):
    """Whether a classifier may be at hand when the training has begun."""
    if run.options.features == "auto":
        return extractor.learnable(run.data, train)
    return run.options.features != "pixels"


class Classes:
    """Images float32 [N, H, W, C] in [0, 1] -> labels, or None where no classifier is at hand.

    The classifier is that of the scores. It is looked for at the first call: `features=auto` may
    train it between the making of the hooks and the first step. None is trained for this alone.
    """

    def __init__(self, run, train):
        self._run, self._train = run, train
        self._known, self._looked = None, False

    def __call__(self, images):
        with tf.Graph().as_default():  # the training's is finalized
            if not self._looked:
                self._known = extractor.at_hand(self._run.options, self._run.data, self._train)
                self._looked = True
            return self._known and self._known.labels(to_bytes(images))

    def close(self):
        if self._known is not None:
            self._known.close()
        self._known, self._looked = None, False


def real_images(split, inputs, run):
    """As many training images as a grid has samples, in rows of one class where it has those."""
    count = len(inputs["z"])
    if condition(run.options, run.data) == "none":
        return split.take(np.resize(spread(len(split), count), count))[0]
    places = [np.flatnonzero(split.labels == k) for k in range(run.data.num_classes)]
    per_class = count // run.data.num_classes
    chosen = [np.resize(found if len(found) else [0], per_class) for found in places]
    return split.take(np.concatenate(chosen))[0]


def as_unit(features):
    """float32 in [0, 1] of stored images."""
    return features / np.float32(255) if features.dtype == np.uint8 else features
