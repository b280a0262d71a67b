"""The networks' layers as functions of tensors; none creates or changes a variable.

Convolutions are in `toolkit.convolutions`. Each layer has the second derivative that gradient
penalties need, in both versions of TensorFlow. Three things have none there, or a wrong one, and
are therefore not used: tf.image.resize, moving averages inside a forward pass, and tf.nn.moments,
which treats its mean as a constant.
Legend: N batch, H W height and width, C channels in, F filters out, D product of the other axes.
"""

from __future__ import annotations

from toolkit import tf

SLOPE = 0.2  # of the discriminator's leaky ReLU
EPSILON = 1e-5  # added under the square root of a normalisation
STDDEV_EPSILON = 1e-8  # of `group_stddev`: at zero, the root itself has no finite slope


def batch_size(x):
    """The number of examples in x: an int if it is known, otherwise a tensor."""
    return x.shape.as_list()[0] or tf.shape(x)[0]


def dense(x, kernel):
    """x [N, C], kernel [C, F] -> [N, F]."""
    return tf.matmul(x, kernel)


def enlarge(x, sides):
    """Nearest neighbour: x [N, H, W, C] -> [N, *sides, C], each side doubled or one less."""
    x = tf.depth_to_space(tf.concat([x, x, x, x], axis=3), 2)  # [N, 2H, 2W, C]
    # The gradient of tf.slice is zero padding; that of x[:, :a] takes several times as long.
    return tf.slice(x, [0, 0, 0, 0], [-1, sides[0], sides[1], -1])


def shrink(x):
    """The mean of each 2x2 square: x [N, H, W, C] -> [N, ceil(H/2), ceil(W/2), C]."""
    return tf.nn.avg_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


def leaky_relu(x):
    """x, or a fifth of it where it is negative."""
    return tf.nn.leaky_relu(x, SLOPE)


def batch_moments(x):
    """Mean and variance [C] of each channel over the whole batch; x [N, ..., C]."""
    return _moments(x, list(range(x.shape.ndims - 1)), keepdims=False)


def fused_batch_norm(x, gamma, beta):
    """As `normalise` with `batch_moments`; in one op if gamma and beta are [C]. x [N, ..., C]."""
    if gamma.shape.ndims > 1:
        channels = [int(x.shape[-1])]
        return fused_batch_norm(x, tf.ones(channels), tf.zeros(channels)) * gamma + beta
    is_flat = x.shape.ndims == 2
    if is_flat:
        x = x[:, None, None, :]  # [N, 1, 1, C]
    y = tf.nn.fused_batch_norm(x, gamma, beta, epsilon=EPSILON, is_training=True)[0]
    return tf.squeeze(y, [1, 2]) if is_flat else y


def example_moments(x):
    """Mean and variance [N, 1, ...] of each example; x [N, ..., C]."""
    return _moments(x, list(range(1, x.shape.ndims)), keepdims=True)


def _moments(x, axes, keepdims):
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), axes, keepdims=keepdims)
    return (mean if keepdims else tf.squeeze(mean, axes)), variance


def normalise(x, mean, variance, gamma, beta):
    """Shift and scale x [N, ..., C] to mean beta and standard deviation gamma.

    Both are [C], or [N, 1, ..., C] for examples with values of their own.
    """
    scale = gamma * tf.rsqrt(variance + EPSILON)
    return x * scale + (beta - mean * scale)


def group_stddev(features, group_size: int):
    """How much the images of a group differ: float32 [N, F] -> [N, 1], a feature of each image.

    It is the mean over the features of their standard deviations over the group. A generator that
    makes the same few images is told by their lack of variety, even if each looks real. Images that
    follow one another make up a group; a batch that is no multiple of the size is one group.

    Karras et al. 2018, Progressive Growing of GANs for Improved Quality, Stability, and Variation;
    the groups are those of Karras et al. 2020 (StyleGAN2).
    """
    count, num_features = batch_size(features), int(features.shape[1])
    if isinstance(count, int):
        size = group_size if count % group_size == 0 else count
    else:
        size = tf.where(tf.equal(count % group_size, 0), group_size, count)
    groups = tf.reshape(features, [-1, size, num_features])  # [N / G, G, F]
    deviations = groups - tf.reduce_mean(groups, axis=1, keepdims=True)
    variances = tf.reduce_mean(tf.square(deviations), axis=1)  # [N / G, F]
    stddevs = tf.sqrt(variances + STDDEV_EPSILON)
    stddevs = tf.reduce_mean(stddevs, axis=1, keepdims=True)  # [N / G, 1]
    return tf.reshape(tf.tile(stddevs, [1, size]), [-1, 1])


def attend(queries, keys, values):
    """The mean of the values, weighted by the softmax of the inner products of query and key:
    float32 [N, P, Q], [N, M, Q] and [N, M, V] -> [N, P, V].

    Legend: P positions of a feature map, M of a smaller one, Q of queries and keys, V of values.
    """
    weights = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True))  # [N, P, M]
    return tf.matmul(weights, values)


def power_iteration(kernel, u, iterate):
    """Divide a kernel by an estimate of its largest singular value (Miyato et al. 2018). Gradients
    treat the singular vectors as constants.

    The kernel, float32 [..., F], is used as a matrix [D, F]. `u`, float32 [F], of any length but
    zero, estimates its first right singular vector; with `iterate` one power iteration improves it
    first. Returns the kernel, and u of length one.
    """
    matrix = tf.reshape(kernel, [-1, int(kernel.shape[-1])])  # [D, F]
    u = tf.nn.l2_normalize(u)
    v = tf.nn.l2_normalize(tf.linalg.matvec(matrix, u))  # [D]
    if iterate:
        u = tf.nn.l2_normalize(tf.linalg.matvec(matrix, v, transpose_a=True))  # [F]
    u, v = tf.stop_gradient(u), tf.stop_gradient(v)
    sigma = tf.reduce_sum(v * tf.linalg.matvec(matrix, u))
    return kernel / tf.maximum(sigma, 1e-12), u  # a kernel of zeros stays zero
