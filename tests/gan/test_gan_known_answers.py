"""The numbers of a score on sets of features whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from toolkit_gan.scores import distances, neighbours, reports, sample_sets

# Two far clusters of distinct points.
POINTS = np.concatenate([np.random.RandomState(0).randn(100, 3) + shift for shift in (0, 100)])


def gaussian(count, size, seed=0):
    return np.random.RandomState(seed).standard_normal((count, size))


# ------------------------------------------------------------- precision, recall, density, coverage


def test_a_set_compared_with_itself_is_precise_recalled_and_covered():
    scores = neighbours.compare(POINTS, POINTS)
    assert scores.precision == scores.recall == scores.coverage == 1
    assert scores.density == pytest.approx(6 / 5)  # a ball holds its own point and five others


def test_disjoint_sets_have_nothing_in_common():
    assert neighbours.compare(POINTS + 1000, POINTS) == (0, 0, 0, 0)


def test_one_of_two_clusters_is_precise_and_recalls_and_covers_half():
    scores = neighbours.compare(POINTS[:100], POINTS)
    assert scores.precision == 1 and scores.recall == scores.coverage == 0.5


def test_half_of_the_samples_far_away_halves_the_precision_alone():
    scores = neighbours.compare(np.concatenate([POINTS, POINTS + 1000]), POINTS)
    assert scores.precision == 0.5 and scores.recall == scores.coverage == 1
    assert scores.density == pytest.approx(3 / 5)


def test_balls_of_repeated_images_have_no_radius_and_still_hold_their_copies():
    repeated = np.repeat(POINTS, 10, axis=0)
    scores = neighbours.compare(POINTS, repeated)
    assert scores.precision == scores.coverage == 1 and scores.density == pytest.approx(10 / 5)
    assert neighbours.compare(POINTS + 1e-2, repeated).precision == 0


def test_repeated_samples_recall_only_what_they_repeat():
    scores = neighbours.compare(np.repeat(POINTS[::4], 10, axis=0), POINTS)
    assert scores.precision == 1 and scores.recall == 0.25


# --------------------------------------------------------------------------------- Frechet distance


@pytest.mark.parametrize("count", [7, 500], ids=["fewer than features", "more than features"])
def test_a_shift_costs_its_squared_length_and_a_scale_its_share_of_the_variance(count):
    features = gaussian(count, 20)
    features -= features.mean(axis=0)
    shift = np.linspace(-1, 1, 20)
    variance = np.trace(distances.moments(features).covariance)
    distance = distances.frechet_distance(3 * features + shift, features)
    assert distance == pytest.approx(np.sum(shift**2) + (3 - 1) ** 2 * variance, rel=1e-9)


def test_features_that_vary_in_different_directions_are_apart_by_all_of_their_variance():
    a, b = np.zeros([9, 20]), np.zeros([11, 20])
    a[:, :10], b[:, 10:] = gaussian(9, 10), gaussian(11, 10, 1)
    variances = [np.trace(distances.moments(part).covariance) for part in (a, b)]
    means = np.sum(a.mean(axis=0) ** 2) + np.sum(b.mean(axis=0) ** 2)
    assert distances.frechet_distance(a, b) == pytest.approx(means + sum(variances), rel=1e-9)


def test_samples_of_two_gaussians_are_as_far_apart_as_the_gaussians():
    # N(0, diag(1, 4)) rotated by 45 degrees, and N((1, 2), 9 I):
    # 5 + (1 - 3)^2 + (2 - 3)^2 = 10.
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    a = gaussian(40000, 2) * (1, 2) @ turn.T
    b = gaussian(40000, 2, 1) * 3 + (1, 2)
    assert distances.frechet_distance(a, b) == pytest.approx(10, rel=0.02)


def test_with_twice_as_many_images_as_features_real_images_are_near_their_floor():
    ratios = []
    for trial in range(6):
        a, b = gaussian(2000, 32, 2 * trial), gaussian(64, 32, 2 * trial + 1)
        ratios.append(distances.frechet_distance(a, b) / distances.frechet_floor(b, 2000, 64))
    assert 1 < np.mean(ratios) < 1.6


# ---------------------------------------------------------------------------------- kernel distance


def test_equal_distributions_are_apart_by_as_many_errors_as_student_says():
    # Student's t of nine degrees has the deviation sqrt(9 / 7) = 1.13.
    scores = []
    for trial in range(60):
        mean, error = distances.kernel_distance(
            gaussian(200, 4, 2 * trial), gaussian(200, 4, 2 * trial + 1)
        )
        scores.append(mean / error)
    assert abs(np.mean(scores)) < 0.6
    assert 0.7 < np.std(scores) < 1.7


def test_the_kernel_distance_of_two_gaussians_of_one_feature():
    # With x, x' of N(d, 1) and y, y' of N(0, 1), independent, E(xx' + 1)^3 is 1 + 3 d^2 +
    # 3 (1 + d^2)^2 + (d^3 + 3 d)^2, of y, y' it is 4, and E(xy + 1)^3 is 1 + 3 (1 + d^2).
    d = 0.5
    expected = 1 + 3 * d**2 + 3 * (1 + d**2) ** 2 + (d**3 + 3 * d) ** 2 + 4
    expected -= 2 * (1 + 3 * (1 + d**2))
    fakes, reals = gaussian(40000, 1) + d, gaussian(40000, 1, 1)
    mean, error = distances.kernel_distance(fakes, reals, num_subsets=40)
    assert mean == pytest.approx(expected, abs=5 * error) and error < 0.1 * expected


def test_what_is_not_a_kid_is_not_called_one():
    line = reports.kernel_line({"mean": 0.0123, "standard_error": 0.001})
    assert line == (
        "kernel distance 0.0123 with standard error 0.0010 (squared MMD, cubic kernel, on "
        "standardised features; not a KID, whose features are raw)"
    )


# ----------------------------------------------------------------------------------- lost classes


def test_of_a_rare_class_samples_may_be_missing_by_chance():
    reals = np.repeat([0, 1, 2], [900, 80, 20])
    fakes = np.repeat([0, 1, 2], [490, 10, 0])  # expected: 450, 40, 10
    histogram = sample_sets.class_histogram(fakes, reals)
    assert histogram["lost"] == []
    line = "no class is certainly lost; least frequent: 2, at 0.00 of its share"
    assert reports.classes_line(histogram) == line
    more = sample_sets.class_histogram(np.repeat(fakes, 2), reals)  # expected: 900, 80, 20
    assert more["lost"] == ["2"]


def test_a_generator_of_many_classes_loses_none_by_chance():
    random = np.random.RandomState(0)
    fakes, reals = random.randint(0, 1000, 2000), random.randint(0, 1000, 10000)
    assert np.bincount(fakes, minlength=1000).min() == 0
    assert sample_sets.class_histogram(fakes, reals)["lost"] == []


# ------------------------------------------------------------------------------------- few images


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
