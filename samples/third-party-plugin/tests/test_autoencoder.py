"""The autoencoder and the journal, tested with toolkit's public names and test kit."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import toolkit_autoencoder as plugin
from toolkit_autoencoder.losses import cross_entropy
from toolkit_autoencoder.options import AutoencoderOptions

from toolkit import DataError, DataSpec, Run, UsageError, option, testing, tf

IMAGES = DataSpec((4, 6, 1), "uint8")


class TinyOptions(AutoencoderOptions):
    """The plugin's options, and the one option of the core that a network needs."""

    seed: int = option(1, "seed")


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def make_run(mode="train", data=IMAGES, **options):
    return Run(mode, TinyOptions(**dict({"code": 3, "hidden": [5]}, **options)), data)


def reconstruct(run, images):
    return plugin.call(plugin.build(run), tf.constant(images), run)["reconstruction"]


def values(*tensors):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(tensors))


def test_cross_entropy_is_ln_2_where_the_logits_are_zero():
    (value,) = values(cross_entropy(tf.zeros([2, 1, 1, 1]), tf.constant([[[[0.0]]], [[[0.25]]]])))
    assert value == pytest.approx(math.log(2))


def test_cross_entropy_stays_finite_for_extreme_logits():
    # 0 for the first pixel, which is right; 1000 for the second, which is wrong.
    (value,) = values(cross_entropy(tf.constant([1000.0, 1000.0]), tf.constant([1.0, 0.0])))
    assert value == pytest.approx(500)


def test_reconstructions_are_images_of_the_same_shape():
    images = np.ones([7, 4, 6, 1], np.float32)
    (images_again,) = values(reconstruct(make_run("eval"), images))
    assert images_again.shape == (7, 4, 6, 1)
    assert images_again.min() >= 0 and images_again.max() <= 1


def test_build_creates_every_variable_and_names_it_after_its_layer():
    reconstruct(make_run(), np.zeros([1, 4, 6, 1], np.float32))
    layers = ["encoder/dense1", "encoder/dense2", "decoder/dense1", "decoder/dense2"]
    names = [v.op.name for v in tf.global_variables() if v.op.name != "global_step"]
    assert names == [layer + part for layer in layers for part in ("/kernel", "/bias")]


def test_noise_is_added_in_training_only():
    model = plugin.build(make_run())
    images = tf.fill([2, 4, 6, 1], 0.5)
    training, evaluating = (
        plugin.call(model, images, make_run(mode))["code"] for mode in ("train", "eval")
    )
    in_training, in_evaluation, without = values(training, evaluating, model(images)["code"])
    np.testing.assert_array_equal(in_evaluation, without)
    assert np.abs(in_training - without).max() > 0.01


@pytest.mark.parametrize("data", [DataSpec((4, 6, 1), "float32"), DataSpec((24,), "uint8")])
def test_data_other_than_images_is_refused(data):
    with pytest.raises(DataError, match="needs images"):
        plugin.build(make_run(data=data))


def test_a_layer_without_units_is_refused():
    with pytest.raises(UsageError, match="each needs 1 or more"):
        plugin.build(make_run(hidden=[8, 0]))


# ------------------------------------------------------------- whole runs, on images without labels


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The value of --data for 60 images without labels."""
    path = str(tmp_path_factory.mktemp("data") / "unlabelled.npz")
    images = np.random.RandomState(0).randint(0, 256, [60, 4, 6, 3])
    np.savez(path, x_train=images.astype(np.uint8))
    return "npz:" + path


def train(folder, data, **options):
    """The summary of 12 steps of the installed plugin, with the journal, in `folder`."""
    options = dict(options, data=data, batch_size="8", steps="12")
    return testing.train("autoencoder", str(folder), ["journal"], **options)


def test_the_plugin_passes_the_checks_of_the_test_kit(tmp_path, data):
    testing.check_plugin("autoencoder", tmp_path, data=data)


def test_pictures_are_drawn_every_n_steps_and_at_the_end(tmp_path, data):
    train(tmp_path / "run", data, dump_steps="5")
    assert sorted(os.listdir(str(tmp_path / "run" / "samples"))) == [
        "reconstruction-000005.png",
        "reconstruction-000010.png",
        "reconstruction-000012.png",
    ]


def test_pictures_change_no_bit_of_the_training(tmp_path, data):
    often, rarely = tmp_path / "often", tmp_path / "rarely"
    train(often, data, dump_steps="1")
    train(rarely, data, dump_steps="100")
    assert testing.fingerprint(str(often)) == testing.fingerprint(str(rarely))


def test_the_journal_lists_each_checkpoint_and_the_end(tmp_path, data):
    train(tmp_path / "run", data, checkpoint_steps="8")
    assert (tmp_path / "run" / "journal.txt").read_text().splitlines() == [
        "step 8: checkpoint saved",
        "step 12: checkpoint saved",
        "step 12: reached step 12",
    ]
