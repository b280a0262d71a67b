"""Tests of denormal numbers: a call in the caller's thread has the bits of one in the pool."""

import numpy as np
import pytest

from toolkit.compat import make_callable, tf
from toolkit.denormals import can_flush, flushing

SMALLEST = np.float32(1.1754944e-38)  # of the normal numbers


@pytest.mark.skipif(not can_flush(), reason="needs a C library of Linux on x86-64 or ARM")
def test_the_thread_flushes_during_the_call_alone():
    halve = flushing(lambda value: float(value * np.float32(0.5)))
    assert halve(SMALLEST) == 0.0
    assert float(SMALLEST * np.float32(0.5)) > 0.0


@pytest.mark.skipif(not can_flush(), reason="needs a C library of Linux on x86-64 or ARM")
def test_the_thread_is_as_before_after_a_call_that_fails():
    with pytest.raises(ZeroDivisionError):
        flushing(lambda: 1 // 0)()
    assert float(SMALLEST * np.float32(0.5)) > 0.0


@pytest.mark.parametrize("inline", [False, True])
def test_momentum_that_fades_away_has_the_same_bits_in_each_thread(inline):
    with tf.Graph().as_default():
        momentum = tf.get_variable("momentum", [64], initializer=tf.ones_initializer())
        fade = momentum.assign(momentum.read_value() * 0.5, read_value=False)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            call = make_callable(session, [fade], inline=inline)
            for _ in range(130):  # 2 to the power of -126 is the last that is normal
                call()
            assert not session.run(momentum).any()
