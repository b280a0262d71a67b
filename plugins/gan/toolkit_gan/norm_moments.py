"""Fixed moments for the batch norm of the discriminator in an evaluation.

In training, batch norm takes its moments from the batch, of real and of generated images each by
itself. An evaluation that did so would give an image another logit in another batch. It therefore
normalises real images by the moments of the run's training images, whatever data is evaluated, and
samples by those of other samples.
Legend: R reference images, H W C of an image.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from toolkit import tf

from . import latents, sampling
from .architecture import conditioning
from .scores.sample_sets import even_positions, to_unit_range

Moments = Dict[str, Any]  # name of a normalisation -> (mean, variance), each [F]


class PairMoments(NamedTuple):
    """The moments for real and for generated images; None: those of the batch."""

    reals: Optional[Moments] = None
    fakes: Optional[Moments] = None


def fixed_moments(model, weights, run) -> PairMoments:
    """The moments over `norm_samples` images of each kind, computed once per session.

    Without batch norm in the discriminator, or without any split of images, there are none.

    Args:
        model: the `networks.Gan`.
        weights: of the discriminator.
        run: the `toolkit.Run`, in mode "eval".
    """
    split = _reference_split(run) if model.discriminator.mixes_examples else None
    if split is None:
        return PairMoments()
    reals = _moments(model.discriminator, weights, *_real_images(split, run))
    return PairMoments(reals, _moments(model.discriminator, weights, *_samples(model, run)))


def _reference_split(run) -> Optional[Any]:
    """The split whose images give the moments of the reals; None without any."""
    needs_labels = conditioning(run.options, run.data) != "none"
    for name in ("train", "validation", "test"):
        split = run.splits(name) if run.splits else None
        if split is not None and not (needs_labels and split.labels is None):
            return split
    return None


def _moments(discriminator, weights, images, labels) -> Moments:
    moments: Moments = {}
    discriminator(images, labels, weights, moments)
    return {name: tuple(map(sampling.store_locally, pair)) for name, pair in moments.items()}


def _samples(model, run) -> Tuple[Any, Any]:
    """Generated images [R, H, W, C] in [-1, 1], and their labels or None."""
    count, seed = run.options.norm_samples, run.seed("standing")
    inputs = latents.random_inputs(run.options, run.data, count, seed)
    images = sampling.sample_fixed_inputs(model.average, inputs, run)
    return 2 * images - 1, inputs.get("label")


def _real_images(split, run) -> Tuple[Any, Any]:
    """Real images [R, H, W, C] in [-1, 1], and their labels or None.

    They are read when a session first needs them: an evaluator loads many checkpoints of a run.
    Evenly spaced: a folder of images is read class after class.
    """
    positions = even_positions(len(split), run.options.norm_samples)
    has_labels = conditioning(run.options, run.data) != "none"

    @functools.lru_cache(maxsize=1)
    def read():
        images, labels = split.take(positions)
        labels = labels if has_labels else np.zeros(len(positions))
        return 2 * to_unit_range(images) - np.float32(1), np.asarray(labels, np.int32)

    # TensorFlow 1.15 refuses a cached function itself.
    images, labels = tf.py_func(lambda: read(), [], [tf.float32, tf.int32], stateful=True)
    images.set_shape([len(positions), *split.shape])
    labels.set_shape([len(positions)])
    return images, labels if has_labels else None
