"""`--with ema`: evaluate, predict and export with an exponential moving average of the weights.

    average <- d * average + (1 - d) * weight,    d = min(decay, t / (t + warmup))

after update t = 0, 1, 2, ... (Polyak and Juditsky 1992; the warm-up as in
tf.train.ExponentialMovingAverage). The first update makes the average equal to the weights, so that
it forgets their initial values. Training itself is unchanged, to the bit. Batch norm's moving
averages stay those of the training: they follow the weights as slowly as the average does.
"""

from __future__ import annotations

from toolkit import Options, hookimpl, option


class EmaOptions(Options):
    zero_strength = {"ema_decay": 0.0}  # the average is then the weights

    ema_decay: float = option(
        0.999, "decay of the moving average of the weights", group="Moving average", ge=0, lt=1
    )
    ema_warmup: int = option(
        10,
        "updates over which the decay rises to a half; 1 makes the average a plain mean at first",
        unit="updates",
        group="Moving average",
        ge=1,
    )


@hookimpl
def options():
    return EmaOptions


@hookimpl(wrapper=True)
def build(run):
    from .averages import Averages

    model = yield
    averages = Averages(run, "ema")
    if run.mode != "train":
        run.after_restore(averages.replace_weights)
    return model


@hookimpl(wrapper=True)
def optimize(run):
    from .averages import Averages

    averages = Averages.find("ema")
    run.update_state(lambda: move(averages, run.options.ema_decay, run.options.ema_warmup))
    return (yield)


def move(averages, decay: float, warmup: int):
    """An op that moves the averages towards the weights."""
    from toolkit import tf

    count = averages.count.read_value()
    t = tf.cast(count, tf.float32)
    share = tf.minimum(decay, t / (t + warmup))

    def mean(weight, average):
        d = tf.cast(share, weight.dtype)
        return d * average + (1 - d) * weight  # exact for d = 0

    return averages.assign(mean, count + 1)
