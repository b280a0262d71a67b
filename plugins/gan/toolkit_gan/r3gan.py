"""The networks of R3GAN (Huang et al. 2024, The GAN is dead; long live the GAN!).

Residual blocks without normalisation, whose last convolution starts at zero, at each size of the
image; between two sizes a smooth resampling; at the smallest size a learned start, or end. There is
no bias but those before the leaky ReLUs. The paper's networks have 768 filters at every size; here
the `width` at full size is doubled with each halving, as in the other networks, so that a step
takes about as long on a CPU. The generator ends in a tanh, which the paper's has not.
Legend: N batch, H W height and width, h w those of the smallest size, C channels, F filters.
"""

from __future__ import annotations

import math

import numpy as np

from toolkit import convolutions, tf

from . import architecture
from .blocks import Conv, Dense, Layer
from .layers import SLOPE, leaky_relu

BLOCKS = 1  # residual blocks at each size
EXPANSION = 2  # filters within a block, in multiples of those of its input
GROUP = 16  # channels of a group of the middle convolution; the paper has 16, too
SMALLEST_SIDE = 4  # pixels: of the shorter side of the start
GAIN = math.sqrt(2 / (1 + SLOPE**2))  # a leaky ReLU of N(0, 1) times this has the mean square 1


class Block:
    """x plus 1x1, leaky ReLU, grouped 3x3, leaky ReLU, 1x1, the last with a kernel of zeros. The
    first two kernels are the smaller the more blocks the whole network has (Zhang et al. 2019,
    Fixup Initialization).
    """

    def __init__(self, variables, name, channels, num_blocks):
        gain, inner = GAIN * num_blocks**-0.25, EXPANSION * channels
        group = GROUP if inner % GROUP == 0 else inner
        self.widen = Conv(
            variables, name + "/conv1", channels, inner, gain / math.sqrt(channels), size=1
        )
        stddev = gain / math.sqrt(9 * group)
        self.mix = GroupConv(variables, name + "/conv2", [3, 3, group, inner], stddev, bias=True)
        self.narrow = Conv(variables, name + "/conv3", inner, channels, 0.0, bias=False, size=1)

    def __call__(self, values, x):
        y = leaky_relu(self.widen(values, x))  # [N, H, W, 2C]
        y = leaky_relu(self.mix(values, y))
        return x + self.narrow(values, y)


class GroupConv(Layer):
    """[N, H, W, G * c] -> [N, H, W, F]: G convolutions of c channels each, side by side."""

    @staticmethod
    def apply(x, kernel):
        """The convolutions; the kernel is [size, size, c, F]."""
        groups = int(x.shape[3]) // int(kernel.shape[2])
        if groups == 1:
            return convolutions.convolve(x, kernel)
        parts = zip(tf.split(x, groups, axis=3), tf.split(kernel, groups, axis=3))
        return tf.concat([convolutions.convolve(*part) for part in parts], axis=3)


class SmoothDown(Layer):
    """[N, H, W, C] -> [N, H/2, W/2, F]: a filter that halves the image, and a 1x1 convolution.

    Both are one convolution, of the product of their kernels.
    """

    @staticmethod
    def apply(x, kernel):
        """The convolution; the kernel is [1, 1, C, F]."""
        return convolutions.down(x, smoothing_filter() * kernel)


class SmoothUp(Layer):
    """[N, H, W, F] -> [N, *sides, C]: a 1x1 convolution, and the filter that doubles the image."""

    @staticmethod
    def apply(x, kernel, sides):
        """The convolution; the kernel is [1, 1, C, F]."""
        return convolutions.up(x, 4 * smoothing_filter() * kernel, sides)


def smoothing_filter():
    """[4, 4, 1, 1], of sum one: [1, 3, 3, 1] / 8 in each direction, as of a bilinear doubling."""
    row = np.array([1, 3, 3, 1], np.float32) / 8
    return tf.constant(np.outer(row, row)[:, :, None, None])


class R3ganGenerator:
    """A learned start, scaled by the latent numbers; blocks; a smooth doubling; blocks; ..."""

    norms = ()

    def __init__(self, run, variables, inputs):
        self.stages = sizes(run.data.shape)[::-1]  # from the smallest
        filters = architecture.filters(run.options, len(self.stages))[::-1]
        self.start = Start(variables, inputs, self.stages[0], filters[0])
        self.groups, self.ups = add_groups(variables, filters), []
        for number, (num_in, num_out) in enumerate(zip(filters, filters[1:]), start=2):
            stddev = 1 / math.sqrt(num_in)
            shape = [1, 1, num_out, num_in]
            self.ups.append(SmoothUp(variables, f"up{number}", shape, stddev, bias=False))
        num_in, channels, stddev = filters[-1], run.data.shape[2], 1 / math.sqrt(filters[-1])
        self.output = Conv(variables, "output", num_in, channels, stddev, bias=False, size=1)

    def __call__(self, values, x, moments):
        x = apply_all(self.groups[0], values, self.start(values, x))  # [N, h, w, F]
        for smooth_up, blocks, sides in zip(self.ups, self.groups[1:], self.stages[1:]):
            x = apply_all(blocks, values, smooth_up(values, x, sides))  # [N, 2h, 2w, F/2]
        return self.output(values, x)  # [N, H, W, C]


class Start:
    """[N, Z] -> [N, h, w, F]: for each filter, a learned image times a number of the input."""

    def __init__(self, variables, inputs, sides, filters):
        self.image = "start/image"
        variables.add_kernel(self.image, [*sides, filters], 1.0)
        stddev = 1 / math.sqrt(inputs)
        self.dense = Dense(variables, "start/dense", inputs, filters, stddev, bias=False)

    def __call__(self, values, x):
        return values[self.image] * self.dense(values, x)[:, None, None, :]


class R3ganDiscriminator:
    """A 1x1 convolution; blocks; a smooth halving; blocks; ...; and for each filter, a number."""

    def __init__(self, options, shape, variables, init):
        stages = sizes(shape)
        filters = architecture.filters(options, len(stages))
        self.features, channels = filters[-1], shape[2]
        stddev = 1 / math.sqrt(channels)
        self.input = Conv(variables, "input", channels, filters[0], stddev, bias=False, size=1)
        self.groups, self.downs = add_groups(variables, filters), []
        for number, (num_in, num_out) in enumerate(zip(filters, filters[1:]), start=2):
            stddev, name = 1 / math.sqrt(num_in), f"down{number}"
            self.downs.append(SmoothDown(variables, name, [1, 1, num_in, num_out], stddev, False))
        self.end = "end/kernel"
        size = architecture.num_values(stages[-1])
        variables.add_kernel(self.end, [*stages[-1], self.features], 1 / math.sqrt(size))

    def __call__(self, values, images):
        x = apply_all(self.groups[0], values, self.input(values, images))  # [N, H, W, F]
        for smooth_down, blocks in zip(self.downs, self.groups[1:]):
            x = apply_all(blocks, values, smooth_down(values, x))  # [N, H/2, W/2, 2F]
        return tf.reduce_sum(x * values[self.end], axis=[1, 2])  # [N, F]


def sizes(shape):
    """(height, width) at full size and after each halving, to a side of four pixels or fewer."""
    return architecture.stages(shape, SMALLEST_SIDE)


def add_groups(variables, filters):
    """The blocks at each size, for the filters there."""
    num_blocks = BLOCKS * len(filters)
    return [
        [
            Block(variables, f"size{size}/block{number}", channels, num_blocks)
            for number in range(1, BLOCKS + 1)
        ]
        for size, channels in enumerate(filters, start=1)
    ]


def apply_all(blocks, values, x):
    """Apply blocks one after the other."""
    for block in blocks:
        x = block(values, x)
    return x
