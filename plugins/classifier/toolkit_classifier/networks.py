"""The networks: from a batch of examples to logits and the embedding below them.

Legend: N examples in a batch, H W height and width, C channels, K classes, F filters or units, E
length of the embedding (the output of the penultimate layer). A network creates all its variables
in its constructor, under `<network>/<layer>/`. Calling it with `features` float32 [N, ...] and
`training` returns `(logits [N, K], embedding [N, E])`.
"""

from __future__ import annotations

import functools
import math
import operator

from toolkit import (
    DataError,
    augmentation,
    check_features,
    check_image_size,
    convolutions,
    normalize,
    tf,
)

from .losses import one_hot
from .options import HIDDEN

MIN_SIDE = 8  # pixels; after two poolings, a smaller image leaves nothing to convolve
MAX_FILTERS = 128


def build(run):
    """The network that the option `network` names, for the shapes and classes of the data."""
    name = choose_network(run.options.network, run.data)
    check_data(name, run.data)
    if run.options.network == "auto" and name != "mlp" and run.options.hidden != HIDDEN:
        run.note(f"hidden has no effect: network auto is {name} for these images")
    if run.options.tta:
        augmentation.check_views(run.options, run.data.shape)
    return NETWORKS[name](run)


def choose_network(name, data) -> str:
    """The network that an option names; "auto" is the "cnn" for images that it can take."""
    shape = () if data.feature_names else data.shape
    is_image = len(shape) == 3 and min(shape[:2]) >= MIN_SIDE
    return name if name != "auto" else "cnn" if is_image else "mlp"


def forward(network, features, labels, run):
    """Apply the network of `build`, in mode "train" to augmented images.

    The features are float32 [N, ...], images [N, H, W, C] in [0, 1]; labels are int32 [N], or None.
    Returns "logits" [N, K], "features", the embedding [N, E], and with mixup or CutMix in mode
    "train" "targets" [N, K].
    """
    if run.mode != "train":
        return (
            predict_views(network, features, run)
            if run.options.tta
            else apply_network(network, features, run)
        )
    features, targets = augmentation.augment(features, run), None
    mixup, cutmix = run.options.mixup, run.options.cutmix
    if mixup or cutmix:
        targets = one_hot(labels, run.data.num_classes)
        features, targets = augmentation.mix_examples(features, targets, run, mixup, cutmix)
    outputs = apply_network(network, features, run)
    return outputs if targets is None else dict(outputs, targets=targets)


def apply_network(network, features, run):
    """The outputs "logits" [N, K] and "features" [N, E] of a network for images in [0, 1]."""
    logits, embedding = network(normalize(features, run.data), training=run.mode == "train")
    return {"logits": logits, "features": embedding}


def predict_views(network, images, run):
    """The outputs for the mean of the probabilities over several views of each image.

    The logits are the logarithms of these means; the embedding is that of the plain image.
    """
    views = augmentation.map_views(lambda view: apply_network(network, view, run), images, run)
    logs = tf.stack([tf.nn.log_softmax(outputs["logits"]) for outputs in views])  # [V, N, K]
    logits = tf.reduce_logsumexp(logs, axis=0) - math.log(len(views))
    return {"logits": logits, "features": views[0]["features"]}


def predict(outputs):
    """The predicted classes from the outputs of `forward`: "label" int32 [N], its "probability"
    [N], all "probabilities" [N, K], and "features", the embedding [N, E].
    """
    probabilities = tf.nn.softmax(outputs["logits"])
    return {
        "label": tf.argmax(outputs["logits"], axis=1, output_type=tf.int32),
        "probability": tf.reduce_max(probabilities, axis=1),
        "probabilities": probabilities,
        "features": outputs["features"],
    }


def check_data(network, data) -> None:
    """Check that a network can learn from the data. Raises DataError for fewer than two classes, or
    labels of another kind; UsageError if the network needs images, or larger ones.
    """
    check_features(data, "A classifier")
    if data.labels is not None and not data.num_classes:
        labels = data.labels if isinstance(data.labels, dict) else {"labels": data.labels}
        texts = ", ".join(f"{name} {label.describe()}" for name, label in sorted(labels.items()))
        raise DataError(
            f"The data has {texts}, and a classifier needs one class for each example.",
            hint="Choose --plugin regressor for numbers, or one label that is a class, by "
            "--label-kind class if it is one number for each example.",
        )
    if data.num_classes < 2:
        count = "one class" if data.num_classes else "no labels"
        raise DataError(
            f"The data has {count}, and a classifier needs two classes or more.",
            hint="Give examples of several classes (of images: a folder for each), or choose a "
            "plugin that learns without labels.",
        )
    if network != "mlp":
        check_image_size(data.shape, MIN_SIDE, f"Network '{network}'", "Set network=mlp")


class Mlp:
    """Flatten, then dense, ReLU and dropout per hidden layer; the embedding is the last of them."""

    def __init__(self, run):
        layers = convolutions.Layers(run, "mlp")
        self.run = run
        self.dropout = 0.2 if run.options.dropout is None else run.options.dropout
        self.inputs = width = functools.reduce(operator.mul, run.data.shape, 1)
        self.hidden = []
        for number, units in enumerate(run.options.hidden, start=1):
            self.hidden.append(layers.dense(f"hidden{number}", width, units))
            width = units
        self.logits = layers.dense("logits", width, run.data.num_classes, "glorot_uniform")

    def __call__(self, features, training):
        x = tf.reshape(features, [-1, self.inputs])  # [N, H * W * C]
        for number, dense in enumerate(self.hidden, start=1):
            x = tf.nn.relu(dense(x))  # [N, F]
            x = self.run.dropout(x, self.dropout, f"mlp/dropout{number}")
        return self.logits(x), x


class Cnn:
    """Stages of two 3x3 convolutions, then the mean over positions, dropout and logits."""

    def __init__(self, run):
        layers = convolutions.Layers(run, "cnn")
        self.run = run
        self.stages = convolutions.Stages(layers, run.data.shape, MAX_FILTERS)
        self.logits = layers.dense(
            "logits", self.stages.size, run.data.num_classes, "glorot_uniform"
        )

    def __call__(self, features, training):
        return head(self, self.stages(features, training), "cnn")


class Resnet:
    """A convolution, stages of two residual blocks, then the mean over positions and logits."""

    def __init__(self, run):
        layers = convolutions.Layers(run, "resnet")
        self.run = run
        widths = convolutions.stage_widths(min(run.data.shape[:2]), MAX_FILTERS)
        self.conv = layers.conv("conv", run.data.shape[2], widths[0])
        self.norm = layers.norm("norm", widths[0])
        self.stages = []
        channels = widths[0]
        for number, filters in enumerate(widths, start=1):
            first = Block(run, f"resnet/block{number}a", channels, filters)
            second = Block(run, f"resnet/block{number}b", filters, filters)
            self.stages.append((first, second))
            channels = filters
        self.logits = layers.dense("logits", channels, run.data.num_classes, "glorot_uniform")

    def __call__(self, features, training):
        x = tf.nn.relu(self.norm(self.conv(features), training=training))
        for number, (first, second) in enumerate(self.stages):
            if number > 0:
                x = convolutions.halve(x)  # [N, H/2, W/2, C]
            x = second(first(x, training), training)
        return head(self, tf.reduce_mean(x, axis=[1, 2]), "resnet")


class Block:
    """Two convolutions plus a shortcut, which is a 1x1 convolution if the filters change."""

    def __init__(self, run, scope, channels, filters):
        layers = convolutions.Layers(run, scope)
        self.conv1 = layers.conv("conv1", channels, filters)
        self.norm1 = layers.norm("norm1", filters)
        self.conv2 = layers.conv("conv2", filters, filters)
        # A zero scale: at first each block is its shortcut alone, which trains from the first step.
        self.norm2 = layers.norm("norm2", filters, scale="zeros")
        self.shortcut = None
        if channels != filters:
            self.shortcut = layers.conv("shortcut", channels, filters, size=1)

    def __call__(self, x, training):
        y = tf.nn.relu(self.norm1(self.conv1(x), training=training))
        y = self.norm2(self.conv2(y), training=training)
        return tf.nn.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def head(network, embedding, name):
    """Logits [N, K] and the embedding [N, E]."""
    run = network.run
    x = run.dropout(embedding, run.options.dropout or 0.0, name + "/dropout")
    return network.logits(x), embedding


NETWORKS = {"mlp": Mlp, "cnn": Cnn, "resnet": Resnet}
