"""What another length of a run means for its learning rate."""

from __future__ import annotations

from ..errors import UsageError
from ..graph.optimizers.schedules import decay_length, rate_share
from ..options import CoreOptions

JUMP = 0.01  # of the full rate: a larger change by another length has to be allowed


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
