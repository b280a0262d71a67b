"""Learning-rate schedules, gradient clipping and the optimizers of tf.train: pure functions of the
options.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, List, Mapping, Optional

from ..compat import tf
from ..errors import UsageError, suggest


def learning_rate(options, step, total_steps: Optional[int], base: Optional[float] = None):
    """The learning rate of one training step.

    - constant: the base rate.
    - cosine: 0.5 (1 + cos(pi t)), t from 0 to 1 over `decay_steps` (Loshchilov and Hutter 2017).
    - step, exponential: decay_rate ** (step / decay_steps); `step` rounds the exponent down.

    During warm-up the rate rises linearly from rate / warmup_steps to the full rate, and the
    schedule counts from the end of the warm-up.

    Args:
        options: the core's options.
        step: int64 scalar tensor, the number of steps before this one.
        total_steps: the length of the run, where the schedule depends on it.
        base: the full rate; None for `options.learning_rate`.

    Returns:
        A float32 scalar tensor.

    Raises:
        UsageError: for a cosine without a length.
    """
    base = tf.constant(options.learning_rate if base is None else base, tf.float32)
    warmup = options.warmup_steps
    if options.schedule == "constant" and not warmup:
        return base
    position = tf.cast(step, tf.float32)
    rate = base
    if options.schedule != "constant":
        rate = base * _decay(options, tf.maximum(position - warmup, 0.0), total_steps)
    if warmup:
        rate = tf.where(position < warmup, base * (position + 1) / warmup, rate)
    return rate


def _decay(options, position, total_steps: Optional[int]):
    """The factor on the full rate; position: float32 scalar, steps since the warm-up."""
    length = options.decay_steps
    steps_after_warmup = max((total_steps or 0) - options.warmup_steps, 1)
    if options.schedule == "cosine":
        if length is None and total_steps is None:
            raise UsageError(
                "The cosine schedule has no length.", hint="Set --decay-steps, --steps or --epochs."
            )
        progress = tf.minimum(position / float(length or steps_after_warmup), 1.0)
        return 0.5 * (1 + tf.cos(math.pi * progress))
    exponent = position / float(length or max(steps_after_warmup // 10, 1))
    if options.schedule == "step":
        exponent = tf.floor(exponent)
    return tf.pow(options.decay_rate, exponent)


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


def optimizer_names() -> List[str]:
    """What `--optimizer` takes: the classes of tf.train, lower case, without 'Optimizer'."""
    names = []
    for name in dir(tf.train):
        if name.endswith("Optimizer") and name not in ("Optimizer", "SyncReplicasOptimizer"):
            names.append(name[: -len("Optimizer")].lower())
    return names


def make_optimizer(name: str, rate, arguments: Mapping[str, float]) -> tf.train.Optimizer:
    """Make a tf.train optimizer.

    Args:
        name: one of `optimizer_names`, or "sgd"; case, hyphens and underscores do not count.
        rate: float32 scalar tensor, the learning rate.
        arguments: of the optimizer's constructor, by name.

    Raises:
        UsageError: for an unknown name or argument.
    """
    short_name = name.lower().replace("-", "").replace("_", "")
    short_name = {"sgd": "gradientdescent"}.get(short_name, short_name)
    classes = {n.lower(): getattr(tf.train, n) for n in dir(tf.train) if n.endswith("Optimizer")}
    if short_name not in optimizer_names():
        raise UsageError(
            f"There is no optimizer '{name}' in tf.train.",
            hint=suggest(short_name, optimizer_names() + ["sgd"]),
        )
    cls = classes[short_name + "optimizer"]
    parameters = list(inspect.signature(cls.__init__).parameters)
    values = dict(arguments)
    if short_name == "momentum":
        values.setdefault("momentum", 0.9)
    _check_arguments(name, values, parameters)
    if "global_step" in parameters:
        values["global_step"] = tf.train.get_or_create_global_step()
    return cls(learning_rate=rate, **values)


def _check_arguments(optimizer: str, values: Mapping[str, float], parameters: List[str]) -> None:
    reserved = ("self", "learning_rate", "name", "use_locking", "global_step")
    allowed = [name for name in parameters if name not in reserved]
    for name in values:
        if name not in allowed:
            raise UsageError(
                f"Optimizer '{optimizer}' has no argument '{name}'.", hint=suggest(name, allowed)
            )
