"""Known damage of real images: its order, where a distance lies, and which measures notice it."""

import numpy as np
import pytest
from toolkit_image_scores import damage
from toolkit_image_scores.damage import explain_refusal, locate
from toolkit_image_scores.features import pixel_features
from toolkit_image_scores.sets import ImageSet

from toolkit import Split

PLACES = {"real images": 1.0, "a 5-tap blur": 2.0, "Gaussian pixels": 5.0}
MARKS = [{"name": name, "distance": distance} for name, distance in PLACES.items()]


def random():
    return np.random.default_rng(0)


def test_a_blur_keeps_a_grey_image_and_spreads_a_dot():
    grey = np.full((2, 6, 5, 3), 100, np.uint8)
    assert (damage.blur(grey, (1, 2, 1)) == 100).all()
    dot = np.zeros((1, 7, 7, 1), np.uint8)
    dot[0, 3, 3] = 255
    for taps in ((1, 2, 1), (1, 4, 6, 4, 1)):
        reach = slice(3 - len(taps) // 2, 4 + len(taps) // 2)
        spread = damage.blur(dot, taps)[0, reach, reach, 0] / 255
        np.testing.assert_allclose(spread, np.outer(taps, taps) / sum(taps) ** 2, rtol=1e-5)
    images = random().integers(0, 256, (2500, 4, 4, 1)).astype(np.uint8)
    in_chunks = damage.apply_in_chunks(lambda part: damage.blur(part, (1, 2, 1)), images)
    assert (in_chunks == np.rint(damage.blur(images, (1, 2, 1)))).all()


def test_gaussian_pixels_have_the_mean_and_spread_of_each_pixel():
    images = np.random.RandomState(0).randint(0, 100, (2000, 2, 3, 1)).astype(np.uint8)
    images[:, 0, 0] = 77
    result = dict(damage.damage_images(images, random()))["Gaussian pixels"]
    assert (result[:, 0, 0] == 77).all() and result.dtype == np.uint8
    np.testing.assert_allclose(result.mean(axis=0), images.mean(axis=0), atol=4)
    np.testing.assert_allclose(result.std(axis=0), images.std(axis=0), rtol=0.1)


def test_shuffled_patches_keep_their_pixels_and_what_is_left_over_stays():
    image = np.arange(9 * 10 * 3).reshape(1, 9, 10, 3)
    shuffled = damage.shuffle_patches(image, random())
    assert sorted(shuffled.ravel()) == list(range(image.size)) and (shuffled != image).any()
    assert (shuffled[:, 8] == image[:, 8]).all() and (shuffled[:, :, 8:] == image[:, :, 8:]).all()
    corners = image[:, :8:2, :8:2].reshape(16, 3).tolist()  # of each patch of 2 x 2 pixels
    places = shuffled[:, :8:2, :8:2].reshape(16, 3).tolist()
    assert sorted(places) == corners


@pytest.mark.parametrize("shape", [(1, 64), (3, 3)])
def test_patches_of_images_with_less_than_four_pixels_a_side_are_shuffled(shape):
    image = np.arange(np.prod(shape)).reshape(1, *shape, 1)
    shuffled = damage.shuffle_patches(image, random())
    assert (shuffled != image).any() and (np.sort(shuffled, None) == image.ravel()).all()


def noise_values(labels, count=30):
    """The values of damaged noise with these labels, by its pixels."""
    count = count if labels is None else len(labels)
    images = random().integers(0, 256, (count + 30, 8, 8, 1)).astype(np.uint8)
    splits = Split(images[30:], labels), Split(images[:30], None)
    training, reference = (ImageSet(each, pixel_features((8, 8, 1)).compute) for each in splits)
    return damage.measure(training, count, reference)


def test_without_labels_and_with_few_images_some_marks_are_left_out():
    names = set(noise_values(None))
    assert "a 5-tap blur" in names
    assert not names & {"each class's mean image", "100 images repeated"}


@pytest.mark.parametrize("num_classes, is_damage", [(30, False), (7, False), (6, True), (1, False)])
def test_the_mean_of_a_class_is_damage_from_five_images_of_each_on(num_classes, is_damage):
    values = noise_values(np.arange(30) % num_classes)
    assert ("each class's mean image" in values) is is_damage


def test_each_image_is_replaced_by_the_mean_of_its_class():
    images = np.repeat(np.array([10, 20, 90], np.uint8), 5).reshape(15, 1, 1, 1)
    labels = np.array([4] * 10 + [7] * 5)
    seen = []

    def compute(images):
        seen.append(images)
        return images.reshape(len(images), -1), None

    training = ImageSet(images, compute)
    features = dict(damage.damage_features(training, np.arange(15), labels))
    assert seen[-1].ravel().tolist() == [15, 90]
    assert features["each class's mean image"].ravel().tolist() == [15] * 10 + [90] * 5


@pytest.mark.parametrize(
    "distance, place",
    [
        (0.5, "nearer than real images"),
        (1.5, "between real images and a 5-tap blur"),
        (2.0, "between a 5-tap blur and Gaussian pixels"),
        (9.0, "farther than Gaussian pixels"),
    ],
)
def test_a_distance_lies_between_two_marks(distance, place):
    assert locate(distance, MARKS) == place


@pytest.mark.parametrize(
    "name, real, count, bound",
    [
        # A tenth, and three standard errors, three halves of an inverse root: 0.15 of 100 images.
        ("precision", 0.9, 10000, 0.81),
        ("coverage", 0.9, 100, 0.75),
        ("frechet_distance", 0.4, 500, 0.8),  # a distance has to double
    ],
)
def test_severe_damage_has_to_be_beyond_a_bound(name, real, count, bound):
    worse = -1 if name != "frechet_distance" else 1
    for step, is_refused in ((0.001, False), (-0.001, True)):
        values = {"a 5-tap blur": bound + worse * step}
        assert bool(explain_refusal(name, real, values, count)) is is_refused


def test_a_refusal_names_the_damage_that_is_noticed_least():
    damages = {"Gaussian pixels": 0.1, "a 5-tap blur": 0.97, "shuffled patches": 0.95}
    assert explain_refusal("coverage", 0.98, damages, 10000) == (
        "of damaged real images (a 5-tap blur) it is 0.97, of undamaged ones 0.98"
    )
    assert explain_refusal("coverage", 0.98, {"Gaussian pixels": 0.1}, 10000) == ""


@pytest.mark.parametrize("distance", [0.012, np.nan])
def test_a_distance_is_refused_where_damage_is_near_or_its_distance_is_no_number(distance):
    damages = {"a 5-tap blur": distance, "Gaussian pixels": 9.0}
    assert explain_refusal("frechet_distance", 0.01, damages, 500) == (
        f"of damaged real images (a 5-tap blur) it is {distance}, of undamaged ones 0.01"
    )


@pytest.mark.parametrize("n, m, is_short", [(128, 500, False), (127, 500, True), (500, 127, True)])
def test_a_covariance_needs_two_images_for_each_feature(n, m, is_short):
    judgements = damage.judge({}, 0, n, m, 64)
    needs = "64 features need 128 samples and 128 real images or more, and there are"
    shortage = {"real": None, "damages": {}, "refusal": f"{needs} {n} and {m}"}
    assert judgements == ({"frechet_distance": shortage} if is_short else {})
