"""What the length of a run means for its learning rate and its accumulated gradients."""

from __future__ import annotations

import math
from typing import Mapping

from ..errors import UsageError
from ..graph.optimizers.schedules import decay_length, rate_share
from ..options import CoreOptions

MAX_TOTAL_STEPS = 2**63 - 1  # what the global step can count
JUMP = 0.01  # of the full rate: a larger change by another length has to be allowed


def whole_steps(options: CoreOptions, total: float) -> int:
    """A length in steps, rounded up. Raises UsageError, with the option, if it is more than can be
    counted.
    """
    if total > MAX_TOTAL_STEPS:
        name = "steps" if options.steps is not None else "epochs"
        raise UsageError(
            f"--{name} {getattr(options, name):g} is {total:.2g} steps, more than 2^63 - 1 can be "
            "counted.",
            hint="Set fewer; --max-secs ends a run after a time.",
        )
    return math.ceil(total)


def check_accumulation(options: CoreOptions, total: int, update_counts: Mapping[str, int]) -> None:
    """Refuse a run of `total` steps that is too short for one update by accumulated gradients.
    `update_counts` has by name how many updates of it a step has; each adds a gradient to its sums.
    """
    if update_counts and options.accumulate > total * max(update_counts.values()):
        steps = "1 step" if total == 1 else f"{total} steps"
        raise UsageError(
            f"--accumulate is {options.accumulate}, but the run has {steps}: no weight would "
            "change.",
            hint="Set a smaller --accumulate, or a larger --steps or --epochs.",
        )


def check_other_length(
    options: CoreOptions, step: int, before: int, now: int, is_allowed: bool
) -> str:
    """What another length, `now` instead of `before` steps, does to the learning rate of a run that
    continues after `step`; '' for nothing. Raises UsageError where the rate would jump, unless that
    is allowed.
    """
    if before == now or not 0 < step < now:
        return ""
    share_before, share_now = (rate_share(options, step, total) for total in (before, now))
    if share_before == share_now:
        return ""
    last_share = rate_share(options, step - 1, before)
    change = (
        f"the learning rate is {_percent(share_now)} of the full rate after step {step}, and was "
        f"{_percent(last_share)} before: the {options.schedule} schedule follows the length of "
        f"the run, {now} steps instead of {before}"
    )
    if is_allowed or abs(share_now - share_before) <= JUMP:
        return change
    keep = ""
    if share_before > 1e-6:
        length = decay_length(options, before)
        keep = f", keep the schedule with --decay-steps {length} --allow decay_steps"
    raise UsageError(
        f"With this length {change}.",
        hint=f"Allow it with --allow steps{keep}, or start a new run.",
    )


def _percent(share: float) -> str:
    """A share of the full rate: the rates of updates with a rate of their own differ."""
    return f"{100 * share:.3g} %"
