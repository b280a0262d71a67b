"""Learning-rate schedules, gradient clipping and the optimizers of tf.train: pure functions of the
options.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Dict, List, Mapping, Optional

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
    progress = position / float(decay_length(options, total_steps))
    if options.schedule == "cosine":
        return 0.5 * (1 + tf.cos(math.pi * tf.minimum(progress, 1.0)))
    return tf.pow(
        options.decay_rate, tf.floor(progress) if options.schedule == "step" else progress
    )


def decay_length(options, total_steps: Optional[int]) -> int:
    """The steps of the cosine, or between two decays; by default all after the warm-up, or a tenth
    of them.

    Raises:
        UsageError: neither the options nor the run have a length.
    """
    if options.decay_steps is not None:
        return int(options.decay_steps)
    if total_steps is None:
        raise UsageError(
            f"The {options.schedule} schedule has no length.",
            hint="Set --decay-steps, --steps or --epochs.",
        )
    steps_after_warmup = max(total_steps - options.warmup_steps, 1)
    return steps_after_warmup if options.schedule == "cosine" else max(steps_after_warmup // 10, 1)


def rate_share(options, step: int, total_steps: Optional[int]) -> float:
    """`learning_rate` as a share of the full rate, in [0, 1], without a graph.

    Args:
        options: the core's options.
        step: the number of steps before the one with this rate.
        total_steps: the length of the run.
    """
    if step < options.warmup_steps:
        return (step + 1) / options.warmup_steps
    if options.schedule == "constant":
        return 1.0
    progress = (step - options.warmup_steps) / decay_length(options, total_steps)
    if options.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    exponent = math.floor(progress) if options.schedule == "step" else progress
    return float(options.decay_rate**exponent)


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


def make_optimizer(name: str, rate, arguments: Mapping[str, Any]) -> tf.train.Optimizer:
    """Make a tf.train optimizer.

    Args:
        name: one of `optimizer_names`, or "sgd"; case, hyphens and underscores do not count.
        rate: float32 scalar tensor, the learning rate.
        arguments: of the optimizer's constructor by name: numbers, booleans or text.

    Raises:
        UsageError: for an unknown name or argument, or a value that the optimizer refuses.
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
    parameters = inspect.signature(cls.__init__).parameters
    values = _typed_arguments(name, arguments, parameters)
    if short_name == "momentum":
        values.setdefault("momentum", 0.9)
    if "global_step" in parameters:
        values["global_step"] = tf.train.get_or_create_global_step()
    try:
        return cls(learning_rate=rate, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Optimizer '{name}' refuses its arguments: {error}.") from error


def _typed_arguments(
    optimizer: str, arguments: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> Dict[str, Any]:
    """The arguments with the types of the optimizer's defaults. Raises UsageError."""
    reserved = ("self", "learning_rate", "name", "use_locking", "global_step")
    names = [name for name in parameters if name not in reserved]
    values = {}
    for name, value in arguments.items():
        if name not in names:
            raise UsageError(
                f"Optimizer '{optimizer}' has no argument '{name}'.", hint=suggest(name, names)
            )
        default = parameters[name].default
        values[name] = _to_bool(value) if isinstance(default, bool) else value
        fault = _type_fault(values[name], default)
        if fault:
            raise UsageError(
                f"Argument '{name}' of optimizer '{optimizer}' is {value!r}, but {fault}.",
                hint="Set it with --optimizer-args.",
            )
    return values


def _to_bool(value: Any) -> Any:
    """True and false for 1 and 0; other values as they are."""
    return bool(value) if isinstance(value, (int, float)) and value in (0, 1) else value


def _type_fault(value: Any, default: Any) -> str:
    """Why a value does not have the type of a parameter's default, as a clause; '' if it has."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "should be true or false"
    if default is None:  # a name, or a number; the optimizer itself checks it
        return ""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "" if is_number else "should be a number"
