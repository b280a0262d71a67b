"""The plugin `keras_cnn`: a Keras model as it is."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import DataError, hookimpl, testing, tf

SMALL = {"filters": 4, "batch_size": 8}


@pytest.fixture
def plugin(reference):
    return reference("keras_cnn")


@pytest.fixture
def data(tmp_path):
    return testing.write_digits(str(tmp_path / "digits.npz"), shape=(14, 14, 1))


def test_a_run_resumes_exactly(plugin, data, tmp_path):
    testing.check_resume(plugin, str(tmp_path / "run"), data=data, **SMALL)


def test_it_is_evaluated_predicts_and_exports(plugin, data, tmp_path):
    testing.check_inference(plugin, str(tmp_path / "run"), data=data, **SMALL)


def test_steps_are_the_same_in_a_loop(plugin, data):
    testing.check_step_in_a_loop(plugin, data=data, **SMALL)


def test_digits_are_learned(plugin, data, tmp_path):
    options = {"steps": 120, "learning_rate": 0.01, "dropout": 0.1, **SMALL}
    summary = testing.train(plugin, str(tmp_path / "run"), data=data, **options)
    assert summary["test"]["metrics"]["accuracy"] > 0.9


def test_an_extension_changes_no_weight(plugin, data, tmp_path):
    class Extension:
        @hookimpl(wrapper=True)
        def build(self):
            tf.random.normal([3])
            return (yield)

    options = {"steps": 3, "evaluate": "no", "data": data, **SMALL}
    for name, extensions in (("a", []), ("b", [Extension()])):
        testing.train(plugin, str(tmp_path / name), extensions, **options)
    first, second = (testing.tensors(str(tmp_path / name)) for name in "ab")
    assert all(np.array_equal(value, second[name]) for name, value in first.items())


def test_a_table_is_refused(plugin, tmp_path):
    with pytest.raises(DataError, match="needs images with one class each"):
        testing.train(plugin, str(tmp_path / "run"), data=testing.write_table(tmp_path / "a.csv"))
