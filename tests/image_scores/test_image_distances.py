"""Two sets of features: their Frechet distance, shares of neighbours, and copies."""

import numpy as np
import pytest
from toolkit_image_scores import distances, neighbours
from toolkit_image_scores.copies import compare_distances
from toolkit_image_scores.distances import Moments
from toolkit_image_scores.neighbours import compare, nearest, radii

from toolkit.statistics import jackknife


def gaussian(count, size=8, seed=0, mean=0.0, scale=1.0):
    return mean + scale * np.random.RandomState(seed).randn(count, size)


def cloud(mean, *variances):
    return Moments(100, np.array(mean, float), np.diag(np.array(variances, float)))


def test_two_gaussians_are_apart_by_their_means_and_their_standard_deviations():
    # (3, 4) has length 5. Each axis adds (sigma_a - sigma_b)^2: (1 - 2)^2 and (3 - 1)^2.
    a, b = cloud((0, 0), 1, 9), cloud((3, 4), 4, 1)
    assert distances.frechet_distance(a, b) == pytest.approx(25 + 1 + 4)


def test_covariances_that_do_not_commute():
    # For 2 x 2 matrices the trace of the root of P is sqrt(trace P + 2 sqrt(det P)); here P is
    # [[4, 2], [1, 2]]: trace 6, determinant 6.
    a = Moments(10, np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
    b = cloud((0, 0), 2, 1)
    product = a.covariance @ b.covariance
    shared = np.sqrt(np.trace(product) + 2 * np.sqrt(np.linalg.det(product)))
    assert np.trace(product) == 6 and np.linalg.det(product) == pytest.approx(6)
    assert distances.frechet_distance(a, b) == pytest.approx(4 + 3 - 2 * shared, rel=1e-12)


def test_a_cloud_is_at_distance_zero_from_itself_though_its_covariance_is_singular():
    few = gaussian(5, size=20)  # rank 4
    assert distances.frechet_distance(few, few) < 1e-12 * np.trace(np.cov(few.T))


def test_features_and_their_moments_give_the_same_distance():
    a, b = gaussian(30, seed=1).astype(np.float32), gaussian(40, seed=2)
    known = distances.moments(a)
    assert known.covariance.dtype == np.float64
    assert distances.frechet_distance(known, b) == distances.frechet_distance(a, b)
    np.testing.assert_allclose(known.covariance, np.cov(a.astype(np.float64).T), rtol=1e-12)


@pytest.mark.parametrize(
    "variances, n, m, floor",
    [
        # sum l = 4; off the diagonal there is nothing: 4 + 4 / 2 = 6; 1/10 + 1/40 = 1/8.
        ((4,), 10, 40, 6 / 8),
        ((4, 0), 10, 40, 6 / 8),  # a feature that never changes adds nothing
        # sum l = 6; twice 4 * 2 / 6 = 8/3; 6 + (8/3 + 6) / 2 = 31/3.
        ((4, 2), 2, 2, 31 / 3),
    ],
)
def test_the_floor_by_hand(variances, n, m, floor):
    reals = cloud([0] * len(variances), *variances)
    assert distances.frechet_floor(reals, n, m) == pytest.approx(floor)


def test_the_noise_is_the_spread_over_fresh_fakes():
    reals = gaussian(5000, seed=100)
    fresh = [distances.frechet_distance(gaussian(500, mean=0.2, seed=s), reals) for s in range(40)]
    noise = distances.frechet_noise(gaussian(500, mean=0.2, seed=50), reals)
    assert noise == pytest.approx(np.std(fresh, ddof=1), rel=0.5)


def test_within_classes_only_what_is_drawn_within_them_is_noise():
    # Two points, each asked for as often as ever: what is between them is no noise.
    reals, classes = gaussian(60, seed=2)[:, :1], np.repeat([0, 1], [30, 70])
    shuffled = np.random.RandomState(0).permutation(classes)
    fakes = shuffled[:, None].astype(float)
    assert distances.frechet_noise(fakes, reals, shuffled) == pytest.approx(0, abs=1e-12)
    assert distances.frechet_noise(fakes, reals) > 1e-3


def test_the_jackknife_is_that_of_the_frechet_distance():
    fakes, reals = gaussian(40, 4, seed=1, mean=0.3), gaussian(30, 4, seed=2)
    blocks = [np.delete(reals, np.arange(i, 30, 10), axis=0) for i in range(10)]
    expected = [distances.frechet_distance(fakes, each) for each in blocks]
    assert distances.leave_out_blocks(reals, fakes) == pytest.approx(np.array(expected))
    half = jackknife(0.0, np.array(expected)).high
    errors = half / distances.frechet_noise(reals, fakes)
    assert errors == pytest.approx(2.262, abs=1e-3)  # Student's quantile for nine degrees


@pytest.mark.parametrize("is_of_reals", [False, True])
@pytest.mark.parametrize("images", [np.repeat([0.0, 4.0], 100), np.tile([0.0, 4.0], 100)])
def test_the_interval_does_not_depend_on_the_order_of_the_classes(images, is_of_reals):
    # From images at 0, the distance is the mean square: of 100 times 0 and 100 times 16, its
    # standard error is 8 / sqrt(200), times 2.262, Student's quantile for ten blocks.
    sets = [images[:, None], np.zeros([20, 1])]
    half = distances.frechet_interval(0.0, *(sets[::-1] if is_of_reals else sets)).high
    assert half == pytest.approx(2.262 * 8 / 200**0.5, rel=0.5)


def line(*points):
    """Points of a line as features [N, 1]."""
    return np.array(points, float)[:, None]


# Reals 0, 1, 3 with k = 1 have radii 1, 1, 2: balls [-1, 1], [0, 2], [1, 5].


def test_radii_reach_to_the_nearest_other_point():
    assert np.sqrt(radii(line(0, 1, 3), k=1)).tolist() == [1, 1, 2]
    assert np.sqrt(radii(line(0, 1, 3), k=2)).tolist() == [3, 2, 3]


@pytest.mark.parametrize(
    "name, fakes, reals, share",
    [
        ("precision", (-0.5, 4.5, 9, 10), (0, 1, 3), 2 / 4),
        ("precision", (5, 8), (0, 1, 3), 1 / 2),  # a point on the rim is inside
        # 0.5 is in the balls of 0 and of 1; nothing is in [1, 5].
        ("coverage", (0.5, -7, 0.6), (0, 1, 3), 2 / 3),
        # Fakes have radii 0.25, 0.25, 8.5: balls [0, 0.5], [0.25, 0.75], [0.5, 17.5].
        ("recall", (0.25, 0.5, 9), (0.1, 0.4, -3, 18), 2 / 4),
    ],
)
def test_each_share_of_points_in_balls_by_hand(name, fakes, reals, share):
    scores = compare(line(*fakes), line(*reals), k=1)
    assert getattr(scores, name) == pytest.approx(share)


def test_balls_of_repeated_images_have_no_radius_and_still_hold_their_copies():
    points = np.random.RandomState(0).randn(100, 3)
    repeated = np.repeat(points, 10, axis=0)
    scores = compare(points, repeated)
    assert scores.precision == scores.coverage == 1
    assert compare(points + 1e-2, repeated).precision == 0


def test_the_definitions_are_computed_block_by_block(monkeypatch):
    draws = np.random.RandomState(0)
    fakes, reals = draws.randn(37, 4) * 1.3 + 0.2, draws.randn(53, 4)
    whole = compare(fakes, reals, 5)
    monkeypatch.setattr(neighbours, "BLOCK_SIZE", 53 * 7)  # seven rows a block
    np.testing.assert_allclose(compare(fakes, reals, 5), whole)


def test_far_from_zero_or_with_known_radii_the_scores_are_the_same():
    draws = np.random.RandomState(0)
    fakes, reals = draws.randn(30, 4), draws.randn(40, 4)
    scores = compare(fakes, reals)
    assert compare(fakes + 1e6, reals + 1e6) == scores
    assert compare(fakes, reals, real_radii=radii(reals)) == scores


def test_the_nearest_example_and_how_far_it_is():
    index, distance = nearest(line(0.4, 2.5, -3), line(0, 1, 3))
    assert index.tolist() == [0, 2, 0]
    np.testing.assert_allclose(distance, [0.4, 0.5, 3])


def test_equal_examples_have_no_distance_in_spite_of_rounding():
    reals = np.random.RandomState(0).randn(500, 64).astype(np.float32) + 100
    _, distance = nearest(reals[::7], reals)
    assert distance.tolist() == [0] * len(distance)


def test_the_ratio_is_unknown_where_half_of_the_reals_are_training_images():
    samples = np.arange(4.0)
    values = compare_distances(samples, np.array([0.0, 0, 0, 3]))
    assert values["ratio"] is None and values["reals"] == 0
    assert values["near_reals"] == 0.75 and values["near_samples"] == 0.25
    assert compare_distances(samples, np.array([0.0, 2, 3, 3]))["ratio"] == 1.5 / 2.5
