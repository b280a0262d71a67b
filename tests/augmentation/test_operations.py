"""Colours, cutout, RandAugment, mixing, and all together: values against numpy, refusals."""

import colorsys

import numpy as np
import pytest
from augmentation_fixtures import RAMP, change, make_run, random_images
from graph_fixtures import evaluate, session

from toolkit import UsageError, augmentation, tf
from toolkit.augmentation import colour, mixing, rand_augment
from toolkit.compat import HAS_XLA, compile_with_xla
from toolkit.graph.step_strategy import XLA
from toolkit.options import AugmentationOptions

LUMA = np.array([0.299, 0.587, 0.114])
STRENGTHS = {"shift": 2, "crop": 0.2, "flip": 1, "flip_vertical": 1, "rotate": 20, "zoom": 0.3}
STRENGTHS.update(elastic=1, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.2, grey=1)
STRENGTHS.update(cutout=0.4, rand_augment=2)
EVERYTHING = {"augment": "photos", "flip_vertical": 0.5, "shift": 1, "rotate": 10, "zoom": 0.1}
EVERYTHING.update(elastic=0.5, cutout=0.3, rand_augment=2)
OF_ALL_IMAGES = {"flip", "flip_vertical", "grey"}  # at these strengths


@pytest.mark.parametrize(
    "name, channels", [*((name, 3) for name in STRENGTHS), ("contrast", 1), ("rand_augment", 1)]
)
def test_each_operation_keeps_shape_and_range_and_is_a_function_of_seed_and_step(name, channels):
    images = np.tile(random_images(1, 9, 13, channels), [7, 1, 1, 1])
    run = make_run(**{name: STRENGTHS[name]})
    changed = augmentation.augment(tf.constant(images), run)
    assert changed.shape.as_list() == list(images.shape)
    with session() as tf_session:
        first, again = tf_session.run(changed), tf_session.run(changed)
        tf_session.run(run.global_step.assign_add(1))
        later = tf_session.run(changed)
    assert first.min() >= 0 and first.max() <= 1 and np.isfinite(first).all()
    assert (first == again).all() and (first != images).any()
    if name not in OF_ALL_IMAGES:
        assert len({image.tobytes() for image in first}) > 3  # each image by numbers of its own
        assert (first != later).any()
        assert (first != change(images, seed=2, **{name: STRENGTHS[name]})).any()


@pytest.mark.parametrize(
    "images, mode, options",
    [
        (RAMP, "train", {}),
        (RAMP, "eval", {"flip": 1, "crop": 0.3, "rotate": 20, "cutout": 0.5}),
        (np.ones([3, 7]), "train", {"shift": 2, "rotate": 10, "zoom": 0.1, "elastic": 1}),
        (np.ones([3, 7]), "train", {"augment": "digits"}),
    ],
    ids=["no strength", "evaluation", "vectors", "vectors by default"],
)
def test_what_changes_nothing_returns_the_same_tensor(images, mode, options):
    tensor = tf.constant(images, tf.float32)
    assert augmentation.augment(tensor, make_run(mode, **options)) is tensor


@pytest.mark.parametrize(
    "options", [*({"augment": name} for name in AugmentationOptions.presets), EVERYTHING]
)
@pytest.mark.parametrize("shape", [(5, 1, 1, 1), (3, 2, 13, 3)])
def test_presets_and_all_together_take_images_of_any_size(shape, options):
    changed = change(random_images(*shape), **options)
    assert changed.shape == shape and changed.min() >= 0 and changed.max() <= 1


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
    ratios = np.ptp(changed, (1, 2, 3), keepdims=True) / np.ptp(images, (1, 2, 3), keepdims=True)
    np.testing.assert_allclose(changed, mean + (images - mean) * ratios, atol=1e-4)


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


def test_a_third_of_the_hue_circle_turns_red_into_green_or_blue():
    red = np.full([1, 1, 1, 3], 0.5, np.float32) + np.float32([0.1, -0.05, -0.05])
    for sign, channel in ((1, 2), (-1, 1)):
        angle = tf.fill([1], sign * 2 * np.pi / 3)
        maps = colour.chroma_map(tf.cos(angle), tf.sin(angle))
        turned = evaluate(colour.map_channels(tf.constant(red), maps))[0, 0, 0]
        assert turned.argmax() == channel
        hue = colorsys.rgb_to_hsv(*(turned - turned.min() + 0.1))[0]
        assert abs(hue - (channel / 3)) < 0.1


@pytest.mark.parametrize("name", ["saturation", "grey"])
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
        np.testing.assert_allclose(result[is_covered] - image.mean(axis=(0, 1)), 0, atol=1e-5)
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


ROWS, COLUMNS = np.mgrid[:9, :9].astype(np.float32)
DOWN, RIGHT = ROWS - 4, COLUMNS - 4  # from the centre


@pytest.mark.parametrize(
    "operation, sign, rows, columns",
    [
        ("translate_rows", 1.0, ROWS + 0.45 * 9, COLUMNS),
        ("shear_columns", -1.0, ROWS, COLUMNS - 0.3 * DOWN),
        # By 30 degrees.
        ("rotate", 1.0, 4 + 0.75**0.5 * DOWN - RIGHT / 2, 4 + DOWN / 2 + 0.75**0.5 * RIGHT),
        ("solarize", 1.0, ROWS, COLUMNS),
    ],
)
def test_geometric_operations_rotate_shear_and_translate(operation, sign, rows, columns):
    mapping = rand_augment.geometric_map([one_layer(operation, sign=sign)], 10.0, 9, 9)
    result = evaluate(*mapping.apply(tf.constant(ROWS[None]), tf.constant(COLUMNS[None]), 9, 9))
    np.testing.assert_allclose([result[0][0], result[1][0]], [rows, columns], atol=1e-5)


def test_maps_are_joined_in_the_order_of_the_layers():
    layers = [one_layer("rotate"), one_layer("translate_rows")]
    joint = rand_augment.geometric_map(layers, 10.0, 9, 9)
    point = tf.constant([[[6.0]]]), tf.constant([[[5.0]]])
    apart = point
    for layer in layers:
        apart = rand_augment.geometric_map([layer], 10.0, 9, 9).apply(*apart, 9, 9)
    np.testing.assert_allclose(evaluate(*joint.apply(*point, 9, 9)), evaluate(*apart), atol=1e-5)


@pytest.mark.skipif(not HAS_XLA, reason="this TensorFlow cannot compile a step")
@pytest.mark.parametrize(
    "options", [{"augment": "photos"}, {**EVERYTHING, "grey": 0.2}], ids=["photos", "all"]
)
def test_compiled_by_xla_the_same_random_numbers_change_images_alike(options):
    run, batch = make_run(strategy=XLA, **options), tf.constant(random_images(6, 10, 14, 3))

    def change_and_mix(images):
        changed = augmentation.augment(images, run)
        return augmentation.mix_examples(changed, tf.eye(6), run, mixup=0.2, cutmix=1.0)

    plain = change_and_mix(batch)  # first: the global step is of the graph, not of a function
    tensors = [plain, compile_with_xla(change_and_mix, [batch])]
    with session() as tf_session:
        (images, targets), (others, other_targets) = tf_session.run(tensors)
    # Rounding may move a pixel across a limit of solarize or posterize.
    assert (np.abs(images - others) > 1e-3).mean() < 0.01
    np.testing.assert_allclose(targets, other_targets, atol=1e-5)


# ------------------------------------------------------------------------------------ mixup, CutMix


@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.0])
def test_beta_draws_have_the_mean_and_variance_of_their_distribution(alpha):
    even = (np.arange(20000, dtype=np.float32) + 0.5) / 20000
    draws = evaluate(mixing.beta(tf.constant(even), alpha))
    assert draws.mean() == pytest.approx(0.5, abs=1e-3)
    assert draws.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=1e-2)


def test_a_mix_is_its_share_of_itself_and_the_rest_of_the_row_before():
    mixture = mixing.mix(tf.constant([[10.0], [20.0], [30.0]]), tf.constant([1.0, 0.5, 0.75]))
    assert evaluate(mixture).tolist() == [[10.0], [15.0], [27.5]]  # 0.75 * 30 + 0.25 * 20


def test_mixup_mixes_images_and_targets_alike_and_keeps_at_least_half():
    targets = np.eye(4, dtype=np.float32)
    features = tf.constant(targets.reshape(4, 2, 2, 1))
    pair = augmentation.mix_examples(features, tf.constant(targets), make_run(), mixup=1.0)
    images, mixture = evaluate(*pair)
    np.testing.assert_allclose(images.reshape(4, 4), mixture, rtol=1e-6)
    np.testing.assert_allclose(mixture.sum(axis=1), 1, rtol=1e-6)
    assert (np.diag(mixture) >= 0.5).all() and (np.diag(mixture) < 1).any()


def test_cutmix_fills_a_box_of_each_image_and_its_targets_have_the_share_of_the_area():
    values = np.arange(1, 41, dtype=np.float32)  # one value for each image
    images = tf.constant(values[:, None, None, None] * np.ones([40, 9, 14, 3], np.float32))
    targets = tf.constant(np.eye(40, dtype=np.float32))
    mixed, mixture = evaluate(*augmentation.mix_examples(images, targets, make_run(), cutmix=1.0))
    shares = []
    for i in range(40):
        own, partner = values[i], values[i - 1]
        assert set(np.unique(mixed[i])) <= {own, partner}
        assert (mixed[i] == mixed[i][:, :, :1]).all()  # all channels alike
        is_cut = mixed[i, :, :, 0] == partner
        rows, columns = np.flatnonzero(is_cut.any(1)), np.flatnonzero(is_cut.any(0))
        assert is_cut.sum() == len(rows) * len(columns)  # a box
        shares.append(is_cut.mean())
        assert mixture[i, i] == pytest.approx(1 - is_cut.mean(), abs=1e-6)
        assert mixture[i, i - 1] == pytest.approx(is_cut.mean(), abs=1e-6)
    np.testing.assert_allclose(mixture.sum(axis=1), 1, rtol=1e-6)
    assert len(set(np.round(shares, 4))) > 15 and max(shares) > 0.3


def test_with_mixup_beside_cutmix_each_example_gets_one_of_them():
    values = np.arange(1, 201, dtype=np.float32)
    images = tf.constant(values[:, None, None, None] * np.ones([200, 8, 8, 1], np.float32))
    targets = tf.constant(np.eye(200, dtype=np.float32))
    mixed, mixture = evaluate(*augmentation.mix_examples(images, targets, make_run(), 1.0, 1.0))
    is_blend = np.array([len(np.unique(image)) == 1 for image in mixed])
    assert 60 < is_blend.sum() < 170
    np.testing.assert_allclose(mixed.mean(axis=(1, 2, 3)), mixture @ values, rtol=1e-4)
    assert np.isin(mixed[~is_blend], values).all()


def test_vectors_are_refused_by_cutmix_and_returned_without_it():
    vectors = tf.zeros([3, 7]), tf.zeros([3, 2])
    with pytest.raises(UsageError, match=r"CutMix needs images \[H, W, C\].* shape \[7\]"):
        augmentation.mix_examples(*vectors, make_run(), cutmix=1.0)
    assert augmentation.mix_examples(*vectors, make_run()) == vectors
