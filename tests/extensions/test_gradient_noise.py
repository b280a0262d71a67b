"""`--with gradient-noise`: the noise's size, its independence, and zero strength."""

import numpy as np
import pytest
from graph_fixtures import make_run, session
from linear_fixtures import LINEAR
from toolkit_extensions import gradient_noise

from toolkit import hookimpl, testing, tf
from toolkit.api import load_plugins
from toolkit.run_data import open_run_data
from toolkit.testing.runs import resolve_options
from toolkit.testing.steps import TrainingSteps

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


def train(tmp_path, data, name, extensions, **options):
    options = dict(options, data=data, evaluate="no", batch_size=4, best_metric="none")
    testing.train(LINEAR, str(tmp_path / name), extensions, **options)
    return testing.tensors(str(tmp_path / name))


def test_a_step_of_descent_moves_by_gradient_and_noise(data, tmp_path):
    more = {"steps": 1, "optimizer": "sgd", "optimizer_args": "", "learning_rate": 1.0}
    noisy = train(tmp_path, data, "noisy", ["gradient-noise"], noise_eta=0.01, **more)
    plain = train(tmp_path, data, "plain", [], **more)
    moves = (noisy["linear/w"] - plain["linear/w"]).ravel()
    assert abs(moves.std() - 0.1) < 0.02


def open_steps(data, plugin, extension, **values):
    """Training in memory."""
    plugins = load_plugins(plugin, [extension])
    values = dict(values, data=data)
    run_data = open_run_data(plugins, resolve_options(plugins, values))
    return TrainingSteps(plugins, resolve_options(plugins, values, run_data), run_data)


class Recorder:
    """An extension that notes the variables of each update by its name, and changes nothing."""

    def __init__(self):
        self.variables = {}

    @hookimpl(wrapper=True)
    def optimize(self, run):
        def change(gradients, variables, name):
            self.variables[name] = {v.op.name for v in variables}
            return gradients

        run.change_gradients(change)
        return (yield)


def test_the_gradients_of_both_players_of_a_gan_can_be_changed(data):
    recorder = Recorder()
    small = {"network": "mlp", "width": 4, "features": "pixels", "batch_size": 4}
    with open_steps(data, "gan", recorder, **small) as steps:
        trained = steps.graph.tf_graph.get_collection("trainable_variables")
        discriminator, generator = recorder.variables.values()
        assert discriminator | generator == {v.op.name for v in trained}
        assert not discriminator & generator
