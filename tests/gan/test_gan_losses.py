"""The losses on four hand-picked logits, at zero, and where a careless formula overflows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from graph_fixtures import session
from toolkit_gan import losses

from toolkit import tf

LOG2, LOG3 = math.log(2), math.log(3)


def evaluate(*tensors):
    with session() as made:
        values = made.run(list(tensors))
    return values if len(values) > 1 else values[0]


def losses_of(name, real, fake):
    """Values of (discriminator_loss, generator_loss)."""
    real, fake = tf.constant(real, tf.float32), tf.constant(fake, tf.float32)
    return evaluate(*losses.LOSSES[name](real, fake))


def slopes(name, real, fake):
    """Discriminator's slope at one real and one fake logit, generator's at the fake one."""
    real, fake = tf.constant([real], tf.float32), tf.constant([fake], tf.float32)
    discriminator, generator = losses.LOSSES[name](real, fake)
    found = tf.gradients(discriminator, [real, fake]) + tf.gradients(generator, fake)
    values = evaluate(discriminator, generator, *found)
    assert np.isfinite(np.hstack([np.ravel(v) for v in values])).all()
    return [float(v[0]) for v in values[2:]]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("non-saturating", [1.386294, 0.693147]),
        ("minimax", [1.386294, -0.693147]),
        ("least-squares", [0.5, 0.5]),
        ("wasserstein", [0.0, 0.0]),
        ("hinge", [2.0, 0.0]),
        ("relativistic", [0.693147, 0.693147]),
    ],
)
def test_an_undecided_discriminator_costs_what_the_table_says(name, expected):
    np.testing.assert_allclose(losses_of(name, [0, 0], [0, 0]), expected, atol=1e-6)


# Real logits log 3 and -log 3, so that softplus of them is log 4 and log 4/3 either way round; fake
# ones log 3 and 0: softplus is log 4 and log 2, of the negative ones log 4/3 and log 2.
REAL, FAKE = [LOG3, -LOG3], [LOG3, 0.0]
BINARY = (math.log(4 / 3) + math.log(4)) / 2 + (math.log(4) + LOG2) / 2


@pytest.mark.parametrize(
    "name, expected",
    [
        ("non-saturating", [BINARY, (math.log(4 / 3) + LOG2) / 2]),
        ("minimax", [BINARY, -(math.log(4) + LOG2) / 2]),
        # The pairs' leads are 0 and -log 3.
        ("relativistic", [(LOG2 + math.log(4)) / 2, (LOG2 + math.log(4 / 3)) / 2]),
    ],
)
def test_losses_of_probabilities_on_four_logits(name, expected):
    np.testing.assert_allclose(losses_of(name, REAL, FAKE), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "name, expected",
    [
        # ((2-1)^2 + (0-1)^2) / 4 + ((-2)^2 + 1^2) / 4 and ((-3)^2 + 0) / 4
        ("least-squares", [0.5 + 1.25, 2.25]),
        ("wasserstein", [-0.5 - 1.0, 0.5]),
        # relu(-1), relu(1) of the reals, relu(-1), relu(2) of the fakes
        ("hinge", [0.5 + 1.0, 0.5]),
    ],
)
def test_losses_of_plain_scores_on_four_logits(name, expected):
    np.testing.assert_allclose(losses_of(name, [2.0, 0.0], [-2.0, 1.0]), expected, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(losses.LOSSES))
def test_a_loss_is_a_mean_so_that_a_batch_said_twice_costs_the_same(name):
    once = losses_of(name, [0.3, -1.0], [0.5, 2.0])
    twice = losses_of(name, [0.3, -1.0] * 2, [0.5, 2.0] * 2)
    np.testing.assert_allclose(once, twice, rtol=1e-6)


@pytest.mark.parametrize("size", [200.0, 1e4])
def test_a_generator_that_loses_outright_keeps_its_slope_of_minus_one(size):
    assert slopes("non-saturating", size, -size) == pytest.approx([0, 0, -1], abs=1e-6)


@pytest.mark.parametrize("size", [200.0, 1e4])
@pytest.mark.parametrize(
    "name, won, lost",
    [
        # discriminator's slope at a real and a fake logit, generator's at the fake one: where the discriminator
        # is right by `size` on both sides, and where it is wrong by as much
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


def test_hinge_loss_is_zero_outside_the_margin_and_flat_there():
    assert losses_of("hinge", [1.5, 3.0], [-1.5, -3.0])[0] == 0
    assert slopes("hinge", 1.5, -1.5) == [0, 0, -1]


@pytest.mark.parametrize("name", sorted(losses.LOSSES))
def test_a_generator_reads_the_reals_only_where_the_name_is_listed(name):
    real, fake = tf.constant([1.0, 2.0]), tf.constant([0.5, -1.0])
    _, generator = losses.LOSSES[name](real, fake)
    assert (tf.gradients(generator, real)[0] is not None) == (name in losses.NEEDS_REALS)


def test_relativistic_pairs_need_as_many_reals_as_fakes():
    with pytest.raises(ValueError, match="compatible"):
        losses.relativistic(tf.zeros([3]), tf.zeros([1]))


def test_every_loss_of_the_options_has_a_function_and_the_reverse():
    from toolkit_gan.settings import PRESETS

    assert {preset["loss"] for preset in PRESETS.values()} <= set(losses.LOSSES)
    assert len(losses.LOSSES) == 6


# ------------------------------------------------------------------------------ classes, accuracies


def test_class_loss_is_the_cross_entropy_of_the_right_class():
    logits = tf.constant([[LOG3, 0.0], [0.0, 0.0]])  # odds of 3 to 1, then even ones
    loss = losses.class_loss(logits, tf.constant([0, 1]))
    assert evaluate(loss) == pytest.approx((math.log(4 / 3) + LOG2) / 2)


def test_class_loss_of_an_extreme_logit_is_finite():
    logits = tf.constant([[1e4, -1e4]])
    loss = losses.class_loss(logits, tf.constant([1]))
    value, slope = evaluate(loss, tf.gradients(loss, logits)[0])
    assert value == pytest.approx(2e4) and slope.tolist() == [[1.0, -1.0]]


def test_accuracies_are_the_shares_above_and_below_zero():
    real, fake = tf.constant([3.0, -1.0, 0.2, 0.1]), tf.constant([-2.0, 0.4, 0.1, 5.0])
    assert evaluate(*losses.discriminator_accuracy("hinge", real, fake)) == [0.75, 0.25]


def test_accuracies_of_least_squares_are_told_at_one_half():
    real, fake = tf.constant([3.0, -1.0, 0.2, 0.1]), tf.constant([-2.0, 0.4, 0.1, 5.0])
    assert evaluate(*losses.discriminator_accuracy("least-squares", real, fake)) == [0.25, 0.75]


@pytest.mark.parametrize("name", sorted(losses.WITHOUT_ZERO))
@pytest.mark.parametrize("shift", [-100.0, 0.0, 100.0])
def test_accuracies_of_losses_blind_to_a_shift_are_told_between_the_means(name, shift):
    # The means are 1 and -2, so that the threshold is -0.5, moved by as much as the logits are.
    real, fake = tf.constant([4.0, -2.0, 1.0, 1.0]), tf.constant([-5.0, 1.0])
    found = losses.discriminator_accuracy(name, real + shift, fake + shift)
    assert evaluate(*found) == [0.75, 0.5]


@pytest.mark.parametrize("name", sorted(losses.WITHOUT_ZERO))
def test_losses_blind_to_a_shift_are_the_ones_listed(name):
    once = losses_of(name, [1.0, 2.0], [0.5, -1.0])[0]
    assert losses_of(name, [6.0, 7.0], [5.5, 4.0])[0] == pytest.approx(once, rel=1e-5)


@pytest.mark.parametrize("name", sorted(losses.LOSSES))
def test_a_discriminator_that_tells_nothing_apart_is_no_better_than_a_coin(name):
    right = evaluate(*losses.discriminator_accuracy(name, tf.zeros([4]), tf.zeros([4])))
    assert sum(right) <= 1
