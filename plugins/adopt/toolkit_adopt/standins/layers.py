"""The layers of `tf.contrib.layers` but the normalizations: convolutions, pooling, dense, dropout.

Names of variables and scopes, collections and defaults are those of TensorFlow 1.15. Images are
[N, H, W, C], or [N, C, H, W] with data_format "NCHW".
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List

from toolkit import tf

from .arg_scope import add_arg_scope
from .initializers import xavier_initializer
from .outputs import collect_named_outputs, get_variable_collections, smart_cond
from .variables import model_variable

__all__ = [
    "avg_pool2d",
    "bias_add",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "convolution",
    "convolution1d",
    "convolution2d",
    "convolution2d_transpose",
    "convolution3d",
    "dropout",
    "elu",
    "flatten",
    "fully_connected",
    "linear",
    "max_pool2d",
    "maxout",
    "one_hot_encoding",
    "relu",
    "relu6",
    "repeat",
    "separable_conv2d",
    "separable_convolution2d",
    "softmax",
    "stack",
    "unit_norm",
]

ZEROS, XAVIER = tf.zeros_initializer(), xavier_initializer()


def _pair(value: Any, count: int = 2) -> List[int]:
    """One number for each of `count` axes."""
    return [int(each) for each in value] if hasattr(value, "__len__") else [int(value)] * count


def _has_channels_first(data_format: Any) -> bool:
    return str(data_format).startswith("NC")


def _per_axis(values: List[int], data_format: Any) -> List[int]:
    """One number for each axis of a tensor: 1 for examples and channels."""
    return [1, 1, *values] if _has_channels_first(data_format) else [1, *values, 1]


def _size(tensor: Any, axis: int) -> int:
    """The static size of an axis."""
    size = tensor.shape.as_list()[axis]
    if size is None:
        raise ValueError(f"The size of axis {axis} of {tensor.name} {tensor.shape} is not known.")
    return size


class _Layer:
    """The variables of a layer, and what comes after its product with the weights."""

    def __init__(self, inputs: Any, options: Dict[str, Any]):
        self._inputs, self._options = inputs, options

    def variable(self, name: str, kind: str, shape: List[int], initializer=None) -> Any:
        """A variable by the options of its kind, "weights" or "biases"."""
        return model_variable(
            name,
            shape=shape,
            dtype=self._inputs.dtype.base_dtype,
            initializer=initializer or self._options[kind + "_initializer"],
            regularizer=self._options[kind + "_regularizer"],
            trainable=self._options["trainable"],
            collections=get_variable_collections(self._options["variables_collections"], kind),
        )

    def finish(self, outputs: Any, scope: Any) -> Any:
        """Normalize or add biases, activate, and collect."""
        options = self._options
        channels_first = _has_channels_first(options.get("data_format"))
        if options["normalizer_fn"] is not None:
            outputs = options["normalizer_fn"](outputs, **(options["normalizer_params"] or {}))
        elif options["biases_initializer"] is not None:
            biases = self.variable(
                "biases", "biases", [_size(outputs, 1 if channels_first else -1)]
            )
            outputs = tf.nn.bias_add(outputs, biases, "NCHW" if channels_first else None)
        if options["activation_fn"] is not None:
            outputs = options["activation_fn"](outputs)
        return collect_named_outputs(options["outputs_collections"], scope.name, outputs)


@add_arg_scope
def convolution(
    inputs,
    num_outputs,
    kernel_size,
    stride=1,
    padding="SAME",
    data_format=None,
    rate=1,
    activation_fn=tf.nn.relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=XAVIER,
    weights_regularizer=None,
    biases_initializer=ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """A convolution over one to three axes, by the rank of its inputs.

    Args:
        inputs: of rank 3 to 5, the channels last unless `data_format` says otherwise.
        num_outputs: how many channels the outputs have.
        kernel_size, stride, rate: one number, or one for each axis.
        padding: "SAME" or "VALID".
        data_format: such as "NHWC" or "NCHW".
        activation_fn: of the outputs; None for none.
        normalizer_fn, normalizer_params: a function that takes the place of the biases, and its
            arguments.
        weights_initializer, weights_regularizer: of the variable "weights".
        biases_initializer, biases_regularizer: of the variable "biases"; no initializer, no biases.
        reuse: whether the variables exist.
        variables_collections: a list for all variables, or a dictionary by their names.
        outputs_collections: of the outputs.
        trainable: whether the variables are in TRAINABLE_VARIABLES.
        scope: of the variables; a name with a number by default.
    """
    options = dict(locals())
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        axes = len(inputs.shape) - 2
        if axes not in (1, 2, 3):
            raise ValueError(f"A convolution needs inputs of rank 3 to 5, not {inputs.shape}.")
        layer = _Layer(inputs, options)
        channels = _size(inputs, 1 if _has_channels_first(data_format) else -1)
        shape = [*_pair(kernel_size, axes), channels, num_outputs]
        outputs = tf.nn.convolution(
            inputs,
            layer.variable("weights", "weights", shape),
            padding.upper(),
            _pair(stride, axes),
            _pair(rate, axes),
            data_format=data_format,
        )
        return layer.finish(outputs, opened)


conv1d = conv2d = conv3d = convolution
convolution1d = convolution2d = convolution3d = convolution


@add_arg_scope
def convolution2d_transpose(
    inputs,
    num_outputs,
    kernel_size,
    stride=1,
    padding="SAME",
    data_format="NHWC",
    activation_fn=tf.nn.relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=XAVIER,
    weights_regularizer=None,
    biases_initializer=ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """The transpose of a convolution: H and W are multiplied by the stride.

    Args: as of `convolution`; the weights are [height, width, outputs, inputs].
    """
    options = dict(locals())
    with tf.variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = _Layer(inputs, options)
        channels_first = _has_channels_first(data_format)
        kernel, strides = _pair(kernel_size), _pair(stride)
        shape = [*kernel, num_outputs, _size(inputs, 1 if channels_first else -1)]
        weights = layer.variable("weights", "weights", shape)
        first = 2 if channels_first else 1  # the axis of H
        beyond = [
            max(k - s, 0) if padding.upper() == "VALID" else 0 for k, s in zip(kernel, strides)
        ]

        def sizes(known: Any) -> List[Any]:
            """Those of the outputs: None where the size of the inputs is."""
            both = zip(known[first : first + 2], strides, beyond)
            spatial = [None if n is None else n * s + b for n, s, b in both]
            channels = [num_outputs]
            return [known[0]] + (channels + spatial if channels_first else spatial + channels)

        static = sizes(inputs.shape.as_list())
        dynamic = sizes(tf.unstack(tf.shape(inputs)))
        outputs = tf.nn.conv2d_transpose(
            inputs,
            weights,
            tf.stack([b if a is None else a for a, b in zip(static, dynamic)]),
            _per_axis(strides, data_format),
            padding.upper(),
            data_format,
        )
        outputs.set_shape(static)
        return layer.finish(outputs, opened)


conv2d_transpose = convolution2d_transpose


@add_arg_scope
def separable_convolution2d(
    inputs,
    num_outputs,
    kernel_size,
    depth_multiplier=1,
    stride=1,
    padding="SAME",
    data_format="NHWC",
    rate=1,
    activation_fn=tf.nn.relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=XAVIER,
    pointwise_initializer=None,
    weights_regularizer=None,
    biases_initializer=ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """A convolution of each channel alone, then one of 1 x 1 over all of them.

    Args: as of `convolution`, and
        num_outputs: None to leave out the second one.
        depth_multiplier: how many outputs each channel has after the first one.
        pointwise_initializer: of "pointwise_weights"; that of "depthwise_weights" by default.
    """
    options = dict(locals())
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = _Layer(inputs, options)
        channels = _size(inputs, 1 if _has_channels_first(data_format) else -1)
        shape = [*_pair(kernel_size), channels, depth_multiplier]
        depthwise = layer.variable("depthwise_weights", "weights", shape)
        arguments = (_per_axis(_pair(stride), data_format), padding.upper())
        formats = {"rate": _pair(rate), "data_format": data_format}
        if num_outputs is None:
            outputs = tf.nn.depthwise_conv2d(inputs, depthwise, *arguments, **formats)
        else:
            shape = [1, 1, channels * depth_multiplier, num_outputs]
            pointwise = layer.variable("pointwise_weights", "weights", shape, pointwise_initializer)
            outputs = tf.nn.separable_conv2d(inputs, depthwise, pointwise, *arguments, **formats)
        return layer.finish(outputs, opened)


separable_conv2d = separable_convolution2d


@add_arg_scope
def fully_connected(
    inputs,
    num_outputs,
    activation_fn=tf.nn.relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=XAVIER,
    weights_regularizer=None,
    biases_initializer=ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """A dense layer over the last axis of [..., features].

    Args: as of `convolution`.
    """
    options = dict(locals())
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        layer = _Layer(inputs, options)
        weights = layer.variable("weights", "weights", [_size(inputs, -1), int(num_outputs)])
        if len(inputs.shape) == 2:
            outputs = tf.matmul(inputs, weights)
        else:
            outputs = tf.tensordot(inputs, weights, 1)
        return layer.finish(outputs, opened)


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)


@add_arg_scope
def bias_add(
    inputs,
    activation_fn=None,
    initializer=ZEROS,
    regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    data_format="NHWC",
    scope=None,
):
    """Add a variable "biases" to the channels."""
    options = dict(locals(), normalizer_fn=None)
    options.update(biases_initializer=initializer, biases_regularizer=regularizer)
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        return _Layer(inputs, options).finish(inputs, opened)


def _pool(op: Any, inputs, kernel_size, stride, padding, data_format, collections, opened) -> Any:
    inputs = tf.convert_to_tensor(inputs)
    sizes, strides = (_per_axis(_pair(each), data_format) for each in (kernel_size, stride))
    outputs = op(inputs, sizes, strides, padding.upper(), data_format)
    return collect_named_outputs(collections, opened, outputs)


@add_arg_scope
def max_pool2d(
    inputs,
    kernel_size,
    stride=2,
    padding="VALID",
    data_format="NHWC",
    outputs_collections=None,
    scope=None,
):
    """The maximum of each window."""
    with tf.name_scope(scope, "MaxPool2D", [inputs]) as opened:
        options = (kernel_size, stride, padding, data_format, outputs_collections)
        return _pool(tf.nn.max_pool, inputs, *options, opened)


@add_arg_scope
def avg_pool2d(
    inputs,
    kernel_size,
    stride=2,
    padding="VALID",
    data_format="NHWC",
    outputs_collections=None,
    scope=None,
):
    """The mean of each window."""
    with tf.name_scope(scope, "AvgPool2D", [inputs]) as opened:
        options = (kernel_size, stride, padding, data_format, outputs_collections)
        return _pool(tf.nn.avg_pool, inputs, *options, opened)


@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    """[N, ...] as [N, features]."""
    with tf.name_scope(scope, "Flatten", [inputs]) as opened:
        inputs = tf.convert_to_tensor(inputs)
        features = inputs.shape[1:].num_elements()
        examples = inputs.shape.as_list()[0]
        if features is None:
            examples = tf.shape(inputs)[0] if examples is None else examples
            outputs = tf.reshape(inputs, [examples, -1])
        else:
            outputs = tf.reshape(inputs, [-1 if examples is None else examples, features])
        return collect_named_outputs(outputs_collections, opened, outputs)


@add_arg_scope
def dropout(
    inputs,
    keep_prob=0.5,
    noise_shape=None,
    is_training=True,
    outputs_collections=None,
    scope=None,
    seed=None,
):
    """Keep each input with a probability and divide it by that; keep all but in training.

    Args:
        inputs: of any shape.
        keep_prob: the probability, a number or a scalar.
        noise_shape: of the independent decisions; that of the inputs by default.
        is_training: a boolean or a scalar.
        outputs_collections: of the outputs.
        scope: the name scope.
        seed: of the op.
    """
    with tf.variable_scope(scope, "Dropout", [inputs]) as opened:
        inputs = tf.convert_to_tensor(inputs)
        outputs = smart_cond(
            is_training,
            lambda: tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed),
            lambda: tf.identity(inputs),
        )
        return collect_named_outputs(outputs_collections, opened.name, outputs)


@add_arg_scope
def one_hot_encoding(
    labels, num_classes, on_value=1.0, off_value=0.0, outputs_collections=None, scope=None
):
    """Integer labels [...] as [..., num_classes]."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as opened:
        labels = tf.convert_to_tensor(labels)
        labels = tf.cast(labels, tf.int64) if labels.dtype == tf.int32 else labels
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, opened, outputs)


@add_arg_scope
def softmax(logits, scope=None):
    """The softmax over the last axis."""
    with tf.variable_scope(scope, "softmax", [logits]):
        return tf.nn.softmax(logits)


@add_arg_scope
def unit_norm(inputs, dim, epsilon=1e-7, scope=None):
    """Divide by sqrt(epsilon + the sum of squares over an axis)."""
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        squares = tf.reduce_sum(tf.square(inputs), dim, keepdims=True)
        return inputs / tf.sqrt(epsilon + squares)


@add_arg_scope
def maxout(inputs, num_units, axis=-1, scope=None):
    """The maximum of each of `num_units` groups of the features of the last axis.

    Raises:
        ValueError: the features cannot be divided, or the axis is another one.
    """
    with tf.variable_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        features = _size(inputs, axis)
        if features % num_units or axis not in (-1, len(inputs.shape) - 1):
            raise ValueError(
                f"maxout divides the last axis into {num_units} groups: axis {axis} of "
                f"{inputs.shape} cannot be."
            )
        leading = tf.shape(inputs)[:-1]
        groups = tf.reshape(inputs, tf.concat([leading, [num_units, features // num_units]], 0))
        outputs = tf.reduce_max(groups, -1)
        outputs.set_shape([*inputs.shape.as_list()[:-1], num_units])
        return outputs


def _name_of(layer: Any, default: str) -> str:
    return getattr(getattr(layer, "func", layer), "__name__", default)  # of a partial, too


def repeat(inputs, repetitions, layer, *args, **kwargs):
    """Apply a layer several times, in scopes with numbers from 1 on within one scope."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        for number in range(1, repetitions + 1):
            name = f"{scope or _name_of(layer, 'repeat')}_{number}"
            inputs = layer(inputs, *args, scope=name, **kwargs)
        return inputs


def stack(inputs, layer, stack_args, **kwargs):
    """Apply a layer once for each of its arguments, in scopes with numbers from 1 on."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Stack", [inputs]):
        for number, args in enumerate(stack_args, 1):
            name = f"{scope or _name_of(layer, 'stack')}_{number}"
            args = args if isinstance(args, (list, tuple)) else [args]
            inputs = layer(inputs, *args, scope=name, **kwargs)
        return inputs
