"""Colours, cutout and RandAugment: values against numpy, ranges, refusals."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from augmentation_fixtures import evaluate, make_run, random_images

from toolkit import UsageError, augmentation, tf
from toolkit.augmentation import colour, rand_augment
from toolkit.options import AugmentationOptions

LUMA = np.array([0.299, 0.587, 0.114])
STRENGTHS = {
    "shift": 2,
    "crop": 0.2,
    "flip": 1,
    "flip_vertical": 1,
    "rotate": 20,
    "zoom": 0.3,
    "elastic": 1,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.4,
    "hue": 0.2,
    "grey": 1,
    "cutout": 0.4,
    "rand_augment": 2,
}


def change(images, **options):
    return evaluate(augmentation.augment(tf.constant(images), make_run(**options)))


# ----------------------------------------------------------------------------------- each operation


@pytest.mark.parametrize("name", sorted(STRENGTHS))
@pytest.mark.parametrize("shape", [(7, 9, 13, 3), (7, 12, 12, 1)], ids=["colour", "grey"])
def test_each_operation_keeps_shape_and_range_and_is_a_function_of_seed_and_step(name, shape):
    if shape[-1] == 1 and name in ("saturation", "hue", "grey"):
        pytest.skip("refused, see below")
    images = random_images(*shape)
    run = make_run(**{name: STRENGTHS[name]})
    changed = augmentation.augment(tf.constant(images), run)
    assert changed.shape.as_list() == list(shape)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, again = session.run(changed), session.run(changed)
        session.run(run.global_step.assign_add(1))
        later = session.run(changed)
    assert first.min() >= 0 and first.max() <= 1 and np.isfinite(first).all()
    assert (first == again).all() and (first != images).any()
    if name not in ("flip", "flip_vertical", "grey"):  # of all images, here
        assert (first != later).any()


@pytest.mark.parametrize("name", sorted(set(STRENGTHS) - {"flip", "flip_vertical", "grey"}))
def test_equal_images_of_a_batch_are_changed_differently(name):
    images = np.tile(random_images(1, 16, 16, 3), [12, 1, 1, 1])
    changed = change(images, **{name: STRENGTHS[name]})
    assert len({image.tobytes() for image in changed}) > 5


@pytest.mark.parametrize("name", sorted(STRENGTHS))
def test_another_seed_changes_images_in_another_way(name):
    strength = 0.5 if name in ("flip", "flip_vertical", "grey") else STRENGTHS[name]
    images = random_images(32, 12, 12, 3)
    first, second = (change(images, seed=seed, **{name: strength}) for seed in (1, 2))
    assert (first != second).any()


def test_with_every_strength_at_zero_the_same_tensor_is_returned():
    images = tf.constant(random_images())
    assert augmentation.augment(images, make_run()) is images


@pytest.mark.parametrize("preset", sorted(AugmentationOptions.presets))
@pytest.mark.parametrize("shape", [(5, 1, 1, 1), (3, 2, 1, 3), (2, 28, 28, 1), (2, 13, 40, 4)])
def test_each_preset_takes_images_of_any_size(preset, shape):
    changed = change(random_images(*shape), augment=preset)
    assert changed.shape == shape and changed.min() >= 0 and changed.max() <= 1


# ---------------------------------------------------------------------------------------- colours


def test_brightness_multiplies_and_contrast_keeps_the_mean_grey():
    images = 0.25 + 0.25 * random_images(40, 6, 7, 3)  # far from the limits: nothing is clipped
    factors = change(images, brightness=0.5) / images
    assert np.ptp(factors, axis=(1, 2, 3)).max() < 1e-5
    factors = factors[:, 0, 0, 0]
    assert 0.5 <= factors.min() < 0.6 and 1.4 < factors.max() <= 1.5
    changed = change(images, contrast=0.5)
    grey, changed_grey = images @ LUMA, changed @ LUMA
    mean = grey.mean(axis=(1, 2))
    np.testing.assert_allclose(changed_grey.mean(axis=(1, 2)), mean, atol=1e-5)
    mean = mean[:, None, None, None]
    ratios = np.ptp(changed, axis=(1, 2, 3)) / np.ptp(images, axis=(1, 2, 3))
    np.testing.assert_allclose(
        changed, mean + (images - mean) * ratios[:, None, None, None], atol=1e-4
    )


def test_saturation_and_hue_leave_the_grey_of_each_pixel():
    images = 0.4 + 0.2 * random_images(20, 6, 7, 3)
    for options in ({"saturation": 0.9}, {"hue": 0.5}):
        changed = change(images, **options)
        np.testing.assert_allclose(changed @ LUMA, images @ LUMA, atol=1e-5)
        assert np.abs(changed - images).max() > 0.02


def test_grey_images_have_equal_channels_and_the_grey_of_pillow():
    images = random_images(60, 5, 5, 3)
    changed = change(images, grey=0.5)
    is_grey = (np.ptp(changed, axis=3) < 1e-6).all(axis=(1, 2))
    assert 15 < is_grey.sum() < 45
    expected = np.repeat((images @ LUMA)[..., None], 3, axis=3)
    np.testing.assert_allclose(changed[is_grey], expected[is_grey], atol=1e-6)
    np.testing.assert_allclose(changed[~is_grey], images[~is_grey], atol=1e-6)


def turn_hue(images, angle):
    angles = tf.fill([len(images)], angle)
    maps = colour.chroma_map(tf.cos(angles), tf.sin(angles))
    return evaluate(colour.map_channels(tf.constant(images), maps))


def test_a_third_of_the_hue_circle_turns_red_into_green_or_blue():
    red = np.full([1, 1, 1, 3], 0.5, np.float32) + np.float32([0.1, -0.05, -0.05])
    for sign, channel in ((1, 2), (-1, 1)):
        turned = turn_hue(red, sign * 2 * np.pi / 3)[0, 0, 0]
        assert turned.argmax() == channel
        hue = colorsys.rgb_to_hsv(*(turned - turned.min() + 0.1))[0]
        assert abs(hue - (channel / 3)) < 0.1


def test_a_turn_of_the_hue_by_zero_and_by_the_whole_circle_is_none():
    images = random_images(2, 4, 4, 3)
    for angle in (0.0, 2 * np.pi):
        turned = turn_hue(images, angle)
        np.testing.assert_allclose(turned, images, atol=1e-5)


@pytest.mark.parametrize("name", ["saturation", "hue", "grey"])
def test_a_colour_option_set_by_name_for_grey_images_is_refused(name):
    with pytest.raises(UsageError, match=f"Option {name} is 0.3, but the images have no colour"):
        change(random_images(), augment="photos", **{name: 0.3})


def test_the_colours_of_a_preset_do_nothing_to_grey_images():
    images = 0.4 + 0.2 * random_images(5)
    off = {"crop": 0, "flip": 0}
    changed = change(images, augment="photos", **off)
    plain = change(images, augment="photos", saturation=0, hue=0, **off)
    assert (changed == plain).all() and (changed != images).any()


@pytest.mark.parametrize("options", [{"augment": "photos"}, {"flip": 0.5}, {"rand_augment": 1}])
def test_options_for_images_are_refused_for_vectors(options):
    with pytest.raises(UsageError, match=r"changes images \[H, W, C\], but .* has shape \[7\]"):
        augmentation.augment(tf.zeros([3, 7]), make_run(**options))


def test_the_default_preset_leaves_vectors_unchanged():
    vectors = tf.zeros([3, 7])
    assert augmentation.augment(vectors, make_run(augment="digits")) is vectors


# ----------------------------------------------------------------------------------------- cutout


def test_cutout_covers_the_clipped_square_of_its_share_with_the_mean_colour():
    images = random_images(300, 10, 20, 3)
    changed = change(images, cutout=0.4)
    areas = set()
    for image, result in zip(images, changed):
        is_covered = (result != image).any(axis=2)
        rows, columns = np.flatnonzero(is_covered.any(1)), np.flatnonzero(is_covered.any(0))
        assert is_covered.sum() == len(rows) * len(columns)
        assert len(rows) == 4 or {0, 9} & set(rows)
        assert len(columns) == 8 or {0, 19} & set(columns)
        np.testing.assert_allclose(
            result[is_covered], np.tile(image.mean(axis=(0, 1)), [is_covered.sum(), 1]), atol=1e-5
        )
        areas.add((len(rows), len(columns)))
    assert (4, 8) in areas and len(areas) > 5


# -------------------------------------------------------------------------------------- RandAugment


def one_layer(operation, count=1, sign=1.0):
    index = rand_augment.OPERATIONS.index(operation)
    return rand_augment.Layer(tf.fill([count], index), tf.fill([count], sign))


def change_values(images, operation, magnitude, sign=1.0):
    layer = one_layer(operation, len(images), sign)
    return evaluate(rand_augment.change_values(tf.constant(images), [layer], magnitude))


def test_each_operation_of_rand_augment_is_drawn_and_both_signs():
    layers = rand_augment.draw_layers(tf.zeros([5000, 2, 2, 1]), make_run(rand_augment=2))
    first, second, signs = evaluate(layers[0].choices, layers[1].choices, layers[0].signs)
    counts = np.bincount(first, minlength=len(rand_augment.OPERATIONS))
    assert len(counts) == 13 and counts.min() > 5000 / 13 * 0.8
    assert (first != second).mean() > 0.85 and abs(signs.mean()) < 0.1


def test_operations_that_move_nothing_have_the_values_of_numpy():
    images = random_images(2, 5, 6, 3)
    grey = (images @ LUMA)[..., None]
    mean = grey.mean(axis=(1, 2), keepdims=True)
    expected = {
        "identity": images,
        "rotate": images,
        "brightness": images * 1.45,
        "contrast": mean + (images - mean) * 1.45,
        "colour": grey + (images - grey) * 1.45,
        "solarize": np.where(images > 0.5, 1 - images, images),
        "posterize": np.minimum(np.floor(images * 64), 63) / 63,
    }
    for operation, values in expected.items():
        result = change_values(images, operation, 5.0)
        np.testing.assert_allclose(result, np.clip(values, 0, 1), atol=1e-5, err_msg=operation)
    assert (change_values(images, "identity", 5.0) == images).all()


def test_autocontrast_stretches_each_channel_and_leaves_a_flat_one():
    images = 0.3 + 0.2 * random_images(2, 5, 6, 3)
    images[1, :, :, 2] = 0.7
    result = change_values(images, "autocontrast", 5.0)
    np.testing.assert_allclose(result[0].min(axis=(0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(result[0].max(axis=(0, 1)), 1, atol=1e-6)
    assert (result[1, :, :, 2] == np.float32(0.7)).all()


def test_sharpness_blurs_as_pillow_does_and_sharpens_the_other_way():
    from PIL import Image, ImageFilter

    pixels = np.random.RandomState(0).randint(0, 256, [9, 9]).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(pixels).filter(ImageFilter.SMOOTH))
    images = (pixels / 255.0).astype(np.float32)[None, :, :, None]
    blurred = change_values(images, "sharpness", 10 / 0.9, sign=-1.0)[0, :, :, 0] * 255
    assert np.abs(blurred - smooth)[1:-1, 1:-1].max() <= 0.51
    sharpened = change_values(images, "sharpness", 5.0)
    assert sharpened.std() > images.std()


def test_geometric_operations_rotate_shear_and_translate():
    rows, columns = np.mgrid[:9, :9].astype(np.float32)

    def positions(operation, magnitude, sign=1.0):
        layers = [one_layer(operation, sign=sign)]
        mapping = rand_augment.geometric_map(layers, magnitude, 9, 9)
        result = mapping.apply(tf.constant(rows[None]), tf.constant(columns[None]), 9, 9)
        return [values[0] for values in evaluate(*result)]

    down, right = positions("translate_rows", 10.0)
    np.testing.assert_allclose(down, rows + 0.45 * 9, atol=1e-5)
    np.testing.assert_allclose(right, columns, atol=1e-5)
    down, right = positions("shear_columns", 10.0, -1.0)
    np.testing.assert_allclose(right, columns - 0.3 * (rows - 4), atol=1e-5)
    down, right = positions("rotate", 10.0)
    angle = np.radians(30)
    np.testing.assert_allclose(
        down, 4 + np.cos(angle) * (rows - 4) - np.sin(angle) * (columns - 4), atol=1e-5
    )
    down, right = positions("solarize", 10.0)
    assert (down == rows).all() and (right == columns).all()


def test_maps_are_joined_in_the_order_of_the_layers():
    layers = [one_layer("rotate"), one_layer("translate_rows")]
    joint = rand_augment.geometric_map(layers, 10.0, 9, 9)
    point = tf.constant([[[6.0]]]), tf.constant([[[5.0]]])
    apart = point
    for layer in layers:
        apart = rand_augment.geometric_map([layer], 10.0, 9, 9).apply(*apart, 9, 9)
    np.testing.assert_allclose(evaluate(*joint.apply(*point, 9, 9)), evaluate(*apart), atol=1e-5)
