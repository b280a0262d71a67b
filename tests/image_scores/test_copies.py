"""Signs of copied training images: in features and pixels, over all samples and per class."""

import numpy as np
import pytest
from PIL import Image
from score_fixtures import make_images
from toolkit_image_scores import copies, report
from toolkit_image_scores.copies import choose_pairs
from toolkit_image_scores.sets import ImageSet

from toolkit import Split

LABELS = np.arange(200) % 4
FAIR = {"near_samples": 0.01, "near_reals": 0.01, "ratio": 1.0}
TRAIN = Split(make_images(LABELS, 0), LABELS)
REALS = Split(make_images(LABELS, 1), LABELS)


def compare(fakes, folder, train=TRAIN, real_images=REALS):
    """The comparison of samples by features that see nothing but the brightness."""

    def brightness(images):
        means = images.reshape(len(images), -1).mean(axis=1, keepdims=True, dtype=np.float32)
        return means, None

    sets = (ImageSet(source, brightness) for source in (fakes, real_images, train))
    details, pairs = copies.compare_with_training(*sets)
    rows, positions = (list(column) for column in zip(*pairs))
    return details, report.draw_nearest(fakes[rows], TRAIN.features[positions], str(folder))


def warnings_of(nearest):
    return [fact.text for fact in report._nearest(nearest) if fact.warning]


def test_copies_that_weak_features_miss_show_in_blurred_pixels(tmp_path):
    fakes = TRAIN.features.copy()
    fakes[:, 0, 0] += 1
    details, files = compare(fakes, tmp_path)
    assert details["pixels"]["ratio"] < 0.1 and details["pixels"]["near_samples"] == 1
    assert files == ["nearest.png"]
    independent, _ = compare(make_images(LABELS, 5), tmp_path)
    assert independent["pixels"]["ratio"] == pytest.approx(1, abs=0.1)
    assert warnings_of(independent) == []


def test_a_class_that_is_copied_shows_where_the_ratio_over_all_does_not(tmp_path):
    fakes = make_images(LABELS, 5)
    fakes[LABELS == 2] = TRAIN.features[LABELS == 2]
    pixels = compare(fakes, tmp_path)[0]["pixels"]
    assert pixels["ratio"] > 0.8 and pixels["near_samples"] > 0.2
    (warning,) = warnings_of(dict(FAIR, pixels=pixels))
    assert "in blurred pixels" in warning


def test_copies_are_named_by_their_ratio_where_a_near_duplicate_hides_them():
    # The nearest real image is nearer than all copies, so that none is "near".
    copied = dict(FAIR, near_samples=0.005, ratio=0.04)
    (warning,) = warnings_of(copied)
    assert warning.startswith("nearest-neighbour ratio 0.04 in features (")
    assert warnings_of(FAIR) == []
    no_sign, unknown = report._nearest(dict(FAIR, ratio=None))
    assert (no_sign.text, unknown.warning) == (report.NO_COPIES, 0)
    line = "nearest-neighbour ratio unknown: half of the real images or more are also training"
    assert unknown.text.startswith(line)
    (warning,) = warnings_of(dict(FAIR, pixels=copied))
    assert warning.startswith("nearest-neighbour ratio 0.04 in blurred pixels (")
    (warning,) = warnings_of(dict(FAIR, near_samples=0.5))
    assert "50.0% of the samples are as near to a training image as the nearest 1.0% of" in warning


def test_the_sheet_has_two_random_samples_and_two_of_the_nearest_in_a_row(tmp_path):
    fakes = make_images(LABELS, 5)
    fakes[77] = TRAIN.features[33]
    compare(fakes, tmp_path)
    with Image.open(str(tmp_path / "nearest.png")) as picture:
        assert picture.size == (8 * (8 + 2) + 2, 8 * (8 + 12 + 2) + 2)
        row = np.asarray(picture)[2:10]
    np.testing.assert_array_equal(row[:, 2:10], fakes[0, :, :, 0])
    # The third pair is the nearest, in pixels.
    np.testing.assert_array_equal(row[:, 42:50], fakes[77, :, :, 0])
    np.testing.assert_array_equal(row[:, 52:60], TRAIN.features[33, :, :, 0])


def test_for_many_images_pixels_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "MAX_TRAINING_IMAGES", 199)
    details, files = compare(make_images(LABELS, 5), tmp_path)
    assert "pixels" not in details
    assert files == ["nearest.png"]


@pytest.mark.parametrize(
    "shape, size", [((16, 16, 1), 256), ((28, 32, 3), 672), ((40, 8, 1), 26), ((1, 40, 1), 40)]
)
def test_blurred_pixels_are_means_of_at_most_sixteen_a_side(shape, size):
    grey = np.full((3, *shape), 7, np.uint8)
    pixels = copies.blurred_pixels(grey)
    assert pixels.shape == (3, size)
    np.testing.assert_allclose(pixels, 7, rtol=1e-6)


def test_pairs_alternate_between_random_and_nearest_and_none_is_there_twice():
    matches = np.arange(10, 18), np.array([4.0, 1, 2, 9, 3, 8, 7, 6])
    assert choose_pairs(matches) == [(i, 10 + i) for i in (3, 5, 1, 2, 6, 7, 4, 0)]
    for count in (3, 5, 31, 200):
        pairs = choose_pairs((np.arange(count), np.arange(count, dtype=float)))
        assert len(pairs) == 4 * min(8, count // 4) == len(set(pairs))
