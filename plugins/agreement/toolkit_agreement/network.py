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
    """Stages of convolutions as the classifier's cnn has them; two dense layers project them."""

    def __init__(self, run):
        layers = convolutions.Layers(run, "agreement")
        self._data = run.data
        self._stages = convolutions.Stages(layers, run.data.shape, MAX_FILTERS)
        self._hidden = layers.dense("hidden", self._stages.size, PROJECTION_SIZE, bias=False)
        self._hidden_norm = layers.norm("hidden_norm", PROJECTION_SIZE, rank=2)
        self._projection = layers.dense("projection", PROJECTION_SIZE, PROJECTION_SIZE)

    def embed(self, images, training):
        """The embeddings [N, E] of images [N, H, W, C] in [0, 1]."""
        return self._stages(normalize(images, self._data), training)

    def project(self, images, training):
        """The projections [N, P] of images [N, H, W, C] in [0, 1]."""
        x = self._hidden(self.embed(images, training))
        return self._projection(tf.nn.relu(self._hidden_norm(x, training=training)))


def layer_widths(shape):
    """The filters of each convolution for images of this shape: two for each stage."""
    widths = convolutions.stage_widths(min(shape[:2]), MAX_FILTERS)
    return [width for width in widths for _ in range(2)]


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
        factor = gamma / np.sqrt(variance + convolutions.NORM_EPSILON)
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
        (
            functools.partial(convolutions.convolve, kernel=kernel),
            lambda x, factor=factor, offset=offset: x * factor + offset,
        )
        for kernel, factor, offset in weights
    ]
    return convolutions.apply_stages(images, layers)
