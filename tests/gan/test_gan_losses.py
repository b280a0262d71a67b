"""The losses on four hand-picked logits, and where a careless formula overflows."""

import math

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run
from toolkit_gan import losses, penalties

from toolkit import tf

LOG2, LOG3 = math.log(2), math.log(3)


def losses_of(name, real, fake):
    """The two losses as numbers."""
    real, fake = tf.constant(real, tf.float32), tf.constant(fake, tf.float32)
    return evaluate(*losses.LOSSES[name](real, fake))


def slopes(name, real, fake):
    """The slopes of the discriminator's loss at both logits, and of the generator's at the fake."""
    real, fake = tf.constant([real], tf.float32), tf.constant([fake], tf.float32)
    discriminator, generator = losses.LOSSES[name](real, fake)
    gradients = tf.gradients(discriminator, [real, fake]) + tf.gradients(generator, fake)
    values = evaluate(discriminator, generator, *gradients)
    assert np.isfinite(np.hstack([np.ravel(v) for v in values])).all()
    return [float(v[0]) for v in values[2:]]


# Real logits log 3 and -log 3, so that softplus of them is log 4 and log 4/3 either way round; fake
# ones log 3 and 0: softplus is log 4 and log 2, of the negative ones log 4/3 and log 2.
ODDS = [LOG3, -LOG3], [LOG3, 0.0]
BINARY = (math.log(4 / 3) + math.log(4)) / 2 + (math.log(4) + LOG2) / 2
PLAIN = [2.0, 0.0], [-2.0, 1.0]


@pytest.mark.parametrize(
    "name, logits, expected",
    [
        ("non-saturating", ODDS, [BINARY, (math.log(4 / 3) + LOG2) / 2]),
        ("minimax", ODDS, [BINARY, -(math.log(4) + LOG2) / 2]),
        # The pairs' leads are 0 and -log 3.
        ("relativistic", ODDS, [(LOG2 + math.log(4)) / 2, (LOG2 + math.log(4 / 3)) / 2]),
        # ((2-1)^2 + (0-1)^2) / 4 + ((-2)^2 + 1^2) / 4 and ((-3)^2 + 0) / 4
        ("least-squares", PLAIN, [0.5 + 1.25, 2.25]),
        ("wasserstein", PLAIN, [-0.5 - 1.0, 0.5]),
        # relu(-1), relu(1) of the reals, relu(-1), relu(2) of the fakes
        ("hinge", PLAIN, [0.5 + 1.0, 0.5]),
    ],
)
def test_losses_of_four_logits(name, logits, expected):
    np.testing.assert_allclose(losses_of(name, *logits), expected, rtol=1e-6)


@pytest.mark.parametrize("size", [200.0, 1e4])
@pytest.mark.parametrize(
    "name, won, lost",
    [
        # slopes of the discriminator's loss at a real and a fake logit and of the generator's at
        # the fake one: with logits right by `size`, and with logits wrong by as much
        ("non-saturating", [0, 0, -1], [-1, 1, 0]),
        ("minimax", [0, 0, 0], [-1, 1, -1]),
        ("wasserstein", [-1, 1, -1], [-1, 1, -1]),
        ("hinge", [0, 0, -1], [-1, 1, -1]),
        ("relativistic", [0, 0, -1], [-1, 1, 0]),
    ],
)
def test_extreme_logits_give_finite_losses_and_the_right_slopes(name, won, lost, size):
    assert slopes(name, size, -size) == pytest.approx(won, abs=1e-6)
    assert slopes(name, -size, size) == pytest.approx(lost, abs=1e-6)


@pytest.mark.parametrize("size", [200.0, 1e4])
def test_the_slope_of_least_squares_is_the_distance_from_the_target(size):
    assert slopes("least-squares", size, -size) == pytest.approx([size - 1, -size, -size - 1])


@pytest.mark.parametrize("name", sorted(losses.LOSSES))
def test_a_generator_reads_the_reals_only_where_the_name_is_listed(name):
    real, fake = tf.constant([1.0, 2.0]), tf.constant([0.5, -1.0])
    _, generator = losses.LOSSES[name](real, fake)
    assert (tf.gradients(generator, real)[0] is not None) == (name in losses.NEEDS_REALS)


@pytest.mark.parametrize(
    "name, real, fake, expected",
    [
        # The threshold is at zero, or at one half between the targets 0 and 1,
        ("hinge", [3.0, -1.0, 0.2, 0.1], [-2.0, 0.4, 0.1, 5.0], [0.75, 0.25]),
        ("least-squares", [3.0, -1.0, 0.2, 0.1], [-2.0, 0.4, 0.1, 5.0], [0.25, 0.75]),
        # or between the means, here 1 and -2, moved by as much as the logits are.
        *[
            (name, np.float32([4, -2, 1, 1]) + shift, np.float32([-5, 1]) + shift, [0.75, 0.5])
            for name in sorted(losses.SHIFT_INVARIANT)
            for shift in (-100, 0, 100)
        ],
    ],
)
def test_accuracies_are_the_shares_on_the_right_side_of_the_threshold(name, real, fake, expected):
    assert evaluate(*losses.accuracies(name, tf.constant(real), tf.constant(fake))) == expected


@pytest.mark.parametrize("name", sorted(losses.LOSSES))
def test_exactly_the_listed_losses_are_shift_invariant(name):
    once, moved = losses_of(name, [1.0, 2.0], [0.5, -1.0]), losses_of(name, [6.0, 7.0], [5.5, 4.0])
    is_invariant = moved[0] == pytest.approx(once[0], rel=1e-5)
    assert is_invariant == (name in losses.SHIFT_INVARIANT)


def test_the_losses_are_logged_by_name_and_the_penalty_is_part_of_the_discriminators_loss():
    run = make_run(loss="wasserstein", penalty="r1", penalty_weight=2.0)
    # E sum g^2 is (3^2 + 4^2 + 0) / 2 = 12.5, times 2 / 2
    gradients = tf.constant([[[[3.0]], [[4.0]]], [[[0.0]], [[0.0]]]])
    outputs = {"real_logits": tf.constant([4.0, 2.0]), "fake_logits": tf.constant([1.0, -2.0])}
    outputs["penalty"] = penalties.weighted_penalty(gradients, run.options)
    assert evaluate(dict(losses.named_losses(outputs, run))) == {
        "d_loss": pytest.approx(-3.5 + 12.5),
        "g_loss": 0.5,
        "penalty": 12.5,
        "d_real": 3.0,
        "d_fake": -0.5,
        "d_accuracy_real": 1.0,
        "d_accuracy_fake": 1.0,
    }


def test_acgan_adds_lambda_times_the_cross_entropy_of_reals_and_of_fakes():
    run = make_run(classes=2, conditional="acgan", class_weight=3.0, loss="wasserstein")
    outputs = {
        "real_logits": tf.zeros([1]),
        "fake_logits": tf.zeros([1]),
        "real_class_logits": tf.zeros([1, 2]),  # even odds
        "fake_class_logits": tf.constant([[LOG3, 0.0]]),  # 3 to 1
        "real_labels": tf.constant([1]),
        "fake_labels": tf.constant([0]),
    }
    values = evaluate(dict(losses.named_losses(outputs, run)))
    real, fake = LOG2, math.log(4 / 3)
    assert values["d_loss"] == pytest.approx(3 * (real + fake), rel=1e-5)
    assert values["g_loss"] == pytest.approx(3 * fake, rel=1e-5)
