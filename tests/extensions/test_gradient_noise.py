"""`--with gradient-noise`: the noise's size, its independence, and zero strength."""

import numpy as np
import pytest
from extension_fixtures import train
from graph_fixtures import make_run, session
from toolkit_extensions import gradient_noise

from toolkit import testing, tf

SGD = {"optimizer": "sgd", "learning_rate": 1.0, "clip": "none"}


def noise(step, name="", shape=(100, 100), **options):
    """The noise that is added to a gradient of zeros at a step."""
    run = make_run(classes=[("noise", gradient_noise.GradientNoiseOptions)], **dict(SGD, **options))
    w = tf.get_variable("w" + str(len(tf.global_variables())), shape)
    with session() as tf_session:
        tf_session.run(run.global_step.assign(step))
        return tf_session.run(gradient_noise.add_noise(run, [tf.zeros(shape)], [w], name)[0])


@pytest.mark.parametrize("step, eta, gamma", [(0, 1.0, 0.55), (0, 0.01, 0.55), (99, 0.3, 0.55)])
def test_its_variance_falls_with_the_step(graph, step, eta, gamma):
    values = noise(step, noise_eta=eta, noise_gamma=gamma)
    expected = np.sqrt(eta / (1 + step) ** gamma)
    assert abs(values.mean()) < 0.05 * expected
    assert abs(values.std() / expected - 1) < 0.03


def test_steps_variables_and_updates_have_their_own(graph):
    first = noise(0, noise_gamma=0.0)
    for other in (noise(1, noise_gamma=0.0), noise(0, "discriminator", noise_gamma=0.0)):
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.05


def test_a_step_of_descent_moves_by_gradient_and_noise(data):
    more = {"steps": 1, "optimizer": "sgd", "optimizer_args": "", "learning_rate": 1.0}
    noisy = train(data, "noisy", ["gradient-noise"], noise_eta=0.01, **more)
    plain = train(data, "plain", **more)
    moves = testing.tensors(noisy)["linear/w"] - testing.tensors(plain)["linear/w"]
    assert abs(moves.std() - 0.1) < 0.02
