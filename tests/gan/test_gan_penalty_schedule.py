"""Penalties on every N-th step, with weights that fall, against closed forms.

For a linear discriminator D(x) = w.x, R1 is weight / 2 |w|^2 and its gradient weight * w.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from gan_fixtures import Logits, Weights, images_of, make_run, options
from graph_fixtures import session
from toolkit_gan import checks, networks, penalty_schedule
from toolkit_gan.forward_pass import discriminator_pass
from toolkit_gan.losses import named_losses

from toolkit import UsageError, tf

W = np.float32([3.0, 4.0])


class CountingDiscriminator:
    """w.x, and a variable that counts how often w is used."""

    def __init__(self):
        self.w = tf.get_variable("w", initializer=tf.constant(W), use_resource=True)
        self.calls = tf.get_variable("calls", initializer=0, use_resource=True, trainable=False)

    def __call__(self, images, labels, weights):
        with tf.control_dependencies([self.calls.assign_add(1, read_value=False)]):
            w = tf.identity(weights.values["w"])
        return Logits(tf.reduce_sum(w * images, axis=1))


def penalise(**values):
    """A run, a counting discriminator, its penalty, and the gradient w.r.t. w."""
    run = make_run(shape=(2,), network="mlp", penalty="r1", penalty_weight=0.1, **values)
    discriminator = CountingDiscriminator()
    points = tf.constant([[1.0, 2.0], [0.5, 0.1], [0.0, 0.0]])
    weights = Weights({"w": discriminator.w.read_value()})
    penalty = penalty_schedule.scheduled_penalty(discriminator, points, None, weights, run)
    return run, discriminator, penalty, tf.gradients(penalty, discriminator.w)[0]


def test_every_third_step_has_three_times_the_penalty_and_the_others_do_not_compute_it():
    run, discriminator, penalty, gradient = penalise(penalty_steps=3)
    with session() as tf_session:
        for step in range(7):
            value, slope = tf_session.run([penalty, gradient])
            is_due = step % 3 == 2
            assert value == pytest.approx(3 * 0.05 * 25 * is_due)
            np.testing.assert_allclose(slope, 3 * 0.1 * W * is_due, rtol=1e-6)
            assert tf_session.run(discriminator.calls) == (step + 1) // 3
            tf_session.run(run.global_step.assign_add(1))


@pytest.mark.parametrize(
    "decay, steps, step, factor",
    [
        # of 100 steps, in a cosine from 1 to the last share, where it stays
        (0.1, 1, 0, 1.0),
        (0.1, 1, 25, 0.1 + 0.45 * (1 + math.sqrt(0.5))),
        (0.1, 1, 50, 0.55),
        (0.1, 1, 100, 0.1),
        (0.1, 1, 1000, 0.1),
        (0.0, 2, 49, 2 * 0.5 * (1 + math.cos(math.pi * 0.49))),  # a lazy penalty falls, too
    ],
)
def test_a_weight_falls_in_a_cosine_to_its_last_share(decay, steps, step, factor):
    run, _, penalty, gradient = penalise(penalty_decay=decay, penalty_steps=steps)
    with session() as tf_session:
        tf_session.run(run.global_step.assign(step))
        value, slope = tf_session.run([penalty, gradient])
    assert value == pytest.approx(factor * 0.05 * 25, rel=1e-5)
    np.testing.assert_allclose(slope, factor * 0.1 * W, rtol=1e-5)


def test_a_decay_needs_the_length_of_the_run():
    with pytest.raises(UsageError, match="penalty_decay.* has no length"):
        penalty_schedule.weight_factor(make_run(total_steps=None, penalty_decay=0.5))


@pytest.mark.parametrize("network, penalty", [("dcgan", "wgan-gp"), ("resnet", "r1r2")])
def test_a_lazy_penalty_has_the_gradients_of_one_on_every_step(network, penalty):
    values = {}
    for steps in (1, 2):
        with tf.Graph().as_default():
            kinds = {"network": network, "penalty": penalty, "conditional": "projection"}
            weight = {"penalty_steps": steps, "penalty_weight": 1.0 / steps}
            run = make_run(classes=3, width=2, **kinds, **weight)
            model = networks.build(run)
            outputs, _ = discriminator_pass(model, run, images_of(), tf.constant([0, 1, 2, 2]), 0)
            loss = named_losses(outputs, run)["d_loss"]
            gradients = tf.gradients(loss, model.discriminator.variables)
            with session() as tf_session:
                tf_session.run(run.global_step.assign(1))
                values[steps] = tf_session.run([outputs["penalty"], loss, *gradients])
    for now, lazily in zip(values[1], values[2]):
        np.testing.assert_allclose(lazily, now, rtol=1e-4, atol=1e-6)
    assert values[1][0] > 0


def test_a_penalty_that_no_step_has_is_refused():
    chosen = options(penalty="r1", penalty_steps=16)
    checks.check_method(chosen, 64, total_steps=16)
    with pytest.raises(UsageError, match="penalty_steps is 16 and the training has 15 steps"):
        checks.check_method(chosen, 64, total_steps=15)
    with pytest.raises(UsageError, match="lecam_start is 5 and the training has 5 steps"):
        checks.check_method(options(lecam=0.3, lecam_start=5), 64, total_steps=5)
    networks.build(make_run(mode="eval", total_steps=3, penalty="r1", penalty_steps=16))
