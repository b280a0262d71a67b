"""The Frechet distance with its floor and noise, and the kernel distance."""

from __future__ import annotations

import numpy as np
import pytest
from toolkit_gan.scores import distances
from toolkit_gan.scores.distances import Moments


def gaussian(count, size=8, seed=0, mean=0.0, scale=1.0):
    return mean + scale * np.random.RandomState(seed).randn(count, size)


def cloud(mean, *variances):
    return Moments(100, np.array(mean, float), np.diag(np.array(variances, float)))


# ------------------------------------------------------------------------------- Frechet distance


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


def test_the_distance_is_symmetric_and_never_negative():
    a, b = gaussian(30, seed=1), gaussian(40, seed=2, scale=2)
    there, back = distances.frechet_distance(a, b), distances.frechet_distance(b, a)
    assert there == pytest.approx(back, rel=1e-12) and there > 0


def test_features_and_their_moments_give_the_same_distance():
    a, b = gaussian(30, seed=1).astype(np.float32), gaussian(40, seed=2)
    known = distances.moments(a)
    assert known.covariance.dtype == np.float64
    assert distances.frechet_distance(known, b) == distances.frechet_distance(a, b)
    np.testing.assert_allclose(known.covariance, np.cov(a.astype(np.float64).T), rtol=1e-12)


# ------------------------------------------------------------------------------- floor and noise


def test_the_floor_of_one_feature_by_hand():
    # sum l = 4; off the diagonal there is nothing: 4 + 4 / 2 = 6; 1/10 + 1/40 = 1/8.
    assert distances.frechet_floor(cloud((0,), 4), 10, 40) == pytest.approx(6 / 8)


def test_the_floor_of_two_features_by_hand():
    # sum l = 6; twice 4 * 2 / 6 = 8/3; 6 + (8/3 + 6) / 2 = 31/3.
    assert distances.frechet_floor(cloud((0, 0), 4, 2), 2, 2) == pytest.approx(31 / 3)


def test_a_feature_that_never_changes_adds_nothing_to_the_floor():
    with_it = distances.frechet_floor(cloud((0, 0), 4, 0), 10, 40)
    assert with_it == pytest.approx(distances.frechet_floor(cloud((0,), 4), 10, 40))


@pytest.mark.parametrize("n, m", [(500, 500), (2000, 500)])
def test_the_floor_is_what_two_draws_of_the_same_cloud_are_apart(n, m):
    scales = np.linspace(0.2, 3, 16)
    trials = [
        distances.frechet_distance(
            gaussian(n, 16, 2 * trial, scale=scales), gaussian(m, 16, 2 * trial + 1, scale=scales)
        )
        for trial in range(20)
    ]
    floor = distances.frechet_floor(gaussian(4000, 16, 99, scale=scales), n, m)
    assert np.mean(trials) == pytest.approx(floor, rel=0.15)


def test_the_floor_fits_two_halves_of_real_digits():
    from toolkit_gan.scores.extractor import PixelFeatures

    from toolkit.data.arrays.digits import open_mnist5k

    images = open_mnist5k().splits["train"].features
    features = PixelFeatures((28, 28, 1))(images)
    shuffled = np.random.RandomState(0).permutation(len(features))
    half, other = features[shuffled[:2000]], features[shuffled[2000:]]
    floor = distances.frechet_floor(features, 2000, 2000)
    assert distances.frechet_distance(half, other) == pytest.approx(floor, rel=0.15)


def test_the_bootstrap_noise_is_the_spread_over_fresh_fakes():
    reals = gaussian(5000, seed=100)
    fresh = [distances.frechet_distance(gaussian(500, mean=0.2, seed=s), reals) for s in range(40)]
    noise = distances.bootstrap_noise(gaussian(500, mean=0.2, seed=50), reals, num_rounds=40)
    assert noise == pytest.approx(np.std(fresh, ddof=1), rel=0.5)


def test_the_noise_is_the_same_for_the_same_seed():
    fakes, reals = gaussian(50, seed=1), gaussian(60, seed=2)
    first = distances.bootstrap_noise(fakes, reals, seed=3)
    assert first == distances.bootstrap_noise(fakes, distances.moments(reals), seed=3) > 0
    assert first != distances.bootstrap_noise(fakes, reals, seed=4)


def test_within_groups_only_what_is_drawn_within_them_is_noise():
    # Two points, each asked for as often as ever: drawn again within its group, nothing changes.
    fakes, reals = np.repeat([[0.0], [1.0]], [30, 70], axis=0), gaussian(60, seed=2)[:, :1]
    groups = np.repeat([0, 1], [30, 70])
    assert distances.bootstrap_noise(fakes, reals, groups=groups) == 0
    assert distances.bootstrap_noise(fakes, reals) > 0


# ------------------------------------------------------------------------------- kernel distance


def test_the_squared_mmd_of_two_pairs_by_hand():
    # One feature, kernel (xy + 1)^3. Within (0, 1): 1; within (1, 2): 27; between: 1, 1, 8, 27.
    result = distances.squared_mmd(np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]]))
    assert result == pytest.approx(1 + 27 - 2 * (1 + 1 + 8 + 27) / 4)


def test_equal_clouds_have_a_kernel_distance_of_zero_within_the_error():
    pairs = [
        distances.kernel_distance(gaussian(2000, seed=2 * s), gaussian(500, seed=2 * s + 1))
        for s in range(10)
    ]
    assert all(abs(mean) < 4 * error for mean, error in pairs)
    assert min(mean for mean, _ in pairs) < 0 < max(mean for mean, _ in pairs)  # unbiased


def test_the_error_of_the_kernel_distance_is_its_spread():
    reals = [gaussian(500, seed=1000 + s) for s in range(30)]
    pairs = [
        distances.kernel_distance(gaussian(500, seed=s, mean=0.3), r) for s, r in enumerate(reals)
    ]
    means, errors = zip(*pairs)
    assert np.mean(errors) == pytest.approx(np.std(means, ddof=1), rel=0.4)


def test_a_shifted_cloud_is_far_beyond_the_error():
    mean, error = distances.kernel_distance(gaussian(500, mean=0.5), gaussian(500, seed=1))
    assert mean > 10 * error > 0


def test_the_kernel_distance_does_not_see_the_units_of_a_feature():
    fakes, reals = gaussian(200, mean=0.5), gaussian(100, seed=1)
    units = np.array([1, 10, 5, 1, 1, 0.5, 7, 3])
    there, scaled = (distances.kernel_distance(fakes * u, reals * u) for u in (1, units))
    np.testing.assert_allclose(there, scaled, rtol=1e-9)


def test_a_feature_that_hardly_varies_counts_as_a_hundredth_of_the_widest():
    reals = np.array([[0.0, 0.0], [2.0, 2e-6]])
    result = distances.standardise(np.array([[1.0, 0.03]]), reals)
    np.testing.assert_allclose(result, [[0, 3]], atol=1e-3)  # 0.03 / 0.01


def test_a_constant_feature_does_not_divide_by_zero():
    fakes, reals = gaussian(20), gaussian(20, seed=1)
    reals[:, 3] = 2
    assert np.isfinite(distances.kernel_distance(fakes, reals)).all()


# ---------------------------------------------------------------------------------------- interval


def _sets(random, n=100, m=80, shift=0.3):
    return random.standard_normal([n, 4]) + shift, random.standard_normal([m, 4])


def test_the_interval_of_the_frechet_distance_covers_its_mean():
    random = np.random.default_rng(0)
    pairs = [_sets(random) for _ in range(120)]
    values = [distances.frechet_distance(*pair) for pair in pairs]
    intervals = [distances.frechet_interval([v], *pair) for v, pair in zip(values, pairs)]
    covering = sum(each.low <= np.mean(values) <= each.high for each in intervals)
    assert covering >= 105  # 114, minus 3.5 standard errors


def test_several_sets_of_samples_take_the_place_of_the_jackknife_over_one():
    fakes, reals = _sets(np.random.default_rng(1))
    one = distances.frechet_interval([1.0], fakes, reals)
    same = distances.frechet_interval([1.0, 1.0, 1.0], fakes, reals)
    wide = distances.frechet_interval([0.5, 1.0, 1.5], fakes, reals)
    assert same.high < one.high < wide.high
    assert one.method == "jackknife over samples, jackknife over real images"
    assert wide.method == "several sets of samples, jackknife over real images"


def test_the_jackknife_is_that_of_the_frechet_distance():
    from toolkit.statistics import jackknife

    fakes, reals = _sets(np.random.default_rng(2), n=40, m=30)
    blocks = [np.delete(reals, np.arange(i, 30, 10), axis=0) for i in range(10)]
    expected = jackknife(1.0, [distances.frechet_distance(fakes, each) for each in blocks])
    assert distances.jackknife_blocks(1.0, reals, fakes)[:2] == pytest.approx(expected[:2])


def test_the_interval_of_equal_images_ends_at_zero():
    same = np.ones([10, 3])
    assert distances.frechet_interval([0.0], same, same)[:2] == (0.0, 0.0)
