"""Limits on gradients."""

from __future__ import annotations

from typing import Any, List

from ...compat import tf


def clip(gradients: List[Any], how: str, limit: float) -> List[Any]:
    """Limit gradients.

    Args:
        gradients: dense float tensors.
        how: "value" (each element to [-limit, limit]), "norm" (the norm of each gradient),
            "global-norm" (one norm over all gradients) or "none".
        limit: a positive number, unused for "none".
    """
    if how == "value":
        return [tf.clip_by_value(g, -limit, limit) for g in gradients]
    if how == "norm":
        return [tf.clip_by_norm(g, limit) for g in gradients]
    if how == "global-norm":
        return tf.clip_by_global_norm(gradients, limit)[0]
    return gradients
