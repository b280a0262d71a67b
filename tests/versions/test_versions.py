"""A checkpoint of one TensorFlow line goes on in the other."""

import os
import shutil

import numpy as np
import pytest
from helpers import Linear, write_bars

from toolkit import testing
from toolkit.storage.run_folder import RunFolder

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("line", ["1.15", "2.x"])
def test_a_run_of_either_line_goes_on_here(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    data = write_bars("bars.npz")
    shutil.copytree(os.path.join(HERE, line), "half")
    assert RunFolder(os.path.abspath("half")).newest().step == 4

    testing.train(Linear, "half", steps=8)
    testing.train(Linear, "whole", data=data, steps=8, evaluate="no")

    expected, found = testing.tensors("whole"), testing.tensors("half")
    assert sorted(expected) == sorted(found)
    assert found["global_step"] == 8
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
