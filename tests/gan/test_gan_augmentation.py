"""DiffAugment: each change against numpy, its gradient, and where the passes make it."""

import numpy as np
import pytest
from gan_fixtures import LinearImageDiscriminator, evaluate, make_run, options
from toolkit_gan import differentiable_augmentation as augmentation
from toolkit_gan import model as models
from toolkit_gan.architecture import AUGMENTATIONS, augmentations

from toolkit import DataSpec, tf

SHAPE = (16, 24, 3)  # shifts of up to 2 rows and 3 columns, holes of 8 x 12


def images(count, shape=SHAPE, seed=0):
    return np.random.RandomState(seed).uniform(-1, 1, (count, *shape)).astype(np.float32)


def middles(count):
    """The middle of each of `count` equal parts of [0, 1)."""
    return (np.arange(count, dtype=np.float32) + 0.5) / count


def pairs(rows, columns):
    """float32 [N, 2]: each of the rows with each of the columns."""
    return np.stack([grid.ravel() for grid in np.meshgrid(rows, columns)], axis=1)


def test_a_translation_takes_each_shift_equally_often_and_fills_with_zeros():
    u = pairs(middles(5), middles(7))
    x = images(len(u))
    results = evaluate(augmentation.translate(tf.constant(x), tf.constant(u)))
    for image, result, (row, column) in zip(x, results, u):
        down, right = int(row * 5) - 2, int(column * 7) - 3
        padded = np.pad(image, [(2, 2), (3, 3), (0, 0)], "constant")
        expected = padded[2 - down : 18 - down, 3 - right : 27 - right]
        assert np.array_equal(result, expected)


def test_a_hole_covers_half_of_each_side_with_its_centre_anywhere():
    u = pairs(middles(17), middles(25))  # even holes: one more centre than pixels
    results = evaluate(augmentation.cut_out(tf.ones([len(u), *SHAPE]), tf.constant(u)))
    for result, (row, column) in zip(results, u):
        top, left = int(row * 17) - 4, int(column * 25) - 6
        expected = np.ones(SHAPE)
        expected[max(top, 0) : top + 8, max(left, 0) : left + 12] = 0
        assert np.array_equal(result, expected)
    odd = evaluate(augmentation.cut_out(tf.ones([9, 9, 9, 1]), pairs(middles(9), [0.5])))
    assert (odd[4] == 0).sum() == 25 and (odd[0] == 0).sum() == 15  # 5 x 5 pixels; at the border


def test_colour_changes_brightness_then_saturation_then_contrast():
    x = images(2)
    u = np.float32([[0.9, 0.3, 0.2], [0.5, 0.5, 0.5]])  # the second changes nothing
    result = evaluate(augmentation.change_colour(tf.constant(x), tf.constant(u)))
    expected = x[0] + 0.4
    grey = expected.mean(axis=2, keepdims=True)
    expected = grey + (expected - grey) * 0.6
    expected = expected.mean() + (expected - expected.mean()) * 0.7
    np.testing.assert_allclose(result, [expected, x[1]], atol=1e-6)


def test_half_of_the_images_are_mirrored():
    x = images(4)
    result = evaluate(augmentation.flip(tf.constant(x), tf.constant([[0.0], [0.49], [0.5], [0.9]])))
    assert np.array_equal(result, np.concatenate([x[:2, :, ::-1], x[2:]]))


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("shape", [SHAPE, (8, 9, 1), (11, 8, 4)])
def test_gradients_reach_an_image_through_each_change(name, shape):
    """A change is x -> A x + b: its gradient is the transpose of A, at any x."""
    change, count = augmentation.CHANGES[name]
    x, y = (tf.constant(images(3, shape, seed)) for seed in (1, 2))
    u = tf.constant(np.random.RandomState(3).uniform(size=[3, count]), tf.float32)
    product = tf.reduce_sum((change(x, u) - change(tf.zeros_like(x), u)) * y)
    (gradient,) = tf.gradients(tf.reduce_sum(change(x, u) * y), x)
    (second,) = tf.gradients(tf.reduce_sum(tf.square(gradient)), y)  # a penalty may need it
    product, transpose, second = evaluate(product, tf.reduce_sum(gradient * x), second)
    assert transpose == pytest.approx(product, abs=1e-3)
    assert np.isfinite(second).all()


@pytest.mark.parametrize(
    "value, shape, names",
    [
        ("none", SHAPE, ()),
        ("", SHAPE, ()),
        ("auto", SHAPE, ("colour", "translation", "cutout")),
        ("auto", (28, 28, 1), ("translation", "cutout")),
        ("auto", (28, 28, 4), ("translation", "cutout")),
        ("auto", (5,), ()),
        ("auto,flip", (28, 28, 1), ("flip", "translation", "cutout")),
        ("cutout, flip,cutout", (28, 28, 1), ("flip", "cutout")),
        (["colour"], (28, 28, 1), ("colour",)),
    ],
)
def test_the_option_names_the_changes_or_leaves_them_to_the_data(value, shape, names):
    data = DataSpec(shape, "uint8")
    assert augmentations(options(diff_augment=value), data) == names


@pytest.mark.parametrize("loss", ["hinge", "relativistic"])
def test_both_networks_are_trained_on_changed_images(loss):
    run = make_run(diff_augment="cutout", loss=loss, penalty="r1r2", batch_size=2)
    weight = tf.Variable(0.5, use_resource=True)
    sums = LinearImageDiscriminator(np.ones([8, 8, 1], np.float32))  # its logits
    model = models.Gan(lambda z, labels: weight * tf.ones([tf.shape(z)[0], 8, 8, 1]), sums, None)
    reals = tf.ones([2, 8, 8, 1])
    models.discriminator_pass(model, reals, None, 0, run)
    outputs = models.generator_pass(model, reals, None, run)
    gradient = tf.gradients(outputs["fake_logits"], weight)[0]
    *views, fakes, gradient = evaluate(*sums.calls, outputs["fake_images"], gradient)
    real, fake, points, *own_real, own_fake = views
    assert all(not np.array_equal(own, real) for own in own_real)
    assert len(own_real) == (loss == "relativistic")
    for view in views:
        shares = (view == 0).mean(axis=(1, 2, 3))
        assert ((shares >= 4 / 64) & (shares <= 16 / 64)).all()  # a hole, or a part of one
    assert np.array_equal(points, np.concatenate([real, fake]))  # the penalty sees the same
    assert not np.array_equal(own_fake, fake)  # each pass draws its own
    assert not np.array_equal(real != 0, fake != 0)
    assert (fakes == 0.5).all()
    assert gradient == (own_fake != 0).sum()  # none comes through a hole


def test_an_evaluation_changes_an_image_by_its_position_not_by_its_batch():
    run = make_run(mode="eval", diff_augment="auto", shape=SHAPE)
    whole = augmentation.augment(tf.placeholder_with_default(images(6), [None, *SHAPE]), run, "e")
    x = tf.placeholder(tf.float32, [None, *SHAPE])
    part = augmentation.augment(x, run, "e")
    with tf.Session() as session:
        expected = session.run(whole)
        results = session.run(part, {x: images(6)[4:], run.position: 4})
    assert np.array_equal(results, expected[4:])
    assert not np.array_equal(expected, images(6))
