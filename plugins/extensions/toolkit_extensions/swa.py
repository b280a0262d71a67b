"""`--with swa`: evaluate, predict and export with the mean of the weights along the training's end.

Stochastic weight averaging (Izmailov et al. 2018): over the last share of the steps, the weights at
the end of every cycle enter a plain mean. Within the share, the learning rate is constant at a
share of the full rate, or falls linearly within each cycle; before, the run's schedule applies.

The mean has other activations than the weights on the way, so moments that batch norm collected do
not fit it. They would have to be computed again from the training data; models with such variables
are refused here. `--with ema` suits them: its memory is about as short as that of the moments.
"""

from __future__ import annotations

from typing_extensions import Literal

from toolkit import Options, UsageError, hookimpl, option

GROUP = "Stochastic weight averaging"
LOWEST = 0.01  # of a cyclic rate, as a share of its highest


class SwaOptions(Options):
    zero_strength = {"swa_share": 0.0}

    swa_share: float = option(
        0.25, "share of the steps at the end that is averaged; 0 is off", group=GROUP, ge=0, le=1
    )
    swa_cycle: int = option(
        100, "average the weights each time after so many steps", unit="steps", group=GROUP, ge=1
    )
    swa_schedule: Literal["constant", "cyclic", "run"] = option(
        "constant",
        "learning rate while averaging; cyclic falls within each cycle, run keeps the schedule",
        group=GROUP,
    )
    swa_rate: float = option(
        0.5,
        "its highest value, as a share of the full rate",
        group=GROUP,
        gt=0,
        used_if={"swa_schedule": ("constant", "cyclic")},
    )


@hookimpl
def options():
    return SwaOptions


@hookimpl(wrapper=True)
def build(run):
    from .averages import Averages

    model = yield
    if not run.options.swa_share:
        return model
    averages = Averages(run, "swa")
    if run.mode == "train":
        check_no_moments(run)
    else:
        run.after_restore(averages.replace_weights)
    return model


@hookimpl(wrapper=True)
def optimize(run):
    from .averages import Averages

    if run.options.swa_share:
        averages = Averages.find("swa")
        run.update_state(lambda: average_at_end_of_cycle(averages, run))
        if run.options.swa_schedule != "run":
            run.change_learning_rate(lambda rate, full, step: rate_at(rate, full, step, run))
    return (yield)


def first_step(run) -> int:
    """The number of steps before the first that counts; whole cycles follow it to the end. Raises
    UsageError if there is no whole cycle, or the run has no length.
    """
    cycle, total = run.options.swa_cycle, run.total_steps
    cycles = int(run.options.swa_share * (total or 0) / cycle + 1e-9)
    if not cycles:
        raise UsageError(
            f"swa has nothing to average: {100 * run.options.swa_share:g} % of {total} steps are "
            f"fewer than a cycle of {cycle}.",
            hint="Set a shorter --swa-cycle, or a longer --steps.",
        )
    return int(total - cycles * cycle)


def rate_at(rate, full_rate, step, run):
    """The learning rate of a step; `rate` is that of the run's schedule, for the steps before."""
    from toolkit import tf

    start, cycle = first_step(run), run.options.swa_cycle
    own_rate = full_rate * tf.constant(run.options.swa_rate)
    if run.options.swa_schedule == "cyclic":
        share = tf.cast((step - start) % cycle + 1, tf.float32) / cycle
        own_rate *= 1 - (1 - LOWEST) * share
    return tf.where(step >= start, own_rate, rate)


def average_at_end_of_cycle(averages, run):
    """An op that adds the weights to the mean where a cycle ends.

    A run that is continued beyond its former end starts the mean again at its new first step. If
    that step is past already, the mean goes on: its weights are of about the same steps. With
    --accumulate, this op runs in steps that apply an update alone: the weights stay as they are to
    the step before the next one, so a cycle that ends by then has these.
    """
    from toolkit import tf

    start, cycle = first_step(run), run.options.swa_cycle
    num_steps = run.step_index + 1
    ended_before = (run.step_index - start) // cycle  # cycles
    ended = (run.step_index + run.options.accumulate - start) // cycle
    is_due = tf.logical_and(ended > ended_before, ended > 0)
    before = averages.count.read_value()
    before = tf.where(num_steps <= start, tf.zeros_like(before), before)

    def mean(weight, average):
        share = 1 / tf.cast(before + 1, weight.dtype)
        return tf.where(is_due, average + share * (weight - average), average)

    return averages.assign(mean, before + tf.cast(is_due, tf.int64))


def check_no_moments(run) -> None:
    """Check that the model has no variables that training changes without gradients, by a
    UsageError that names them. Those that are fitted to the training data apart from weights, such
    as the scale of targets, are constants.
    """
    from toolkit import tf

    trained = {v.op.name for v in tf.trainable_variables()}
    fits = [{v.op.name for v in variables} for variables in run.fitted_variables]
    others = trained.union(*(names for names in fits if not names & trained))
    names = [
        v.op.name
        for v in tf.global_variables()
        if v.dtype.is_floating and v.op.name not in others and not is_of_toolkit(v.op.name)
    ]
    if names:
        raise UsageError(
            f"swa does not support models with moments: '{names[0]}' and {len(names) - 1} more "
            "variables follow the weights of the training, not their mean.",
            hint="Use a network without batch norm, or --with ema.",
        )


def is_of_toolkit(name: str) -> bool:
    """Whether a variable is the toolkit's or an extension's."""
    return name.startswith(("toolkit/", "state/"))
