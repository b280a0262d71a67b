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

from toolkit import augmentation, check_features, check_image_size, convolutions, normalize, tf

from . import MAX_FILTERS

MIN_SIDE = 8  # pixels
PROJECTION_SIZE = 128
SIMILARITY_WEIGHT, VARIANCE_WEIGHT = 25.0, 25.0
EPSILON = 1e-4  # added to a variance under its root


def forward(model, features, run):
    """Embeddings of the images; in the modes "train" and "eval" also projections of two views."""
    if run.mode == "predict":
        return {"embedding": model.embed(features, training=False)}
    if run.mode == "train":
        # One pass of both views: they share the moments of batch norm.
        views = augmentation.augment(tf.concat([features, features], axis=0), run)
        first, second = tf.split(model.project(views, training=True), 2)
        return {"first": first, "second": second}
    other = augmentation.augment(features, run, always=True)
    first, second = (model.project(x, training=False) for x in (features, other))
    return {"first": first, "second": second, "embedding": model.embed(features, training=False)}


def loss(outputs, run):
    """That of VICReg, see above; in an evaluation s alone, a mean over the examples."""
    first, second = outputs["first"], outputs["second"]
    differences = tf.reduce_mean(tf.math.squared_difference(first, second), axis=1)  # [N]
    similarity = tf.reduce_mean(differences)
    if run.mode != "train":
        return similarity
    spread, covariance = (sum(terms) for terms in zip(collapse(first), collapse(second)))
    return SIMILARITY_WEIGHT * similarity + VARIANCE_WEIGHT * spread + covariance


def collapse(projections):
    """v and c of projections [N, P], see above: two scalars."""
    centred = projections - tf.reduce_mean(projections, axis=0, keepdims=True)
    degrees = tf.cast(tf.maximum(tf.shape(projections)[0] - 1, 1), tf.float32)
    variances = tf.reduce_sum(tf.square(centred), axis=0) / degrees  # [P]
    squares = tf.square(tf.matmul(centred, centred, transpose_a=True) / degrees)  # [P, P]
    others = tf.reduce_sum(squares) - tf.reduce_sum(tf.linalg.diag_part(squares))
    shortfall = tf.nn.relu(1.0 - tf.sqrt(variances + EPSILON))
    return tf.reduce_mean(shortfall), others / projections.shape.as_list()[1]


class Encoder:
    """Stages of convolutions as the classifier's cnn has them; two dense layers project them."""

    def __init__(self, run):
        subject = "A network of agreement"
        check_features(run.data, subject)
        check_image_size(run.data.shape, MIN_SIDE, subject, "Choose another plugin")
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
