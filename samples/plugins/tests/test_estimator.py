"""The plugin `estimator`: an unchanged `model_fn` with an optimizer of its own."""

from __future__ import annotations

import pytest

from toolkit import DataError, DivergedError, testing

SMALL = {"units": 16, "batch_size": 8}


@pytest.fixture
def plugin(reference):
    return reference("estimator")


@pytest.fixture
def data(tmp_path):
    return testing.write_digits(str(tmp_path / "digits.npz"))


def test_a_run_resumes_exactly_also_in_a_loop_of_steps(plugin, data, tmp_path):
    testing.check_step_in_a_loop(plugin, data=data, **SMALL)
    testing.check_resume(plugin, str(tmp_path / "run"), data=data, **SMALL)


def test_it_predicts_and_exports(plugin, data, tmp_path):
    testing.check_inference(plugin, str(tmp_path / "run"), data=data, **SMALL)


def test_digits_are_learned(plugin, data, tmp_path):
    options = {"steps": 60, "rate": 0.2, **SMALL}
    summary = testing.train(plugin, str(tmp_path / "run"), data=data, **options)
    assert summary["test"]["metrics"]["accuracy"] > 0.9


def test_a_loss_that_is_not_finite_ends_the_run(plugin, data, tmp_path):
    with pytest.raises(DivergedError, match="finite"):
        testing.train(plugin, str(tmp_path / "run"), data=data, steps=20, rate=1e30, **SMALL)


def test_a_table_is_refused(plugin, tmp_path):
    with pytest.raises(DataError, match="needs images with one class each"):
        testing.train(plugin, str(tmp_path / "run"), data=testing.write_table(tmp_path / "a.csv"))
