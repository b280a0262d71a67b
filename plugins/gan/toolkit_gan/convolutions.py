"""Convolutions, and their gradients in the form that is fastest here.

Legend: N batch, H W height and width of an image, h w the same after the stride, C its channels,
F filters, the channels of what is made. Kernels are [size, size, C, F]; the border is of zeros.

Three functions of two tensors; the gradients of each are the other two. TensorFlow's own ops for
two of them are slow in places. Without oneDNN (1.15) it is those that make a kernel or an image of
many channels: they take up to six times as long as the convolution. With oneDNN (2.x) it is the one
that makes an image of few. There forward convolutions do the same work, with the same numbers.
"""

from __future__ import annotations

from toolkit import ONEDNN, tf

WIDE = 16  # channels, from which on they are many


def convolve(x, kernel):
    """x [N, H, W, C], kernel [size, size, C, F] -> [N, H, W, F]."""
    return convolution(x, kernel, 1)


def down(x, kernel):
    """Halve: x [N, H, W, C], kernel [4, 4, C, F] -> [N, ceil(H/2), ceil(W/2), F]."""
    return convolution(x, kernel, 2)


def up(x, kernel, sides):
    """Double: x [N, h, w, F], kernel [4, 4, C, F] -> [N, height, width, C].

    sides: (height, width), each 2h or 2h - 1 and so on. What `down` is to a kernel backwards.
    """
    return image_gradient(x, kernel, 2, sides)


# ---------------------------------------------------------------------------------- three functions


def convolution(x, kernel, stride):
    """x [N, H, W, C] -> [N, h, w, F]. A plain op, which TensorFlow can fuse with what follows."""
    with tf.get_default_graph().gradient_override_map({"Conv2D": "GanConvolution"}):
        return tf.nn.conv2d(x, kernel, strides=stride, padding="SAME")


@tf.RegisterGradient("GanConvolution")
def _gradients(op, y):
    (x, kernel), stride = op.inputs, op.get_attr("strides")[1]
    to_image = image_gradient(y, kernel, stride, x.shape.as_list()[1:3])
    return to_image, kernel_gradient(x, y, stride, int(kernel.shape[0]))


def image_gradient(y, kernel, stride, sides):
    """The gradient of `convolution` w.r.t. x: y [N, h, w, F] -> [N, *sides, C]."""
    size, _, channels, _ = kernel.shape.as_list()
    is_slow = (channels < WIDE) == ONEDNN
    by_turning = is_slow and stride == 1 and size % 2 == 1
    by_sub_pixels = is_slow and stride == 2 and size == 4

    @tf.custom_gradient
    def made(y, kernel):
        def gradients(x):
            return convolution(x, kernel, stride), kernel_gradient(x, y, stride, size)

        if by_turning:
            return turned(y, kernel), gradients
        if by_sub_pixels:
            return sub_pixels(y, kernel, sides), gradients
        shape = [y.shape.as_list()[0] or tf.shape(y)[0], sides[0], sides[1], channels]
        return tf.nn.conv2d_transpose(y, kernel, shape, strides=stride, padding="SAME"), gradients

    return made(y, kernel)


def kernel_gradient(x, y, stride, size):
    """The gradient of `convolution` w.r.t. its kernel: x [N, H, W, C], y [N, h, w, F]."""
    sides, channels, filters = x.shape.as_list()[1:3], int(x.shape[3]), int(y.shape[3])
    is_slow = not ONEDNN and (stride == 2 or channels >= WIDE)

    @tf.custom_gradient
    def made(x, y):
        def gradients(kernel):
            return image_gradient(y, kernel, stride, sides), convolution(x, kernel, stride)

        if is_slow:
            return correlation(x, y, stride, size), gradients
        shape, strides = [size, size, channels, filters], [1, stride, stride, 1]
        own = tf.nn.conv2d_backprop_filter(x, shape, y, strides=strides, padding="SAME")
        return own, gradients

    return made(x, y)


# --------------------------------------------------------------------------------------- fast forms


def turned(y, kernel):
    """`image_gradient` of stride 1 and an odd size: with the kernel turned by half a circle."""
    kernel = tf.transpose(tf.reverse(kernel, [0, 1]), [0, 1, 3, 2])  # [size, size, F, C]
    return tf.nn.conv2d(y, kernel, strides=1, padding="SAME")


def sub_pixels(y, kernel, sides):
    """`image_gradient` of stride 2 and size 4: 2x2 pixels give the 2x2 that lie between them."""
    channels, filters = kernel.shape.as_list()[2:]
    kernel = tf.reverse(tf.reshape(kernel, [2, 2, 2, 2, channels, filters]), [0, 2])
    kernel = tf.reshape(tf.transpose(kernel, [0, 2, 5, 1, 3, 4]), [2, 2, filters, 4 * channels])
    border = [[0, 0], [1, 1], [1, 1], [0, 0]]
    y = tf.nn.conv2d(y, kernel, strides=1, padding=border)  # [N, h + 1, w + 1, 4C]
    y = tf.depth_to_space(y, 2)  # [N, 2h + 2, 2w + 2, C]
    return tf.slice(y, [0, 1, 1, 0], [-1, sides[0], sides[1], -1])


def correlation(x, y, stride, size):
    """`kernel_gradient`: x, its channels as examples and its examples as channels, y as kernel."""
    rows, columns = (_border(side, stride, size) for side in x.shape.as_list()[1:3])
    x = tf.transpose(x, [3, 1, 2, 0])  # [C, H, W, N]
    y = tf.transpose(y, [1, 2, 0, 3])  # [h, w, N, F]
    border = [[0, 0], rows, columns, [0, 0]]
    made = tf.nn.conv2d(x, y, strides=1, padding=border, dilations=stride)  # [C, size, size, F]
    return tf.transpose(made, [1, 2, 0, 3])


def _border(side, stride, size):
    """Zeros before and after a side of so many pixels, as padding="SAME" puts them."""
    whole = max((-(-side // stride) - 1) * stride + size - side, 0)
    return [whole // 2, whole - whole // 2]
