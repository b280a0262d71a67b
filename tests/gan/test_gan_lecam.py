"""LeCam's penalty and its averages, against the formula and a game of one weight."""

from __future__ import annotations

import numpy as np
import pytest
from gan_fixtures import (
    DESCENT,
    LinearDiscriminator,
    Point,
    assignments_of,
    build_image_game,
    build_step,
    evaluate,
    make_run,
)
from graph_fixtures import session
from toolkit_gan import lecam, networks

from toolkit import tf

AVERAGES = ["critic/average_logit/real", "critic/average_logit/fake"]


def test_the_penalty_is_that_of_the_paper_where_reals_are_above_and_fakes_below():
    real, fake = np.float32([2, 3, -1]), np.float32([-2, 0, 4])
    inputs = [tf.constant(real), tf.constant(fake)]
    penalty = lecam.lecam_penalty(*inputs, tf.constant(1.5), tf.constant(-0.5))
    value, slopes = evaluate(penalty, tf.gradients(penalty, inputs))
    # Squares (D(x) - average_fake)^2 and (average_real - D(G(z)))^2; none of -1 and of 4.
    assert value == pytest.approx((2.5**2 + 3.5**2) / 3 + (3.5**2 + 1.5**2) / 3)
    np.testing.assert_allclose(slopes, [[5 / 3, 7 / 3, 0], [-7 / 3, -1, 0]], rtol=1e-6)


def play(steps, weight=1.0, theta=-1.0, start=0, **values):
    """(psi, average real, average fake) after each step; reals are 0.5, fakes are theta."""
    values = dict(DESCENT, network="mlp", lecam=weight, lecam_start=start, **values)
    run = make_run(shape=(1,), **values)
    averages = lecam.AverageLogits(run)
    generator = Point(theta)
    model = networks.Gan(generator, LinearDiscriminator(1.0), generator, average_logits=averages)
    count = run.options.batch_size * run.options.n_critic
    game = build_step(model, tf.fill([count, 1], 0.75), run)
    names = [v for name in AVERAGES for v in tf.global_variables() if v.op.name == name]
    rows = []
    with session() as tf_session:
        for _ in range(steps):
            tf_session.run(game.op)
            rows.append(tf_session.run(model.discriminator.variables + names))
    return np.array(rows)


def expect(steps, weight=1.0, theta=-1.0, start=0, n_critic=1, rate=0.1):
    """The same numbers by hand; the logits are psi / 2 and psi * theta."""
    psi, averages, rows = 1.0, np.zeros(2), []
    for step in range(steps):
        for _ in range(n_critic):
            count = max(step - start, 0)
            means = np.array([psi / 2, psi * theta])
            averages = averages + (1 - min(0.99, count / (count + 1))) * (means - averages)
            above, below = max(0, means[0] - averages[1]), max(0, averages[0] - means[1])
            slope = theta - 0.5  # of the Wasserstein loss
            slope += (step >= start) * weight * 2 * (above * 0.5 - below * theta)
            psi -= rate * slope
        theta += rate * psi
        rows.append([psi, *averages])
    return np.array(rows)


@pytest.mark.parametrize(
    "case", [{}, {"weight": 0.3, "n_critic": 2}, {"start": 2}], ids=["first", "critic", "start"]
)
def test_steps_and_averages_are_those_of_the_formula(case):
    expected = expect(5, **case)
    np.testing.assert_allclose(play(5, **case), expected, rtol=1e-5)
    assert not np.allclose(expected[:, 0], expect(5, weight=0)[:, 0])


def test_the_averages_are_state_of_the_training_alone():
    game = build_image_game(lecam=0.3, n_critic=2, spectral_norm=True)
    assignments = assignments_of(game.op)  # behind the guard, once per update
    assert [assignments.pop(name) for name in AVERAGES] == [2, 2]
    assert all(name.endswith("/u") for name in assignments)
    with tf.Graph().as_default():
        model = networks.build(make_run(mode="eval", lecam=0.3))
        assert model.average_logits is None
        assert not {v.op.name for v in tf.global_variables()} & set(AVERAGES)
