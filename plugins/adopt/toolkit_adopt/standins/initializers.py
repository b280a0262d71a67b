"""Initializers and regularizers of `tf.contrib.layers`.

xavier_initializer: Glorot & Bengio, "Understanding the difficulty of training deep feedforward
neural networks", 2010. variance_scaling_initializer: He et al., "Delving Deep into Rectifiers",
2015, https://arxiv.org/abs/1502.01852.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable

import numpy as np

from toolkit import tf

Regularizer = Callable[[Any], Any]  # weights -> scalar, or None


def variance_scaling_initializer(
    factor=2.0, mode="FAN_IN", uniform=False, seed=None, dtype=tf.float32
):
    """An initializer whose variance is `factor / n`, of inputs, outputs or both by the mode."""

    def initializer(shape, dtype=dtype, partition_info=None):
        sizes = [float(size) for size in shape] or [1.0]
        receptive = float(np.prod(sizes[:-2]))
        fan_in, fan_out = receptive * sizes[-2:][0], receptive * sizes[-1]
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for the variance that is lost by cutting the distribution.
        return tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / n), dtype, seed=seed)

    return initializer


def xavier_initializer(uniform=True, seed=None, dtype=tf.float32):
    """An initializer whose variance is 2 / (inputs + outputs)."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def _regularizer(name: str, scale: Any, scope: Any, penalty: Callable[[Any], Any]) -> Regularizer:
    """scale * penalty(weights); a function that returns None if the scale is zero."""

    def regularize(weights):
        if isinstance(scale, float) and scale == 0:
            return None
        with tf.name_scope(scope, name, [weights]) as scope_name:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, penalty(weights), name=scope_name)

    return regularize


def l1_regularizer(scale, scope=None) -> Regularizer:
    """scale * sum |w|"""
    return _regularizer("l1_regularizer", scale, scope, lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale, scope=None) -> Regularizer:
    """scale * sum w^2 / 2"""
    return _regularizer("l2_regularizer", scale, scope, tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None) -> Regularizer:
    """The sum of both."""
    parts = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]
    return sum_regularizer(parts, scope or "l1_l2_regularizer")


def sum_regularizer(regularizer_list: Iterable[Any], scope=None) -> Any:
    """The sum of several; None if there is none."""
    regularizers = [each for each in regularizer_list if each is not None]

    def regularize(weights):
        with tf.name_scope(scope, "sum_regularizer", [weights]) as scope_name:
            terms = [each(weights) for each in regularizers]
            terms = [each for each in terms if each is not None]
            return tf.add_n(terms, name=scope_name) if terms else None

    return regularize if regularizers else None


def apply_regularization(regularizer: Regularizer, weights_list=None) -> Any:
    """The sum of a regularizer over weights, added to REGULARIZATION_LOSSES."""
    weights_list = weights_list or tf.get_collection(tf.GraphKeys.WEIGHTS)
    with tf.name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [regularizer(weights) for weights in weights_list]
        penalties = [tf.constant(0.0) if each is None else each for each in penalties]
        total = tf.add_n(penalties, name=scope)
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
    return total
