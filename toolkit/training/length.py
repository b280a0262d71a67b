"""What the length of a run means for its learning rate and its accumulated gradients."""

from __future__ import annotations

from typing import Mapping

from ..errors import UsageError
from ..graph.optimizers.schedules import decay_length, rate_share
from ..options import CoreOptions

JUMP = 0.01  # of the full rate: a larger change by another length has to be allowed


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
        f"the learning rate is {100 * share_now:.3g} % of the full rate after step {step}, and was "
        f"{100 * last_share:.3g} % before: the {options.schedule} schedule follows the length of "
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
