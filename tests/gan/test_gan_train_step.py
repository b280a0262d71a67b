"""The order of the updates in a step, by the values of networks of one weight and by graph edges.

See `gan_fixtures` for the one-weight game.
"""

import math

import numpy as np
import pytest
from gan_fixtures import (
    DESCENT,
    LinearDiscriminator,
    Point,
    assignments_of,
    build_image_game,
    build_point_game,
    build_step,
    evaluate,
    make_run,
    session,
    update_ops,
    variable_name,
    weights_after,
)
from toolkit_gan import model as models
from toolkit_gan import sampling

from toolkit import tf
from toolkit.graph.ops import upstream


@pytest.mark.parametrize(
    # theta + 0.5 * p2 p1 sech^2(p1 theta), at (1, 1) or at the updated weights; mixed: 1.1027.
    "update, expected",
    [("simultaneous", 1.21), ("alternating", 1.1386)],
)
def test_the_generator_sees_the_new_discriminator_only_when_alternating(update, expected):
    game = build_point_game(discriminator=(1.0, 1.0), learning_rate=0.5, update=update)
    with session() as tf_session:
        initial = [v.initializer for v in tf.global_variables()]
        for _ in range(200):  # a missing control edge fails at random
            tf_session.run(initial)
            tf_session.run(game.op)
            theta = tf_session.run(game.model.generator.theta)
            assert theta == pytest.approx(expected, abs=1e-4)


MOMENTUM = {"discriminator_optimizer": "momentum"}
MOMENTUM["discriminator_optimizer_args"] = {"momentum": 0.5}


@pytest.mark.parametrize(
    "values, steps, expected",
    [
        # The discriminator has n updates before the generator: psi falls by 0.1 theta three times.
        ({"discriminator_steps": 3}, 1, [0.7, 1.07]),
        # 1 - 0.1, clipped to 0.5, less 0.1: clipped once at the end, it would be 0.5.
        ({"discriminator_steps": 2, "weight_clip": 0.5}, 1, [0.4, 1.04]),
        # Each network has its own rate: psi = 1 - 0.2 * 1; theta = 1 + 0.5 * 0.8.
        ({"discriminator_rate": 0.2, "generator_rate": 0.5}, 1, [0.8, 1.4]),
        # Each has its own optimizer. psi: 1 - 0.1, then 0.9 - 0.1 (0.5 + 1.09); theta by plain
        # descent: 1.09, then 1.09 + 0.0741.
        (MOMENTUM, 2, [0.741, 1.1641]),
        # If the discriminator's loss moved theta as well, theta would first fall by 0.1 psi.
        ({"update": "simultaneous", "discriminator_rate": 1e-30}, 1, [1.0, 1.1]),
        # If the generator's loss -psi theta moved psi as well, psi would rise by 0.1 theta.
        ({"update": "simultaneous", "generator_rate": 1e-30}, 1, [0.9, 1.0]),
    ],
    ids=str,
)
def test_a_step_moves_each_network_by_its_own_loss_and_options(values, steps, expected):
    assert weights_after(build_point_game(**values), steps) == pytest.approx(expected)


RATES = {"discriminator_rate": 0.2, "generator_rate": 0.4}


@pytest.mark.parametrize(
    "values, rates, later",
    [
        ({"generator_schedule": "step"}, [0.1, 0.1], [0.1, 0.05]),
        (dict(RATES, schedule="exponential"), [0.2, 0.4], [0.1, 0.2]),
    ],
    ids=["its own schedule", "one schedule"],
)
def test_a_schedule_lowers_the_rates_of_its_networks(values, rates, later):
    run = build_point_game(decay_steps=1, decay_rate=0.5, **values).run
    logged = [run.logged[name + "/learning_rate"] for name in ("discriminator", "generator")]
    with session() as tf_session:
        assert tf_session.run(logged) == pytest.approx(rates)
        tf_session.run(run.global_step.assign(1))
        assert tf_session.run(logged) == pytest.approx(later)


class Echo(Point):
    """A generator that returns its first latent number, which shows the noise."""

    def __call__(self, z, labels=None, statistics=None):
        return z[:, :1] + 0 * self.theta.read_value()


def test_five_updates_use_five_batches_and_five_noises_and_make_one_step():
    features = tf.constant(np.arange(20, dtype=np.float32)[:, None] / 40)
    run = make_run(shape=(1,), discriminator_steps=5, **dict(DESCENT, network="mlp"))
    discriminator = LinearDiscriminator(1.0)
    op = build_step(models.Gan(Echo(), discriminator, None), features, run).op
    calls = {"reals": discriminator.calls[0:10:2], "op": op}
    calls["fakes"] = discriminator.calls[1:10:2] + discriminator.calls[10:]
    with session() as tf_session:
        values = [tf_session.run(calls) for _ in range(2)]
        assert tf_session.run(run.global_step) == 2
    for each in values:
        examples = np.sort((np.concatenate(each["reals"])[:, 0] + 1) * 20)
        np.testing.assert_allclose(examples, np.arange(20), atol=1e-4)  # each example once
    noises = np.concatenate(values[0]["fakes"] + values[1]["fakes"])
    assert len(np.unique(noises)) == len(noises) == 2 * 24


def test_labels_that_are_not_one_class_are_not_used():
    nothing, labels = models.Gan(None, None, None), {"price": tf.zeros([4]), "kind": tf.zeros([4])}
    assert models.update_batch(nothing, tf.zeros([4, 1]), labels, 0, make_run((1,)))[1] is None


def test_when_alternating_every_read_of_the_generators_pass_waits_for_the_discriminator():
    build_point_game(update="alternating", discriminator_steps=2)
    first, second = update_ops("discriminator")
    (last,) = update_ops("generator")
    assert first in upstream([second]) and second in upstream([last])
    later = upstream([last]) - upstream([first])
    reads = [o for o in later if o.type == "ReadVariableOp"]
    late_reads = [o for o in reads if second in upstream([o])]
    assert {"psi0", "theta"} <= {o.inputs[0].op.name for o in late_reads}


@pytest.mark.parametrize("update", ["alternating", "simultaneous"])
def test_the_average_moves_after_the_generators_update(update):
    build_image_game(update=update, ema=0.9)
    operations = tf.get_default_graph().get_operations()
    assignments = [o for o in operations if o.type == "AssignSubVariableOp"]
    moves = [o for o in assignments if variable_name(o).startswith("average/")]
    assert len(moves) == len([v for v in tf.global_variables() if v.op.name[:8] == "average/"])
    update_of = {variable_name(o): o for o in update_ops("generator")}
    for move in moves:
        weight = "generator/" + variable_name(move)[len("average/") :]
        assert update_of[weight] in upstream([move])


@pytest.mark.parametrize("penalty", ["lp", "dragan"])
def test_the_line_of_a_penalty_goes_from_a_real_image_to_a_sample_of_its_class(penalty):
    run = make_run(classes=3, conditional="acgan", penalty=penalty, batch_size=30)
    labels = tf.constant(np.arange(30) % 3, tf.int32)
    features = tf.fill([30, 8, 8, 1], 0.5)
    outputs = models.discriminator_pass(models.build(run), features, labels, 0, run)
    fake_labels = evaluate(outputs["fake_labels"]).tolist()
    assert (fake_labels == evaluate(labels).tolist()) == (penalty in ("wgan-gp", "lp"))


@pytest.mark.parametrize(
    "values, iterations, passes",
    [
        ({"spectral_norm": True, "penalty": "r1r2", "discriminator_steps": 3}, 3, 4),
        ({"spectral_norm": True, "update": "simultaneous"}, 1, 1),
        ({"preset": "dcgan", "discriminator_steps": 2}, 0, 3),  # batch norm in both networks
        ({"network": "mlp", "conditional": "acgan", "classes": 3, "spectral_norm": True}, 1, 2),
        ({"conditional": "projection", "classes": 3, "attention": 4, "spectral_norm": True}, 1, 2),
        ({"network": "resnet", "conditional": "concat", "classes": 3, "spectral_norm": True}, 1, 2),
    ],
    ids=str,
)
def test_each_kernel_has_one_power_iteration_per_update_and_no_pass_changes_anything_else(
    values, iterations, passes
):
    game = build_image_game(**values)
    kernels = [v.op.name for v in game.model.discriminator.variables if "kernel" in v.op.name]
    vectors = [name[: -len("kernel")] + "u" for name in kernels if iterations]
    assert assignments_of(game.op) == dict.fromkeys(vectors, iterations)
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == iterations * len(vectors)
    operations = tf.get_default_graph().get_operations()
    assert len([o for o in operations if o.type == "Tanh"]) == passes  # the generator's output


def weights_after_one_step(**values):
    """Every variable after one step from the same seed, by name."""
    with tf.Graph().as_default():
        settings = {"discriminator_norm": "layer", "spectral_norm": True}
        game = build_image_game(update="simultaneous", **settings, **values)
        with session() as tf_session:
            tf_session.run(game.op)
            return {v.op.name: tf_session.run(v) for v in tf.global_variables()}


def test_weight_decay_changes_kernels_alone_and_the_average_through_them():
    plain = weights_after_one_step(ema=0.9)
    decayed = weights_after_one_step(ema=0.9, weight_decay=0.5)
    changed = {name for name in plain if np.abs(plain[name] - decayed[name]).max() > 1e-6}
    assert changed == {name for name in plain if name.endswith("/kernel")}
    assert {n.rsplit("/", 1)[1] for n in plain if "/" in n} >= {"bias", "gamma", "beta", "u"}
    for name in [n for n in plain if n.startswith("average/")]:
        weight = "generator" + name[len("average") :]
        expected = 0.9 * (decayed[weight] - plain[weight])  # 1 - decay (1 + 0) / (10 + 0)
        np.testing.assert_allclose(decayed[name] - plain[name], expected, atol=1e-6)


class Poison(Point):
    """A generator whose output is finite in the first pass and NaN in all others."""

    num_passes = 0

    def __call__(self, z, labels=None, statistics=None):
        self.num_passes += 1
        images = super().__call__(z, labels)
        return images if self.num_passes == 1 else images * tf.constant(math.nan)


def read_all(tf_session):
    return {v.op.name: tf_session.run(v) for v in tf.global_variables()}


def test_a_generator_that_diverges_reverts_the_discriminators_update():
    game = build_point_game(generator=Poison(), optimizer="adam")
    with session() as tf_session:
        before = read_all(tf_session)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[generator\] \[-?nan\]"):
            tf_session.run(game.op)
        assert before == read_all(tf_session) and "psi0" in before


def test_a_discriminator_that_diverges_also_stops_the_generator():
    game = build_point_game(features=tf.fill([4, 1], math.nan), on_nonfinite="skip")
    assert weights_after(game, times=3) == [1.0, 1.0]


@pytest.mark.parametrize(
    "past, expected",
    [
        (0.0, 0.0),  # the average is the first weights
        (64.0, 0.5**20),  # 5 % of the images are a twentieth of the batch
        (64e3, 0.5 ** (64 / 3200)),
        (64e6, 0.5 ** (64 / 10e3)),  # the whole half-life
    ],
)
def test_a_half_life_grows_with_the_images_so_far(past, expected):
    decay = evaluate(sampling.decay_of_half_life(64, tf.constant(past), 10000))
    assert decay == pytest.approx(expected, rel=1e-4)


def test_the_images_of_accumulated_batches_count_as_one_update():
    run = make_run(ema_images=1, accumulate=3)
    with session() as tf_session:
        tf_session.run(run.global_step.assign(500))  # 2,000 images; at most 1 is the half-life
        assert tf_session.run(sampling.decay(run)) == pytest.approx(0.5**12)
