"""What the length of a run means: for its time, its learning rate, its accumulated gradients."""

from __future__ import annotations

from typing import List

from ..errors import UsageError
from ..graph.optimizer import decay_length, rate_share
from ..options import CoreOptions

MAX_TOTAL_STEPS = 2**63 - 1  # what the global step can count
MAX_STEPS_PER_SEC = 1e6  # no step is faster
SECS_PER_YEAR = 365.25 * 24 * 3600
JUMP = 0.01  # of the full rate: a larger change by another length has to be allowed
NEGLIGIBLE = 1e-6  # of the full rate


def check_total_steps(options: CoreOptions, total: float) -> None:
    """Refuse a length that cannot be counted, or in which no weight would change.

    Raises:
        UsageError: names the option and the number of steps.
    """
    if total > MAX_TOTAL_STEPS:
        name = "steps" if options.steps is not None else "epochs"
        raise UsageError(
            f"--{name} {getattr(options, name):g} is {total:.2g} steps, more than 2^63 - 1 can be "
            "counted.",
            hint="Set fewer; --max-secs ends a run after a time.",
        )
    if options.accumulate > total:
        raise UsageError(
            f"--accumulate is {options.accumulate}, but the run has {total} steps: no weight would "
            "change.",
            hint="Set a smaller --accumulate, or a larger --steps or --epochs.",
        )


def check_other_length(
    options: CoreOptions, step: int, before: int, now: int, is_allowed: bool
) -> str:
    """What another length does to the learning rate of a run that continues; '' for nothing.

    Args:
        options: the core's options.
        step: the number of steps so far.
        before: the length of the run so far, in steps.
        now: its new length.
        is_allowed: whether the rate may jump.

    Raises:
        UsageError: the rate would jump.
    """
    if before == now or not 0 < step < now:
        return ""
    share_before, share_now = (rate_share(options, step, total) for total in (before, now))
    if share_before == share_now:
        return ""
    last_share = rate_share(options, step - 1, before)
    old_rate, new_rate = (f"{s * options.learning_rate:.3g}" for s in (last_share, share_now))
    change = (
        f"the learning rate is {new_rate} after step {step}, and was {old_rate} before: the "
        f"{options.schedule} schedule follows the length of the run, {now} steps instead of "
        f"{before}"
    )
    if is_allowed or abs(share_now - share_before) <= JUMP:
        return change
    keep = ""
    if share_before > NEGLIGIBLE:
        length = decay_length(options, before)
        keep = f", keep the schedule with --decay-steps {length} --allow decay_steps"
    raise UsageError(
        f"With this length {change}.",
        hint=f"Allow it with --allow steps{keep}, or start a new run.",
    )


def describe_length(options: CoreOptions, total: int) -> List[str]:
    """What a user may not expect of a run of this length, a clause for each."""
    full = options.learning_rate
    notes = []
    least_years = total / MAX_STEPS_PER_SEC / SECS_PER_YEAR
    if least_years > 1:
        limit = "" if options.max_secs is None else f"; it ends after {options.max_secs:g} seconds"
        notes.append(
            f"{total:.3g} steps take {least_years:,.0f} years at a million steps a second{limit}"
        )
    if total % options.accumulate:
        count = total % options.accumulate
        steps = "step changes" if count == 1 else f"{count} steps change"
        notes.append(
            f"the last {steps} no weight: --accumulate makes one update of {options.accumulate} "
            f"steps, which does not divide {total}"
        )
    if options.warmup_steps > total:
        rate = rate_share(options, total - 1, total) * full
        notes.append(
            f"the warm-up of {options.warmup_steps} steps is longer than the run: the learning "
            f"rate ends at {rate:.3g} of {full:g}"
        )
    if options.warmup_steps == total and options.schedule != "constant":
        notes.append(f"the warm-up takes the whole run: the {options.schedule} never begins")
    falls = options.schedule != "constant" and options.warmup_steps < total
    if falls and total > 10 and rate_share(options, total - total // 10 - 1, total) < NEGLIGIBLE:
        step = _first_negligible_step(options, total)
        notes.append(
            f"after step {step} of {total} the learning rate is less than a millionth of the full "
            f"rate: --decay-steps is {decay_length(options, total)}"
        )
    return notes


def describe_early_end(options: CoreOptions, step: int, total: int) -> str:
    """That the learning rate had not fallen as far as planned when a run ended; '' if it had."""
    share, last_share = rate_share(options, step, total), rate_share(options, total - 1, total)
    if step >= total or share - last_share <= JUMP:
        return ""
    return (
        f"the learning rate is still {share * options.learning_rate:.3g} at step {step}; the "
        f"{options.schedule} schedule ends at {last_share * options.learning_rate:.3g} after step "
        f"{total}"
    )


def _first_negligible_step(options: CoreOptions, total: int) -> int:
    """The first step from which on the rate is negligible, by bisection: it falls."""
    low, high = min(options.warmup_steps, total), total
    while low < high:
        middle = (low + high) // 2
        if rate_share(options, middle, total) < NEGLIGIBLE:
            high = middle
        else:
            low = middle + 1
    return low
