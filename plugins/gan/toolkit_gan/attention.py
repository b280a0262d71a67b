"""Self-attention: each position of a feature map takes values from all positions.

Zhang et al. 2019, Self-Attention Generative Adversarial Networks. As in their code, keys and values
come from a map of half the height and width; here its pixels are means, not maxima.
Legend: N batch, H W height and width of the map, P = H * W positions, M of the halved map,
C channels, Q of queries and keys, V of values.
"""

from __future__ import annotations

from toolkit import tf

from . import architecture
from .blocks import Conv
from .layers import shrink

# The channels of queries, keys and values are those of the map divided by these.
KEY_SHARE, VALUE_SHARE = 8, 2


class Attention:
    """x + scale * attention(x); the scale is learned and initially zero.

    Args:
        variables: the network's `Variables`.
        channels: C.
        kernel_init: kind of the kernels' initializer.
    """

    def __init__(self, variables, channels, kernel_init):
        def add(name, num_in, num_out):
            name = "attention/" + name
            return Conv(variables, name, num_in, num_out, kernel_init, bias=False, size=1)

        self._keys, self._values = max(1, channels // KEY_SHARE), max(1, channels // VALUE_SHARE)
        self._query = add("query", channels, self._keys)
        self._key = add("key", channels, self._keys)
        self._value = add("value", channels, self._values)
        self._output = add("output", self._values, channels)
        variables.add_zeros("attention/scale", [1])

    def __call__(self, values, x):
        """[N, H, W, C] -> [N, H, W, C]; values: name -> tensor, of `Variables.read`."""
        sides, half = x.shape.as_list()[1:3], shrink(x)
        queries = tf.reshape(self._query(values, x), [-1, sides[0] * sides[1], self._keys])
        num_keys = architecture.num_values(half.shape.as_list()[1:3])
        keys = tf.reshape(self._key(values, half), [-1, num_keys, self._keys])  # [N, M, Q]
        contents = tf.reshape(self._value(values, half), [-1, num_keys, self._values])
        result = tf.reshape(attend(queries, keys, contents), [-1, *sides, self._values])
        return x + values["attention/scale"] * self._output(values, result)


def attend(queries, keys, values):
    """The mean of the values, weighted by the softmax of the inner products of query and key.

    Args:
        queries: float32 [N, P, Q].
        keys: float32 [N, M, Q].
        values: float32 [N, M, V].

    Returns:
        float32 [N, P, V].
    """
    weights = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True))  # [N, P, M]
    return tf.matmul(weights, values)


class MapAttention:
    """Self-attention in the feature map that the options name; other maps pass unchanged.

    Args:
        variables: the network's `Variables`.
        options: of the run.
        shape: of an image, (H, W, C).
        channels: of each feature map, by its sides.
        kernel_init: kind of the kernels' initializer.
    """

    def __init__(self, variables, options, shape, channels, kernel_init):
        self._sides = architecture.attention_sides(options, shape)
        if self._sides:
            self._attention = Attention(variables, channels[self._sides], kernel_init)

    def __call__(self, values, x):
        if self._sides != tuple(x.shape.as_list()[1:3]):
            return x
        return self._attention(values, x)
