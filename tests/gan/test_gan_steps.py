"""The order of a step's updates: with players of one weight, by numbers and by the graph's edges.

Data is the point 0 (features 0.5), the generator the point theta, the discriminator psi * x. With the
Wasserstein loss the discriminator's gradient is theta and the generator's is -psi.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from gankit import Line, Point, make_run, options, own_game
from graph_fixtures import session
from toolkit_gan import latents, sampling, steps
from toolkit_gan.settings import PRESETS

from toolkit import UsageError, tf
from toolkit.graph.optimizer import state_updates

DESCENT = {
    "loss": "wasserstein",
    "optimizer": "sgd",
    "optimizer_args": {},
    "learning_rate": 0.1,
    "ema": 0.0,
    "spectral_norm": False,
}


def game(discriminator=(1.0,), features=None, generator=None, **values):
    """(train op, model, run) of the one-weight players."""
    run = make_run(shape=(1,), **dict(DESCENT, network="mlp", **values))
    model = steps.Gan(generator or Point(), Line(*discriminator), None)
    model = model._replace(average=model.generator)
    if features is None:
        features = tf.fill([run.options.batch_size * run.options.n_critic, 1], 0.5)
    outputs = steps.call(model, features, None, run)
    losses = steps.objective(outputs, run)
    run.begin_step()
    return steps.optimize(model, features, None, losses, run), model, run


def weights_after(op, model, times=1):
    with session() as made:
        for _ in range(times):
            made.run(op)
        variables = model.discriminator.variables + model.generator.variables
        return [float(value) for value in made.run(variables)]


def ancestors(op):
    """Every op that runs before this one, by data or by control."""
    seen, waiting = set(), [op]
    while waiting:
        for other in [t.op for t in waiting[-1].inputs] + list(waiting.pop().control_inputs):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


# ------------------------------------------------------------------------- O1, O2: the numbers


def test_alternating_lets_the_generator_see_the_new_discriminator_each_time():
    op, model, _ = game(update="alternating")
    with session() as made:
        initial = [v.initializer for v in tf.global_variables()]
        for _ in range(1000):
            made.run(initial)
            made.run(op)
            psi, theta = made.run([model.discriminator.variables[0], model.generator.theta])
            assert (round(float(psi), 5), round(float(theta), 5)) == (0.9, 1.09)


def test_simultaneous_lets_both_see_the_old_weights_each_time():
    op, model, _ = game(update="simultaneous")
    with session() as made:
        initial = [v.initializer for v in tf.global_variables()]
        for _ in range(1000):
            made.run(initial)
            made.run(op)
            psi, theta = made.run([model.discriminator.variables[0], model.generator.theta])
            assert (round(float(psi), 5), round(float(theta), 5)) == (0.9, 1.1)


@pytest.mark.parametrize("update, expected", [("simultaneous", 1.21), ("alternating", 1.1386)])
def test_a_discriminator_of_two_layers_is_read_whole_before_or_whole_after(update, expected):
    # theta + rate * p2 p1 sech^2(p1 theta), at (1, 1) or at the updated discriminator's weights.
    op, model, _ = game(discriminator=(1.0, 1.0), update=update, learning_rate=0.5)
    with session() as made:
        initial = [v.initializer for v in tf.global_variables()]
        for _ in range(1000):
            made.run(initial)
            made.run(op)
            assert made.run(model.generator.theta) == pytest.approx(expected, abs=1e-4)


def test_the_discriminator_is_updated_n_times_before_the_generator():
    op, model, _ = game(n_critic=3)
    # psi falls by 0.1 theta three times; then theta rises by 0.1 psi.
    assert weights_after(op, model) == pytest.approx([0.7, 1.07])


def test_weights_are_clipped_after_each_update_of_the_discriminator():
    op, model, _ = game(discriminator=(np.float32([[1.0]]),), weight_clip=0.5, n_critic=2)
    with session() as made:
        made.run(op)
        # 1 - 0.1, clipped to 0.5, less 0.1: clipped once at the end it would be 0.5
        assert made.run(model.discriminator.variables[0]) == pytest.approx(0.4)
        assert made.run(model.generator.theta) == pytest.approx(1.04)


# ------------------------------------------------------------------------- O3: data and noise


class Seen(Line):
    """Keeps what it is shown, and never judges."""

    def __call__(self, images, labels, weights):
        self.calls.append(images)
        return super().__call__(images, labels, weights)


class Echo(Point):
    """Makes its first latent number, so that one sees the noise."""

    def __call__(self, z, labels=None, statistics=None):
        return z[:, :1] + 0 * self.theta.read_value()


def test_five_updates_see_five_batches_and_five_noises_and_make_one_step():
    features = tf.constant(np.arange(20, dtype=np.float32)[:, None] / 40)
    run = make_run(shape=(1,), n_critic=5, **dict(DESCENT, network="mlp"))
    discriminator = Line(1.0)
    model = steps.Gan(Echo(), discriminator, None)
    outputs = steps.call(model, features, None, run)
    run.begin_step()
    op = steps.optimize(model, features, None, steps.objective(outputs, run), run)
    reals, fakes = discriminator.calls[0:10:2], discriminator.calls[1:10:2]
    with session() as made:
        values = made.run({"reals": reals, "fakes": fakes + discriminator.calls[10:], "op": op})
        assert made.run(run.global_step) == 1
    shown = np.sort((np.concatenate(values["reals"])[:, 0] + 1) * 20)
    np.testing.assert_allclose(shown, np.arange(20), atol=1e-4)  # each example once
    noises = np.concatenate(values["fakes"])
    assert len(np.unique(noises)) == len(noises) == 24


def test_the_noise_of_the_next_step_is_another():
    run = make_run()
    noise = latents.noise(run, "critic0/z", 3)
    with session() as made:
        first = made.run(noise)
        made.run(run.global_step.assign_add(1))
        assert not np.intersect1d(first, made.run(noise)).size


# --------------------------------------------------------------- O4: whose gradient, whose slot


def test_each_player_moves_its_own_variables_alone():
    run = make_run(network="mlp")
    model = steps.build(run)
    players = {
        name: {v.op.name for v in player.variables}
        for name, player in (("critic", model.discriminator), ("generator", model.generator))
    }
    assert not players["critic"] & players["generator"]
    assert players["critic"] | players["generator"] == {v.op.name for v in tf.trainable_variables()}


@pytest.mark.parametrize("update", ["alternating", "simultaneous"])
def test_no_gradient_of_one_player_reaches_the_other(update):
    # Were the discriminator's loss to move theta as well, theta would fall by 0.1 psi first.
    op, model, _ = game(update=update, critic_rate=1e-30)
    assert weights_after(op, model)[1] == pytest.approx(1.1)


# ------------------------------------------------------------------------ O8: edges in the graph


def applies(run, name):
    kinds = ("ResourceApplyGradientDescent",)
    found = [o for o in run.global_step.graph.get_operations() if o.type in kinds]
    return [o for o in found if f"optimizer/{name}/" in o.name]


def test_alternating_edges_put_every_read_of_the_generators_pass_behind_the_discriminators_update():
    _, _, run = game(update="alternating", n_critic=2)
    first, second = applies(run, "critic")
    (last,) = applies(run, "generator")
    assert first in ancestors(second) and second in ancestors(last)
    reads = [o for o in ancestors(last) if o.type == "ReadVariableOp" and o not in ancestors(first)]
    fresh = [o for o in reads if second in ancestors(o)]
    named = {o.inputs[0].op.name for o in fresh}
    assert {"psi0", "theta"} <= named


def test_simultaneous_control_edges_put_both_updates_behind_both_gradients():
    _, _, run = game(update="simultaneous")
    (discriminator,), (generator,) = applies(run, "critic"), applies(run, "generator")
    behind_both = ancestors(discriminator) & ancestors(generator)
    switches = [o for o in behind_both if o.type in ("LogicalAnd",)]
    assert switches  # one guard over both gradients
    assert discriminator not in ancestors(generator) and generator not in ancestors(discriminator)
    norms = {run.logged[n + "/gradient_norm"].op for n in ("critic", "generator")}
    assert norms <= behind_both


def test_the_step_counter_comes_last():
    op, _, run = game(n_critic=2)
    counts = [
        o
        for o in ancestors(op)
        if o.type == "AssignAddVariableOp" and o.inputs[0] is run.global_step.handle
    ]
    assert len(counts) == 1
    for name in ("critic", "generator"):
        assert set(applies(run, name)) <= ancestors(counts[0])


# ----------------------------------------------- O5, O6, O7: what else a step changes, and once


def real_game(**values):
    """(train op, model, run) of the plugin's own networks, built as the core builds them."""
    run = make_run(**dict({"optimizer": "sgd", "optimizer_args": {}, "ema": 0.0}, **values))
    return own_game(run)


def assigned(op):
    """How often the op assigns each variable, by its name; what a guard takes back aside."""
    counts = {}
    for other in ancestors(op):
        if other.type == "AssignVariableOp" and "optimizer/" in other.name:
            handle = other.inputs[0].op
            while handle.type == "Switch":
                handle = handle.inputs[0].op
            counts[handle.name] = counts.get(handle.name, 0) + 1
    return counts


@pytest.mark.parametrize("n_critic", [1, 3])
@pytest.mark.parametrize("penalty", ["none", "r1r2"])
def test_each_kernel_gets_one_power_iteration_per_update_of_the_discriminator(n_critic, penalty):
    op, model, run = real_game(spectral_norm=True, n_critic=n_critic, penalty=penalty)
    vectors = [v.op.name for v in tf.global_variables() if v.op.name.endswith("/u")]
    assert len(vectors) == len([v for v in model.discriminator.variables if "kernel" in v.op.name])
    assert assigned(op) == dict.fromkeys(vectors, n_critic)


def test_a_power_iteration_of_the_step_is_the_one_of_numpy():
    op, model, run = real_game(spectral_norm=True, network="mlp", learning_rate=1e-9)
    (kernel,) = [v for v in model.discriminator.variables if v.op.name == "critic/dense2/kernel"]
    (u,) = [v for v in tf.global_variables() if v.op.name == "critic/dense2/u"]
    with session() as made:
        w, before = made.run([kernel, u])
        made.run(op)
        after = made.run(u)
    v = w @ (before / np.linalg.norm(before))
    expected = w.T @ v
    np.testing.assert_allclose(after, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.parametrize("n_critic", [1, 2])
def test_batch_norm_changes_no_variable_in_any_pass(n_critic):
    op, _, _ = real_game(preset="dcgan", n_critic=n_critic)  # batch norm in both players
    assert assigned(op) == {}
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def test_sampling_and_penalties_add_no_update():
    plain, _, _ = real_game(spectral_norm=True)
    counted = assigned(plain)
    with tf.Graph().as_default():
        op, model, run = real_game(spectral_norm=True, penalty="wgan-gp")
        inputs = latents.draw(run.options, run.data, 4, seed=1)
        before = set(tf.get_default_graph().get_operations())
        sampling.sampled(model.average, inputs, run)
        added = [o for o in tf.get_default_graph().get_operations() if o not in before]
        assert assigned(op) == counted and not state_updates(added)


def test_a_players_variables_are_its_own_whatever_else_has_a_like_name():
    for name in ("generator_aux/w", "critic_1/w", "gen/w"):
        tf.get_variable(name, [2], trainable=True)
    model = steps.build(make_run(network="mlp"))
    for player, scope in ((model.generator, "generator/"), (model.discriminator, "critic/")):
        assert all(v.op.name.startswith(scope) for v in player.variables)


# ------------------------------------------------------------------------- whole or not at all


class Poison(Point):
    """Fine for the discriminator, not a number once the discriminator's weight has moved to 0.9."""

    def __init__(self, discriminator=None):
        super().__init__()
        self.passes = 0

    def __call__(self, z, labels=None, statistics=None):
        self.passes += 1
        made = super().__call__(z, labels)
        return made if self.passes == 1 else made * tf.constant(math.nan)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_generator_that_diverges_takes_the_discriminators_update_back(optimizer):
    op, model, _ = game(generator=Poison(), optimizer=optimizer)
    with session() as made:
        before = {v.op.name: made.run(v) for v in tf.global_variables()}
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[generator\] \[-?nan\]"):
            made.run(op)
        after = {v.op.name: made.run(v) for v in tf.global_variables()}
    assert before == after and "psi0" in before


def test_a_skipped_step_leaves_both_players_and_counts_once():
    op, model, run = game(generator=Poison(), nan="skip", optimizer="adam")
    with session() as made:
        before = {v.op.name: made.run(v) for v in tf.global_variables()}
        made.run(op)
        made.run(op)
        after = {v.op.name: made.run(v) for v in tf.global_variables()}
    changed = {name: int(after[name]) for name in after if after[name] != before[name]}
    assert changed == {"global_step": 2, "toolkit/skipped_steps": 2}


def test_a_discriminator_that_diverges_stops_the_generator_too():
    features = tf.fill([4, 1], math.nan)
    op, model, run = game(features=features, nan="skip")
    assert weights_after(op, model, times=3) == [1.0, 1.0]


# --------------------------------------------------------------------------------- the average


def test_the_average_follows_the_updated_weights_with_a_growing_decay():
    run = make_run(network="mlp", ema=0.999)
    generator, average = Point(1.0), Point.__new__(Point)
    average.theta = tf.get_variable("average", initializer=1.0, use_resource=True)
    average.variables = [average.theta]
    model = steps.Gan(generator, None, average)
    moved = generator.theta.assign(2.0)
    with tf.control_dependencies([moved]):
        op = steps.update_average(model, run)
    with session() as made:
        made.run(op)
        # decay (1 + 0) / (10 + 0): 0.1 of the old, 0.9 of the new
        assert made.run(average.theta) == pytest.approx(1.9)


def test_the_average_starts_as_the_generator_and_sees_its_update():
    run = make_run(network="mlp", ema=0.999, batch_size=4)
    model = steps.build(run)
    features = tf.fill([4, 8, 8, 1], 0.5)
    outputs = steps.call(model, features, None, run)
    run.begin_step()
    op = steps.optimize(model, features, None, steps.objective(outputs, run), run)
    pairs = list(zip(model.average.variables, model.generator.variables))
    with session() as made:
        start = made.run(pairs)
        made.run(op)
        end = made.run(pairs)
    for (average, weight), (average_after, weight_after) in zip(start, end):
        np.testing.assert_array_equal(average, weight)
        expected = 0.1 * average + 0.9 * weight_after
        np.testing.assert_allclose(average_after, expected, atol=1e-6)
    assert any((a != b).any() for (_, a), (_, b) in zip(start, end))


# --------------------------------------------------------------------------------- the options


def test_the_presets_are_the_choices_of_the_option():
    from toolkit_gan.settings import GanOptions
    from typing_extensions import get_args

    assert set(get_args(GanOptions.model_fields["preset"].annotation)) == set(PRESETS)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_preset_sets_its_values_and_a_flag_overrules_it(preset):
    chosen = options(preset=preset)
    for name, value in PRESETS[preset].items():
        assert getattr(chosen, name) == value, name
    assert options(preset=preset, loss="minimax").loss == "minimax"


def test_accumulating_over_several_discriminator_updates_is_refused():
    with pytest.raises(UsageError, match="accumulate is 2 and n_critic is 5"):
        steps.check_method(options(accumulate=2, n_critic=5))


def test_simultaneous_updates_have_one_of_the_discriminator():
    with pytest.raises(UsageError, match="set n_critic to 1"):
        options(update="simultaneous", n_critic=2)
