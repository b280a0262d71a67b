"""The ruler: known damage, its order, and where a distance lies on it."""

import json

import numpy as np
import pytest
from toolkit_image_scores import ruler
from toolkit_image_scores.features import PixelFeatures
from toolkit_image_scores.ruler import locate

from toolkit.data.arrays.digits import open_mnist5k
from toolkit.data.reading_options import Settings

MARKS = [
    {"name": name, "distance": distance}
    for name, distance in [("real images", 1.0), ("a 5-tap blur", 2.0), ("one class missing", 5.0)]
]


def featurize(side):
    return lambda images: PixelFeatures((side, side, 1)).compute(images)[0]


def random():
    return np.random.default_rng(0)


# --------------------------------------------------------------------------------------- damage


def test_a_blur_keeps_a_grey_image_and_spreads_a_dot():
    grey = np.full((2, 6, 5, 3), 100, np.uint8)
    assert (ruler.blur(grey, (1, 2, 1)) == 100).all()
    dot = np.zeros((1, 7, 7, 1), np.uint8)
    dot[0, 3, 3] = 255
    for taps in ((1, 2, 1), (1, 4, 6, 4, 1)):
        reach = slice(3 - len(taps) // 2, 4 + len(taps) // 2)
        spread = ruler.blur(dot, taps)[0, reach, reach, 0] / 255
        np.testing.assert_allclose(spread, np.outer(taps, taps) / sum(taps) ** 2, rtol=1e-5)
    images = random().integers(0, 256, (2500, 4, 4, 1)).astype(np.uint8)
    in_chunks = ruler.apply_in_chunks(lambda part: ruler.blur(part, (1, 2, 1)), images)
    assert (in_chunks == np.rint(ruler.blur(images, (1, 2, 1)))).all()


def test_gaussian_pixels_have_the_mean_and_spread_of_each_pixel():
    images = np.random.RandomState(0).randint(0, 100, (2000, 2, 3, 1)).astype(np.uint8)
    images[:, 0, 0] = 77
    mean, deviation = ruler.pixel_moments(images)
    np.testing.assert_allclose(mean, images.mean(axis=0))
    np.testing.assert_allclose(deviation, images.std(axis=0), atol=1e-9)
    result = ruler.gaussian_pixels(len(images), mean, deviation, random())
    assert (result[:, 0, 0] == 77).all()
    np.testing.assert_allclose(result.mean(axis=0), mean, atol=4)


def test_shuffled_patches_keep_their_pixels_and_what_is_left_over_stays():
    image = np.arange(9 * 10 * 3).reshape(1, 9, 10, 3)
    shuffled = ruler.shuffle_patches(image, random())
    assert sorted(shuffled.ravel()) == list(range(image.size)) and (shuffled != image).any()
    assert (shuffled[:, 8] == image[:, 8]).all() and (shuffled[:, :, 8:] == image[:, :, 8:]).all()
    corners = image[:, :8:2, :8:2].reshape(16, 3).tolist()  # of each patch of 2 x 2 pixels
    places = shuffled[:, :8:2, :8:2].reshape(16, 3).tolist()
    assert sorted(places) == corners
    tiny = np.arange(9).reshape(1, 3, 3, 1)
    assert (ruler.shuffle_patches(tiny, random()) == tiny).all()


def test_class_means_are_one_image_for_each_class():
    images = np.array([10, 20, 90], np.uint8).reshape(3, 1, 1, 1)
    means, rows = ruler.class_means(images, np.array([4, 4, 7]))
    assert means.ravel().tolist() == [15, 90] and rows.tolist() == [0, 0, 1]


# ---------------------------------------------------------------------------------- the whole


@pytest.fixture(scope="module")
def marks():
    """The ruler of real digits, by their pixels."""
    splits = open_mnist5k(Settings("mnist5k")).splits
    features = featurize(28)
    images, labels = splits["train"].take(slice(None, None, 2))
    feature_sets = ruler.damage_features(images, labels, features, features(images))
    return ruler.measure_marks(feature_sets, labels, features(splits["test"].features))


def test_real_images_come_first_and_damage_in_its_order(marks):
    names, distances = ([mark[key] for mark in marks] for key in ("name", "distance"))
    assert distances == sorted(distances)
    assert names[0] == "real images" and len(names) == len(set(names)) == 8
    for less, more in (
        ("a 5-tap blur", "Gaussian pixels"),
        ("100 images repeated", "10 images repeated"),
        ("100 images repeated", "each class's mean image"),
        ("one class missing", "shuffled patches"),
    ):
        assert names.index(less) < names.index(more), (less, more)
    assert json.loads(json.dumps(marks)) == marks


def test_without_labels_and_with_few_images_some_marks_are_left_out():
    _, names = noise_and_marks(None)
    assert "a 5-tap blur" in names
    assert not names & {"one class missing", "each class's mean image", "100 images repeated"}


def noise_and_marks(labels, count=30):
    """The feature sets and the names of the marks of noise with these labels."""
    count = count if labels is None else len(labels)
    images = random().integers(0, 256, (count + 30, 8, 8, 1)).astype(np.uint8)
    features = featurize(8)
    feature_sets = ruler.damage_features(images[30:], labels, features, features(images[30:]))
    marks = ruler.measure_marks(feature_sets, labels, features(images[:30]))
    return feature_sets, {mark["name"] for mark in marks}


@pytest.mark.parametrize("counts, has_mark", [((29, 1), True), ((9, 9), False), ((15,), False)])
def test_a_class_is_left_out_only_where_ten_images_remain(counts, has_mark):
    labels = np.repeat(np.arange(len(counts)), counts)
    _, names = noise_and_marks(labels)
    assert ("one class missing" in names) is has_mark


def test_only_classes_without_which_enough_images_remain_make_the_mark():
    features, labels = random().standard_normal((22, 3)), np.repeat([0, 1], [18, 4])
    expected = ruler.frechet_distance(features[:18], features)  # 18 remain without class 1, else 4
    assert ruler.missing_class_distance(features, labels, features) == expected
    assert ruler.missing_class_distance(features[:2], np.array([0, 1]), features[:2]) is None


@pytest.mark.parametrize("num_classes, is_damage", [(30, False), (7, False), (6, True), (1, False)])
def test_the_mean_of_a_class_is_damage_from_five_images_of_each_on(num_classes, is_damage):
    feature_sets, names = noise_and_marks(np.arange(30) % num_classes)
    assert ("each class's mean image" in feature_sets) is is_damage
    assert ("each class's mean image" in names) is is_damage


# ------------------------------------------------------------------------------------ its use


@pytest.mark.parametrize(
    "distance, place",
    [
        (0.5, "nearer than real images"),
        (1.5, "between real images and a 5-tap blur"),
        (2.0, "between a 5-tap blur and one class missing"),
        (3.0, "between a 5-tap blur and one class missing"),
        (9.0, "farther than one class missing"),
    ],
)
def test_a_distance_lies_between_two_marks_in_any_order(distance, place):
    assert locate(distance, MARKS) == locate(distance, MARKS[::-1]) == place
