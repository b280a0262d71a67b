"""The numbers of a score on sets of features whose answers are known."""

import numpy as np
import pytest
from toolkit_gan.scores import distances, neighbours, reports, sample_sets

# Two far clusters of distinct points.
POINTS = np.concatenate([np.random.RandomState(0).randn(100, 3) + shift for shift in (0, 100)])


def gaussian(count, size, seed=0):
    return np.random.RandomState(seed).standard_normal((count, size))


@pytest.mark.parametrize(
    "fakes, precision, recall, density, coverage",
    [
        (POINTS, 1, 1, 6 / 5, 1),  # a ball holds its own point and five others
        (POINTS + 1000, 0, 0, 0, 0),
        (POINTS[:100], 1, 0.5, 6 / 5, 0.5),
        (np.concatenate([POINTS, POINTS + 1000]), 0.5, 1, 3 / 5, 1),
    ],
    ids=["the same", "disjoint", "one of two clusters", "half far away"],
)
def test_shares_of_two_clusters(fakes, precision, recall, density, coverage):
    scores = neighbours.compare(fakes, POINTS)
    assert scores == pytest.approx((precision, recall, density, coverage))


def test_balls_of_repeated_images_have_no_radius_and_still_hold_their_copies():
    repeated = np.repeat(POINTS, 10, axis=0)
    scores = neighbours.compare(POINTS, repeated)
    assert scores.precision == scores.coverage == 1 and scores.density == pytest.approx(10 / 5)
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


def test_the_kernel_distance_of_two_gaussians_of_one_feature():
    # With x, x' of N(d, 1) and y, y' of N(0, 1), independent, E(xx' + 1)^3 is 1 + 3 d^2 +
    # 3 (1 + d^2)^2 + (d^3 + 3 d)^2, of y, y' it is 4, and E(xy + 1)^3 is 1 + 3 (1 + d^2).
    d = 0.5
    expected = 1 + 3 * d**2 + 3 * (1 + d**2) ** 2 + (d**3 + 3 * d) ** 2 + 4
    expected -= 2 * (1 + 3 * (1 + d**2))
    fakes, reals = gaussian(40000, 1) + d, gaussian(40000, 1, 1)
    mean, error = distances.kernel_distance(fakes, reals, num_subsets=40)
    assert mean == pytest.approx(expected, abs=5 * error) and error < 0.1 * expected


def test_of_a_rare_class_samples_may_be_missing_by_chance():
    reals = np.repeat([0, 1, 2], [900, 80, 20])
    fakes = np.repeat([0, 1, 2], [490, 10, 0])  # expected: 450, 40, 10
    histogram = sample_sets.class_histogram(fakes, reals)
    assert histogram["lost"] == []
    line = "no class is certainly lost; least frequent: 2, at 0.00 of its share"
    assert reports.classes_line(histogram) == line
    more = sample_sets.class_histogram(np.repeat(fakes, 2), reals)  # expected: 900, 80, 20
    assert more["lost"] == ["2"]


@pytest.mark.parametrize(
    "n, m, text",
    [
        (128, 128, ""),
        (128, 127, "only 127 real images for 64 features: the FD is mostly noise"),
        (100, 5000, "only 100 samples for 64 features: the FD is mostly noise"),
        (9, 9, "only 9 real images and 9 samples for 64 features: the FD is mostly noise"),
    ],
)
def test_few_images_of_either_kind_are_reported(n, m, text):
    assert reports.few_images_line({"n": n, "m": m, "features": {"size": 64}}) == text
