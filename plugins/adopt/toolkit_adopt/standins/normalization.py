"""The normalizations of `tf.contrib.layers`: of a batch, a layer, an instance.

batch_norm: Ioffe & Szegedy, https://arxiv.org/abs/1502.03167. layer_norm: Ba et al.,
https://arxiv.org/abs/1607.06450. instance_norm: Ulyanov et al., https://arxiv.org/abs/1607.08022.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, List, Tuple

from toolkit import tf

from .layer import OF_NORMALIZATIONS, Layer, as_layer
from .scopes import constant_value, smart_cond


@as_layer(
    "BatchNorm",
    "decay center scale epsilon activation_fn param_initializers param_regularizers "
    "updates_collections is_training",
    OF_NORMALIZATIONS,
)
def batch_norm(
    layer,
    decay=0.999,
    center=True,
    scale=False,
    epsilon=0.001,
    updates_collections=tf.GraphKeys.UPDATE_OPS,
    is_training=True,
    fused=None,
    data_format="NHWC",
    zero_debias_moving_mean=False,
    **without,
):
    """Normalize each channel by the batch in training, else by moving averages.

    `is_training` may be a tensor, bool []. Of inputs of rank 2 and 4 the average of the variance is
    with Bessel's correction, unless `fused` is False. Raises ValueError for an argument that is not
    available.
    """
    wrong = [name for name, x in sorted(without.items()) if x is not None and x is not False]
    if set(wrong) - {"renorm_clipping", "renorm_decay"}:
        raise ValueError(
            f"The stand-in of batch_norm has no {' and '.join(wrong)}: leave it out, or run the "
            "script on TensorFlow 1.15."
        )
    fused = fused is not False and layer.rank in (2, 4)
    dtype = tf.float32 if fused else layer.inputs.dtype.base_dtype
    names = ["beta"] * bool(center) + ["gamma"] * bool(scale)
    # By default 1.15 made them by a layer of `tf.layers`, which begins with gamma.
    is_of_layers = updates_collections is tf.GraphKeys.UPDATE_OPS
    is_of_layers = is_of_layers and not zero_debias_moving_mean
    if is_of_layers and not (layer.rank == 2 and fused):
        names.reverse()
    made = {
        name: layer.variable(name, [layer.channels], dtype=dtype)
        for name in (*names, "moving_mean", "moving_variance")
    }
    mean, variance = made["moving_mean"], made["moving_variance"]
    values = made.get("beta"), made.get("gamma"), [mean, variance], epsilon, is_training
    outputs, moments = (_normalize_fused if fused else _normalize)(layer, *values)

    def update() -> List[Any]:
        averages = importlib.import_module("tensorflow.python.training.moving_averages")
        debias = {"zero_debias": zero_debias_moving_mean}
        return [
            averages.assign_moving_average(mean, moments[0], decay, **debias),
            averages.assign_moving_average(variance, moments[1], decay, zero_debias=False),
        ]

    def update_now() -> Any:
        with tf.control_dependencies(update()):
            return tf.identity(outputs)

    known = constant_value(is_training)
    if known is None or known:
        if updates_collections is None:
            outputs = smart_cond(is_training, update_now, lambda: outputs)
        else:
            kept = lambda: [tf.identity(mean), tf.identity(variance)]  # noqa: E731
            for each in smart_cond(is_training, update, kept):
                tf.get_default_graph().add_to_collections(updates_collections, each)
    outputs.set_shape(layer.inputs.shape)
    return outputs


def _normalize_fused(layer, beta, gamma, averages, epsilon, is_training) -> Tuple[Any, Any]:
    """The outputs, and mean and variance: of the batch in training, else the averages."""
    beta = tf.zeros([layer.channels]) if beta is None else beta
    gamma = tf.ones([layer.channels]) if gamma is None else gamma
    is_flat = layer.rank == 2
    images = tf.reshape(layer.inputs, [-1, 1, 1, layer.channels]) if is_flat else layer.inputs
    layout = "NCHW" if layer.axis == 1 and not is_flat else "NHWC"

    def normalize(*moments: Any) -> Any:
        arguments = {"epsilon": epsilon, "data_format": layout, "is_training": not moments}
        return tf.nn.fused_batch_norm(images, gamma, beta, *moments, **arguments)

    outputs, *moments = smart_cond(is_training, normalize, lambda: normalize(*averages))
    return (tf.reshape(outputs, tf.shape(layer.inputs)) if is_flat else outputs), moments


def _normalize(layer, beta, gamma, averages, epsilon, is_training) -> Tuple[Any, Any]:
    """As `_normalize_fused`, for any rank; the variance has no correction."""
    axes = [each for each in range(layer.rank) if each != layer.axis]
    moments = smart_cond(
        is_training,
        lambda: list(tf.nn.moments(layer.inputs, axes)),
        lambda: [tf.identity(each) for each in averages],
    )
    values = [_along_channels(layer, each) for each in (*moments, beta, gamma)]
    return tf.nn.batch_normalization(layer.inputs, *values, epsilon), moments


def _along_channels(layer: Layer, value: Any) -> Any:
    shape = [-1 if each == layer.axis else 1 for each in range(layer.rank)]
    return None if value is None else tf.reshape(value, shape)


@as_layer("LayerNorm", "center scale activation_fn", OF_NORMALIZATIONS)
def layer_norm(layer, center=True, scale=True, begin_norm_axis=1, begin_params_axis=-1):
    """Normalize each example over its axes."""
    size, dtype = layer.inputs.shape[begin_params_axis:].as_list(), layer.inputs.dtype.base_dtype
    axes = list(range(layer.rank))[begin_norm_axis:]
    epsilon = 1e-3 if dtype == tf.float16 else 1e-12
    return _normalize_examples(layer, center, scale, size, axes, epsilon, lambda value: value)


@as_layer(
    "InstanceNorm", "center scale epsilon activation_fn param_initializers", OF_NORMALIZATIONS
)
def instance_norm(layer, center=True, scale=True, epsilon=1e-6, data_format="NHWC"):
    """Normalize each channel of each example."""
    axes = [each for each in range(1, layer.rank) if each != layer.axis]
    along = functools.partial(_along_channels, layer)
    return _normalize_examples(layer, center, scale, [layer.channels], axes, epsilon, along)


def _normalize_examples(layer, center, scale, size, axes, epsilon, fit) -> Any:
    offset = fit(layer.variable("beta", size)) if center else None
    factor = fit(layer.variable("gamma", size)) if scale else None
    moments = tf.nn.moments(layer.inputs, axes, keepdims=True)
    return tf.nn.batch_normalization(layer.inputs, *moments, offset, factor, epsilon)
