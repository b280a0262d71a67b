"""The numbers of a score on sets of features whose answers are known."""

import numpy as np
import pytest
from toolkit_image_scores import distances, neighbours, report, sets

# Two far clusters of distinct points.
POINTS = np.concatenate([np.random.RandomState(0).randn(100, 3) + shift for shift in (0, 100)])


def gaussian(count, size, seed=0):
    return np.random.RandomState(seed).standard_normal((count, size))


@pytest.mark.parametrize(
    "fakes, precision, recall, coverage",
    [
        (POINTS, 1, 1, 1),
        (POINTS + 1000, 0, 0, 0),
        (POINTS[:100], 1, 0.5, 0.5),
        (np.concatenate([POINTS, POINTS + 1000]), 0.5, 1, 1),
    ],
    ids=["the same", "disjoint", "one of two clusters", "half far away"],
)
def test_shares_of_two_clusters(fakes, precision, recall, coverage):
    scores = neighbours.compare(fakes, POINTS)
    assert scores == pytest.approx((precision, recall, coverage))


def test_balls_of_repeated_images_have_no_radius_and_still_hold_their_copies():
    repeated = np.repeat(POINTS, 10, axis=0)
    scores = neighbours.compare(POINTS, repeated)
    assert scores.precision == scores.coverage == 1
    assert neighbours.compare(POINTS + 1e-2, repeated).precision == 0


def test_repeated_samples_recall_only_what_they_repeat():
    scores = neighbours.compare(np.repeat(POINTS[::4], 10, axis=0), POINTS)
    assert scores.precision == 1 and scores.recall == 0.25


@pytest.mark.parametrize("count", [7, 500], ids=["fewer than features", "more than features"])
def test_a_shift_costs_its_squared_length_and_a_scale_its_share_of_the_variance(count):
    features = gaussian(count, 20)
    features -= features.mean(axis=0)
    shift = np.linspace(-1, 1, 20)
    variance = np.trace(distances.moments(features).covariance)
    distance = distances.frechet_distance(3 * features + shift, features)
    assert distance == pytest.approx(np.sum(shift**2) + (3 - 1) ** 2 * variance, rel=1e-9)


def test_of_a_rare_class_samples_may_be_missing_by_chance():
    reals = np.repeat([0, 1, 2], [900, 80, 20])
    fakes = np.repeat([0, 1, 2], [490, 10, 0])  # expected: 450, 40, 10
    histogram = sets.class_histogram(fakes, reals)
    assert histogram["lost"] == []
    line = "no class is certainly lost; least frequent: 2, at 0.00 of its share"
    assert report.classes_line(histogram) == line
    more = sets.class_histogram(np.repeat(fakes, 2), reals)  # expected: 900, 80, 20
    assert more["lost"] == ["2"]
