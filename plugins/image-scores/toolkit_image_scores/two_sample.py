"""A classifier two-sample test: the share of images that a network tells apart, real or generated.

A small network is trained to tell real from generated images, and tested on others of both sets.
Where no network can tell them apart, it is right on half of them. The test needs no labels and no
features. Lopez-Paz and Oquab (2017), Revisiting Classifier Two-Sample Tests, ICLR.

The tested real images are held out: neither the generator nor the network that judges them was
trained on them. The network is trained on the generator's training images and, where these are
fewer than the held-out ones, on half of the latter as well; it then judges the other half.

Legend: n generated and m real images, H height, W width, C channels.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Mapping, NamedTuple, Optional, Tuple

import numpy as np

import toolkit
from toolkit import statistics

from .sets import HALF_BATCH, even_positions, hash_images, real_images

CHANCE = 0.5  # the accuracy for sets that are alike
NUM_STEPS = 1000  # of the network ...
MAX_SIDE = 64  # ... at most, for images of so many pixels a side; fewer for larger ones
MAX_PASSES = 60  # ... over the training images, at most
MAX_TESTED = 2000  # images of each set
MAX_TRAINING = 10000  # images of each set
MIN_TESTED = 20  # held-out images; of fewer, the interval is as wide as all
LEVEL = 0.95
METHOD = "Wilson, combined by Newcombe"


class Division(NamedTuple):
    """What the network is trained on, and what it judges.

    Attributes:
        reals: uint8 [N, H, W, C] to train on.
        fakes: uint8 [N, H, W, C] to train on.
        tested_reals: int, positions among the real images.
        tested_fakes: int, positions among the generated images.
    """

    reals: np.ndarray
    fakes: np.ndarray
    tested_reals: np.ndarray
    tested_fakes: np.ndarray


def compare_sets(
    reals: np.ndarray,
    fakes: np.ndarray,
    training: Optional[np.ndarray] = None,
    seed: int = 0,
    num_steps: Optional[int] = None,
) -> Tuple[Dict[str, Any], np.ndarray, np.ndarray]:
    """Train a network to tell two sets apart, and test it.

    Args:
        reals: uint8 [m, H, W, C], held out.
        fakes: uint8 [n, H, W, C].
        training: uint8 [N, H, W, C], on which the generator was trained. They are never tested.
        seed: of the choice of the images, and of the network.
        num_steps: of the training; by default what NUM_STEPS, MAX_SIDE and MAX_PASSES allow.

    Returns:
        JSON values; int [n], the positions of the tested ones among the generated images; and their
        logits, float [n], above 0 where one is taken for real. Of the values, "accuracy" is the
        share that the network tells apart, the mean of "fakes" and "reals", the recognised shares
        of both sets; 0.5 where they are alike. "low" and "high": of its 95 % interval. "n" and "m":
        tested generated and real images.
    """
    from .two_sample_network import RealityNetwork

    random = np.random.RandomState(seed)
    parts = divide_sets(reals, fakes, training, random)
    steps, seed = num_steps or default_steps(parts.reals), random.randint(2**31 - 1)
    text = "Training a network to tell samples from real images"
    with RealityNetwork(reals.shape[1:], steps, seed) as network, toolkit.waiting(
        text, steps
    ) as wait:
        wait.follow(lambda: network.num_steps)
        network.fit(parts.reals, parts.fakes)
        real_logits = network.logits(reals[parts.tested_reals])
        fake_logits = network.logits(fakes[parts.tested_fakes])
    real_share, fake_share = float(np.mean(real_logits > 0)), float(np.mean(fake_logits <= 0))
    low, high = interval(real_share, len(real_logits), fake_share, len(fake_logits))
    details = {
        "accuracy": (real_share + fake_share) / 2,
        "low": low,
        "high": high,
        "n": len(fake_logits),
        "m": len(real_logits),
        "fakes": fake_share,
        "reals": real_share,
    }
    return details, parts.tested_fakes, fake_logits


def compare_with_split(
    fakes: np.ndarray,
    split: Any,
    train: Any = None,
    training_digests: AbstractSet[bytes] = frozenset(),
) -> Tuple[Dict[str, Any], np.ndarray, np.ndarray]:
    """The test of generated images against a split.

    Real images on which the generator or the test's network is trained are not tested.

    Args:
        fakes: uint8 [n, H, W, C].
        split: the real images.
        train: the split that the generator was trained on, if it is another one.
        training_digests: `hash_images` of further images on which it was trained.

    Returns:
        "two_sample", see `compare_sets`, or None and perhaps "no_two_sample", why there is none;
        the tested samples, and their logits.
    """
    training = None
    if train is not None:
        training = real_images(train, even_positions(len(train), MAX_TRAINING))
        training_digests = training_digests | set(hash_images(training))
    reals = real_images(split, even_positions(len(split), MAX_TESTED))
    unseen = reals[[digest not in training_digests for digest in hash_images(reals)]]
    absence = explain_absence(len(fakes), len(unseen), len(reals))
    if absence or reals.ndim != 4:  # these may be no images
        reason = {"no_two_sample": absence} if reals.ndim == 4 else {}
        return dict(reason, two_sample=None), fakes[:0], np.zeros(0)
    details, positions, logits = compare_sets(unseen, fakes, training)
    return {"two_sample": details}, fakes[positions], logits


def explain_absence(num_fakes: int, num_unseen: int, num_reals: int) -> str:
    """Why there is no test of so few images; "" if there are enough.

    Args:
        num_fakes: generated images.
        num_unseen: real images on which nothing was trained.
        num_reals: all real images.
    """
    if num_fakes < MIN_TESTED:
        return f"it needs {MIN_TESTED} samples, and there are {num_fakes}"
    if num_unseen >= MIN_TESTED:
        return ""
    hint = " (--test-share holds out more)" if num_unseen == num_reals else ""
    return f"it needs {MIN_TESTED} held-out images, and there are {num_unseen}{hint}"


def default_steps(images: np.ndarray) -> int:
    """The steps of a training on as many real images, [N, H, W, C]."""
    side = (images.shape[1] * images.shape[2]) ** 0.5
    passes = MAX_PASSES * -(-len(images) // HALF_BATCH)
    return max(1, int(min(NUM_STEPS * min(1, MAX_SIDE / side), passes)))


def divide_sets(
    reals: np.ndarray,
    fakes: np.ndarray,
    training: Optional[np.ndarray],
    random: np.random.RandomState,
) -> Division:
    """Divide the images into those that train the network and those that it judges.

    It is trained on as many real as generated images: it remembers some of them, and would take all
    others for members of the set of which it remembers fewer.
    """
    tested_reals = random.permutation(len(reals))[:MAX_TESTED]
    fake_order = random.permutation(len(fakes))
    if training is not None:  # in the order of a split, its end would be the last classes
        training = training[random.permutation(len(training))[:MAX_TRAINING]]
    if training is None or len(training) < len(tested_reals):
        half = len(tested_reals) // 2
        others = reals[tested_reals[half:]]
        training = others if training is None else np.concatenate([others, training])
        tested_reals = tested_reals[:half]
    tested_fakes = fake_order[: min(MAX_TESTED, len(fakes) // 2)]
    used = fake_order[len(tested_fakes) :][: len(training)]
    return Division(training[: len(used)], fakes[used], tested_reals, tested_fakes)


def as_interval(values: Mapping[str, Any]) -> statistics.Interval:
    """The interval of a result as JSON values."""
    return statistics.Interval(values["low"], values["high"], LEVEL, METHOD)


def interval(
    real_share: float, num_reals: int, fake_share: float, num_fakes: int
) -> Tuple[float, float]:
    """The 95 % interval of the mean of two shares.

    Wilson's interval of each share, combined as Newcombe does: the squares of the distances from
    the shares to their lower ends add up to that of the mean, and likewise the upper ends.
    Newcombe (1998), Interval estimation for the difference between independent proportions,
    Statistics in Medicine 17, method 10.
    """
    shares, counts = (real_share, fake_share), (num_reals, num_fakes)
    ends = [statistics.wilson(round(s * count), count, LEVEL) for s, count in zip(shares, counts)]
    below = sum((share - end.low) ** 2 for share, end in zip(shares, ends)) ** 0.5 / 2
    above = sum((end.high - share) ** 2 for share, end in zip(shares, ends)) ** 0.5 / 2
    accuracy = (real_share + fake_share) / 2
    return max(0.0, accuracy - below), min(1.0, accuracy + above)
