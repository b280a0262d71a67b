"""What one TensorFlow wrote is read on the other: runs on both, a SavedModel of 1.15 on 2.x."""

import os
import shutil

import numpy as np
import pytest
from linear_fixtures import TEST_LABELS, Linear, bars, expected_logits, write_bars

from toolkit import testing, tf
from toolkit.storage.run_folder import RunFolder

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tensors of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    run, data = str(folder / "run"), write_bars(folder / "bars.npz")
    testing.train(Linear, run, data=data, steps=8, evaluate="no")
    return testing.tensors(run)


@pytest.mark.parametrize("version", ["1.15", "2.x"])
def test_a_run_of_either_version_resumes_here(here, whole, version):
    write_bars("bars.npz")
    shutil.copytree(os.path.join(HERE, version), "half")
    assert RunFolder(os.path.abspath("half")).checkpoints.newest().step == 4

    testing.train(Linear, "half", steps=8)
    actual = testing.tensors("half")
    assert sorted(whole) == sorted(actual)
    assert actual["global_step"] == 8
    for name in whole:
        np.testing.assert_allclose(actual[name], whole[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_saved_model_of_tensorflow_1_predicts_here():
    images = bars(TEST_LABELS, 2)
    path = os.path.join(HERE, "models", "1.15")
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], path)
        signature = loaded.signature_def["serving_default"]
        feeds = {signature.inputs["features"].name: images}
        logits = session.run(signature.outputs["logits"].name, feeds)
    expected = expected_logits(os.path.join(HERE, "1.15"), images, step=4)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
