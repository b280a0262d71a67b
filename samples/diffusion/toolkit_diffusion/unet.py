"""A small U-net, which finds the noise in an image.

    images > fold > first > down ------------------------------> up > last > unfold    [H/2, W/2]
                               > shrink > middle > whole > grow >                      [H/4, W/4]

Legend: N examples in a batch, H height, W width, C channels of an image, F and G channels of
layers, E length of the embedding of a time.
"""

from __future__ import annotations

import math

from toolkit import DataError, tf

EMBEDDING = 64  # E
FREQUENCIES = 8  # of the sines and cosines of a time
UNITS = 256  # of the layer that sees the whole image
NARROW = 8  # its inputs for each pixel


class UNet:
    """The network. The constructor creates every variable; calling the object creates none."""

    def __init__(self, run):
        check_data(run.data)
        height, width, channels = run.data.shape
        few, many = run.options.filters, 2 * run.options.filters
        self.embed = dense(run, "time", 2 * FREQUENCIES, EMBEDDING)
        self.first = convolution(run, "first", 4 * channels, few)
        self.down = Block(run, "down", few, few)
        self.shrink = convolution(run, "shrink", few, many, strides=2)
        self.middle = Block(run, "middle", many, many)
        self.whole = Whole(run, "whole", [height // 4, width // 4, many])
        self.grow = Block(run, "grow", many, 4 * few)
        self.up = Block(run, "up", 2 * few, few)
        self.last = convolution(run, "last", few, 4 * channels)

    def __call__(self, images, times):
        """The direction of the noise, [N, H, W, C].

        Args:
            images: float32 [N, H, W, C], noisy.
            times: float32 [N] in [0, 1].
        """
        time = tf.nn.relu(self.embed(waves(times)))  # [N, E]
        x = self.first(tf.space_to_depth(images, 2))  # 2 x 2 pixels become the channels of one
        fine = self.down(x, time)  # [N, H/2, W/2, F]
        x = self.middle(self.shrink(fine), time)  # [N, H/4, W/4, 2F]
        x = self.grow(self.whole(x, time), time)
        x = tf.concat([tf.depth_to_space(x, 2), fine], axis=-1)
        x = self.last(activate(self.up(x, time)))
        return tf.depth_to_space(x, 2)


class Block:
    """Two convolutions and a way around them; the time shifts the channels between them."""

    def __init__(self, run, name, inputs, filters):
        self.first = convolution(run, f"{name}/first", inputs, filters)
        self.time = dense(run, f"{name}/time", EMBEDDING, filters)
        self.second = convolution(run, f"{name}/second", filters, filters)
        self.around = convolution(run, f"{name}/around", inputs, filters, size=1)

    def __call__(self, x, time):
        """[N, H, W, F] and [N, E] -> [N, H, W, G]."""
        h = self.first(activate(x)) + self.time(time)[:, tf.newaxis, tf.newaxis]
        return self.around(x) + self.second(activate(h))


class Whole:
    """Dense layers over the whole image, so that its parts make one shape."""

    def __init__(self, run, name, shape):
        height, width, filters = shape
        self.size = height * width * NARROW
        self.narrow = convolution(run, f"{name}/narrow", filters, NARROW, size=1)
        self.first = dense(run, f"{name}/first", self.size + EMBEDDING, UNITS)
        self.second = dense(run, f"{name}/second", UNITS, height * width * filters)

    def __call__(self, x, time):
        """[N, H, W, F] and [N, E] -> [N, H, W, F]."""
        h = tf.reshape(self.narrow(activate(x)), [-1, self.size])
        h = self.second(tf.nn.relu(self.first(tf.concat([h, time], axis=1))))
        return x + tf.reshape(h, tf.shape(x))


def activate(x):
    """The channels of each pixel, with a mean square of 1, behind a ReLU."""
    scale = tf.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + 1e-6)
    return tf.nn.relu(x * scale)


def waves(times):
    """Sines and cosines of times, [N] -> [N, 2 FREQUENCIES]: near times differ in the fast ones."""
    angles = times[:, tf.newaxis] * [math.pi * 2.0**k for k in range(FREQUENCIES)]
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


def convolution(run, name, inputs, filters, size=3, strides=1):
    """A convolution that keeps the size of the image, or divides it by `strides`."""
    layer = tf.keras.layers.Conv2D(
        filters,
        size,
        strides,
        padding="same",
        kernel_initializer=run.initializer("lecun_normal", name),
    )
    return create_variables(layer, name, [None, None, None, inputs])


def dense(run, name, inputs, units):
    """A dense layer."""
    layer = tf.keras.layers.Dense(units, kernel_initializer=run.initializer("lecun_normal", name))
    return create_variables(layer, name, [None, inputs])


def create_variables(layer, name, input_shape):
    """The layer, with its variables under `name/`."""
    with tf.name_scope(name + "/"):  # the final slash: the same name in every graph
        layer.build(tf.TensorShape(input_shape))
    return layer


def check_data(data) -> None:
    """Raise DataError if the examples are not images whose sides the network can halve twice."""
    if data.feature_names or data.features.kind != "image" or len(data.shape) != 3:
        raise DataError(
            f"A diffusion model needs images, and the data has {data.describe_features()}.",
            hint="Choose images with --data.",
        )
    height, width = data.shape[:2]
    if height % 4 or width % 4:
        raise DataError(
            f"The network halves the sides of images twice, and they have {height} x {width} "
            "pixels.",
            hint="Scale them to a multiple of 4, with --image-size.",
        )
