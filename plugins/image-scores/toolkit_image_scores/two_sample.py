"""A classifier two-sample test: the share of images that a network tells apart, real or generated.

A small network is trained to tell real from generated images, and tested on others of both sets.
Where no network can tell them apart, it is right on half of them. The test needs no labels and no
features. Lopez-Paz and Oquab (2017), Revisiting Classifier Two-Sample Tests, ICLR.

The tested real images are held out: neither the generator nor the network that judges them was
trained on them. The network is trained on the generator's training images and, where these are
fewer than the held-out ones, on half of the latter as well; it then judges the other half.

Legend: n generated and m real images, H height, W width, C channels, B images of a batch.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

import toolkit
from toolkit import statistics

from .sets import even_positions, hash_images, read_images

CHANCE = 0.5  # the accuracy for sets that are alike
NUM_STEPS = 1000  # of the network ...
MAX_SIDE = 64  # ... at most, for images of so many pixels a side; fewer for larger ones
MAX_PASSES = 60  # ... over the training images, at most
MAX_TESTED = 2000  # images of each set
MAX_TRAINING = 10000  # images of each set
MIN_TESTED = 20  # held-out images; of fewer, the interval is as wide as all
LEVEL = 0.95
METHOD = "Wilson, combined by Newcombe"

HALF_BATCH = 32  # images of each set in a batch of the network
LEARNING_RATE = 2e-3  # at the start; it falls to 0 as a cosine does
WIDTH = 512  # filters x side of the map: each layer costs the same
MIN_FILTERS, MAX_FILTERS = 8, 128
LAST_SIDE = 4  # pixels of the last map, at most
SLOPE = 0.1  # of the leaky ReLU below zero
# Training images are shifted where each is seen so many times or more: the network would learn them
# by heart. It learns more slowly then; where images are many, it learns more without.
MIN_PASSES = 10
SHIFT_SHARE = 1 / 14  # of the side: the largest shift of a training image
CHUNK = 500  # images whose logits are computed at a time


def compare_with_split(
    fakes: np.ndarray,
    split: Any,
    train: Any = None,
    training_digests: AbstractSet[bytes] = frozenset(),
) -> Dict[str, Any]:
    """The test of generated images, uint8 [n, H, W, C], against a split: "two_sample", see
    `compare_sets`, or None and perhaps "no_two_sample", why there is none.

    Real images on which the generator or the test's network is trained are not tested: those of
    `train`, if it is another split, and others by their `hash_images`.
    """
    training = None
    if train is not None:
        training = read_images(train, even_positions(len(train), MAX_TRAINING))
        training_digests = training_digests | set(hash_images(training))
    reals = read_images(split, even_positions(len(split), MAX_TESTED))
    if reals.ndim != 4:  # but numbers
        return {"two_sample": None}
    unseen = reals[[digest not in training_digests for digest in hash_images(reals)]]
    if min(len(fakes), len(unseen)) < MIN_TESTED:
        lack = f"{MIN_TESTED} held-out images, and there are {len(unseen)}"
        if len(unseen) == len(reals):
            lack += " (a run with a larger --test-share holds out more of data without splits of "
            lack += "their own)"
        if len(fakes) < MIN_TESTED:
            lack = f"{MIN_TESTED} samples, and there are {len(fakes)}"
        return {"two_sample": None, "no_two_sample": f"it needs {lack}"}
    return {"two_sample": compare_sets(unseen, fakes, training)}


def compare_sets(
    reals: np.ndarray, fakes: np.ndarray, training: Optional[np.ndarray] = None
) -> Dict[str, float]:
    """Train a network to tell two sets apart, and test it. Images are uint8 [m, H, W, C], held out,
    [n, H, W, C], and [N, H, W, C], on which the generator was trained, and which are never tested.

    "accuracy" is the share that the network tells apart, the mean of "fakes" and "reals", the
    recognised shares of both sets; 0.5 where they are alike. "low" and "high": of its 95 %
    interval. "n" and "m": tested generated and real images.
    """
    random = np.random.RandomState(0)
    training, used, tested_reals, tested_fakes = divide_sets(reals, fakes, training, random)
    steps, seed = count_steps(training), random.randint(2**31 - 1)
    tested = [reals[tested_reals], fakes[tested_fakes]]
    real_logits, fake_logits = judge_images(training, fakes[used], tested, steps, seed)
    real_share, fake_share = float(np.mean(real_logits > 0)), float(np.mean(fake_logits <= 0))
    ends = find_interval(real_logits, fake_logits)
    return {
        "accuracy": (real_share + fake_share) / 2,
        "low": ends.low,
        "high": ends.high,
        "n": len(fake_logits),
        "m": len(real_logits),
        "fakes": fake_share,
        "reals": real_share,
    }


def count_steps(images: np.ndarray) -> int:
    """The steps of a training on as many real images, [N, H, W, C]."""
    side = (images.shape[1] * images.shape[2]) ** 0.5
    passes = MAX_PASSES * -(-len(images) // HALF_BATCH)
    return max(1, int(min(NUM_STEPS * min(1, MAX_SIDE / side), passes)))


def divide_sets(
    reals: np.ndarray,
    fakes: np.ndarray,
    training: Optional[np.ndarray],
    random: np.random.RandomState,
) -> Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Divide the images into those that train the network and those that it judges: the real images
    to train on, uint8 [N, H, W, C], and the positions, int, of the generated ones to train on, of
    the real ones to judge, and of the generated ones to judge.

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
    num_tested = min(MAX_TESTED, len(fakes) // 2)
    used = fake_order[num_tested:][: len(training)]
    return training[: len(used)], used, tested_reals, fake_order[:num_tested]


def as_interval(values: Mapping[str, Any]) -> statistics.Interval:
    """The interval of a result as JSON values."""
    return statistics.Interval(values["low"], values["high"], LEVEL, METHOD)


def find_interval(real_logits: np.ndarray, fake_logits: np.ndarray) -> statistics.Interval:
    """The 95 % interval of the mean of the recognised shares of two sets.

    Wilson's interval of each share, combined as in Newcombe (1998), Interval estimation for the
    difference between independent proportions, Statistics in Medicine 17, method 10.
    """
    sides = real_logits > 0, fake_logits <= 0
    shares = np.array([side.mean() for side in sides])
    ends = np.array([statistics.wilson(side.sum(), len(side), LEVEL)[:2] for side in sides])
    below, above = np.linalg.norm(ends - shares[:, None], axis=0) / 2
    low, high = max(0.0, shares.mean() - below), min(1.0, shares.mean() + above)
    return statistics.Interval(float(low), float(high), LEVEL, METHOD)


# ------------------------------------------------------------------------------------- the network


def judge_images(
    reals: np.ndarray, fakes: np.ndarray, tested: Sequence[np.ndarray], num_steps: int, seed: int
) -> List[np.ndarray]:
    """Train a network to tell two sets apart, uint8 [N, H, W, C] of which each batch has as many of
    both, and let it judge others. Return the logits of each of these sets, float32 [N]: above 0
    where an image is taken for real. The seed is of the weights and the batches.
    """
    random, tf = np.random.RandomState(seed), toolkit.tf  # TensorFlow is imported here
    graph = tf.Graph()
    with graph.as_default():
        images = tf.placeholder(tf.float32, (None, *reals.shape[1:]))
        labels = tf.placeholder(tf.float32, [None])
        logits = build_logits(images, random)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        global_step = tf.train.get_or_create_global_step()
        rate = tf.train.cosine_decay(LEARNING_RATE, global_step, num_steps)
        step = tf.train.AdamOptimizer(rate).minimize(tf.reduce_mean(losses), global_step)
    part = reals[:CHUNK]  # of all, the differences would be floats that fill the memory
    mean, deviation = np.float32(np.mean(part)), np.float32(np.std(part) + 1)
    targets = np.repeat(np.array([1, 0], np.float32), HALF_BATCH)
    batches = zip(draw_positions(len(reals), random), draw_positions(len(fakes), random))
    is_shifted = num_steps * HALF_BATCH >= MIN_PASSES * len(reals)
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    bar = toolkit.waiting("Training a network to tell samples from real images", num_steps)
    with tf.Session(graph=graph, config=config) as session, bar as wait:

        def run(fetched: Any, batch: np.ndarray) -> Any:
            return session.run(fetched, {images: (batch - mean) / deviation, labels: targets})

        session.run(tf.global_variables_initializer())
        for number, (real_rows, fake_rows) in zip(range(num_steps), batches):
            batch = np.concatenate([reals[real_rows], fakes[fake_rows]])
            run(step, shift(batch, random) if is_shifted else batch)
            wait.show(number + 1)
        starts = [range(0, len(each), CHUNK) for each in tested]
        chunks = [[each[at : at + CHUNK] for at in every] for each, every in zip(tested, starts)]
        return [np.concatenate([run(logits, chunk) for chunk in each]) for each in chunks]


def draw_positions(count: int, random: np.random.RandomState) -> Iterator[np.ndarray]:
    """Yield the positions of batch after batch; each pass over the set has another order."""
    rest = np.zeros(0, np.int64)
    while True:
        while len(rest) < HALF_BATCH:
            rest = np.concatenate([rest, random.permutation(count)])
        yield rest[:HALF_BATCH]
        rest = rest[HALF_BATCH:]


def shift(images: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Shift each image by some pixels up or down and left or right; edges are repeated."""
    count, height, width = images.shape[:3]
    reach = max(1, round(min(height, width) * SHIFT_SHARE))
    wide = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    down, right = random.randint(0, 2 * reach + 1, (2, count, 1))
    rows, columns = down + np.arange(height), right + np.arange(width)
    return wide[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def build_logits(images: Any, random: np.random.RandomState) -> Any:
    """Convolutions of stride 2 up to a map of at most `LAST_SIDE` pixels, then a dense layer:
    float32 [B, H, W, C] -> [B]. `random` draws the initial weights.
    """
    tf = toolkit.tf

    def create(shape: Sequence[int], deviation: float) -> Any:
        initial = (random.standard_normal(shape) * deviation).astype(np.float32)
        name = f"variable_{len(tf.global_variables())}"
        return tf.get_variable(name, initializer=initial, use_resource=True)

    outputs = images
    while outputs is images or max(outputs.shape.as_list()[1:3]) > LAST_SIDE:
        _, height, width, channels = outputs.shape.as_list()
        side = -(-min(height, width) // 2)  # each map has about `WIDTH` / side filters
        filters = int(np.clip(2 ** round(np.log2(WIDTH / side)), MIN_FILTERS, MAX_FILTERS))
        kernel = create([3, 3, channels, filters], (2 / (9 * channels)) ** 0.5)
        outputs = tf.nn.conv2d(outputs, kernel, [1, 2, 2, 1], "SAME") + create([filters], 0)
        outputs = tf.nn.leaky_relu(outputs, SLOPE)
    size = int(np.prod(outputs.shape.as_list()[1:]))
    flat = tf.reshape(outputs, [-1, size])
    return tf.reshape(tf.matmul(flat, create([size, 1], 0.01)) + create([1], 0), [-1])
