"""Convolutions, and their gradients in the form that is fastest in this version of TensorFlow.

A plugin uses `Layers`, `Stages`, `convolve`, `down`, `up`, `halve` and `stage_widths`. The
functions `convolution`, `image_gradient` and `kernel_gradient` take two tensors each; the gradients
of each are the other two. TensorFlow's own ops for the gradients are slow in some cases. Without
oneDNN (1.15), the gradients of a kernel or image with many channels take up to six times as long as
the convolution. With oneDNN (2.x), the gradient of an image with few channels is slow. In these
cases, forward convolutions compute the same values.
Legend: N batch, H W height and width of an image, h w the same after the stride, C its channels,
F filters, the channels of the output. Kernels are [size, size, C, F]; images are zero-padded.
"""

from __future__ import annotations

import math
from typing import List

from .compat import ONEDNN, tf

WIDE = 16  # this many channels, or more, are many
MAX_LAST_SIDE = 8  # pixels: the largest side in the last stage of a network that halves images
NORM_MOMENTUM = 0.95  # runs of a thousand steps are common: the averages follow within fifty
NORM_EPSILON = 1e-3


def convolve(x, kernel):
    """x [N, H, W, C], kernel [size, size, C, F] -> [N, H, W, F]."""
    return convolution(x, kernel, 1)


def down(x, kernel):
    """Halve: x [N, H, W, C], kernel [4, 4, C, F] -> [N, ceil(H/2), ceil(W/2), F]."""
    return convolution(x, kernel, 2)


def up(x, kernel, sides):
    """Double: x [N, h, w, F], kernel [4, 4, C, F] -> [N, *sides, C], the transpose of `down`.

    Args:
        x: float32 [N, h, w, F].
        kernel: float32 [4, 4, C, F].
        sides: (height, width), 2h or 2h - 1 and 2w or 2w - 1.
    """
    return image_gradient(x, kernel, 2, sides)


def halve(x):
    """Max-pool to half the size, rounded up. [N, H, W, C] -> [N, H/2, W/2, C].

    On TensorFlow 1.15 it is faster than a stride: the gradient of a strided convolution takes four
    times as long.
    """
    return tf.nn.max_pool(x, ksize=2, strides=2, padding="SAME")


def stage_widths(side: int, max_filters: int) -> List[int]:
    """The filters of each stage of a network for images whose shorter side has `side` pixels.

    Sizes halve and filters double from stage to stage. Images of 28 or 32 pixels get three stages
    (16, 32, 64), images of 64 pixels four; three is the minimum.
    """
    halvings = math.ceil(math.log2(side / MAX_LAST_SIDE))
    return [min(16 * 2**stage, max_filters) for stage in range(max(3, halvings + 1))]


class Layers:
    """Creates Keras layers in one scope, with their variables, from the shape of each input.

    Args:
        run: the `Run`, whose `initializer` gives each kernel its first values.
        scope: of the variables, which are named SCOPE/NAME/kernel, and so on.
    """

    def __init__(self, run, scope):
        self.run = run
        self.scope = scope

    def dense(self, name, inputs, units, kind="he_normal", bias=True):
        """A dense layer: [N, inputs] -> [N, units]."""
        initializer = self._kernel_initializer(kind, name)
        layer = tf.keras.layers.Dense(units, use_bias=bias, kernel_initializer=initializer)
        return self._build(layer, name, [None, inputs])

    def conv(self, name, channels, filters, size=3):
        """A convolution without bias, which the norm after it has: [N, H, W, C] -> [N, H, W, F]."""
        layer = tf.keras.layers.Conv2D(
            filters,
            size,
            padding="same",
            use_bias=False,
            kernel_initializer=self._kernel_initializer("he_normal", name),
        )
        layer = self._build(layer, name, [None, None, None, channels])
        return lambda x: convolve(x, layer.kernel)

    def norm(self, name, channels, scale="ones", rank=4):
        """Batch norm of the last of `rank` axes; it takes `training`, too."""
        layer = tf.keras.layers.BatchNormalization(
            momentum=NORM_MOMENTUM, epsilon=NORM_EPSILON, gamma_initializer=scale
        )
        return self._build(layer, name, [None] * (rank - 1) + [channels])

    def _kernel_initializer(self, kind, name):
        return self.run.initializer(kind, f"{self.scope}/{name}/kernel")

    def _build(self, layer, name, shape):
        # The final slash reuses the scope's exact name: a second build gets no suffix "_1".
        with tf.name_scope(f"{self.scope}/{name}/"):
            layer.build(tf.TensorShape(shape))
        return layer


class Stages:
    """Stages of two 3x3 convolutions, then the mean over positions: [N, H, W, C] -> [N, size].

    Args:
        layers: creates conv1, norm1, conv2, ...
        shape: (H, W, C) of the images.
        max_filters: see `stage_widths`.
    """

    def __init__(self, layers, shape, max_filters):
        self._layers, channels = [], shape[2]
        widths = stage_widths(min(shape[:2]), max_filters)
        for number, filters in enumerate([w for w in widths for _ in range(2)], start=1):
            conv = layers.conv(f"conv{number}", channels, filters)
            self._layers.append((conv, layers.norm(f"norm{number}", filters)))
            channels = filters
        self.size = channels

    def __call__(self, x, training):
        """Pooling precedes the norm and ReLU, which then work on a quarter of the values."""
        for number, (conv, norm) in enumerate(self._layers, start=1):
            x = conv(x)
            if number % 2 == 0 and number < len(self._layers):  # the last of a stage
                x = halve(x)
            x = tf.nn.relu(norm(x, training=training))
        return tf.reduce_mean(x, axis=[1, 2])


# ---------------------------------------------------------------------------------- three functions


def convolution(x, kernel, stride):
    """x [N, H, W, C] -> [N, h, w, F], as a plain op, which TensorFlow can fuse with the next."""
    with tf.get_default_graph().gradient_override_map({"Conv2D": "FastConvolution"}):
        return tf.nn.conv2d(x, kernel, strides=stride, padding="SAME")


@tf.RegisterGradient("FastConvolution")
def _gradients(op, y):
    (x, kernel), stride = op.inputs, op.get_attr("strides")[1]
    to_image = image_gradient(y, kernel, stride, x.shape.as_list()[1:3])
    return to_image, kernel_gradient(x, y, stride, int(kernel.shape[0]))


def image_gradient(y, kernel, stride, sides):
    """The gradient of `convolution` w.r.t. x: y [N, h, w, F] -> [N, *sides, C]."""
    size, _, channels, _ = kernel.shape.as_list()
    is_slow = (channels < WIDE) == ONEDNN
    rotate_kernel = is_slow and stride == 1 and size % 2 == 1
    use_sub_pixels = is_slow and stride == 2 and size == 4

    @tf.custom_gradient
    def compute(y, kernel):
        def gradients(x):
            return convolution(x, kernel, stride), kernel_gradient(x, y, stride, size)

        if rotate_kernel:
            return rotate_and_convolve(y, kernel), gradients
        if use_sub_pixels:
            return convolve_sub_pixels(y, kernel, sides), gradients
        shape = [y.shape.as_list()[0] or tf.shape(y)[0], sides[0], sides[1], channels]
        return tf.nn.conv2d_transpose(y, kernel, shape, strides=stride, padding="SAME"), gradients

    return compute(y, kernel)


def kernel_gradient(x, y, stride, size):
    """The gradient of `convolution` w.r.t. its kernel: x [N, H, W, C], y [N, h, w, F]."""
    sides, channels, filters = x.shape.as_list()[1:3], int(x.shape[3]), int(y.shape[3])
    is_slow = not ONEDNN and (stride == 2 or channels >= WIDE)

    @tf.custom_gradient
    def compute(x, y):
        def gradients(kernel):
            return image_gradient(y, kernel, stride, sides), convolution(x, kernel, stride)

        if is_slow:
            return correlate(x, y, stride, size), gradients
        shape, strides = [size, size, channels, filters], [1, stride, stride, 1]
        own = tf.nn.conv2d_backprop_filter(x, shape, y, strides=strides, padding="SAME")
        return own, gradients

    return compute(x, y)


# --------------------------------------------------------------------------------------- fast forms


def rotate_and_convolve(y, kernel):
    """Compute `image_gradient` for stride 1 and odd sizes, with a kernel rotated by 180 degrees."""
    kernel = tf.transpose(tf.reverse(kernel, [0, 1]), [0, 1, 3, 2])  # [size, size, F, C]
    return tf.nn.conv2d(y, kernel, strides=1, padding="SAME")


def convolve_sub_pixels(y, kernel, sides):
    """Compute `image_gradient` for stride 2 and size 4: 2x2 pixels give the 2x2 between them."""
    channels, filters = kernel.shape.as_list()[2:]
    kernel = tf.reverse(tf.reshape(kernel, [2, 2, 2, 2, channels, filters]), [0, 2])
    kernel = tf.reshape(tf.transpose(kernel, [0, 2, 5, 1, 3, 4]), [2, 2, filters, 4 * channels])
    border = [[0, 0], [1, 1], [1, 1], [0, 0]]
    y = tf.nn.conv2d(y, kernel, strides=1, padding=border)  # [N, h + 1, w + 1, 4C]
    y = tf.depth_to_space(y, 2)  # [N, 2h + 2, 2w + 2, C]
    return tf.slice(y, [0, 1, 1, 0], [-1, sides[0], sides[1], -1])


def correlate(x, y, stride, size):
    """Compute `kernel_gradient` as a convolution of x, with channels as batch, by y as kernel."""
    rows, columns = (_padding(side, stride, size) for side in x.shape.as_list()[1:3])
    x = tf.transpose(x, [3, 1, 2, 0])  # [C, H, W, N]
    y = tf.transpose(y, [1, 2, 0, 3])  # [h, w, N, F]
    border = [[0, 0], rows, columns, [0, 0]]
    kernel = tf.nn.conv2d(x, y, strides=1, padding=border, dilations=stride)  # [C, size, size, F]
    return tf.transpose(kernel, [1, 2, 0, 3])


def _padding(side, stride, size):
    """The zeros before and after a side of `side` pixels with padding="SAME"."""
    total = max((-(-side // stride) - 1) * stride + size - side, 0)
    return [total // 2, total - total // 2]
