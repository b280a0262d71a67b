"""`--with lr-finder`: raise the learning rate until the loss diverges, and propose one.

The learning-rate range test (Smith 2017, "Cyclical Learning Rates for Training Neural Networks",
section 3.3), with a rate that rises exponentially:

    rate = low * (high / low) ^ (t / (steps - 1))    at step t = 0, 1, 2, ...

The loss is smoothed by a moving average without bias. The run ends when that exceeds a multiple of
its lowest value. The rate proposed is where the smoothed loss falls most steeply over the logarithm
of the rate, among the rates before its lowest value (as fastai's `lr_find` does); a rate ten times
as high is close to the end of what works. A model with several losses is judged by the first.

RUN/samples has the table rates.csv, the figure rates.png and the proposal in rates.json. The
weights are of no use: nothing is evaluated, and evaluate, predict, export and sample refuse the
run.
"""

from __future__ import annotations

import math
import os

from toolkit import Options, UsageError, hookimpl, option

GROUP = "Learning-rate finder"
MIN_STEPS = 100  # the average is late by nine steps, which are to be a small share of them


class LrFinderOptions(Options):
    core_defaults = {
        "steps": 200,
        "evaluate": False,
        "best_metric": None,
        "on_nonfinite": "skip",
        "log_steps": 20,
    }

    lr_low: float = option(1e-7, "learning rate of the first step", group=GROUP, gt=0)
    lr_high: float = option(10.0, "learning rate of the last step", group=GROUP, gt=0)
    lr_divergence: float = option(
        4.0, "end where the smoothed loss exceeds its minimum so many times", group=GROUP, gt=1
    )


@hookimpl
def options():
    return LrFinderOptions


@hookimpl(wrapper=True)
def build(run):
    if run.mode != "train":
        raise UsageError(
            "The weights of a run with lr-finder are no model: its learning rate rose until the "
            "loss diverged.",
            hint="Train a new run without lr-finder, at the rate in RUN/samples/rates.json.",
        )
    check(run)
    return (yield)


@hookimpl(wrapper=True)
def optimize(run):
    from toolkit import tf

    low, high = run.options.lr_low, run.options.lr_high
    growth = math.log(high / low) / (run.total_steps - 1)

    def rise(rate, full_rate, step):
        share = full_rate / run.options.learning_rate  # of a group or player with its own rate
        return share * low * tf.exp(growth * tf.cast(step, tf.float32))

    run.change_learning_rate(rise, is_sole=True)
    return (yield)


@hookimpl
def session_hooks(losses, run):
    from .rate_recorder import RateRecorder

    name, loss = next(iter(losses.items()))
    rates = (run.options.lr_low, run.options.lr_high, run.total_steps)
    folder = os.path.join(run.folder, "samples")
    return [RateRecorder(folder, name, loss, rates, run.options.lr_divergence)]


def check(run) -> None:
    """Check that the rates rise over enough steps, and nothing is evaluated. Raises UsageError."""
    low, high = run.options.lr_low, run.options.lr_high
    if not low < high:
        raise UsageError(
            f"lr_low is {low:g} and lr_high {high:g}; the rate has to rise.",
            hint="Set --lr-low below --lr-high.",
        )
    if run.total_steps is None or run.total_steps < MIN_STEPS:
        raise UsageError(
            f"lr-finder needs {MIN_STEPS} steps or more, and the run has {run.total_steps}.",
            hint="Set --steps 200.",
        )
    if run.options.evaluate:
        raise UsageError(
            "A run with lr-finder trains no model that could be evaluated.",
            hint="Leave out --evaluate.",
        )
