"""Which measures are refused: those to which severely damaged images are as good as real ones."""

import numpy as np
import pytest
from score_fixtures import SHAPE, SPLITS
from toolkit_image_scores import ruler, sensitivity
from toolkit_image_scores.features import PixelFeatures
from toolkit_image_scores.sensitivity import bound_of, explain_refusal, explain_shortage
from toolkit_image_scores.sets import make_reference

from toolkit import Split

# ---------------------------------------------------------------------------------- clearly worse


def test_a_share_has_to_lose_a_tenth_and_three_standard_errors():
    # Three halves of an inverse root: 0.015 of 10000 images, 0.15 of 100.
    assert bound_of("precision", 0.9, 10000) == pytest.approx(0.81)
    assert bound_of("coverage", 0.9, 100) == pytest.approx(0.75)


def test_a_distance_has_to_double():
    assert bound_of("frechet_distance", 0.4, 500) == pytest.approx(0.8)


def test_a_refusal_names_the_damage_that_is_noticed_least():
    damages = {"Gaussian pixels": 0.1, "a 5-tap blur": 0.97, "shuffled patches": 0.95}
    assert explain_refusal("coverage", 0.98, damages, 10000) == (
        "real images with a 5-tap blur reach 0.97, real ones 0.98"
    )
    assert explain_refusal("coverage", 0.98, {"Gaussian pixels": 0.1}, 10000) == ""


@pytest.mark.parametrize("distance", [0.012, np.nan])
def test_a_distance_is_refused_where_damage_is_near_or_its_distance_is_no_number(distance):
    damages = {"a 5-tap blur": distance, "Gaussian pixels": 9.0}
    assert explain_refusal("frechet_distance", 0.01, damages, 500) == (
        f"real images with a 5-tap blur have {distance}, real ones 0.01"
    )


def test_no_measure_notices_damage_where_all_images_are_equal():
    equal = np.zeros([300, *SHAPE], np.uint8)
    judgements = judge(Split(equal, None), Split(equal, None))
    assert all(judgement["refusal"] for judgement in judgements.values())


@pytest.mark.parametrize("n, m, is_short", [(128, 500, False), (127, 500, True), (500, 127, True)])
def test_a_covariance_needs_two_images_for_each_feature(n, m, is_short):
    text = explain_shortage(n, m, 64)
    needs = "64 features need 128 samples and 128 real images or more, and there are"
    assert text == (f"{needs} {n} and {m}" if is_short else "")


# -------------------------------------------------------------------------------- whole judgements


def judge(train=SPLITS["train"], test=SPLITS["test"], n=400):
    """The judgements by the pixels of two splits."""
    features = PixelFeatures(SHAPE)

    def featurize(images):
        return features.compute(images)[0]

    reference = make_reference(test, features, 1000)
    values = featurize(train.features)
    sets = ruler.damage_features(train.features, train.labels, featurize, values)
    return sensitivity.judge(sets, reference, n)


def test_pixels_notice_what_changes_many_of_them():
    judgements = judge()
    assert not {"frechet_distance", "recall"} & {n for n, j in judgements.items() if "refusal" in j}
    coverage = judgements["coverage"]
    assert set(coverage["damages"]) == set(sensitivity.SEVERE["coverage"])
    assert coverage["real"] > 0.9 and coverage["damages"]["Gaussian pixels"] < 0.1


def test_the_frechet_distance_of_too_few_images_is_refused_and_no_other_measure_for_that():
    judgements = judge(test=Split(SPLITS["test"].features[:100], None))
    assert judgements.pop("frechet_distance")["refusal"].startswith("64 features need 128 samples")
    assert not any("features need" in each.get("refusal", "") for each in judgements.values())
