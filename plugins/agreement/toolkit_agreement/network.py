"""The network, its two views of an image, and the loss that makes them agree.

Each training image is changed twice at random (moved, turned, zoomed, recoloured; never mirrored
unless the options say so). The network maps both views to embeddings, and a small head maps those
to projections, which the loss of VICReg (Bardes et al. 2022) compares:

    25 s(A, B) + 25 (v(A) + v(B)) + (c(A) + c(B))
    s: the mean squared difference of the two projections of an image
    v: the mean over the features of max(0, 1 - standard deviation over the batch)
    c: the sum of the squared covariances of two different features, divided by their number

s alone would make all projections equal; v and c hold them apart. Neither compares an image with
others one by one, so a batch may be small. The scores use the embeddings, not the projections: the
latter keep less of what the views differ in.

Legend: N images of a batch, H W height and width, C channels, F filters, E length of an embedding,
P length of a projection.
"""

from __future__ import annotations

import re
from typing import Any, List, NamedTuple, Sequence

import numpy as np

from toolkit import augmentation, check_features, check_image_size, convolutions, normalize, tf

MIN_SIDE = 8  # pixels
MAX_SIDE = 64  # pixels: the shorter side of larger images is reduced below it
MAX_FILTERS = 64
PROJECTION_SIZE = 128
NORM_EPSILON = 1e-3
NORM_MOMENTUM = 0.95  # runs of a thousand steps are common: the averages follow within fifty
SIMILARITY_WEIGHT, VARIANCE_WEIGHT, COVARIANCE_WEIGHT = 25.0, 25.0, 1.0
EPSILON = 1e-4  # added to a variance under its root


def build(run):
    """The encoder for the shape of the data."""
    check_features(run.data, "A network of agreement")
    check_image_size(run.data.shape, MIN_SIDE, "A network of agreement", "Use larger images")
    return Encoder(run)


def forward(model, features, run):
    """Embeddings of the images; in the modes "train" and "eval" also projections of two views."""
    if run.mode == "predict":
        return {"embedding": model.embed(features, training=False)}
    if run.mode == "train":
        # One pass of both views: they share the moments of batch norm.
        views = change(tf.concat([features, features], axis=0), run)
        first, second = tf.split(model.project(views, training=True), 2)
        return {"first": first, "second": second}
    first, second = (model.project(x, training=False) for x in (features, change(features, run)))
    return {"first": first, "second": second, "embedding": model.embed(features, training=False)}


def loss(outputs, run):
    """That of VICReg; in an evaluation the disagreement, a mean over the examples."""
    first, second = outputs["first"], outputs["second"]
    if run.mode != "train":
        return tf.reduce_mean(disagreement(first, second))
    return vicreg_loss(first, second)


# -------------------------------------------------------------------------------------- the views


def change(images, run):
    """Change each of the images [N, H, W, C] at random, as the options say, in any mode."""
    move = augmentation.draw_move(images, run)
    return augmentation.adjust_colour(images if move is None else move.read(images), run)


# --------------------------------------------------------------------------------------- the loss


def vicreg_loss(first, second):
    """The loss of the projections [N, P] of two views, see above; N is 2 or more."""
    similarity = tf.reduce_mean(disagreement(first, second))
    spread = shortfall(first) + shortfall(second)
    covariance = redundancy(first) + redundancy(second)
    return (
        SIMILARITY_WEIGHT * similarity + VARIANCE_WEIGHT * spread + COVARIANCE_WEIGHT * covariance
    )


def disagreement(first, second):
    """The mean squared difference of the two projections of each image, float32 [N]."""
    return tf.reduce_mean(tf.math.squared_difference(first, second), axis=1)


def shortfall(projections):
    """How far the standard deviations of the features [N, P] are below 1, on average: a scalar."""
    centred = _centre(projections)
    variances = tf.reduce_sum(tf.square(centred), axis=0) / _degrees(projections)
    return tf.reduce_mean(tf.nn.relu(1.0 - tf.sqrt(variances + EPSILON)))


def redundancy(projections):
    """The sum of the squared covariances of different features [N, P], over P: a scalar."""
    centred = _centre(projections)
    covariance = tf.matmul(centred, centred, transpose_a=True) / _degrees(projections)  # [P, P]
    squares = tf.square(covariance)
    own = tf.reduce_sum(tf.linalg.diag_part(squares))
    return (tf.reduce_sum(squares) - own) / projections.shape.as_list()[1]


def _centre(projections):
    return projections - tf.reduce_mean(projections, axis=0, keepdims=True)


def _degrees(projections):
    """The degrees of freedom of a variance over N examples."""
    return tf.cast(tf.maximum(tf.shape(projections)[0] - 1, 1), tf.float32)


# ------------------------------------------------------------------------------------ the network


class Encoder:
    """Stages of two 3x3 convolutions, then the mean over positions; two dense layers project it.

    Attributes:
        size: E.
    """

    def __init__(self, run):
        self._run = run
        self._layers = []
        channels = run.data.shape[2]
        for number, filters in enumerate(layer_widths(run.data.shape), start=1):
            self._layers.append(self._conv(f"conv{number}", channels, filters))
            channels = filters
        self.size = channels
        self._hidden = self._dense("hidden", channels, PROJECTION_SIZE, bias=False)
        self._hidden_norm = self._norm("hidden_norm", [None, PROJECTION_SIZE])
        self._projection = self._dense("projection", PROJECTION_SIZE, PROJECTION_SIZE)

    def embed(self, images, training):
        """The embeddings [N, E] of images [N, H, W, C] in [0, 1]."""
        x = reduce_size(normalize(images, self._run.data))
        for number, (kernel, norm) in enumerate(self._layers):
            x = convolutions.convolve(x, kernel.read_value())
            x = convolutions.halve(x) if is_halved(number, len(self._layers)) else x
            x = tf.nn.relu(norm(x, training=training))
        return tf.reduce_mean(x, axis=[1, 2])

    def project(self, images, training):
        """The projections [N, P] of images [N, H, W, C] in [0, 1]."""
        x = self._hidden(self.embed(images, training))
        return self._projection(tf.nn.relu(self._hidden_norm(x, training=training)))

    def _conv(self, name, channels, filters):
        kernel = tf.get_variable(
            f"agreement/{name}/kernel",
            [3, 3, channels, filters],
            initializer=self._run.initializer("he_normal", f"agreement/{name}/kernel"),
            use_resource=True,
        )
        return kernel, self._norm(name.replace("conv", "norm"), [None, None, None, filters])

    def _dense(self, name, inputs, units, bias=True):
        initializer = self._run.initializer("he_normal", f"agreement/{name}/kernel")
        layer = tf.keras.layers.Dense(units, use_bias=bias, kernel_initializer=initializer)
        return self._build(layer, name, [None, inputs])

    def _norm(self, name, shape):
        layer = tf.keras.layers.BatchNormalization(momentum=NORM_MOMENTUM, epsilon=NORM_EPSILON)
        return self._build(layer, name, shape)

    def _build(self, layer, name, shape):
        # The final slash reuses the scope's exact name: a second build gets no suffix "_1".
        with tf.name_scope(f"agreement/{name}/"):
            layer.build(tf.TensorShape(shape))
        return layer


def layer_widths(shape):
    """The filters of each convolution for images of this shape: six at 28 or 32 pixels."""
    side = min(shape[:2]) // reduction(shape)
    return [w for w in convolutions.stage_widths(side, MAX_FILTERS) for _ in range(2)]


def is_halved(number, num_layers):
    """Whether convolution `number` (from 0) is the last of its stage, and that not the last one."""
    return number % 2 == 1 and number < num_layers - 1


def reduction(shape):
    """By which whole number the sides of images of this shape are divided first."""
    return -(-min(shape[:2]) // MAX_SIDE)


def reduce_size(images):
    """The means of squares of pixels, so that the shorter side is `MAX_SIDE` or less."""
    factor = reduction(images.shape.as_list()[1:])
    if factor == 1:
        return images
    return tf.nn.avg_pool(images, ksize=factor, strides=factor, padding="SAME")


# -------------------------------------------------------------------------- weights without a run


class Weights(NamedTuple):
    """One convolution of a trained network, and its batch norm as a factor and an offset.

    Attributes:
        kernel: float32 [3, 3, C, F].
        factor: float32 [F].
        offset: float32 [F].
    """

    kernel: Any
    factor: Any
    offset: Any


def read_weights(checkpoint: str) -> List[Weights]:
    """The convolutions of a trained network, as arrays, in order.

    Args:
        checkpoint: a path, such as `Trained.checkpoint`.
    """
    reader = tf.train.load_checkpoint(checkpoint)
    names = reader.get_variable_to_shape_map()
    count = sum(bool(re.match(r"agreement/conv\d+/kernel$", name)) for name in names)
    return [_read_layer(reader.get_tensor, number) for number in range(1, count + 1)]


def _read_layer(read, number: int) -> Weights:
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    gamma, beta, mean, variance = (read(f"agreement/norm{number}/{name}") for name in names)
    factor = gamma / np.sqrt(variance + NORM_EPSILON)
    return Weights(read(f"agreement/conv{number}/kernel"), factor, beta - mean * factor)


def embed(images, weights: Sequence[Weights]):
    """The embeddings [N, E] of images [N, H, W, C] in [0, 1], as `predict` has them.

    Args:
        images: float32, in any graph.
        weights: of `read_weights`, as arrays or tensors.
    """
    x = reduce_size(images)
    for number, layer in enumerate(weights):
        x = convolutions.convolve(x, layer.kernel)
        x = convolutions.halve(x) if is_halved(number, len(weights)) else x
        x = tf.nn.relu(x * layer.factor + layer.offset)
    return tf.reduce_mean(x, axis=[1, 2])
