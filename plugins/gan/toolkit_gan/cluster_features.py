"""The numbers of an image that clusters are computed from: pixels, or a network's embedding.

Both exist twice: for the images of a split, before the first step, and in the graph. What the graph
needs is in variables. Legend: N images, H W C of one, D numbers of an image, F filters.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np
from toolkit_agreement import MAX_FILTERS, train_once

from toolkit import convolutions, tf

from .architecture import num_values

MAX_VALUES = 1024  # of an image; larger ones are averaged over squares of pixels
CHUNK = 1000  # images that are read at a time, ...
CHUNK_VALUES = 2**24  # ... or fewer large ones, with at most so many numbers


class PixelValues:
    """The pixels in [-1, 1], as means over squares where there are many."""

    is_whitened = False  # whether all principal components shall count alike in distances

    def __init__(self, run):
        self._shape = tuple(run.data.shape)
        self.size = num_values(reduced_shape(self._shape))  # D
        self.variables: List[Any] = []  # those that the tensors depend on

    def __call__(self, images):
        """float32 [N, D] of images float32 [N, H, W, C] in [-1, 1]."""
        side = pooling_size(self._shape)
        if side > 1:
            images = tf.nn.avg_pool2d(images, side, side, "VALID")
        return tf.reshape(images, [-1, self.size])

    def read(self, split: Any, positions: np.ndarray) -> Tuple[np.ndarray, List[np.ndarray]]:
        """The numbers of the images at `positions`, float32 [N, D], and the variables' values."""
        chunks = []
        for part in _parts(positions, self._shape):
            images, _ = split.take(part)
            scaled = 2 * np.asarray(to_unit_range(images), np.float32) - 1
            chunks.append(reduce_pixels(scaled))
        return np.concatenate(chunks), []


class NetworkValues:
    """The embedding of a network that learned without labels: see the plugin `agreement`.

    The network is that of the scores' features `self`. It is trained once, and cached; its weights
    are copied into variables of the run. Attributes as in `PixelValues`.
    """

    is_whitened = True  # its few strongest directions say little of what an image shows

    def __init__(self, run):
        self._options, self._data, layers = run.options, run.data, FixedLayers()
        self._stages = convolutions.Stages(layers, run.data.shape, MAX_FILTERS)
        self.size = self._stages.size
        self._names, self.variables = list(layers.variables), list(layers.variables.values())

    def __call__(self, images):
        """float32 [N, D] of images float32 [N, H, W, C] in [-1, 1]."""
        return self._stages((images + 1) / 2, training=False)

    def read(self, split: Any, positions: np.ndarray) -> Tuple[np.ndarray, List[np.ndarray]]:
        """As that of `PixelValues`; trains the network if it is not in the cache."""
        # Not in the graph of the run, which is finalized.
        with tf.Graph().as_default(), train_once(self._options, split) as trained:
            chunks = []
            for part in _parts(positions, self._data.shape):
                images, _ = split.take(part)
                if trained.data.dtype != "uint8":
                    images = to_unit_range(images)
                chunks.append(trained.predict(images)["features"])
            reader = tf.train.load_checkpoint(trained.checkpoint)
            weights = [reader.get_tensor(f"agreement/{name}") for name in self._names]
        return np.concatenate(chunks), weights


def to_unit_range(images: np.ndarray) -> np.ndarray:
    """float32 in [0, 1], from uint8 images or from floats, which are in that range."""
    return images / np.float32(255) if images.dtype == np.uint8 else images


class FixedLayers:
    """Layers for `convolutions.Stages` whose variables, by the names that they have in the scope of
    a trained network, training does not change.
    """

    def __init__(self):
        self.variables: Dict[str, Any] = {}

    def conv(self, name, channels, filters):
        (kernel,) = self._add(name, kernel=[3, 3, channels, filters])
        return lambda x: convolutions.convolve(x, kernel.read_value())

    def norm(self, name, channels):
        names = ("moving_mean", "moving_variance", "beta", "gamma")
        variables = self._add(name, **dict.fromkeys(names, [channels]))

        def apply(x, training):
            values = [each.read_value() for each in variables]
            return tf.nn.batch_normalization(x, *values, convolutions.NORM_EPSILON)

        return apply

    def _add(self, layer, **shapes):
        names = {f"{layer}/{name}": shape for name, shape in shapes.items()}
        added = {name: variable(name, shape) for name, shape in names.items()}
        self.variables.update(added)
        return list(added.values())


VALUES: Dict[str, Callable[[Any], Any]] = {"pixels": PixelValues, "self": NetworkValues}


def variable(
    name: str, shape: Sequence[int], initializer: Any = None, dtype: Any = tf.float32
) -> Any:
    """A variable that training does not change; without an initializer, it starts at 0."""
    return tf.get_variable(
        f"clusters/{name}",
        shape,
        dtype,
        initializer=initializer or tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )


def _parts(positions: np.ndarray, shape: Sequence[int]) -> Iterator[np.ndarray]:
    size = max(1, min(CHUNK, CHUNK_VALUES // num_values(shape)))
    for start in range(0, len(positions), size):
        yield positions[start : start + size]


def pooling_size(shape: Sequence[int]) -> int:
    """The side of the squares of pixels that are averaged, so that few values are left."""
    if len(shape) != 3:
        return 1
    height, width, channels = shape
    side = 1
    while (height // side) * (width // side) * channels > MAX_VALUES and side < min(height, width):
        side += 1
    return side


def reduced_shape(shape: Sequence[int]) -> Tuple[int, ...]:
    """The shape of an image whose squares of pixels are averaged; a rest at the edges is cut."""
    side = pooling_size(shape)
    return tuple(shape) if side == 1 else (shape[0] // side, shape[1] // side, shape[2])


def reduce_pixels(images: np.ndarray) -> np.ndarray:
    """float32 [N, D] from float32 [N, H, W, C] or [N, ...]: means over squares of pixels."""
    side = pooling_size(images.shape[1:])
    if side > 1:
        count, (height, width, channels) = len(images), reduced_shape(images.shape[1:])
        images = images[:, : height * side, : width * side]
        images = images.reshape(count, height, side, width, side, channels).mean(axis=(2, 4))
    return images.reshape(len(images), -1)
