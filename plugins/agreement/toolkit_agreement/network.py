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

import functools
import re
from typing import Any, List, Sequence, Tuple

import numpy as np

from toolkit import augmentation, check_features, check_image_size, convolutions, normalize, tf

MIN_SIDE = 8  # pixels
MAX_FILTERS = 64
PROJECTION_SIZE = 128
NORM_EPSILON = 1e-3
NORM_MOMENTUM = 0.95  # runs of a thousand steps are common: the averages follow within fifty
SIMILARITY_WEIGHT, VARIANCE_WEIGHT, COVARIANCE_WEIGHT = 25.0, 25.0, 1.0
EPSILON = 1e-4  # added to a variance under its root

# A kernel float32 [3, 3, C, F], and its batch norm as a factor and an offset, float32 [F].
Weights = Tuple[Any, Any, Any]


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
    """Convolutions, then the mean over positions; two dense layers project it."""

    def __init__(self, run):
        self._run, self._convolutions = run, []
        channels = run.data.shape[2]
        for number, filters in enumerate(layer_widths(run.data.shape), start=1):
            name = f"agreement/conv{number}/kernel"
            kernel = tf.get_variable(
                name,
                [3, 3, channels, filters],
                initializer=run.initializer("he_normal", name),
                use_resource=True,
            )
            self._convolutions.append((kernel, self._norm(f"norm{number}", [None] * 3 + [filters])))
            channels = filters
        self._hidden = self._dense("hidden", channels, bias=False)
        self._hidden_norm = self._norm("hidden_norm", [None, PROJECTION_SIZE])
        self._projection = self._dense("projection", PROJECTION_SIZE)

    def embed(self, images, training):
        """The embeddings [N, E] of images [N, H, W, C] in [0, 1]."""
        layers = [
            (kernel.read_value(), functools.partial(norm, training=training))
            for kernel, norm in self._convolutions
        ]
        return convolve(normalize(images, self._run.data), layers)

    def project(self, images, training):
        """The projections [N, P] of images [N, H, W, C] in [0, 1]."""
        x = self._hidden(self.embed(images, training))
        return self._projection(tf.nn.relu(self._hidden_norm(x, training=training)))

    def _dense(self, name, inputs, bias=True):
        initializer = self._run.initializer("he_normal", f"agreement/{name}/kernel")
        layer = tf.keras.layers.Dense(
            PROJECTION_SIZE, use_bias=bias, kernel_initializer=initializer
        )
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
    """The filters of each convolution for images of this shape: two for each stage."""
    widths = convolutions.stage_widths(min(shape[:2]), MAX_FILTERS)
    return [width for width in widths for _ in range(2)]


def convolve(x, layers):
    """Stages of two convolutions [N, H, W, C] -> [N, E], the mean over positions.

    Args:
        x: the images.
        layers: a kernel [3, 3, C, F] and a function for the norm of each convolution.
    """
    for number, (kernel, norm) in enumerate(layers, start=1):
        x = convolutions.convolve(x, kernel)
        if number % 2 == 0 and number < len(layers):  # the last of a stage
            x = convolutions.halve(x)
        x = tf.nn.relu(norm(x))
    return tf.reduce_mean(x, axis=[1, 2])


# -------------------------------------------------------------------------- weights without a run


def read_weights(checkpoint: str) -> List[Weights]:
    """The convolutions of a trained network, in order.

    Args:
        checkpoint: a path, such as `Trained.checkpoint`.
    """
    reader = tf.train.load_checkpoint(checkpoint)
    names = reader.get_variable_to_shape_map()
    count = sum(bool(re.match(r"agreement/conv\d+/kernel$", name)) for name in names)
    weights = []
    for number in range(1, count + 1):
        gamma, beta, mean, variance = (
            reader.get_tensor(f"agreement/norm{number}/{name}")
            for name in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        factor = gamma / np.sqrt(variance + NORM_EPSILON)
        kernel = reader.get_tensor(f"agreement/conv{number}/kernel")
        weights.append((kernel, factor, beta - mean * factor))
    return weights


def embed(images, weights: Sequence[Weights]):
    """The embeddings [N, E] of images [N, H, W, C] in [0, 1], as `predict` has them.

    Args:
        images: float32, in any graph.
        weights: of `read_weights`, as arrays or tensors.
    """
    layers = [
        (kernel, lambda x, factor=factor, offset=offset: x * factor + offset)
        for kernel, factor, offset in weights
    ]
    return convolve(images, layers)
