"""Initial values computed from the training data: `Run.fit_initial_values`."""

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import DivergedError, ToolkitError, hookimpl, testing, tf


class Centred(Linear):
    """Linear on features without their mean, which is computed from the training split."""

    num_fits = 0
    is_of_data = False

    @hookimpl
    def build(self, run):
        zeros = tf.zeros_initializer()
        mean = tf.get_variable("mean", [36], initializer=zeros, trainable=False)
        run.fit_initial_values([mean], self._measure, self.is_of_data)
        return [*Linear.build(self, run), mean]

    @hookimpl
    def call(self, model, features, run):
        weights, mean = model[:2], model[2]
        flat = tf.reshape(features, [-1, 36]) - mean.read_value()
        return Linear.call(self, weights, flat, run)

    def _measure(self, split):
        Centred.num_fits += 1
        return [split.features.reshape(len(split), -1).mean(axis=0) / 255]


@pytest.fixture
def data(here, monkeypatch):
    monkeypatch.setattr(Centred, "num_fits", 0)
    return write_bars("bars.npz")


def expected_mean():
    with np.load("bars.npz") as file:
        return file["x_train"].reshape(40, -1).mean(axis=0) / 255


def test_the_training_data_give_initial_values_and_a_resume_restores_them(data):
    testing.train(Centred, "run", data=data, steps=4, checkpoint_steps=2, pause_at=2)
    assert Centred.num_fits == 1
    np.testing.assert_allclose(testing.tensors("run")["mean"], expected_mean(), rtol=1e-6)
    testing.train(Centred, "run", data=data, steps=4, checkpoint_steps=2)
    assert Centred.num_fits == 1
    testing.train(Centred, "whole", data=data, steps=4, checkpoint_steps=2)
    assert testing.fingerprint("run") == testing.fingerprint("whole")


def test_each_replica_has_the_values_of_the_first(data):
    testing.train(Centred, "run", data=data, steps=2, devices=2)  # it compares the replicas
    assert Centred.num_fits == 1
    np.testing.assert_allclose(testing.tensors("run")["mean"], expected_mean(), rtol=1e-6)


def test_variables_with_weights_of_another_run_keep_those(data):
    testing.train(Linear, "plain", data=data, steps=1)
    testing.train(Centred, "first", data=data, steps=1, init_from="plain")  # which has no mean
    assert Centred.num_fits == 1
    testing.train(Centred, "second", data=data, steps=1, init_from="first")
    assert Centred.num_fits == 1


def test_values_of_the_data_replace_the_weights_of_another_run(data, monkeypatch):
    monkeypatch.setattr(Centred, "is_of_data", True)
    testing.train(Centred, "first", data=data, steps=1)
    testing.train(Centred, "second", data=data, steps=1, init_from="first")
    assert Centred.num_fits == 2
    np.testing.assert_allclose(testing.tensors("second")["mean"], expected_mean(), rtol=1e-6)


class Infinite(Centred):
    """Its loss is infinite with the values of the training split, and finite with zeros."""

    @hookimpl
    def loss(self, labels, outputs, model):
        gap = 2.0 - tf.reduce_max(model[2].read_value())
        return Linear.loss(self, labels, outputs) + 1e-9 * tf.log(gap)

    def _measure(self, split):
        return [np.full(36, 2.0)]


def test_the_autopsy_of_the_first_step_begins_with_these_values(data):
    with pytest.raises(DivergedError) as raised:
        testing.train(Infinite, "run", data=data, steps=1)
    assert "test_initial_fits.py" in raised.value.hint  # where the logarithm is


@pytest.mark.parametrize(
    "values, expected",
    [
        ([np.zeros(35)], r"returned arrays of shapes \[\[35\]\] for mean, expected \[\[36\]\]"),
        ([["a"] * 36], "in its function of run.fit_initial_values: ValueError: could not convert"),
    ],
)
def test_arrays_of_other_shapes_and_texts_are_refused(data, monkeypatch, values, expected):
    monkeypatch.setattr(Centred, "_measure", lambda self, split: values)
    with pytest.raises(ToolkitError, match=expected):
        testing.train(Centred, "run", data=data, steps=1)
