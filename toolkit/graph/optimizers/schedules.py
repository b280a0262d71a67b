"""Learning-rate schedules: pure functions of the options, or functions of a plugin."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Union

from ...compat import tf
from ...errors import UsageError, suggest

Schedule = Union[str, Callable[[Any, Optional[int]], Any]]
SCHEDULES = ("constant", "cosine", "step", "exponential")


def learning_rate(
    options,
    step,
    total_steps: Optional[int],
    base: Any = None,
    schedule: Optional[Schedule] = None,
):
    """The learning rate of one training step, a float32 scalar tensor.

    - constant: the base rate.
    - cosine: 0.5 (1 + cos(pi t)), t from 0 to 1 over `decay_steps` (Loshchilov and Hutter 2017).
    - step, exponential: decay_rate ** (step / decay_steps); `step` rounds the exponent down.

    During warm-up the rate rises linearly from rate / warmup_steps to the full rate, and the
    schedule counts from the end of the warm-up.

    `step`, an int64 scalar tensor, is the number of steps before this one. `base`, by default the
    option's rate, is a number or a float32 scalar tensor. `schedule`, by default the option's, may
    be a function (step, total_steps) -> factor on the full rate, which replaces the warm-up, too.
    Raises UsageError for a schedule without a length, or none.
    """
    base = tf.convert_to_tensor(options.learning_rate if base is None else base, tf.float32)
    schedule = options.schedule if schedule is None else schedule
    if callable(schedule):
        factor = schedule(step, total_steps)
        tensor = tf.convert_to_tensor(factor)
        if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
            raise UsageError(f"A schedule returned {factor!r}, expected a number.")
        if tensor.shape.ndims not in (0, None):
            raise UsageError(f"A schedule returned the shape {tensor.shape}, expected a scalar.")
        tensor = tf.cast(tensor, tf.float32)
        return base * tf.debugging.check_numerics(tensor, "The learning rate's schedule")
    if schedule not in SCHEDULES:
        raise UsageError(
            f"There is no schedule {schedule!r}.", hint=suggest(str(schedule), SCHEDULES)
        )
    warmup = options.warmup_steps
    if schedule == "constant" and not warmup:
        return base
    position = tf.cast(step, tf.float32)
    rate = base
    if schedule != "constant":
        length = options.decay_steps
        if length is None:
            if total_steps is None:
                raise UsageError(
                    f"The {schedule} schedule has no length.",
                    hint="Set --decay-steps, --steps or --epochs.",
                )
            length = max(total_steps - warmup, 1)  # all steps after the warm-up, or a tenth
            length = length if schedule == "cosine" else max(length // 10, 1)
        progress = tf.maximum(position - warmup, 0.0) / float(length)
        if schedule == "cosine":
            factor = 0.5 * (1 + tf.cos(math.pi * tf.minimum(progress, 1.0)))
        else:
            if schedule == "step":  # of integers: the quotient of floats may be just below a whole
                progress = tf.cast(tf.maximum(step - warmup, 0) // length, tf.float32)
            factor = tf.pow(options.decay_rate, progress)
        rate = base * factor
    if warmup:
        rate = tf.where(position < warmup, base * (position + 1) / warmup, rate)
    return rate
