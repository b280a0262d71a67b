"""The moving average of the generator's weights, counted in steps or in images."""

from __future__ import annotations

import pytest
from gan_fixtures import build_image_game, evaluate, make_run, options
from graph_fixtures import session
from toolkit_gan import average

from toolkit import tf


def test_a_half_life_halves_the_share_of_a_weight_after_its_images():
    # Twenty updates of 50 images are one half-life of 1,000; 5 % of 100,000 images are more.
    decay = evaluate(average.decay_of_half_life(50, tf.constant(1e5), 1000))
    assert decay**20 == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize(
    "past, expected",
    [
        (0.0, 0.0),  # the average is the first weights
        (64.0, 0.5**20),  # 5 % of the images are a twentieth of the batch
        (64e3, 0.5 ** (64 / 3200)),
        (64e6, 0.5 ** (64 / 10e3)),  # the whole half-life
    ],
)
def test_a_half_life_grows_with_the_images_so_far(past, expected):
    decay = evaluate(average.decay_of_half_life(64, tf.constant(past), 10000))
    assert decay == pytest.approx(expected, rel=1e-4)


def test_the_images_of_accumulated_batches_count_as_one_update():
    run = make_run(ema_images=1, accumulate=3)
    with session() as tf_session:
        tf_session.run(run.global_step.assign(500))  # 2,000 images; at most 1 is the half-life
        assert tf_session.run(average.decay(run)) == pytest.approx(0.5**12)


def test_a_half_life_replaces_the_decay_per_step_and_needs_none():
    by_images = options(preset="quick", ema_images=1000, ema=0.99)
    assert by_images.idle_options()["ema"] == "ema_images is set"
    assert options(ema_images=1000, ema=0).has_average and not options(ema=0).has_average


def test_the_average_of_a_step_is_the_first_weights_and_then_lags():
    game = build_image_game(network="mlp", width=1, ema=0.0, ema_images=100)
    pairs = list(zip(game.model.average.variables, game.model.generator.variables))
    with session() as tf_session:
        tf_session.run(game.op)
        for mean, weight in tf_session.run(pairs):
            assert mean == pytest.approx(weight, abs=1e-6)
        before = tf_session.run(pairs[0][0])
        tf_session.run(game.run.global_step.assign(100))  # 400 images: a half-life of 20
        tf_session.run(game.op)
        mean, weight = tf_session.run(pairs[0])
    assert mean == pytest.approx(weight + (before - weight) * 0.5 ** (4 / 20), abs=1e-5)
