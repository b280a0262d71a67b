"""The diffusion model keeps the contracts of toolkit, and its two processes fit each other."""

import os

import numpy as np
import pytest
from toolkit_diffusion import diffusion, sampler

from toolkit import DataError, DataSpec, open_trained, testing, tf

pytest_plugins = ["toolkit.testing.fixtures"]

SMALL = {"filters": 4, "sampler_steps": 3, "dump_images": 4}


@pytest.fixture(scope="module")
def plugin():
    """What the fixture `contract` checks."""
    return "diffusion"


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


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_image_vanishes_as_time_goes_by(session, schedule):
    times = np.linspace(0, 1, 11, dtype=np.float32)
    alphas = session.run(diffusion.share_of_image(tf.constant(times), schedule)).ravel()
    assert alphas[0] == 1 and alphas[-1] < 1e-4 and all(np.diff(alphas) < 0)


def perfect_network(images):
    """A network that knows the image in x, and so the direction."""

    def find_direction(x, time):
        alpha = diffusion.share_of_image(time, "cosine")
        noise = (x - tf.sqrt(alpha) * images) / tf.sqrt(1 - alpha)
        return tf.sqrt(alpha) * noise - tf.sqrt(1 - alpha) * images

    return find_direction


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_the_sampler_finds_the_image_of_a_perfect_network(session, eta):
    random = np.random.RandomState(0)
    images = random.uniform(-1, 1, [2, 8, 8, 1]).astype(np.float32)
    spec = DataSpec((8, 8, 1), "uint8")
    run = testing.make_run("diffusion", "predict", spec, eta=eta, sampler_steps=7)
    noise = random.normal(size=[2, *sampler.noise_shape(run)]).astype(np.float32)
    samples = sampler.generate(perfect_network(images), tf.constant(noise), run)
    np.testing.assert_allclose(session.run(samples), (images + 1) / 2, atol=1e-3)


def test_image_and_noise_follow_from_the_direction(session):
    images, noise = np.random.RandomState(1).normal(size=[2, 3, 4, 4, 1]).astype(np.float32)
    time = tf.constant([0.1, 0.5, 0.9])
    alpha = diffusion.share_of_image(time, "cosine")
    noisy = tf.sqrt(alpha) * images + tf.sqrt(1 - alpha) * noise
    estimate = diffusion.find_noise(perfect_network(images), noisy, time, alpha)
    np.testing.assert_allclose(session.run(estimate.image), images, atol=1e-5)
    np.testing.assert_allclose(session.run(estimate.noise), noise, atol=1e-5)


def test_samples_depend_on_seed_and_place_alone(tmp_path):
    run, data = str(tmp_path / "run"), testing.write_digits(str(tmp_path / "digits.npz"))
    testing.train("diffusion", run, data=data, steps=2, steps_per_call=1, **SMALL)
    with open_trained(run) as trained:
        few, many, others = (
            trained.sample(count, seed=seed)["images"] for count, seed in [(3, 1), (5, 1), (3, 2)]
        )
    np.testing.assert_array_equal(few, many[:3])
    assert (few != others).any()
    grids = ["progress.gif", "step-00000000.png", "step-00000002.png"]
    assert sorted(os.listdir(os.path.join(run, "samples"))) == grids


def test_images_that_cannot_be_halved_twice_are_refused(tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"), shape=(10, 8, 1))
    with pytest.raises(DataError, match="10 x 8"):
        testing.train("diffusion", str(tmp_path / "run"), data=data, steps=2)


def test_rows_of_a_table_are_refused(tmp_path):
    np.savez(str(tmp_path / "rows.npz"), x_train=np.zeros([80, 6], np.uint8))
    for data in (testing.write_table(tmp_path / "table.csv"), f"npz:{tmp_path}/rows.npz"):
        with pytest.raises(DataError, match="needs images"):
            testing.train("diffusion", str(tmp_path / "run"), data=data, steps=2)
