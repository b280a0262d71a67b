"""Fixed moments for a discriminator that mixes the examples of a batch, in an evaluation.

In training, batch norm takes its moments from the batch, of real and of generated images each by
itself; minibatch standard deviation takes its own. An evaluation that did so would give an image
another logit in another batch. It therefore uses for real images the moments of the run's training
images, whatever data is evaluated, and for samples those of other samples.
Legend: R reference images, H W C of an image.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from toolkit import tf

from . import latents, sampling
from .architecture import has_classes, label_kind
from .differentiable_augmentation import augment
from .images import even_positions, to_unit_range

# Name of a normalisation -> (mean, variance), each [F]; "minibatch_stddev" -> (mean,), a scalar.
Moments = Dict[str, Any]


class PairMoments(NamedTuple):
    """The moments for real and for generated images; None: those of the batch."""

    reals: Optional[Moments] = None
    fakes: Optional[Moments] = None


def fixed_moments(model, weights, run) -> PairMoments:
    """The moments over `norm_samples` images of each kind, computed once per session.

    Where the discriminator mixes no examples, there are none. Without any split of images there are
    none of batch norm; with minibatch standard deviation, reals then have those of samples: a batch
    of an evaluation need not consist of whole groups.

    Args:
        model: the `networks.Gan`.
        weights: of the discriminator.
        run: the `toolkit.Run`, in mode "eval".
    """
    split = _reference_split(run)
    has_any = split is not None or run.options.minibatch_stddev > 0
    if not (model.discriminator.mixes_examples and has_any):
        return PairMoments()
    fakes = _moments(model, weights, run, "standing/augment/fake", *_samples(model, run))
    if split is None:
        return PairMoments(fakes, fakes)
    images = _real_images(model, split, run)
    return PairMoments(_moments(model, weights, run, "standing/augment/real", *images), fakes)


def _reference_split(run) -> Optional[Any]:
    """The split whose images give the moments of the reals; None without any."""
    needs_labels = label_kind(run.options, run.data) == "class"
    for name in ("train", "validation", "test"):
        split = run.splits(name) if run.splits else None
        if split is not None and not (needs_labels and split.labels is None):
            return split
    return None


def _moments(model, weights, run, stream: str, images, labels) -> Moments:
    moments: Moments = {}
    model.discriminator(augment(images, run, stream), labels, weights, moments)
    return {name: tuple(map(sampling.store_locally, pair)) for name, pair in moments.items()}


def _samples(model, run) -> Tuple[Any, Any]:
    """Generated images [R, H, W, C] in [-1, 1], and their labels or None."""
    count = whole_groups(run.options.norm_samples, run.options.minibatch_stddev)
    seed = run.seed("standing")
    inputs = latents.random_inputs(run.options, run.data, count, seed)
    images = sampling.sample_fixed_inputs(model.average, inputs, run)
    return 2 * images - 1, latents.labels_of(inputs, model.clusters)


def _real_images(model, split, run) -> Tuple[Any, Any]:
    """Real images [R, H, W, C] in [-1, 1], and their labels or None.

    They are read when a session first needs them: an evaluator loads many checkpoints of a run.
    Evenly spaced: a folder of images is read class after class.
    """
    positions = even_positions(len(split), run.options.norm_samples)
    group_size = run.options.minibatch_stddev
    if group_size:  # a group has neighbours, which shall not be of one class
        positions = np.random.RandomState(run.seed("standing")).permutation(positions)
        positions = positions[: whole_groups(len(positions), group_size)]
    is_by_class = has_classes(run.options, run.data) and split.labels is not None

    @functools.lru_cache(maxsize=1)
    def read():
        images, labels = split.take(positions)
        labels = labels if is_by_class else np.zeros(len(positions))
        return 2 * to_unit_range(images) - np.float32(1), np.asarray(labels, np.int32)

    # TensorFlow 1.15 refuses a cached function itself.
    images, labels = tf.py_func(lambda: read(), [], [tf.float32, tf.int32], stateful=True)
    images.set_shape([len(positions), *split.shape])
    labels.set_shape([len(positions)])
    labels = labels if is_by_class else None
    return images, labels if model.clusters is None else model.clusters.assign(images, labels)


def whole_groups(count: int, group_size: int) -> int:
    """The largest multiple of the group size up to a count; the count itself if there is none."""
    return count - count % group_size if 0 < group_size <= count else count
