"""Precision, recall, density, coverage and the nearest example."""

from __future__ import annotations

import numpy as np
import pytest
from toolkit_gan.scores import neighbours as module
from toolkit_gan.scores.neighbours import compare, compare_distances, nearest, radii


def line(*points):
    """Points of a line as features [N, 1]."""
    return np.array(points, float)[:, None]


def naive(fakes, reals, k):
    """The definitions, written out."""

    def apart(a, b):
        return np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))

    real_radii, fake_radii = (np.sort(apart(x, x), axis=1)[:, k] for x in (reals, fakes))
    between = apart(fakes, reals)
    inside = between <= real_radii
    return (
        inside.any(axis=1).mean(),
        (between <= fake_radii[:, None]).any(axis=0).mean(),
        inside.sum() / (k * len(fakes)),
        inside.any(axis=0).mean(),
    )


# Reals 0, 1, 3 with k = 1 have radii 1, 1, 2: balls [-1, 1], [0, 2], [1, 5].


def test_radii_reach_to_the_nearest_other_point():
    assert np.sqrt(radii(line(0, 1, 3), k=1)).tolist() == [1, 1, 2]
    assert np.sqrt(radii(line(0, 1, 3), k=2)).tolist() == [3, 2, 3]


def test_precision_is_the_share_of_fakes_in_a_real_ball():
    scores = compare(line(-0.5, 4.5, 9, 10), line(0, 1, 3), k=1)
    assert scores.precision == 2 / 4


def test_density_counts_the_real_balls_around_a_fake():
    # -0.5 lies in one ball, 0.5 in two, 9 in none: 3 of 3 fakes with k = 1.
    assert compare(line(-0.5, 0.5, 9), line(0, 1, 3), k=1).density == 1


def test_coverage_is_the_share_of_real_balls_with_a_fake():
    # 0.5 is in the balls of 0 and of 1; nothing is in [1, 5].
    assert compare(line(0.5, -7, 0.6), line(0, 1, 3), k=1).coverage == pytest.approx(2 / 3)


def test_recall_is_the_share_of_reals_in_a_fake_ball():
    # Fakes 0.25, 0.5 and 9 have radii 0.25, 0.25, 8.5: balls [0, 0.5], [0.25, 0.75], [0.5, 17.5].
    assert compare(line(0.25, 0.5, 9), line(0.1, 0.4, -3, 18), k=1).recall == 2 / 4


def test_a_point_on_the_rim_is_inside():
    assert compare(line(5, 8), line(0, 1, 3), k=1).precision == 1 / 2


def test_the_definitions_are_computed_block_by_block(monkeypatch):
    draws = np.random.RandomState(0)
    fakes, reals = draws.randn(37, 4) * 1.3 + 0.2, draws.randn(53, 4)
    monkeypatch.setattr(module, "BLOCK_SIZE", 53 * 7)  # seven rows a block
    np.testing.assert_allclose(compare(fakes, reals, 5), naive(fakes, reals, 5))


def test_known_radii_change_nothing():
    draws = np.random.RandomState(0)
    fakes, reals = draws.randn(30, 4), draws.randn(40, 4)
    assert compare(fakes, reals, real_radii=radii(reals)) == compare(fakes, reals)


def test_far_from_zero_the_scores_are_the_same():
    draws = np.random.RandomState(0)
    fakes, reals = draws.randn(30, 4), draws.randn(40, 4)
    assert compare(fakes + 1e6, reals + 1e6) == compare(fakes, reals)


def test_real_against_real_is_near_one():
    draws = np.random.RandomState(0)
    scores = compare(draws.randn(1000, 3), draws.randn(1000, 3))
    assert scores.precision > 0.9 and scores.recall > 0.9 and scores.coverage > 0.9
    assert scores.density == pytest.approx(1, abs=0.1)


def test_ten_class_means_repeated_get_full_precision_and_no_recall():
    draws = np.random.RandomState(0)
    labels = np.arange(1000) % 10
    centres = 4 * draws.randn(10, 8)
    reals = centres[labels] + draws.randn(1000, 8)
    scores = compare(centres[labels], reals)
    assert scores.precision == 1 and scores.recall == 0 and scores.coverage < 0.6


def test_one_class_missing_costs_its_share_of_the_coverage():
    draws = np.random.RandomState(0)
    labels = np.arange(1000) % 10
    centres = 20 * np.eye(10)
    reals, fakes = (centres[labels] + draws.randn(1000, 10) for _ in range(2))
    whole = compare(fakes, reals).coverage
    assert compare(fakes[labels != 3], reals).coverage == pytest.approx(whole - 0.1, abs=0.03)


def test_the_nearest_example_and_how_far_it_is():
    index, distance = nearest(line(0.4, 2.5, -3), line(0, 1, 3))
    assert index.tolist() == [0, 2, 0]
    np.testing.assert_allclose(distance, [0.4, 0.5, 3])


def test_the_nearest_example_of_a_copy_is_its_original():
    reals = np.random.RandomState(0).randn(50, 6)
    index, distance = nearest(reals[[7, 3]], reals)
    assert index.tolist() == [7, 3]
    np.testing.assert_allclose(distance, 0, atol=1e-6)


def test_equal_examples_have_no_distance_in_spite_of_rounding():
    reals = np.random.RandomState(0).randn(500, 64).astype(np.float32) + 100
    _, distance = nearest(reals[::7], reals)
    assert distance.tolist() == [0] * len(distance)


# --------------------------------------------------------------------- copies, with known answers


def distances_to_training(num_copies, count=1000):
    """Those of samples, so many of them copies, and those of other real examples."""
    draws = np.random.RandomState(1)
    training, reals, fakes = (draws.randn(count, 6) for _ in range(3))
    fakes[:num_copies] = training[:num_copies]
    return nearest(fakes, training)[1], nearest(reals, training)[1]


def test_independent_samples_are_as_far_from_training_images_as_other_reals():
    comparison = compare_distances(*distances_to_training(num_copies=0))
    assert comparison.ratio == pytest.approx(1, abs=0.05)
    assert comparison.near_reals == 0.01 and comparison.near_samples < 0.03


def test_copies_have_the_ratio_zero():
    comparison = compare_distances(*distances_to_training(num_copies=1000))
    assert comparison.ratio == 0 and comparison.near_samples == 1


def test_a_tenth_of_copies_is_a_tenth_of_near_samples_and_hardly_changes_the_ratio():
    comparison = compare_distances(*distances_to_training(num_copies=100))
    assert comparison.ratio > 0.9 and comparison.near_samples == pytest.approx(0.11, abs=0.015)


def test_the_ratio_is_unknown_where_half_of_the_reals_are_training_images():
    samples = np.array([0.0, 1, 2, 3])
    comparison = compare_distances(samples, np.array([0.0, 0, 0, 3]))
    assert comparison.ratio is None and comparison.reals == 0
    assert comparison.near_reals == 0.75 and comparison.near_samples == 0.25
    assert compare_distances(samples, np.array([0.0, 2, 3, 3])).ratio == 1.5 / 2.5
