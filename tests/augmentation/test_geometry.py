"""What moves pixels: exact values where there are any, and repeatable everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from augmentation_fixtures import RAMP, evaluate, make_run, random_images

from toolkit import augmentation, tf
from toolkit.augmentation import geometry

EVERYTHING = {"shift": 2, "rotate": 10.0, "zoom": 0.1, "elastic": 1.0}


def test_without_augmentation_the_same_tensor_is_returned():
    images = tf.constant(RAMP)
    assert augmentation.augment(images, make_run()) is images


def test_vectors_are_not_augmented():
    vectors = tf.constant(np.ones([3, 7], np.float32))
    assert augmentation.augment(vectors, make_run(**EVERYTHING)) is vectors


def test_a_zero_offset_keeps_every_pixel():
    shifted = geometry.shift(tf.constant(RAMP), tf.zeros([2, 2], tf.int32))
    assert (evaluate(shifted) == RAMP).all()


def test_a_whole_offset_moves_exactly_and_repeats_the_border():
    shifted = evaluate(geometry.shift(tf.constant(RAMP), tf.constant([[1, 0], [0, -2]])))
    assert (shifted[0, :3] == RAMP[0, 1:]).all() and (shifted[0, 3] == RAMP[0, 3]).all()
    assert (shifted[1, :, 2:] == RAMP[1, :, :3]).all()
    assert (shifted[1, :, :2] == RAMP[1, :, :1]).all()


@pytest.mark.parametrize("read", ["read", "read_nearest"])
def test_a_warp_reads_the_right_pixels_of_an_image_of_more_than_2_to_the_24(read):
    height, width = 4096, 4100
    images = tf.cast(tf.reshape(tf.range(height * width) % 251, [1, height, width, 1]), tf.float32)
    grid = tf.meshgrid(tf.range(height * 1.0), tf.range(width * 1.0), indexing="ij")
    warp = geometry.Warp(*(positions[None] for positions in grid))
    assert not evaluate(tf.reduce_sum(tf.abs(getattr(warp, read)(images) - images)))


def test_offsets_reach_every_whole_number_within_the_limit_and_none_beyond():
    images = tf.zeros([4000, 8, 8, 1])
    offsets = evaluate(geometry.draw_offsets(images, make_run(shift=2)))
    assert sorted(set(offsets.ravel())) == [-2, -1, 0, 1, 2]
    assert np.bincount(offsets[:, 0] + 2).min() > 4000 / 5 * 0.85


def test_without_rotation_and_zoom_the_samples_are_the_image():
    rows, columns = geometry.affine_positions(tf.zeros([2]), tf.ones([2]), 4, 5)
    samples = evaluate(geometry.sample(tf.constant(RAMP), rows, columns))
    np.testing.assert_allclose(samples, RAMP, atol=1e-4)


def test_an_offset_reads_further_down_and_right_by_its_size():
    offsets = tf.constant([[1.0, -2.0]])
    rows, columns = geometry.affine_positions(tf.zeros([1]), tf.ones([1]), 4, 5, offsets)
    rows, columns = evaluate(rows, columns)
    np.testing.assert_allclose(rows[0], np.arange(4)[:, None] + 1.0 + np.zeros([4, 5]), atol=1e-6)
    np.testing.assert_allclose(columns[0], np.zeros([4, 5]) + np.arange(5) - 2.0, atol=1e-6)


def test_a_rotation_by_90_degrees_is_exact_on_a_square():
    image = random_images(1)
    quarter = tf.constant([math.pi / 2], tf.float32)
    rows, columns = geometry.affine_positions(quarter, tf.ones([1]), 12, 12)
    rotated = evaluate(geometry.sample(tf.constant(image), rows, columns))
    np.testing.assert_allclose(rotated[0], np.rot90(image[0], k=-1), atol=1e-5)


def test_a_zoom_of_two_shows_the_middle_half():
    ramp = tf.constant(np.arange(8, dtype=np.float32).reshape(1, 1, 8, 1) * np.ones([1, 8, 1, 1]))
    rows, columns = geometry.affine_positions(tf.zeros([1]), 2 * tf.ones([1]), 8, 8)
    result = evaluate(geometry.sample(tf.cast(ramp, tf.float32), rows, columns))
    np.testing.assert_allclose(result[0, 0, :, 0], 3.5 + (np.arange(8) - 3.5) / 2, atol=1e-5)


def test_half_a_pixel_is_the_mean_of_two():
    rows, columns = np.mgrid[:4, :5].astype(np.float32)
    half = tf.constant(np.stack([columns + 0.5] * 2))
    samples = evaluate(geometry.sample(tf.constant(RAMP), tf.constant(np.stack([rows] * 2)), half))
    np.testing.assert_allclose(samples[:, :, :4], (RAMP[:, :, :4] + RAMP[:, :, 1:]) / 2, rtol=1e-5)


def test_every_value_of_an_elastic_field_has_unit_variance_and_neighbours_agree():
    knots = geometry.elastic_grid(28, 28)
    noise = np.random.RandomState(1).randn(3000, *knots).astype(np.float32)
    field = evaluate(geometry.elastic_field(tf.constant(noise), 28, 28))
    assert field.shape == (3000, 28, 28)
    assert np.abs(field.std(axis=0) - 1).max() < 0.1
    assert np.abs(np.diff(field, axis=2)).mean() < 0.25


def test_the_same_step_gives_the_same_images_and_the_next_step_others():
    run, images = make_run(**EVERYTHING), tf.constant(random_images())
    augmented = augmentation.augment(images, run)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, again = session.run(augmented), session.run(augmented)
        session.run(run.global_step.assign_add(1))
        later = session.run(augmented)
    assert (first == again).all() and np.abs(first - later).max() > 0.01


def test_augmented_images_keep_their_static_shape_and_range():
    augmented = augmentation.augment(tf.constant(random_images()), make_run(**EVERYTHING))
    assert augmented.shape.as_list() == [4, 12, 12, 1]
    values = evaluate(augmented)
    assert values.min() >= 0 and values.max() <= 1


# ------------------------------------------------------------------------------- crops, flips, fill


def test_a_flip_of_all_images_mirrors_each_column_exactly():
    flipped = evaluate(augmentation.augment(tf.constant(RAMP), make_run(flip=1)))
    assert (flipped == RAMP[:, :, ::-1]).all()
    flipped = evaluate(augmentation.augment(tf.constant(RAMP), make_run(flip_vertical=1)))
    assert (flipped == RAMP[:, ::-1]).all()


def test_a_flip_is_the_same_whether_images_also_turn_or_not():
    flipped = evaluate(augmentation.augment(tf.constant(RAMP), make_run(flip=1, rotate=1e-9)))
    np.testing.assert_allclose(flipped, RAMP[:, :, ::-1], atol=1e-4)
    flipped = evaluate(
        augmentation.augment(tf.constant(RAMP), make_run(flip_vertical=1, zoom=1e-9))
    )
    np.testing.assert_allclose(flipped, RAMP[:, ::-1], atol=1e-4)


def test_half_of_the_images_are_flipped_each_by_a_number_of_its_own():
    images = np.tile(random_images(1, 5, 6), [400, 1, 1, 1])
    flipped = evaluate(augmentation.augment(tf.constant(images), make_run(flip=0.5)))
    is_same = (flipped == images).all(axis=(1, 2, 3))
    is_mirrored = (flipped == images[:, :, ::-1]).all(axis=(1, 2, 3))
    assert (is_same ^ is_mirrored).all() and 150 < is_mirrored.sum() < 250


def test_a_random_crop_is_a_window_of_the_padded_image_at_every_place():
    image = random_images(1, 8, 16, 3)
    run = make_run(crop=0.25, fill="reflect")
    crops = evaluate(augmentation.augment(tf.constant(np.tile(image, [600, 1, 1, 1])), run))
    padded = np.pad(image[0], [(2, 2), (4, 4), (0, 0)], "reflect")
    windows = {
        padded[down : down + 8, right : right + 16].tobytes(): (down, right)
        for down in range(5)
        for right in range(9)
    }
    places = [windows[crop.tobytes()] for crop in crops]  # a KeyError if one is no window
    assert len(set(places)) == 45


def test_crops_fill_with_the_border_pixel_unless_they_reflect():
    image = random_images(1, 8, 8)
    crops = evaluate(
        augmentation.augment(tf.constant(np.tile(image, [50, 1, 1, 1])), make_run(crop=0.5))
    )
    padded = np.pad(image[0], [(4, 4), (4, 4), (0, 0)], "edge")
    windows = {padded[d : d + 8, r : r + 8].tobytes() for d in range(9) for r in range(9)}
    assert {crop.tobytes() for crop in crops} <= windows


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_reflection_is_that_of_numpy_however_far_beyond_the_border(size):
    places = np.arange(-25, 30)
    expected = np.pad(np.arange(size), 40, "reflect")[places + 40] if size > 1 else 0 * places
    whole = geometry.fill_whole(tf.constant(places[None, :].astype(np.int32)), size, "reflect")
    floats = geometry.reflect(tf.constant(places.astype(np.float32)), size)
    whole, floats = evaluate(whole, floats)
    assert (whole[0] == expected).all() and (floats == expected).all()


def test_a_warp_of_a_photo_reads_the_mirror_image_beyond_the_border():
    ramp = (
        np.arange(8, dtype=np.float32).reshape(1, 1, 8, 1) / 8 * np.ones([64, 8, 1, 1], np.float32)
    )
    run = make_run(zoom=0.5, fill="reflect")
    warped = evaluate(augmentation.augment(tf.constant(ramp), run))
    edges = evaluate(augmentation.augment(tf.constant(ramp), make_run(zoom=0.5)))
    shrunk = np.abs(warped - edges).max(axis=(1, 2, 3)) > 0.05
    assert shrunk.any() and not shrunk.all()  # enlarged images have no border to fill
    assert (warped[shrunk][:, :, 0] > warped[shrunk][:, :, 1] - 1e-6).any()


def test_masks_move_with_their_images_and_no_class_is_mixed():
    values = np.random.RandomState(0).choice([0.0, 0.25, 1.0], [6, 9, 11, 1]).astype(np.float32)
    masks = (values[..., 0] * 4).astype(np.int32)
    for options in ({"crop": 0.3, "flip": 0.5, "shift": 1}, {"rotate": 20, "rand_augment": 2}):
        run = make_run(**options)
        images, moved = augmentation.augment_with_masks(
            tf.constant(values), tf.constant(masks), run
        )
        assert moved.dtype == tf.int32 and moved.shape.as_list() == [6, 9, 11]
        images, moved = evaluate(images, moved)
        assert set(np.unique(moved)) <= {0, 1, 4} and (moved != masks).any()
        if "crop" in options:
            assert (moved == images[..., 0] * 4).all()


def test_a_rotation_moves_a_mask_to_the_pixels_of_its_image():
    blob = np.zeros([1, 21, 21, 1], np.float32)
    blob[0, 3:9, 3:9] = 1
    blobs = np.tile(blob, [20, 1, 1, 1])
    run = make_run(rotate=45, flip=0.5)
    images, masks = evaluate(
        *augmentation.augment_with_masks(tf.constant(blobs), tf.constant(blobs), run)
    )
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert np.abs(images - masks).max() <= 0.76 and np.abs(images - masks).mean() < 0.03


def test_in_an_evaluation_images_stay_as_they_are():
    images = tf.constant(RAMP)
    run = make_run("eval", flip=1, crop=0.3, rotate=20, cutout=0.5)
    assert augmentation.augment(images, run) is images
