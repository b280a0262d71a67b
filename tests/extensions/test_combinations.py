"""Extensions with each other, with the plugins that ship, under the guard, and in a loop."""

import numpy as np
import pytest
from linear_fixtures import LINEAR

from toolkit import UsageError, testing
from toolkit.compat import VERSION_FAMILY

SETTINGS = {"steps": 4, "evaluate": "no", "batch_size": 4, "best_metric": "none"}
SETTINGS["steps_per_call"] = 1
ZERO = {"ema_decay": 0.0, "swa_share": 0.0, "smoothing": 0.0, "noise_eta": 0.0}
ALL = ["ema", "swa", "label-smoothing", "gradient-noise", "profiler"]
ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")


def train(data, name, plugin=LINEAR, extensions=ALL, **options):
    """Train, and return the folder of the run."""
    testing.train(plugin, name, extensions, **dict(SETTINGS, data=data, **options))
    return name


def test_all_at_zero_strength_change_nothing(data, here):
    zero = testing.tensors(train(data, "zero", **dict(ZERO, profile_steps="2")))
    plain = testing.tensors(train(data, "plain", extensions=[]))
    assert all(np.array_equal(zero[name], value) for name, value in plain.items())


def test_all_together_are_the_same_in_a_loop_and_after_a_resume(data, here):
    more = {"swa_share": 0.0, "profile_steps": "2"}
    single = train(data, "single", **more)
    more["steps_per_call"] = 4
    train(data, "paused", pause_at=3, **more)
    paused = train(data, "paused", **more)
    assert testing.fingerprint(single) == testing.fingerprint(paused)


@ONLY_2
def test_an_average_under_xla_is_that_without(data, here):
    more = {"extensions": ["ema", "label-smoothing"], "steps_per_call": "auto"}
    plain = testing.tensors(train(data, "plain", xla="off", **more))
    compiled = testing.tensors(train(data, "compiled", xla="on", **more))
    assert all(np.allclose(compiled[name], value, atol=1e-5) for name, value in plain.items())


def test_two_averages_are_refused(data, here):
    with pytest.raises(UsageError, match="Both 'ema' and 'swa' average the weights"):
        train(data, "run", extensions=["ema", "swa"], swa_share=0.5, swa_cycle=1)
