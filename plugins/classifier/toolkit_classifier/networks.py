"""The networks: from a batch of examples to logits and to the features under them.

Legend: N batch, H W height and width, C channels, F features, K classes. Each network creates its
variables in its constructor, under `<network>/<layer>/`, and none later. Calling it takes
`features` float32 [N, ...] and `training`, and returns `(logits [N, K], features [N, F])`.

Sizes shrink by pooling: a strided convolution's gradient is four times slower on TensorFlow 1.15.
Pooling comes before batch norm and ReLU, which then work on a quarter of the values.
"""

from __future__ import annotations

import functools
import math
import operator

from toolkit import ONEDNN, DataError, UsageError, tf

from .augment import augment, mixup
from .losses import one_hot

SMALLEST = 8  # pixels a side; after two poolings, less leaves nothing to convolve
LAST_SIZE = 8  # pixels a side that the last stage sees at most
WIDEST = 128
WIDE = 16  # channels, from which on they are many
NORM_MOMENTUM = 0.95  # runs of a thousand steps are common: the averages follow within fifty


def build_network(run):
    """The network that `run.options.network` names, for the shapes and classes of `run.data`."""
    check_data(run.options.network, run.data)
    return NETWORKS[run.options.network](run)


def forward(network, features, labels, run):
    """logits [N, K], features [N, F] and, where mixup changed them, targets [N, K]."""
    targets = None
    if run.mode == "train":
        features = augment(features, run)
        if run.options.mixup:
            features, targets = mixup(features, one_hot(labels, run.data.num_classes), run)
    logits, penultimate = network(features, training=run.mode == "train")
    outputs = {"logits": logits, "features": penultimate}
    if targets is not None:
        outputs["targets"] = targets
    return outputs


def check_data(network, data) -> None:
    """Raise DataError or UsageError where `network` cannot learn from `data`."""
    if data.num_classes < 2:
        found = "one class" if data.num_classes else "no labels"
        raise DataError(
            f"The data has {found}, and a classifier needs two classes or more.",
            hint="Choose labelled data with --data, or a plugin that learns without labels.",
        )
    if network == "mlp":
        return
    shape = list(data.shape)
    if len(shape) != 3:
        raise UsageError(
            f"Network '{network}' takes images [H, W, C], but an example of the data has "
            f"shape {shape}.",
            hint="Set network=mlp for data that are not images.",
        )
    if min(shape[:2]) < SMALLEST:
        raise UsageError(
            "Network '{}' takes images of {} x {} pixels or more, but the data has {} x {}.".format(
                network, SMALLEST, SMALLEST, *shape[:2]
            ),
            hint="Set network=mlp, or a larger image_size.",
        )


def stage_widths(shape):
    """Filters of each stage for images `shape`; sizes halve and filters double between stages.

    28 and 32 pixels make three stages (16, 32, 64), 64 pixels four; three is the least.
    """
    halvings = math.ceil(math.log2(min(shape[:2]) / LAST_SIZE))
    return [min(16 * 2**stage, WIDEST) for stage in range(max(3, halvings + 1))]


class Layers:
    """Makes Keras layers under one scope, each built at once from the shape of its input."""

    def __init__(self, run, scope):
        self.run = run
        self.scope = scope

    def dense(self, name, inputs, units, kind="he_normal"):
        layer = tf.keras.layers.Dense(units, kernel_initializer=self._kernel(kind, name))
        return self._built(layer, name, [None, inputs])

    def conv(self, name, channels, filters, size=3):
        layer = tf.keras.layers.Conv2D(
            filters,
            size,
            padding="same",
            use_bias=False,  # the batch norm that follows has one
            kernel_initializer=self._kernel("he_normal", name),
        )
        return functools.partial(convolve, self._built(layer, name, [None, None, None, channels]))

    def norm(self, name, channels, scale="ones"):
        layer = tf.keras.layers.BatchNormalization(momentum=NORM_MOMENTUM, gamma_initializer=scale)
        return self._built(layer, name, [None, None, None, channels])

    def _kernel(self, kind, name):
        return self.run.initializer(kind, f"{self.scope}/{name}/kernel")

    def _built(self, layer, name, shape):
        # A scope that ends with a slash is taken literally: no second build gets a "_1".
        with tf.name_scope(f"{self.scope}/{name}/"):
            layer.build(tf.TensorShape(shape))
        return layer


class Mlp:
    """Flatten, then per hidden layer: dense, ReLU, dropout. Features: the last hidden layer."""

    def __init__(self, run):
        layers = Layers(run, "mlp")
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
    """Stages of two 3x3 convolutions, the mean over positions, dropout, logits."""

    def __init__(self, run):
        layers = Layers(run, "cnn")
        self.run = run
        self.stages = []
        channels, number = run.data.shape[2], 1
        for filters in stage_widths(run.data.shape):
            stage = []
            for _ in range(2):
                conv = layers.conv(f"conv{number}", channels, filters)
                stage.append((conv, layers.norm(f"norm{number}", filters)))
                channels, number = filters, number + 1
            self.stages.append(stage)
        self.logits = layers.dense("logits", channels, run.data.num_classes, "glorot_uniform")

    def __call__(self, features, training):
        x = features
        for stage in self.stages:
            for position, (conv, norm) in enumerate(stage):
                x = conv(x)
                if position == 1 and stage is not self.stages[-1]:
                    x = halve(x)  # [N, H/2, W/2, filters]
                x = tf.nn.relu(norm(x, training=training))
        return head(self, x, "cnn")


class Resnet:
    """A first convolution, stages of two residual blocks, the mean over positions, logits."""

    def __init__(self, run):
        layers = Layers(run, "resnet")
        self.run = run
        widths = stage_widths(run.data.shape)
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
                x = halve(x)  # [N, H/2, W/2, C]
            x = second(first(x, training), training)
        return head(self, x, "resnet")


class Block:
    """Two convolutions beside a shortcut, which is a 1x1 convolution where the width changes."""

    def __init__(self, run, scope, channels, filters):
        layers = Layers(run, scope)
        self.conv1 = layers.conv("conv1", channels, filters)
        self.norm1 = layers.norm("norm1", filters)
        self.conv2 = layers.conv("conv2", filters, filters)
        # From zero: each block starts as its shortcut alone, which trains from the first step.
        self.norm2 = layers.norm("norm2", filters, scale="zeros")
        self.shortcut = None
        if channels != filters:
            self.shortcut = layers.conv("shortcut", channels, filters, size=1)

    def __call__(self, x, training):
        y = tf.nn.relu(self.norm1(self.conv1(x), training=training))
        y = self.norm2(self.conv2(y), training=training)
        return tf.nn.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def convolve(layer, x):
    """layer(x), of a Keras convolution without stride.

    Without oneDNN (1.15), TensorFlow's own gradients of many channels take up to five times as long
    as the convolution itself, and convolutions do the same.
    """
    if ONEDNN or int(x.shape[3]) < WIDE:
        return layer(x)
    with tf.get_default_graph().gradient_override_map({"Conv2D": "ClassifierConvolution"}):
        return layer(x)


@tf.RegisterGradient("ClassifierConvolution")
def _gradients(op, y):
    """For kernels [size, size, C, F] of an odd size and a border of zeros: of x, with the kernel
    turned by half a circle; of the kernel, with channels for examples, examples for channels."""
    x, kernel = op.inputs
    turned = tf.transpose(tf.reverse(kernel, [0, 1]), [0, 1, 3, 2])  # [size, size, F, C]
    to_x = tf.nn.conv2d(y, turned, strides=1, padding="SAME")
    x = tf.transpose(x, [3, 1, 2, 0])  # [C, H, W, N]
    y = tf.transpose(y, [1, 2, 0, 3])  # [H, W, N, F]
    border = [int(kernel.shape[0]) // 2] * 2
    to_kernel = tf.nn.conv2d(x, y, strides=1, padding=[[0, 0], border, border, [0, 0]])
    return to_x, tf.transpose(to_kernel, [1, 2, 0, 3])  # [size, size, C, F]


def halve(x):
    return tf.nn.max_pool(x, ksize=2, strides=2, padding="SAME")


def head(network, x, name):
    """Logits [N, K] and features [N, F] from the last stage's x [N, h, w, F]."""
    features = tf.reduce_mean(x, axis=[1, 2])  # [N, F]
    run = network.run
    dropped = run.dropout(features, run.options.dropout or 0.0, name + "/dropout")
    return network.logits(dropped), features


NETWORKS = {"mlp": Mlp, "cnn": Cnn, "resnet": Resnet}
