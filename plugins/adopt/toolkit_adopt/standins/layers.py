"""The layers of `tf.contrib.layers` but the normalizations: convolutions, pooling, dense, dropout.

Names of variables and scopes, collections, defaults and arguments are those of TensorFlow 1.15;
the last of them, which docs/adopt_names.md says, are given by name. Images are [N, H, W, C], or
[N, C, H, W] with data_format "NCHW".
"""

from __future__ import annotations

import functools
from typing import Any, List

from toolkit import tf

from .layer import OPTIONS, Layer, as_layer
from .scopes import (
    add_arg_scope,
    collect_named_outputs,
    model_variable,
    n_positive_integers,
    smart_cond,
)

_pair = functools.partial(n_positive_integers, 2)


def _convolution(name: str) -> Any:
    def convolve(
        layer, num_outputs, kernel_size, stride=1, padding="SAME", data_format=None, rate=1
    ):
        """A convolution over the axes between examples and channels."""
        axes = layer.rank - 2
        kernel, *steps = (n_positive_integers(axes, each) for each in (kernel_size, stride, rate))
        arguments = (padding.upper(), *steps, data_format)
        shape = [*kernel, layer.channels, num_outputs]
        return tf.nn.convolution(layer.inputs, layer.variable("weights", shape), *arguments)

    convolve.__name__ = name  # of the scopes that `repeat` and `stack` open
    return as_layer("Conv")(convolve)


convolution = _convolution("convolution")
conv1d = convolution1d = _convolution("convolution1d")
conv2d = convolution2d = _convolution("convolution2d")
conv3d = convolution3d = _convolution("convolution3d")


@as_layer("Conv2d_transpose")
def convolution2d_transpose(
    layer, num_outputs, kernel_size, stride=1, padding="SAME", data_format="NHWC"
):
    """The transpose of a convolution: H and W are multiplied by the stride.

    The weights are [height, width, outputs, inputs].
    """
    kernel, strides = _pair(kernel_size), _pair(stride)
    weights = layer.variable("weights", [*kernel, num_outputs, layer.channels])
    first = 2 if layer.axis == 1 else 1  # the axis of H
    is_valid = padding.upper() == "VALID"
    beyond = [max(k - s, 0) * is_valid for k, s in zip(kernel, strides)]

    def sizes(known: Any) -> List[Any]:
        """Those of the outputs: None where the size of the inputs is."""
        both = zip(known[first : first + 2], strides, beyond)
        spatial = [None if n is None else n * s + b for n, s, b in both]
        return layer.per_axis(spatial, num_outputs, known[0])

    static = sizes(layer.inputs.shape.as_list())
    dynamic = sizes(tf.unstack(tf.shape(layer.inputs)))
    shape = tf.stack([b if a is None else a for a, b in zip(static, dynamic)])
    arguments = shape, layer.per_axis(strides), padding.upper(), data_format
    outputs = tf.nn.conv2d_transpose(layer.inputs, weights, *arguments)
    outputs.set_shape(static)
    return outputs


conv2d_transpose = convolution2d_transpose


@as_layer(
    "SeparableConv2d", "num_outputs kernel_size depth_multiplier stride padding data_format rate"
)
def separable_convolution2d(
    layer,
    num_outputs,
    kernel_size,
    depth_multiplier=1,
    stride=1,
    padding="SAME",
    data_format="NHWC",
    rate=1,
    pointwise_initializer=None,
):
    """A convolution of each channel alone, then one of 1 x 1 over all of them."""
    channels = layer.channels
    weights = [
        layer.variable("depthwise_weights", [*_pair(kernel_size), channels, depth_multiplier])
    ]
    if num_outputs is not None:
        shape = [1, 1, channels * depth_multiplier, num_outputs]
        weights.append(layer.variable("pointwise_weights", shape, pointwise_initializer))
    convolve = tf.nn.depthwise_conv2d if num_outputs is None else tf.nn.separable_conv2d
    arguments = (*weights, layer.per_axis(_pair(stride)), padding.upper())
    return convolve(layer.inputs, *arguments, rate=_pair(rate), data_format=data_format)


separable_conv2d = separable_convolution2d


@as_layer("fully_connected")
def fully_connected(layer, num_outputs):
    """A dense layer over the last axis of [..., features]."""
    weights = layer.variable("weights", [layer.channels, int(num_outputs)])
    product = tf.matmul if layer.rank == 2 else functools.partial(tf.tensordot, axes=1)
    return product(layer.inputs, weights)


@functools.wraps(fully_connected)
def linear(*args: Any, **kwargs: Any) -> Any:
    """`fully_connected` without an activation."""
    return fully_connected(*args, **{"activation_fn": None, **kwargs})


@as_layer("BiasAdd", "activation_fn initializer regularizer", {**OPTIONS, "activation_fn": None})
def bias_add(
    layer, initializer=OPTIONS["biases_initializer"], regularizer=None, data_format="NHWC"
):
    """Add a variable "biases" to the channels."""
    layer.options.update(biases_initializer=initializer, biases_regularizer=regularizer)
    return layer.inputs


def _op(name: str, open_scope: Any = tf.name_scope) -> Any:
    """Call a function in a scope, and collect what it returns (a decorator).

    It gets the arguments `scope` and `outputs_collections`.
    """

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def op(
            *args: Any, outputs_collections: Any = None, scope: Any = None, **kwargs: Any
        ) -> Any:
            with open_scope(scope, name) as opened:
                outputs = function(*args, **kwargs)
                alias = getattr(opened, "name", opened)
                return collect_named_outputs(outputs_collections, alias, outputs)

        return add_arg_scope(op)

    return decorate


def _pool(name: str, op: Any) -> Any:
    def pool(inputs, kernel_size, stride=2, padding="VALID", data_format="NHWC"):
        """The maximum, or the mean, of each window."""
        layer = Layer(tf.convert_to_tensor(inputs), {}, data_format, None)
        sizes, strides = (layer.per_axis(_pair(each)) for each in (kernel_size, stride))
        return op(layer.inputs, sizes, strides, padding.upper(), data_format)

    pool.__name__ = f"{name[:3].lower()}_pool2d"
    return _op(name)(pool)


max_pool2d, avg_pool2d = _pool("MaxPool2D", tf.nn.max_pool), _pool("AvgPool2D", tf.nn.avg_pool)


@_op("Flatten")
def flatten(inputs):
    """[N, ...] as [N, features]."""
    inputs = tf.convert_to_tensor(inputs)
    examples, features = inputs.shape.as_list()[0], inputs.shape[1:].num_elements()
    if features is None:
        return tf.reshape(inputs, [tf.shape(inputs)[0] if examples is None else examples, -1])
    return tf.reshape(inputs, [-1 if examples is None else examples, features])


@_op("Dropout", tf.variable_scope)
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True, *, seed=None):
    """Keep each input with a probability and divide it by that; keep all but in training."""
    inputs = tf.convert_to_tensor(inputs)
    return smart_cond(
        is_training,
        lambda: tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed),
        lambda: tf.identity(inputs),
    )


@_op("OneHotEncoding")
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0):
    """Integer labels [...] as [..., num_classes]."""
    labels = tf.convert_to_tensor(labels)
    labels = tf.cast(labels, tf.int64) if labels.dtype == tf.int32 else labels
    return tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)


def embed_sequence(
    ids, vocab_size=None, embed_dim=None, unique=False, *, scope=None, reuse=None, **options
):
    """The rows of a matrix for integers; `unique` changes no value."""
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        table = model_variable("embeddings", [vocab_size, embed_dim], **options)
        return tf.nn.embedding_lookup(table, ids)


@add_arg_scope
def softmax(logits, scope=None):
    """The softmax over the last axis."""
    with tf.variable_scope(scope, "softmax"):
        return tf.nn.softmax(logits)


def _apply(name: str, default: str, inputs: Any, layer: Any, arguments: Any, options: Any) -> Any:
    """Apply a layer once for each list of arguments, in scopes with numbers from 1 on."""
    scope = options.pop("scope", None)
    with tf.variable_scope(scope, name, [inputs]):
        function = getattr(layer, "func", layer)  # of a partial
        start = scope or getattr(function, "__name__", default)
        for number, args in enumerate(arguments, 1):
            inputs = layer(inputs, *args, scope=f"{start}_{number}", **options)
        return inputs


def repeat(inputs, repetitions, layer, *args, **kwargs):
    """Apply a layer several times, in scopes with numbers from 1 on within one scope."""
    return _apply("Repeat", "repeat", inputs, layer, [args] * repetitions, kwargs)


def stack(inputs, layer, stack_args, **kwargs):
    """Apply a layer once for each of its arguments, in scopes with numbers from 1 on."""
    rows = [args if isinstance(args, (list, tuple)) else [args] for args in stack_args]
    return _apply("Stack", "stack", inputs, layer, rows, kwargs)
