"""The normalizations of `tf.contrib.layers`: of a batch, a layer, an instance, groups of channels.

batch_norm: Ioffe & Szegedy, https://arxiv.org/abs/1502.03167. layer_norm: Ba et al.,
https://arxiv.org/abs/1607.06450. instance_norm: Ulyanov et al., https://arxiv.org/abs/1607.08022.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List, Tuple

from toolkit import tf

from .arg_scope import add_arg_scope
from .outputs import collect_named_outputs, constant_value, get_variable_collections, smart_cond
from .variables import model_variable

__all__ = ["batch_norm", "instance_norm", "layer_norm"]

INITIALIZERS = {
    "beta": tf.zeros_initializer(),
    "gamma": tf.ones_initializer(),
    "moving_mean": tf.zeros_initializer(),
    "moving_variance": tf.ones_initializer(),
}


def _parameter(name: str, size: List[int], dtype: Any, options: Dict[str, Any]) -> Any:
    """One of the variables of INITIALIZERS."""
    return model_variable(
        name,
        shape=size,
        dtype=dtype,
        initializer=(options.get("param_initializers") or {}).get(name, INITIALIZERS[name]),
        regularizer=(options.get("param_regularizers") or {}).get(name),
        trainable=options["trainable"] and not name.startswith("moving"),
        collections=get_variable_collections(options["variables_collections"], name),
    )


def _parameters(
    size: List[int], dtype: Any, options: Dict[str, Any], order: Tuple[str, str] = ("beta", "gamma")
) -> Dict[str, Any]:
    """beta if the options center, gamma if they scale: in the order of creation, None if not."""
    wanted = {"beta": options["center"], "gamma": options["scale"]}
    return {
        name: _parameter(name, size, dtype, options) if wanted[name] else None for name in order
    }


def _finish(outputs: Any, options: Dict[str, Any], scope: Any) -> Any:
    if options["activation_fn"] is not None:
        outputs = options["activation_fn"](outputs)
    return collect_named_outputs(options["outputs_collections"], scope.name, outputs)


def _update(average: Any, value: Any, decay: Any, zero_debias: bool = False) -> Any:
    """An op that moves an average towards a value."""
    averages = importlib.import_module("tensorflow.python.training.moving_averages")
    return averages.assign_moving_average(average, value, decay, zero_debias=zero_debias)


@add_arg_scope
def batch_norm(
    inputs,
    decay=0.999,
    center=True,
    scale=False,
    epsilon=0.001,
    activation_fn=None,
    param_initializers=None,
    param_regularizers=None,
    updates_collections=tf.GraphKeys.UPDATE_OPS,
    is_training=True,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    batch_weights=None,
    fused=None,
    data_format="NHWC",
    zero_debias_moving_mean=False,
    scope=None,
    renorm=False,
    renorm_clipping=None,
    renorm_decay=0.99,
    adjustment=None,
):
    """Normalize each channel by the batch in training, else by moving averages.

    Args:
        inputs: of rank 2 or more.
        decay: of the moving averages.
        center, scale: whether there are the variables "beta" and "gamma".
        epsilon: added to variances.
        activation_fn: of the outputs.
        param_initializers, param_regularizers: name of a variable -> its own.
        updates_collections: where the updates of the averages go; None to make them at once.
        is_training: a boolean or a scalar.
        reuse, variables_collections, outputs_collections, trainable, scope: as of `convolution`.
        fused: False for a variance without Bessel's correction; by default rank 2 and 4 have it.
        data_format: "NHWC" or "NCHW".
        zero_debias_moving_mean: whether the average's start at zero is corrected.
        batch_weights, renorm, renorm_clipping, renorm_decay, adjustment: not available.

    Raises:
        ValueError: an argument that is not available, or an unknown number of channels.
    """
    options = dict(locals())
    if batch_weights is not None or renorm or adjustment is not None:
        raise ValueError(
            "The stand-in of batch_norm has no batch_weights, renorm and adjustment: leave them "
            "out, or run the script on TensorFlow 1.15."
        )
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = len(inputs.shape)
        axis = 1 if data_format == "NCHW" else rank - 1
        channels = inputs.shape.as_list()[axis]
        if channels is None:
            raise ValueError(
                f"The number of channels of {inputs.name} {inputs.shape} is not known."
            )
        fused = fused is not False and rank in (2, 4)
        dtype = tf.float32 if fused else inputs.dtype.base_dtype
        # By default 1.15 made them by a layer of `tf.layers`, which begins with gamma.
        is_layer = (
            updates_collections is tf.GraphKeys.UPDATE_OPS
            and not zero_debias_moving_mean
            and not (rank == 2 and fused)
        )
        order = ("gamma", "beta") if is_layer else ("beta", "gamma")
        parameters = _parameters([channels], dtype, options, order)
        averages = [
            _parameter(name, [channels], dtype, options)
            for name in ("moving_mean", "moving_variance")
        ]
        normalize = _normalize_fused if fused else _normalize
        outputs, moments = normalize(inputs, axis, parameters, averages, epsilon, is_training)

        def update() -> List[Any]:
            (mean, variance), (batch_mean, batch_variance) = averages, moments
            return [
                _update(mean, batch_mean, decay, zero_debias_moving_mean),
                _update(variance, batch_variance, decay),
            ]

        def update_now() -> Any:
            with tf.control_dependencies(update()):
                return tf.identity(outputs)

        known = constant_value(is_training)
        if known is None or known:
            if updates_collections is None:
                outputs = smart_cond(is_training, update_now, lambda: outputs)
            else:
                kept = lambda: [tf.identity(each) for each in averages]  # noqa: E731
                for each in smart_cond(is_training, update, kept):
                    tf.get_default_graph().add_to_collections(updates_collections, each)
        outputs.set_shape(inputs.shape)
        return _finish(outputs, options, opened)


def _normalize_fused(inputs, axis, parameters, averages, epsilon, is_training):
    """The outputs, and mean and variance: of the batch in training, else the averages."""
    channels = int(averages[0].shape[0])
    beta, gamma = parameters["beta"], parameters["gamma"]
    beta = tf.zeros([channels]) if beta is None else beta
    gamma = tf.ones([channels]) if gamma is None else gamma
    is_flat = len(inputs.shape) == 2
    images = tf.reshape(inputs, [-1, 1, 1, channels]) if is_flat else inputs
    arguments = {"epsilon": epsilon, "data_format": "NCHW" if axis == 1 and not is_flat else "NHWC"}
    mean, variance = averages
    outputs, *moments = smart_cond(
        is_training,
        lambda: tf.nn.fused_batch_norm(images, gamma, beta, **arguments),
        lambda: tf.nn.fused_batch_norm(
            images, gamma, beta, mean, variance, is_training=False, **arguments
        ),
    )
    return (tf.reshape(outputs, tf.shape(inputs)) if is_flat else outputs), moments


def _normalize(inputs, axis, parameters, averages, epsilon, is_training):
    """As `_normalize_fused`, for any rank; the variance has no correction."""
    rank = len(inputs.shape)
    axes = [each for each in range(rank) if each != axis]
    moments = smart_cond(
        is_training,
        lambda: list(tf.nn.moments(inputs, axes)),
        lambda: [tf.identity(each) for each in averages],
    )
    shape = [-1 if each == axis else 1 for each in range(rank)]
    values = [*moments, parameters["beta"], parameters["gamma"]]
    values = [None if each is None else tf.reshape(each, shape) for each in values]
    return tf.nn.batch_normalization(inputs, *values, epsilon), moments


@add_arg_scope
def layer_norm(
    inputs,
    center=True,
    scale=True,
    activation_fn=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    begin_norm_axis=1,
    begin_params_axis=-1,
    scope=None,
):
    """Normalize each example over its axes.

    Args: as of `batch_norm`, and
        begin_norm_axis: the first axis over which moments are taken.
        begin_params_axis: the first axis of "beta" and "gamma".
    """
    options = dict(locals())
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        dtype = inputs.dtype.base_dtype
        size = inputs.shape[begin_params_axis:].as_list()
        parameters = _parameters(size, dtype, options)
        axes = list(range(len(inputs.shape)))[begin_norm_axis:]
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        epsilon = 1e-3 if dtype == tf.float16 else 1e-12
        offset, factor = parameters["beta"], parameters["gamma"]
        outputs = tf.nn.batch_normalization(inputs, mean, variance, offset, factor, epsilon)
        return _finish(outputs, options, opened)


@add_arg_scope
def instance_norm(
    inputs,
    center=True,
    scale=True,
    epsilon=1e-6,
    activation_fn=None,
    param_initializers=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    data_format="NHWC",
    scope=None,
):
    """Normalize each channel of each example.

    Args: as of `batch_norm`.
    """
    options = dict(locals())
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as opened:
        inputs = tf.convert_to_tensor(inputs)
        rank = len(inputs.shape)
        axis = 1 if data_format == "NCHW" else rank - 1
        channels = inputs.shape.as_list()[axis]
        parameters = _parameters([channels], inputs.dtype.base_dtype, options)
        shape = [-1 if each == axis else 1 for each in range(rank)]
        offset, factor = (
            None if parameters[name] is None else tf.reshape(parameters[name], shape)
            for name in ("beta", "gamma")
        )
        axes = [each for each in range(1, rank) if each != axis]
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, offset, factor, epsilon)
        return _finish(outputs, options, opened)
