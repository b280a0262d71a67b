"""`--with gradient-noise`: the noise's size, its independence, and zero strength."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import make_run, session
from linear_fixtures import LINEAR, Linear
from toolkit_extensions import gradient_noise

from toolkit import hookimpl, testing, tf
from toolkit.api import load_plugins
from toolkit.run_data import open_run_data
from toolkit.testing.runs import resolve_options
from toolkit.testing.steps import TrainingSteps

SGD = {"optimizer": "sgd", "learning_rate": 1.0, "clip": "none"}
SETTINGS = {"steps": 4, "evaluate": "no", "batch_size": 4, "best_metric": "none"}


def noise(step, name="", shape=(100, 100), **options):
    """The noise that is added to a gradient of zeros at a step."""
    from toolkit_extensions.gradient_noise import GradientNoiseOptions

    run = make_run(classes=[("noise", GradientNoiseOptions)], **dict(SGD, **options))
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
    for other in (noise(1, noise_gamma=0.0), noise(0, "critic", noise_gamma=0.0)):
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 0.05


def train(tmp_path, data, name, plugin=LINEAR, extensions=("gradient-noise",), **options):
    path = str(tmp_path / name)
    testing.train(plugin, path, list(extensions), **dict(SETTINGS, data=data, **options))
    return path


def test_zero_strength_changes_no_tensor(data, tmp_path):
    zero = train(tmp_path, data, "zero", noise_eta=0.0)
    plain = train(tmp_path, data, "plain", extensions=())
    assert testing.fingerprint(zero) == testing.fingerprint(plain)


def test_a_step_of_descent_moves_by_gradient_and_noise(data, tmp_path):
    more = {"steps": 1, "optimizer": "sgd", "optimizer_args": "", "learning_rate": 1.0}
    noisy = testing.tensors(train(tmp_path, data, "noisy", noise_eta=0.01, **more))
    plain = testing.tensors(train(tmp_path, data, "plain", extensions=(), **more))
    moves = (noisy["linear/w"] - plain["linear/w"]).ravel()
    assert abs(moves.std() - 0.1) < 0.02


@pytest.mark.parametrize("more", [{"steps_per_call": "4"}, {"accumulate": "2"}], ids=str)
def test_it_is_the_same_in_a_loop_and_not_added_while_gradients_accumulate(data, tmp_path, more):
    single = train(tmp_path, data, "single", **dict(more, steps_per_call="1"))
    loop = train(tmp_path, data, "loop", **dict(more, steps_per_call="4"))
    assert testing.fingerprint(single) == testing.fingerprint(loop)


class TwoUpdates(Linear):
    """Two weights whose gradients are zero, each with an update of its own."""

    @hookimpl
    def build(self, run):
        zeros = tf.zeros_initializer()
        return [tf.get_variable(name, [100, 100], initializer=zeros) for name in ("a", "b")]

    @hookimpl
    def call(self, model):
        return {}

    @hookimpl
    def loss(self, model):
        return {w.op.name: 0 * tf.reduce_sum(w) for w in model}

    @hookimpl
    def optimize(self, model, losses, run):
        first, second = model
        update = run.minimize(losses["a"], [first], "a", advance_step=False)
        with tf.control_dependencies([update]):
            return run.minimize(losses["b"], [second], "b")


def open_steps(data, plugin, extension, **values):
    """Training in memory."""
    plugins = load_plugins(plugin, [extension])
    values = dict(values, data=data)
    run_data = open_run_data(plugins, resolve_options(plugins, values))
    return TrainingSteps(plugins, resolve_options(plugins, values, run_data), run_data)


def test_each_of_two_updates_in_a_step_gets_noise_of_its_own(data):
    more = {"optimizer_args": "", "best_metric": "none", "batch_size": 4}
    with open_steps(data, TwoUpdates(), "gradient-noise", noise_eta=0.25, **SGD, **more) as steps:
        steps.step()
        values = steps.values()
    first, second = values["a"].ravel(), values["b"].ravel()
    for moves in (first, second):
        assert abs(moves.std() / 0.5 - 1) < 0.03
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


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
        critic, generator = recorder.variables.values()
        assert critic | generator == {v.op.name for v in trained} and not critic & generator
