"""The plugin `two_updates_gan`: two updates in one step."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import DataError, testing

SMALL = {"units": 8, "code_size": 4, "batch_size": 8}


@pytest.fixture
def plugin(reference):
    return reference("two_updates_gan")


@pytest.fixture
def data(tmp_path):
    return testing.write_digits(str(tmp_path / "digits.npz"))


def test_a_run_resumes_exactly(plugin, data, tmp_path):
    testing.check_resume(plugin, str(tmp_path / "run"), data=data, **SMALL)


def test_it_is_evaluated_predicts_and_exports(plugin, data, tmp_path):
    testing.check_inference(plugin, str(tmp_path / "run"), data=data, **SMALL)


def test_steps_are_the_same_in_a_loop(plugin, data):
    testing.check_step_in_a_loop(plugin, data=data, **SMALL)


def test_a_step_trains_both_players(plugin, data, tmp_path):
    for steps in (1, 2):
        options = {"steps": steps, "evaluate": "no", "data": data, **SMALL}
        testing.train(plugin, str(tmp_path / str(steps)), **options)
    first, second = (testing.tensors(str(tmp_path / name)) for name in "12")
    for name in ("generator/dense/kernel", "discriminator/dense/kernel"):
        assert not np.array_equal(first[name], second[name]), name
    assert second["global_step"] == 2


def test_rows_of_a_table_are_refused(plugin, tmp_path):
    with pytest.raises(DataError, match="needs images"):
        testing.train(plugin, str(tmp_path / "run"), data=testing.write_table(tmp_path / "a.csv"))
