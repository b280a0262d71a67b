"""The order of the updates in a step, by the values of networks of one weight and by graph edges.

See `gan_fixtures` for the one-weight game.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from gan_fixtures import (
    DESCENT,
    LinearDiscriminator,
    Point,
    ancestors,
    build_image_game,
    build_point_game,
    build_step,
    evaluate,
    make_run,
    update_ops,
    variable_name,
    weights_after,
)
from graph_fixtures import session
from toolkit_gan import forward_pass, latents, networks, sampling, train_step

from toolkit import tf
from toolkit.graph.state_updates import state_updates

ORDERS = ["alternating", "simultaneous"]


# ----------------------------------------------------------------------- the order, by the numbers


@pytest.mark.parametrize("update, expected", [("alternating", 1.09), ("simultaneous", 1.1)])
def test_the_generator_sees_the_new_discriminator_only_when_alternating(update, expected):
    # psi falls to 1 - 0.1 theta = 0.9; theta rises by 0.1 psi, of the new psi or of the old one.
    game = build_point_game(update=update)
    with session() as tf_session:
        initial = [v.initializer for v in tf.global_variables()]
        for _ in range(1000):  # a missing control edge fails at random
            tf_session.run(initial)
            tf_session.run(game.op)
            model = game.model
            weights = tf_session.run([model.discriminator.variables[0], model.generator.theta])
            assert [round(float(weight), 5) for weight in weights] == [0.9, expected]


@pytest.mark.parametrize("update, expected", [("simultaneous", 1.21), ("alternating", 1.1386)])
def test_all_weights_of_the_discriminator_are_read_before_or_all_after_its_update(update, expected):
    # theta + rate * p2 p1 sech^2(p1 theta), at (1, 1) or at the updated weights; mixed: 1.1027.
    game = build_point_game(discriminator=(1.0, 1.0), update=update, learning_rate=0.5)
    with session() as tf_session:
        initial = [v.initializer for v in tf.global_variables()]
        for _ in range(1000):
            tf_session.run(initial)
            tf_session.run(game.op)
            theta = tf_session.run(game.model.generator.theta)
            assert theta == pytest.approx(expected, abs=1e-4)


def test_the_discriminator_is_updated_n_times_before_the_generator():
    # psi falls by 0.1 theta three times; then theta rises by 0.1 psi.
    assert weights_after(build_point_game(n_critic=3)) == pytest.approx([0.7, 1.07])


def test_weights_are_clipped_after_each_update_of_the_discriminator():
    kernel = np.float32([[1.0]])
    game = build_point_game(discriminator=(kernel,), weight_clip=0.5, n_critic=2)
    # 1 - 0.1, clipped to 0.5, less 0.1: clipped once at the end, it would be 0.5.
    assert weights_after(game) == pytest.approx([0.4, 1.04])


def test_each_network_has_its_own_learning_rate():
    # psi = 1 - 0.2 * 1; theta = 1 + 0.5 * 0.8
    game = build_point_game(discriminator_rate=0.2, generator_rate=0.5)
    assert weights_after(game) == pytest.approx([0.8, 1.4])


def test_each_network_has_its_own_optimizer_and_arguments():
    # psi: 1 - 0.1, then 0.9 - 0.1 (0.5 + 1.09); theta by plain descent: 1.09, then 1.09 + 0.0741.
    arguments = {"momentum": 0.5}
    game = build_point_game(
        discriminator_optimizer="momentum", discriminator_optimizer_args=arguments
    )
    slots = {v.op.name for v in tf.global_variables() if v.op.name.endswith("Momentum")}
    assert slots == {game.model.discriminator.variables[0].op.name + "/Momentum"}
    assert weights_after(game, 2) == pytest.approx([0.741, 1.1641])


def test_each_network_has_its_own_schedule():
    halving = {"decay_steps": 1, "decay_rate": 0.5, "generator_schedule": "step"}
    run = build_point_game(**halving).run
    values = [run.logged[name + "/learning_rate"] for name in ("critic", "generator")]
    with session() as tf_session:
        tf_session.run(run.global_step.assign(1))
        assert tf_session.run(values) == pytest.approx([0.1, 0.05])


def test_a_schedule_lowers_both_learning_rates_alike():
    rates = {"discriminator_rate": 0.2, "generator_rate": 0.4}
    halving = {"schedule": "exponential", "decay_steps": 1, "decay_rate": 0.5}
    run = build_point_game(**rates, **halving).run
    values = [run.logged[name + "/learning_rate"] for name in ("critic", "generator")]
    with session() as tf_session:
        assert tf_session.run(values) == pytest.approx([0.2, 0.4])
        tf_session.run(run.global_step.assign(1))
        assert tf_session.run(values) == pytest.approx([0.1, 0.2])


# ------------------------------------------------------------------------------- data and noise


class Echo(Point):
    """A generator that returns its first latent number, which shows the noise."""

    def __call__(self, z, labels=None, statistics=None):
        return z[:, :1] + 0 * self.theta.read_value()


def test_five_updates_use_five_batches_and_five_noises_and_make_one_step():
    features = tf.constant(np.arange(20, dtype=np.float32)[:, None] / 40)
    run = make_run(shape=(1,), n_critic=5, **dict(DESCENT, network="mlp"))
    discriminator = LinearDiscriminator(1.0)
    op = build_step(networks.Gan(Echo(), discriminator, None), features, run).op
    reals, fakes = discriminator.calls[0:10:2], discriminator.calls[1:10:2]
    with session() as tf_session:
        fetches = {"reals": reals, "fakes": fakes + discriminator.calls[10:], "op": op}
        values = tf_session.run(fetches)
        assert tf_session.run(run.global_step) == 1
    examples = np.sort((np.concatenate(values["reals"])[:, 0] + 1) * 20)
    np.testing.assert_allclose(examples, np.arange(20), atol=1e-4)  # each example once
    noises = np.concatenate(values["fakes"])
    assert len(np.unique(noises)) == len(noises) == 24


def test_each_step_has_its_own_noise():
    run = make_run()
    noise = latents.noise(run, "critic0/z", 3)
    with session() as tf_session:
        first = tf_session.run(noise)
        tf_session.run(run.global_step.assign_add(1))
        assert not np.intersect1d(first, tf_session.run(noise)).size


# ------------------------------------------------------------------------- whose gradient, whose


def test_each_network_updates_its_own_variables_alone():
    model = networks.build(make_run(network="mlp"))
    own = [{v.op.name for v in n.variables} for n in (model.discriminator, model.generator)]
    assert not own[0] & own[1]
    assert own[0] | own[1] == {v.op.name for v in tf.trainable_variables()}


@pytest.mark.parametrize("update", ORDERS)
def test_no_gradient_of_the_discriminators_loss_reaches_the_generator(update):
    # If the discriminator's loss moved theta as well, theta would first fall by 0.1 psi.
    game = build_point_game(update=update, discriminator_rate=1e-30)
    assert weights_after(game)[1] == pytest.approx(1.1)


@pytest.mark.parametrize("update", ORDERS)
def test_no_gradient_of_the_generators_loss_reaches_the_discriminator(update):
    # If the generator's loss -psi theta moved psi as well, psi would rise by 0.1 theta.
    game = build_point_game(update=update, generator_rate=1e-30)
    assert weights_after(game)[0] == pytest.approx(0.9)


def test_the_fakes_of_the_discriminators_update_stop_the_gradient():
    model = build_point_game(update="alternating").model
    fakes = model.discriminator.calls[1]  # after the reals of the first update
    assert tf.gradients(fakes, model.generator.theta) == [None]


# ------------------------------------------------------------------------ the order, by the edges


def test_when_alternating_every_read_of_the_generators_pass_waits_for_the_discriminator():
    build_point_game(update="alternating", n_critic=2)
    first, second = update_ops("critic")
    (last,) = update_ops("generator")
    assert first in ancestors(second) and second in ancestors(last)
    reads = [o for o in ancestors(last) if o.type == "ReadVariableOp" and o not in ancestors(first)]
    late_reads = [o for o in reads if second in ancestors(o)]
    assert {"psi0", "theta"} <= {o.inputs[0].op.name for o in late_reads}


def test_when_simultaneous_both_updates_wait_for_both_gradients():
    run = build_point_game(update="simultaneous").run
    (discriminator,), (generator,) = update_ops("critic"), update_ops("generator")
    before_both = ancestors(discriminator) & ancestors(generator)
    assert [o for o in before_both if o.type == "LogicalAnd"]  # one guard over both gradients
    assert discriminator not in ancestors(generator) and generator not in ancestors(discriminator)
    norms = {run.logged[name + "/gradient_norm"].op for name in ("critic", "generator")}
    assert norms <= before_both


def test_the_step_counter_comes_last():
    game = build_point_game(n_critic=2)
    (count,) = [
        o
        for o in ancestors(game.op)
        if o.type == "AssignAddVariableOp" and o.inputs[0] is game.run.global_step.handle
    ]
    assert set(update_ops("critic") + update_ops("generator")) <= ancestors(count)


@pytest.mark.parametrize("update", ORDERS)
def test_the_average_moves_after_the_generators_update(update):
    build_image_game(update=update, ema=0.9)
    operations = tf.get_default_graph().get_operations()
    assignments = [o for o in operations if o.type == "AssignSubVariableOp"]
    moves = [o for o in assignments if variable_name(o).startswith("average/")]
    assert len(moves) == len([v for v in tf.global_variables() if v.op.name[:8] == "average/"])
    update_of = {variable_name(o): o for o in update_ops("generator")}
    for move in moves:
        weight = "generator/" + variable_name(move)[len("average/") :]
        assert update_of[weight] in ancestors(move)


@pytest.mark.parametrize("penalty", ["wgan-gp", "lp", "dragan", "r1", "none"])
def test_the_line_of_a_penalty_goes_from_a_real_image_to_a_sample_of_its_class(penalty):
    run = make_run(classes=3, conditional="acgan", penalty=penalty, batch_size=30)
    labels = tf.constant(np.arange(30) % 3, tf.int32)
    reals = tf.zeros([30, 8, 8, 1])
    outputs, _ = forward_pass.discriminator_pass(networks.build(run), run, reals, labels, 0)
    fake_labels = evaluate(outputs["fake_labels"]).tolist()
    assert (fake_labels == evaluate(labels).tolist()) == (penalty in ("wgan-gp", "lp"))


@pytest.mark.parametrize("n_critic", [1, 2])
def test_weights_are_clipped_after_the_update_and_before_the_next_pass(n_critic):
    build_image_game(weight_clip=0.01, n_critic=n_critic)
    kernel = "critic/conv1/kernel"
    clips = [
        o
        for o in tf.get_default_graph().get_operations()
        if o.type == "AssignVariableOp"
        and variable_name(o) == kernel
        and o.inputs[1].op.type in ("Maximum", "ClipByValue")
    ]
    updates = [o for o in update_ops("critic") if variable_name(o) == kernel]
    assert len(clips) == len(updates) == n_critic
    assert all(update in ancestors(clip) for clip, update in zip(clips, updates))
    kernels = [o for o in update_ops("generator") if variable_name(o).endswith("/kernel")]
    assert kernels and all(set(clips) <= ancestors(o) for o in kernels)


# ------------------------------------------------------- what else a step changes, and how often


def assignments_of(op):
    """How often the op assigns each variable, by name, without what a guard restores."""
    counts = {}
    for other in ancestors(op):
        if other.type == "AssignVariableOp" and "optimizer/" in other.name:
            name = variable_name(other)
            counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.parametrize("n_critic", [1, 3])
@pytest.mark.parametrize("penalty", ["none", "r1r2"])
def test_each_kernel_has_one_power_iteration_per_update_of_the_discriminator(n_critic, penalty):
    game = build_image_game(spectral_norm=True, n_critic=n_critic, penalty=penalty)
    vectors = [v.op.name for v in tf.global_variables() if v.op.name.endswith("/u")]
    kernels = [v for v in game.model.discriminator.variables if "kernel" in v.op.name]
    assert len(vectors) == len(kernels)
    assert assignments_of(game.op) == dict.fromkeys(vectors, n_critic)


def test_a_simultaneous_step_makes_one_power_iteration_and_one_pass_of_each_network():
    game = build_image_game(update="simultaneous", spectral_norm=True)
    vectors = [v.op.name for v in tf.global_variables() if v.op.name.endswith("/u")]
    assert vectors and assignments_of(game.op) == dict.fromkeys(vectors, 1)
    operations = tf.get_default_graph().get_operations()
    assert len([o for o in operations if o.type == "Tanh"]) == 1  # the generator's output


def test_the_power_iteration_of_a_step_is_that_of_numpy():
    game = build_image_game(spectral_norm=True, network="mlp", learning_rate=1e-9)
    kernel, u = (
        next(v for v in tf.global_variables() if v.op.name == "critic/dense2/" + name)
        for name in ("kernel", "u")
    )
    with session() as tf_session:
        w, before = tf_session.run([kernel, u])
        tf_session.run(game.op)
        after = tf_session.run(u)
    expected = w.T @ (w @ (before / np.linalg.norm(before)))
    np.testing.assert_allclose(after, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.parametrize("n_critic", [1, 2])
def test_batch_norm_changes_no_variable_in_any_pass(n_critic):
    game = build_image_game(preset="dcgan", n_critic=n_critic)  # batch norm in both networks
    assert game.model.discriminator.mixes_examples
    assert assignments_of(game.op) == {}
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def test_sampling_and_penalties_add_no_update():
    expected = assignments_of(build_image_game(spectral_norm=True).op)
    with tf.Graph().as_default():
        game = build_image_game(spectral_norm=True, penalty="wgan-gp")
        inputs = latents.random_inputs(game.run.options, game.run.data, 4, seed=1)
        before = set(tf.get_default_graph().get_operations())
        sampling.sample_fixed_inputs(game.model.average, inputs, game.run)
        new_ops = [o for o in tf.get_default_graph().get_operations() if o not in before]
        assert assignments_of(game.op) == expected and not state_updates(new_ops)


def test_variables_of_a_similar_name_belong_to_no_network():
    for name in ("generator_aux/w", "critic_1/w", "gen/w"):
        tf.get_variable(name, [2], trainable=True)
    model = networks.build(make_run(network="mlp"))
    for network, scope in ((model.generator, "generator/"), (model.discriminator, "critic/")):
        assert all(v.op.name.startswith(scope) for v in network.variables)


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


# ------------------------------------------------------------------------ complete or not at all


class Poison(Point):
    """A generator whose output is finite in the first pass and NaN in all others."""

    def __init__(self):
        super().__init__()
        self.num_passes = 0

    def __call__(self, z, labels=None, statistics=None):
        self.num_passes += 1
        images = super().__call__(z, labels)
        return images if self.num_passes == 1 else images * tf.constant(math.nan)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_generator_that_diverges_reverts_the_discriminators_update(optimizer):
    game = build_point_game(generator=Poison(), optimizer=optimizer)
    with session() as tf_session:
        before = {v.op.name: tf_session.run(v) for v in tf.global_variables()}
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[generator\] \[-?nan\]"):
            tf_session.run(game.op)
        after = {v.op.name: tf_session.run(v) for v in tf.global_variables()}
    assert before == after and "psi0" in before


def test_a_skipped_step_changes_neither_network_and_counts_once():
    game = build_point_game(generator=Poison(), on_nonfinite="skip", optimizer="adam")
    with session() as tf_session:
        before = {v.op.name: tf_session.run(v) for v in tf.global_variables()}
        tf_session.run(game.op)
        tf_session.run(game.op)
        after = {v.op.name: tf_session.run(v) for v in tf.global_variables()}
    changed = {name: int(after[name]) for name in after if after[name] != before[name]}
    assert changed == {"global_step": 2, "toolkit/skipped_steps": 2}


def test_a_discriminator_that_diverges_also_stops_the_generator():
    game = build_point_game(features=tf.fill([4, 1], math.nan), on_nonfinite="skip")
    assert weights_after(game, times=3) == [1.0, 1.0]


# --------------------------------------------------------------------------------- the average


def test_the_average_follows_the_updated_weights_with_a_growing_decay():
    run = make_run(network="mlp", ema=0.999)
    generator, average = Point(1.0), Point.__new__(Point)
    average.theta = tf.get_variable("average", initializer=1.0, use_resource=True)
    average.variables = [average.theta]
    model = networks.Gan(generator, None, average)
    with tf.control_dependencies([generator.theta.assign(2.0)]):
        op = train_step.update_average(model, run)
    with session() as tf_session:
        tf_session.run(op)
        # decay (1 + 0) / (10 + 0): 0.1 of the old value, 0.9 of the new one
        assert tf_session.run(average.theta) == pytest.approx(1.9)


def test_the_average_starts_equal_to_the_generator_and_follows_its_update():
    game = build_image_game(network="mlp", ema=0.999)
    pairs = list(zip(game.model.average.variables, game.model.generator.variables))
    with session() as tf_session:
        start = tf_session.run(pairs)
        tf_session.run(game.op)
        end = tf_session.run(pairs)
    for (average, weight), (average_after, weight_after) in zip(start, end):
        np.testing.assert_array_equal(average, weight)
        expected = 0.1 * average + 0.9 * weight_after
        np.testing.assert_allclose(average_after, expected, atol=1e-6)
    assert any((a != b).any() for (_, a), (_, b) in zip(start, end))


# -------------------------------------------------------------------------------- spectral norm


def test_the_pass_of_the_generator_uses_the_stored_singular_vectors():
    run = make_run(network="mlp", spectral_norm=True)
    model = networks.build(run)
    outputs = forward_pass.generator_pass(model, run, None, None)
    stored, improved = [
        model.discriminator(outputs["fake_images"], None, model.discriminator.weights(iterate))
        for iterate in (False, True)
    ]
    logits, expected, other = evaluate(outputs["fake_logits"], stored.logits, improved.logits)
    np.testing.assert_array_equal(logits, expected)
    assert not np.allclose(logits, other)
