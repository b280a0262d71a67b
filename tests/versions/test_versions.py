"""A run that one TensorFlow version started resumes on the other."""

import os
import shutil

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import testing
from toolkit.storage.run_folder import RunFolder

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("version", ["1.15", "2.x"])
def test_a_run_of_either_version_resumes_here(here, version):
    data = write_bars("bars.npz")
    shutil.copytree(os.path.join(HERE, version), "half")
    assert RunFolder(os.path.abspath("half")).checkpoints.newest().step == 4

    testing.train(Linear, "half", steps=8)
    testing.train(Linear, "whole", data=data, steps=8, evaluate="no")

    expected, actual = testing.tensors("whole"), testing.tensors("half")
    assert sorted(expected) == sorted(actual)
    assert actual["global_step"] == 8
    for name in expected:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
