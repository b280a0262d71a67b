"""What moves pixels, in a training and in views of an evaluation: exact values."""

import math

import numpy as np
import pytest
from augmentation_fixtures import RAMP, change, make_run, random_images
from graph_fixtures import evaluate

from toolkit import augmentation, tf
from toolkit.augmentation import geometry
from toolkit.augmentation.views import list_views


def test_offsets_reach_every_whole_number_within_the_limit_and_none_beyond():
    images = tf.zeros([4000, 8, 8, 1])
    offsets = evaluate(geometry.draw_offsets(images, make_run(shift=2)))
    assert sorted(set(offsets.ravel())) == [-2, -1, 0, 1, 2]
    assert np.bincount(offsets[:, 0] + 2).min() > 4000 / 5 * 0.85


def test_an_offset_reads_further_down_and_right_by_its_size():
    offsets = tf.constant([[1.0, -2.0]])
    read = evaluate(*geometry.affine_positions(tf.zeros([1]), tf.ones([1]), 4, 5, offsets))
    rows, columns = np.mgrid[:4, :5]
    np.testing.assert_allclose([read[0][0], read[1][0]], [rows + 1, columns - 2], atol=1e-6)


def test_a_rotation_by_90_degrees_is_exact_on_a_square():
    image = random_images(1)
    quarter = tf.constant([math.pi / 2], tf.float32)
    rows, columns = geometry.affine_positions(quarter, tf.ones([1]), 12, 12)
    rotated = evaluate(geometry.sample(tf.constant(image), rows, columns))
    np.testing.assert_allclose(rotated[0], np.rot90(image[0], k=-1), atol=1e-5)


def test_a_zoom_of_two_shows_the_middle_half():
    ramp = np.arange(8, dtype=np.float32).reshape(1, 1, 8, 1) * np.ones([1, 8, 1, 1], np.float32)
    rows, columns = geometry.affine_positions(tf.zeros([1]), 2 * tf.ones([1]), 8, 8)
    result = evaluate(geometry.sample(tf.constant(ramp), rows, columns))
    np.testing.assert_allclose(result[0, 0, :, 0], 3.5 + (np.arange(8) - 3.5) / 2, atol=1e-5)


def test_every_value_of_an_elastic_field_has_unit_variance_and_neighbours_agree():
    knots = geometry.elastic_grid(28, 28)[:2]
    noise = np.random.RandomState(1).randn(3000, *knots).astype(np.float32)
    field = evaluate(geometry.elastic_field(tf.constant(noise), 28, 28))
    assert field.shape == (3000, 28, 28)
    assert np.abs(field.std(axis=0) - 1).max() < 0.1
    assert np.abs(np.diff(field, axis=2)).mean() < 0.25


@pytest.mark.parametrize("turn, atol", [({}, 0), ({"rotate": 1e-9}, 1e-4), ({"zoom": 1e-9}, 1e-4)])
def test_a_flip_of_all_images_mirrors_each_column_whether_they_also_turn_or_not(turn, atol):
    flipped = change(RAMP, flip=1, **turn)
    np.testing.assert_allclose(flipped, RAMP[:, :, ::-1], rtol=0, atol=atol)
    flipped = change(RAMP, flip_vertical=1, **turn)
    np.testing.assert_allclose(flipped, RAMP[:, ::-1], rtol=0, atol=atol)


def test_half_of_the_images_are_flipped_each_by_a_number_of_its_own():
    images = np.tile(random_images(1, 5, 6), [400, 1, 1, 1])
    flipped = change(images, flip=0.5)
    is_same = (flipped == images).all(axis=(1, 2, 3))
    is_mirrored = (flipped == images[:, :, ::-1]).all(axis=(1, 2, 3))
    assert (is_same ^ is_mirrored).all() and 150 < is_mirrored.sum() < 250


@pytest.mark.parametrize("options, padding", [({}, "edge"), ({"fill": "reflect"}, "reflect")])
def test_a_random_crop_is_a_window_of_the_padded_image_at_every_place(options, padding):
    image = random_images(1, 8, 16, 3)
    crops = change(np.tile(image, [600, 1, 1, 1]), crop=0.25, **options)
    padded = np.pad(image[0], [(2, 2), (4, 4), (0, 0)], padding)
    places = [(down, right) for down in range(5) for right in range(9)]
    windows = {padded[y : y + 8, x : x + 16].tobytes(): (y, x) for y, x in places}
    places = [windows[crop.tobytes()] for crop in crops]  # a KeyError if one is no window
    assert len(set(places)) == 45


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_reflection_is_that_of_numpy_however_far_beyond_the_border(size):
    places = np.arange(-25, 30)
    expected = np.pad(np.arange(size), 40, "reflect")[places + 40] if size > 1 else 0 * places
    whole = geometry.fill_whole(tf.constant(places[None, :].astype(np.int32)), size, "reflect")
    floats = geometry.reflect(tf.constant(places.astype(np.float32)), size)
    whole, floats = evaluate(whole, floats)
    assert (whole[0] == expected).all() and (floats == expected).all()


def test_a_warp_of_a_photo_reads_the_mirror_image_beyond_the_border():
    ramp = np.arange(8).reshape(1, 1, 8, 1) / 8 * np.ones([64, 8, 1, 1])
    ramp = ramp.astype(np.float32)
    warped, edges = change(ramp, zoom=0.5, fill="reflect"), change(ramp, zoom=0.5)
    shrunk = np.abs(warped - edges).max(axis=(1, 2, 3)) > 0.05
    assert shrunk.any() and not shrunk.all()  # enlarged images have no border to fill
    assert (warped[shrunk][:, :, 0] > warped[shrunk][:, :, 1] - 1e-6).any()


def change_with_masks(images, masks, **options):
    pair = tf.constant(images), tf.constant(masks)
    return evaluate(*augmentation.augment_with_masks(*pair, make_run(**options)))


@pytest.mark.parametrize(
    "options", [{"crop": 0.3, "flip": 0.5, "shift": 1}, {"rotate": 20, "rand_augment": 2}]
)
def test_masks_move_with_their_images_and_no_class_is_mixed(options):
    values = np.random.RandomState(0).choice([0.0, 0.25, 1.0], [6, 9, 11, 1]).astype(np.float32)
    masks = (values[..., 0] * 4).astype(np.int32)
    images, moved = change_with_masks(values, masks, **options)
    assert moved.dtype == np.int32 and moved.shape == (6, 9, 11)
    assert set(np.unique(moved)) <= {0, 1, 4} and (moved != masks).any()
    if "crop" in options:
        assert (moved == images[..., 0] * 4).all()


def test_a_rotation_moves_a_mask_to_the_pixels_of_its_image():
    blobs = np.zeros([20, 21, 21, 1], np.float32)
    blobs[:, 3:9, 3:9] = 1
    images, masks = change_with_masks(blobs, blobs, rotate=45, flip=0.5)
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert np.abs(images - masks).max() <= 0.76 and np.abs(images - masks).mean() < 0.03


def views(height=8, width=8, **options):
    """The rows and columns of each view."""
    found = list_views(make_run(**options).options, height, width)
    return [(rows.tolist(), columns.tolist()) for rows, columns in found]


def test_the_views_follow_the_changes_of_the_training():
    plain, mirrored = list(range(8)), list(range(8))[::-1]
    before, behind = [0, *plain[:-1]], [*plain[1:], 7]
    shifts = [(before, plain), (plain, before), (behind, plain), (plain, behind)]
    assert views() == [(plain, plain)]
    assert views(shift=2) == views(shift=1) == [(plain, plain), *shifts]
    assert views(flip=0.5) == [(plain, plain), (plain, mirrored)]
    assert views(flip_vertical=0.5) == [(plain, plain), (mirrored, plain)]
    assert views(shift=1, flip=1)[-1] == (plain, [6, 5, 4, 3, 2, 1, 0, 0])
    assert len(views(shift=2, flip=0.5)) == 10
    assert len(views(shift=2, flip=1, flip_vertical=1)) == 20
    rows = [rows[16] for rows, _ in views(32, 64, augment="photos")[1:5]]
    columns = [columns[32] for _, columns in views(32, 64, augment="photos")[1:5]]
    assert (rows, columns) == ([14, 16, 18, 16], [32, 28, 32, 36])
    # A side of one pixel has no shifts.
    assert views(1, 1, shift=2) == [([0], [0])]
    assert len(views(1, 8, shift=2)) == 3


def test_a_function_gets_one_view_after_the_other():
    images = tf.constant(RAMP)
    results = augmentation.map_views(
        lambda view: {"first": view[:, 0, 0, 0]}, images, make_run("predict", flip=1)
    )
    plain, mirrored = evaluate(*[result["first"] for result in results])
    assert (plain == RAMP[:, 0, 0, 0]).all() and (mirrored == RAMP[:, 0, 4, 0]).all()
    inputs = results[1]["first"].op.graph.get_operations()
    assert any(op.control_inputs == [results[0]["first"].op] for op in inputs)


def test_a_move_in_an_evaluation_does_not_depend_on_the_batch_size():
    run, images = make_run("eval", elastic=2), tf.placeholder(tf.float32, [None, 8, 8, 1])
    rows = geometry.draw_move(images, run).rows
    with tf.Session() as session:

        def draw(count, position):
            return session.run(rows, {images: np.zeros([count, 8, 8, 1]), run.position: position})

        together, parts = draw(4, 0), [draw(2, 0), draw(2, 2)]
    assert np.allclose(together, np.concatenate(parts), atol=1e-5)
    assert not np.allclose(together[0], together[2], atol=0.1)
