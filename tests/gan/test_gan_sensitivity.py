"""Which measures are refused: those to which severely damaged images are as good as real ones."""

import numpy as np
import pytest
from score_fixtures import SHAPE, SPLITS
from toolkit_gan.scores import principal, ruler, sensitivity
from toolkit_gan.scores.extractor import PixelFeatures
from toolkit_gan.scores.sample_sets import make_reference
from toolkit_gan.scores.sensitivity import bound_of, explain_refusal, explain_shortage

from toolkit import Split

# ---------------------------------------------------------------------------------- clearly worse


def test_a_share_has_to_lose_a_tenth_and_three_standard_errors():
    # Three halves of an inverse root: 0.015 of 10000 images, 0.15 of 100.
    assert bound_of("precision", 0.9, 10000, 0.0) == pytest.approx(0.81)
    assert bound_of("coverage", 0.9, 100, 0.0) == pytest.approx(0.75)


def test_a_distance_has_to_double_and_exceed_its_error():
    assert bound_of("frechet_distance", 0.4, 500, 9.0) == pytest.approx(0.8)
    assert bound_of("kernel_distance", 0.4, 500, 0.1) == pytest.approx(1.1)
    assert bound_of("kernel_distance", -0.1, 500, 0.1) == pytest.approx(0.3)


def test_a_refusal_names_the_damage_that_is_noticed_least():
    damages = {"Gaussian pixels": 0.1, "a 5-tap blur": 0.97, "shuffled patches": 0.95}
    assert explain_refusal("coverage", 0.98, damages, 0.9) == (
        "real images with a 5-tap blur reach 0.97, real ones 0.98"
    )
    assert explain_refusal("coverage", 0.98, {"Gaussian pixels": 0.1}, 0.9) == ""


@pytest.mark.parametrize("distance", [0.012, np.nan])
def test_a_distance_is_refused_where_damage_is_near_or_its_distance_is_no_number(distance):
    damages = {"a 5-tap blur": distance, "Gaussian pixels": 9.0}
    assert explain_refusal("frechet_distance", 0.01, damages, 0.02) == (
        f"real images with a 5-tap blur have {distance}, real ones 0.01"
    )


def test_no_measure_notices_damage_where_all_images_are_equal():
    equal = np.zeros([300, *SHAPE], np.uint8)
    featurize = PixelFeatures(SHAPE)
    reference = make_reference(Split(equal, None), featurize, 1000)
    judgements = sensitivity.judge(ruler.damage_features(equal, None, featurize), reference, 400)
    assert all(judgement.refusal for judgement in judgements.values())


@pytest.mark.parametrize("n, m, is_short", [(128, 500, False), (127, 500, True), (500, 127, True)])
def test_a_covariance_needs_two_images_for_each_feature(n, m, is_short):
    text = explain_shortage(n, m, 64)
    needs = "64 features need 128 samples and 128 real images or more, and there are"
    assert text == (f"{needs} {n} and {m}" if is_short else "")


# -------------------------------------------------------------------------------- whole judgements


def judge(featurize, num_reals=300, n=400):
    """The judgements for the quarters with these features."""
    train, test = SPLITS["train"], SPLITS["test"]
    reference = make_reference(Split(test.features[:num_reals], None), featurize, 1000)
    sets = ruler.damage_features(train.features, train.labels, featurize)
    return sensitivity.judge(sets, reference, n)


def test_pixels_notice_what_changes_many_of_them():
    judgements = judge(PixelFeatures(SHAPE))
    assert not judgements["frechet_distance"].refusal and not judgements["recall"].refusal
    for judgement in judgements.values():
        assert bool(judgement.refusal) == ("refusal" in judgement.as_json())
    coverage = judgements["coverage"]
    assert set(coverage.damages) == set(sensitivity.SEVERE["coverage"])
    assert coverage.real > 0.9 and coverage.damages["Gaussian pixels"] < 0.1


def test_the_frechet_distance_of_too_few_images_is_refused_and_no_other_measure_for_that():
    judgements = judge(PixelFeatures(SHAPE), num_reals=100)
    assert judgements["frechet_distance"].refusal.startswith("64 features need 128 samples")
    others = [j.refusal for name, j in judgements.items() if name != "frechet_distance"]
    assert not any("features need" in text for text in others)


# ---------------------------------------------------------------------------- fewer features


def test_components_are_the_directions_of_the_largest_variance():
    images = np.zeros((50, 1, 3, 1), np.uint8)
    images[:, 0, 1, 0] = np.arange(50) * 5  # in one pixel of three
    pixels = PixelFeatures((1, 3, 1))
    reduced = principal.PrincipalFeatures(pixels, pixels(images), 1, "a")
    values = reduced(images)
    assert values.shape == (50, 1) and reduced.size == 1
    expected = (np.arange(50) - 24.5) * 5 / 255
    np.testing.assert_allclose(np.abs(values[:, 0]), np.abs(expected), atol=1e-6)
    assert reduced.name == "pixels, 1 principal components of 3"
    assert reduced.sha256 != pixels.sha256 and len(reduced.sha256) == 64
    same, other = (
        principal.PrincipalFeatures(pixels, pixels(images) * np.float32(1 + error), 1, source)
        for error, source in [(1e-3, "a"), (0, "b")]
    )
    assert same.sha256 == reduced.sha256 != other.sha256


@pytest.mark.parametrize("num_reals, size", [(300, 64), (128, 64), (127, 31), (12, 3), (5, 64)])
def test_features_are_reduced_to_a_quarter_of_the_fewest_real_images(num_reals, size):
    splits = dict(SPLITS, validation=Split(SPLITS["test"].features[:num_reals], None))
    features = principal.reduce_features(PixelFeatures(SHAPE), splits.get, [200, 300], 10)
    assert features.size == size
