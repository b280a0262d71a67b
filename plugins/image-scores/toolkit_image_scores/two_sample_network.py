"""The network of the two-sample test: small convolutions that tell real from generated images.

It has a graph, a session and random numbers of its own, so that no run changes with it.
Legend: N images, H height, W width, C channels, B images of a batch.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Sequence

import numpy as np

from toolkit import tf

from .sets import HALF_BATCH

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


class RealityNetwork:
    """A network that is trained to tell the images of one set from those of another.

    Args:
        shape: (H, W, C) of the images.
        num_steps: of its training.
        seed: of its weights and batches.

    Attributes:
        num_steps: how many it has made, over all calls of `fit`.
    """

    def __init__(self, shape: Sequence[int], num_steps: int, seed: int):
        self._random = np.random.RandomState(seed)
        self._num_steps = num_steps
        self.num_steps = 0
        self._reach = max(1, round(min(shape[:2]) * SHIFT_SHARE))
        self._mean, self._deviation = np.float32(0), np.float32(1)
        graph = tf.Graph()
        with graph.as_default():
            self._build(tuple(shape))
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        self._session = tf.Session(graph=graph, config=config)

    def __enter__(self) -> RealityNetwork:
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.close()

    def fit(self, reals: np.ndarray, fakes: np.ndarray) -> None:
        """Train from the start, on as many images of each set in each batch.

        Args:
            reals: uint8 [N, H, W, C].
            fakes: uint8 [N, H, W, C].
        """
        self._session.run(self._initialize)
        part = reals[:CHUNK]  # of all, the differences would be floats that fill the memory
        self._mean = np.float32(np.mean(part))
        self._deviation = np.float32(np.std(part) + 1)
        is_shifted = self._num_steps * HALF_BATCH >= MIN_PASSES * len(reals)
        prepare = self._shift if is_shifted else np.asarray
        labels = np.repeat(np.array([1, 0], np.float32), HALF_BATCH)
        batches = zip(self._positions(len(reals)), self._positions(len(fakes)))
        for _, (real_positions, fake_positions) in zip(range(self._num_steps), batches):
            images = np.concatenate([reals[real_positions], fakes[fake_positions]])
            feed = {self._images: self._scale(prepare(images)), self._labels: labels}
            self._session.run(self._step, feed)
            self.num_steps += 1

    def logits(self, images: np.ndarray) -> np.ndarray:
        """float32 [N]: above 0 where an image, uint8 [N, H, W, C], is taken for real."""
        chunks = (images[start : start + CHUNK] for start in range(0, len(images), CHUNK))
        feeds = ({self._images: self._scale(chunk)} for chunk in chunks)
        return np.concatenate([self._session.run(self._logits, feed) for feed in feeds])

    def _build(self, shape: Sequence[int]) -> None:
        variables: List[Any] = []

        def create(shape: Sequence[int], deviation: float) -> Any:
            value = self._random.standard_normal(shape) * deviation
            initial = value.astype(np.float32)
            name = f"variable_{len(variables)}"
            variables.append(tf.get_variable(name, initializer=initial, use_resource=True))
            return variables[-1]

        self._images = tf.placeholder(tf.float32, (None, *shape))
        self._labels = tf.placeholder(tf.float32, [None])
        self._logits = build_logits(self._images, create)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self._labels, logits=self._logits)
        step = tf.train.get_or_create_global_step()
        rate = tf.train.cosine_decay(LEARNING_RATE, step, self._num_steps)
        self._step = tf.train.AdamOptimizer(rate).minimize(
            tf.reduce_mean(losses), step, var_list=variables
        )
        self._initialize = tf.global_variables_initializer()

    def _positions(self, count: int) -> Iterator[np.ndarray]:
        """Yield the positions of batch after batch; each pass over the set has another order."""
        rest = np.zeros(0, np.int64)
        while True:
            while len(rest) < HALF_BATCH:
                rest = np.concatenate([rest, self._random.permutation(count)])
            yield rest[:HALF_BATCH]
            rest = rest[HALF_BATCH:]

    def _shift(self, images: np.ndarray) -> np.ndarray:
        """Shift each image by some pixels up or down and left or right; edges are repeated."""
        reach = self._reach
        wide = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
        count, height, width = images.shape[:3]
        down, right = self._random.randint(0, 2 * reach + 1, (2, count, 1))
        rows, columns = down + np.arange(height), right + np.arange(width)
        return wide[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]

    def _scale(self, images: np.ndarray) -> np.ndarray:
        return (images - self._mean) / self._deviation


def build_logits(images: Any, create: Callable[[Sequence[int], float], Any]) -> Any:
    """Convolutions of stride 2 up to a map of at most `LAST_SIDE` pixels, then a dense layer.

    Args:
        images: tensor float32 [B, H, W, C].
        create: maps shape and standard deviation to a variable with random initial values.

    Returns:
        float32 [B].
    """
    outputs = images
    while outputs is images or max(outputs.shape.as_list()[1:3]) > LAST_SIDE:
        _, height, width, channels = outputs.shape.as_list()
        filters = num_filters(-(-min(height, width) // 2))
        kernel = create([3, 3, channels, filters], (2 / (9 * channels)) ** 0.5)
        outputs = tf.nn.conv2d(outputs, kernel, [1, 2, 2, 1], "SAME") + create([filters], 0)
        outputs = tf.nn.leaky_relu(outputs, SLOPE)
    size = int(np.prod(outputs.shape.as_list()[1:]))
    flat = tf.reshape(outputs, [-1, size])
    return tf.reshape(tf.matmul(flat, create([size, 1], 0.01)) + create([1], 0), [-1])


def num_filters(side: int) -> int:
    """The filters of a map: the power of two next to `WIDTH` / side, within limits."""
    filters = 2 ** round(np.log2(WIDTH / side))
    return int(np.clip(filters, MIN_FILTERS, MAX_FILTERS))
