"""The generator's inputs: latent numbers, labels, interpolation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gan_fixtures import evaluate, make_run, options
from toolkit_gan import latents, sampling

import toolkit
from toolkit import DataSpec

UNEQUAL = DataSpec((8, 8, 1), "uint8", 3, ("a", "b", "c"), (1, 0, 3))


def check_histogram(labels):
    """The labels have the classes of `UNEQUAL`, a quarter of them the first."""
    shares = np.bincount(labels, minlength=3) / len(labels)
    assert shares[1] == 0 and shares[0] == pytest.approx(0.25, abs=0.03)


def test_labels_in_the_graph_follow_the_histogram_of_the_data():
    run = make_run(classes=3, conditional="projection")
    run = toolkit.Run("train", run.options, UNEQUAL, None, 100)
    check_histogram(evaluate(latents.random_labels(run, "label", 4000)))


def test_labels_of_samples_follow_the_histogram_of_the_data():
    conditional = options(conditional="projection", latent_size=2)
    check_histogram(latents.random_inputs(conditional, UNEQUAL, 4000, seed=1)["label"])


@pytest.mark.parametrize("latent, deviation", [("normal", 1.0), ("uniform", 1 / math.sqrt(3))])
def test_latent_numbers_are_normal_or_uniform_in_minus_one_to_one(latent, deviation):
    z = latents.random_inputs(options(latent=latent, latent_size=10), UNEQUAL, 1000, seed=3)["z"]
    assert z.std() == pytest.approx(deviation, rel=0.03) and abs(z.mean()) < 0.03
    assert (np.abs(z).max() <= 1) == (latent == "uniform")


@pytest.mark.parametrize("latent", ["normal", "uniform"])
def test_image_i_has_the_same_latent_numbers_for_any_count(latent):
    model = options(latent=latent, latent_size=10)
    many, few = (latents.random_inputs(model, UNEQUAL, n, seed=3)["z"] for n in (1000, 5))
    np.testing.assert_array_equal(many[:5], few)


@pytest.mark.parametrize("conditional, names", [("none", {"z"}), ("concat", {"z", "label"})])
def test_a_generator_has_labels_as_inputs_only_if_it_is_conditional(conditional, names):
    run = make_run(classes=3, conditional=conditional)
    assert set(sampling.generator_inputs(run)) == names
    for draw in (latents.random_inputs, latents.interpolation_inputs):
        inputs = draw(run.options, run.data, 9, seed=1)
        assert set(inputs) == names and all(len(values) == 9 for values in inputs.values())


def test_slerp_of_orthogonal_points_stays_on_their_sphere():
    a, b = np.float32([[2, 0], [2, 0]]), np.float32([[0, 2], [2, 0]])
    half = latents.slerp(a, b, np.array([[0.5], [0.5]]))
    np.testing.assert_allclose(half, [[math.sqrt(2), math.sqrt(2)], [2, 0]], rtol=1e-6)
