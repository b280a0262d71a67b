"""The autoencoder and the journal, tested with toolkit's public names and test kit."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from toolkit_vae import bound
from toolkit_vae.network import Normal

from toolkit import DataError, open_trained, testing, tf

pytest_plugins = ["toolkit.testing.fixtures"]

SMALL = {"code": 3, "hidden": "8"}


@pytest.fixture(scope="module")
def plugin():
    """What the fixture `contract` checks."""
    return "vae"


@pytest.fixture(scope="module")
def plugin_extensions():
    """It is checked together with the journal."""
    return ["journal"]


@pytest.fixture(scope="module")
def plugin_options():
    """The options of its runs: a small network is enough."""
    return SMALL


def test_a_contract_holds(contract):
    contract()


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_the_divergence_has_its_closed_form(session):
    mean, log_variance = tf.constant([[2.0, 0.0]]), tf.constant([[0.0, math.log(4)]])
    # 2^2 / 2 for the mean; (4 - 1 - ln 4) / 2 for the variance.
    expected = 2 + (3 - math.log(4)) / 2
    assert session.run(bound.divergence(Normal(mean, log_variance))) == pytest.approx([expected])


@pytest.mark.parametrize("logit, nats", [(0.0, 2 * math.log(2)), (1000.0, 1000)])
def test_cross_entropy_is_that_of_all_pixels_and_finite_for_extreme_logits(session, logit, nats):
    logits, images = tf.fill([1, 1, 2, 1], logit), tf.constant([[[[1.0], [0.0]]]])
    assert session.run(bound.cross_entropy(logits, images)) == pytest.approx([nats])


def test_data_other_than_images_is_refused(tmp_path):
    np.savez(str(tmp_path / "two.npz"), x_train=np.zeros([80, 8, 8, 2], np.uint8))  # channels
    for data in (testing.write_table(tmp_path / "table.csv"), f"npz:{tmp_path}/two.npz"):
        with pytest.raises(DataError, match="needs images"):
            testing.train("vae", str(tmp_path / "run"), data=data)


def train(folder, **options):
    """The summary of 12 steps on generated images, with the journal, in `folder`."""
    data = testing.write_digits(str(folder) + ".npz")
    values = dict(SMALL, batch_size=8, steps=12, steps_per_call=1, data=data, **options)
    return testing.train("vae", str(folder), ["journal"], **values)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that tests only read: its folder, and the result of its test."""
    folder = tmp_path_factory.mktemp("vae") / "run"
    test = train(folder, checkpoint_steps=8, dump_steps=5)["test"]
    return SimpleNamespace(folder=folder, test=test)


@pytest.fixture(scope="module")
def other_run(tmp_path_factory):
    """The same training with other pictures, and another batch size of the evaluation."""
    folder = tmp_path_factory.mktemp("vae") / "other"
    values = {"checkpoint_steps": 8, "dump_steps": 100, "eval_batch_size": 5}
    return SimpleNamespace(folder=folder, test=train(folder, **values)["test"])


def test_the_bound_does_not_depend_on_the_batch_size_of_an_evaluation(run, other_run):
    assert run.test["metrics"] == pytest.approx(other_run.test["metrics"], rel=1e-5)


def test_the_page_shows_the_worst_reconstructions(run):
    picture = run.test["page"]["picture"]
    assert picture["file"] == "worst.png" and picture["alt"]
    with Image.open(run.folder / "reports" / "test-12" / "worst.png") as image:
        width, height = image.size
    assert width > height > 2 * 8  # two rows of images of 8 pixels


def test_the_metrics_have_intervals(run):
    assert {"nats", "squared_error"} <= set(run.test["intervals"])


def test_pictures_change_no_bit_of_the_training(run, other_run):
    names = [path.name for path in sorted((run.folder / "samples").iterdir())]
    steps = [f"step-{step:08d}.png" for step in (0, 5, 10, 12)]
    assert names == ["progress.gif", *steps]
    assert testing.fingerprint(str(run.folder)) == testing.fingerprint(str(other_run.folder))


def test_a_code_can_be_fed_to_draw_samples(run):
    with open_trained(str(run.folder)) as trained:
        images = trained.sample(6, seed=1)["images"]
        again = trained.sample(4, seed=1)["images"]
    assert images.shape == (6, 8, 8, 1) and len(np.unique(images, axis=0)) == 6
    np.testing.assert_array_equal(images[:4], again)


def test_the_journal_lists_each_checkpoint_and_the_end(run):
    assert (run.folder / "journal.txt").read_text().splitlines() == [
        "step 8: checkpoint saved",
        "step 12: checkpoint saved",
        "step 12: reached step 12",
    ]


def test_samples_of_random_codes_have_scores(tmp_path):
    few = {"quick_samples": 100, "score_samples": 100, "two_sample": "no", "steps_per_call": 1}
    values = dict(SMALL, batch_size=8, steps=4, features="pixels", **few)
    data = testing.write_digits(str(tmp_path / "digits.npz"), count=160)
    summary = testing.train("vae", str(tmp_path / "run"), ["image-scores"], data=data, **values)
    scores = summary["test"]["details"]["scores"]
    assert scores["n"] == 100 and "nearest.png" in scores["files"]
