"""Extensions with each other, with the plugins that ship, under the guard, and in a loop."""

import numpy as np
import pytest
from extension_fixtures import train

from toolkit import UsageError, testing
from toolkit.compat import VERSION_FAMILY

ZERO = {"ema_decay": 0.0, "swa_share": 0.0, "smoothing": 0.0, "noise_eta": 0.0}
ALL = ["ema", "swa", "label-smoothing", "gradient-noise", "profiler"]
ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")


def test_all_at_zero_strength_change_nothing(data, here):
    zero = testing.tensors(train(data, "zero", ALL, **dict(ZERO, profile_steps="2")))
    plain = testing.tensors(train(data, "plain"))
    assert all(np.array_equal(zero[name], value) for name, value in plain.items())


def test_all_together_are_the_same_in_a_loop_and_after_a_resume(data, here):
    more = {"swa_share": 0.0, "profile_steps": "2"}
    single = train(data, "single", ALL, **more)
    more["steps_per_call"] = 4
    train(data, "paused", ALL, pause_at=3, **more)
    paused = train(data, "paused", ALL, **more)
    assert testing.fingerprint(single) == testing.fingerprint(paused)


@ONLY_2
def test_an_average_under_xla_is_that_without(data, here):
    more = {"extensions": ["ema", "label-smoothing"], "steps_per_call": "auto"}
    plain = testing.tensors(train(data, "plain", xla="off", **more))
    compiled = testing.tensors(train(data, "compiled", xla="on", **more))
    assert all(np.allclose(compiled[name], value, atol=1e-5) for name, value in plain.items())


def test_two_averages_are_refused(data, here):
    with pytest.raises(UsageError, match="Both 'ema' and 'swa' average the weights"):
        train(data, "run", ["ema", "swa"], swa_share=0.5, swa_cycle=1)
