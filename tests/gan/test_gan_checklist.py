"""Lines of the GAN reference that no other test shows: settings, order, numerics, the two sides.

Players of one weight, data of a point: see `gankit`. The discriminator is psi * x, the generator theta.
"""

from __future__ import annotations

import json
import math
import types

import numpy as np
import pytest
from gankit import Judged, Line, Point, Weights, make_run, options, own_game
from graph_fixtures import session
from toolkit_gan import latents, layers, losses, penalties, sampling, steps, watching
from toolkit_gan.networks import Discriminator, Generator
from toolkit_gan.scores import neighbours, scoring, sides
from toolkit_gan.settings import GanOptions

import toolkit
from toolkit import DataError, DataSpec, Split, UsageError, tf

DESCENT = {
    "loss": "wasserstein",
    "optimizer": "sgd",
    "optimizer_args": {},
    "learning_rate": 0.1,
    "ema": 0.0,
    "spectral_norm": False,
    "schedule": "constant",
    "network": "mlp",
}


def game(discriminator=(1.0,), average=None, **values):
    """(train op, model, run) of one-weight players; features 0.5 are the real point 0."""
    run = make_run(shape=(1,), **dict(DESCENT, **values))
    model = steps.Gan(Point(), Line(*discriminator), average)
    features = tf.fill([run.options.batch_size * run.options.n_critic, 1], 0.5)
    outputs = steps.call(model, features, None, run)
    run.begin_step()
    op = steps.optimize(model, features, None, steps.objective(outputs, run), run)
    return op, model, run


def real_game(**values):
    """(train op, model, run) of the plugin's own networks, built as the core builds them."""
    run = make_run(**dict(DESCENT, network="dcgan", **values))
    return own_game(run)


def weights_after(op, model):
    with session() as made:
        made.run(op)
        return [
            float(v) for v in made.run(model.discriminator.variables + model.generator.variables)
        ]


def ancestors(op):
    """Every op that runs before this one, by data or by control."""
    seen, waiting = set(), [op]
    while waiting:
        found = waiting.pop()
        for other in [t.op for t in found.inputs] + list(found.control_inputs):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def handle_of(op):
    """The variable that an op writes: through the switches of a guard."""
    handle = op.inputs[0].op
    while handle.type == "Switch":
        handle = handle.inputs[0].op
    return handle.name


def applies(player):
    found = tf.get_default_graph().get_operations()
    name = f"optimizer/{player}/"
    return [o for o in found if o.type == "ResourceApplyGradientDescent" and name in o.name]


def evaluate(value):
    with session() as made:
        return made.run(value)


# --------------------------------------------------------------------------- 1: losses and labels


def outputs_of(real, fake, **more):
    given = {"real_logits": tf.constant(real), "fake_logits": tf.constant(fake)}
    return dict(given, **more)


def test_the_losses_have_their_names_and_the_penalty_is_part_of_the_discriminators():
    run = make_run(loss="wasserstein", penalty="r1", penalty_weight=2.0)
    # E sum g^2 is (3^2 + 4^2 + 0) / 2 = 12.5, times 2 / 2
    gradients = tf.constant([[[[3.0]], [[4.0]]], [[[0.0]], [[0.0]]]])
    found = evaluate(
        dict(steps.objective(outputs_of([4.0, 2.0], [1.0, -2.0], gradients=gradients), run))
    )
    assert found == {
        "d_loss": pytest.approx(-3.5 + 12.5),
        "g_loss": 0.5,
        "penalty": 12.5,
        "d_real": 3.0,
        "d_fake": -0.5,
        "d_accuracy_real": 1.0,
        "d_accuracy_fake": 1.0,
    }


def test_acgan_adds_lambda_times_the_cross_entropy_of_reals_and_of_fakes():
    run = make_run(classes=2, conditional="acgan", class_weight=3.0, loss="wasserstein")
    even, odds = tf.zeros([1, 2]), tf.constant([[math.log(3), 0.0]])  # 1/2, and 3 to 1
    given = {
        "real_class_logits": even,
        "fake_class_logits": odds,
        "real_labels": tf.constant([1]),
        "fake_labels": tf.constant([0]),
    }
    found = evaluate(dict(steps.objective(outputs_of([0.0], [0.0], **given), run)))
    real, fake = math.log(2), math.log(4 / 3)
    assert found["d_loss"] == pytest.approx(3 * (real + fake), rel=1e-5)
    assert found["g_loss"] == pytest.approx(3 * fake, rel=1e-5)


COUNTS = DataSpec((8, 8, 1), "uint8", 3, ("a", "b", "c"), (1, 0, 3))


def test_the_generators_labels_in_the_graph_follow_the_histogram_of_the_data():
    run = make_run(classes=3, conditional="projection")
    run = toolkit.Run("train", run.options, COUNTS, None, 100)
    drawn = evaluate(latents.classes(run, "label", 4000))
    shares = np.bincount(drawn, minlength=3) / 4000
    assert shares[1] == 0 and shares[0] == pytest.approx(0.25, abs=0.03)


def test_the_labels_of_samples_follow_the_same_histogram():
    chosen = options(conditional="projection", latent_size=2)
    drawn = latents.draw(chosen, COUNTS, 4000, seed=1)["label"]
    shares = np.bincount(drawn, minlength=3) / 4000
    assert shares[1] == 0 and shares[0] == pytest.approx(0.25, abs=0.03)


def test_latent_numbers_are_normal_or_uniform_and_image_i_is_the_same_for_any_count():
    for latent, deviation in (("normal", 1.0), ("uniform", 1 / math.sqrt(3))):
        chosen = options(latent=latent, latent_size=10)
        many = latents.draw(chosen, COUNTS, 1000, seed=3)["z"]
        assert many.std() == pytest.approx(deviation, rel=0.03)
        np.testing.assert_array_equal(many[:5], latents.draw(chosen, COUNTS, 5, seed=3)["z"])


@pytest.mark.parametrize("conditional, wanted", [("none", {"z"}), ("concat", {"z", "label"})])
def test_a_generator_is_fed_a_label_only_where_it_has_a_condition(conditional, wanted):
    run = make_run(classes=3, conditional=conditional)
    assert set(sampling.inputs_of(run)) == wanted
    for drawn in (
        latents.draw(run.options, run.data, 9, seed=1),
        latents.interpolate(run.options, run.data, 9, seed=1),
    ):
        assert set(drawn) == wanted and all(len(values) == 9 for values in drawn.values())


# --------------------------------------------------------------- 2: penalties, presets, settings


class Slope(Line):
    """A linear discriminator w . x of images: its input gradient is w everywhere."""

    def __init__(self, w):
        super().__init__()
        self.variables = [tf.get_variable("w", initializer=tf.constant(w), use_resource=True)]

    def weights(self, iterate):
        return Weights([v.read_value() for v in self.variables])

    def __call__(self, images, labels, weights):
        self.calls.append(images)
        return Judged(tf.reduce_sum(weights.values[0] * images, axis=[1, 2, 3]))


class Blank:
    """A generator of grey images."""

    variables = ()

    def __call__(self, z, labels=None, statistics=None):
        return tf.zeros([tf.shape(z)[0], 2, 2, 3])


W = np.zeros([2, 2, 3], np.float32)
W[0, 0, 0], W[1, 1, 2] = 3.0, 4.0  # norm 5


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "penalty, value, slope",
    [
        ("wgan-gp", 160, 16),  # 10 (5 - 1)^2 and 20 (5 - 1) w / 5
        ("lp", 160, 16),
        ("dragan", 160, 16),
        ("r1", 1.25, 0.1),  # 0.1 / 2 * 25 and 0.1 w
        ("r1r2", 2.5, 0.2),  # R1 + R2, with as many fakes as reals
    ],
)
def test_a_step_charges_a_linear_discriminator_the_closed_form(penalty, value, slope, count):
    run = make_run(shape=(2, 2, 3), penalty=penalty, batch_size=count, loss="wasserstein")
    discriminator = Slope(W)
    outputs, _ = steps.discriminator_pass(
        steps.Gan(Blank(), discriminator, None), run, tf.ones([count, 2, 2, 3]), None, 0
    )
    charged = steps.objective(outputs, run)["penalty"]
    found, gradient = evaluate([charged, tf.gradients(charged, discriminator.variables)[0]])
    assert found == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(gradient, slope * W, rtol=1e-4)


@pytest.mark.parametrize("penalty, shape", [("wgan-gp", [4, 1, 1, 1]), ("dragan", [4, 2, 2, 3])])
def test_the_points_of_a_penalty_are_drawn_per_sample_or_per_number(penalty, shape):
    run = make_run(shape=(2, 2, 3), penalty=penalty)
    drawn = []

    def uniform(name, size):
        drawn.append(tf.random.stateless_uniform(size, [1, 2]))
        return drawn[-1]

    spied = types.SimpleNamespace(options=run.options, uniform=uniform)
    reals = tf.ones([4, 2, 2, 3])
    steps.penalty_points(spied, "critic0", reals, None, 0 * reals, None)
    (u,) = evaluate(drawn)
    assert list(u.shape) == shape and u.min() >= 0 and u.max() < 1 and len(np.unique(u)) > 3


def test_the_penalties_default_weights_are_those_of_the_reference():
    weights = penalties.DEFAULT_WEIGHT
    assert weights["wgan-gp"] == weights["lp"] == weights["dragan"] == 10
    assert 0.01 <= weights["r1"] == weights["r1r2"] <= 1


REFERENCE = {  # loss, penalty, optimizer, rate, arguments, n_critic, clip
    "dcgan": ("non-saturating", "none", "adam", 2e-4, (0.5, 0.999), 1, 0),
    "wgan": ("wasserstein", "none", "rmsprop", 5e-5, (), 5, 0.01),
    "wgan-gp": ("wasserstein", "wgan-gp", "adam", 1e-4, (0.5, 0.9), 5, 0),
    "sn-hinge": ("hinge", "none", "adam", 2e-4, (0.0, 0.9), 1, 0),
    "lsgan": ("least-squares", "none", "adam", 2e-4, (0.5, 0.999), 1, 0),
    "dragan": ("non-saturating", "dragan", "adam", 1e-4, (0.5, 0.999), 1, 0),
    "r1r2": ("relativistic", "r1r2", "adam", 2e-4, (0.0, 0.99), 1, 0),
}


@pytest.mark.parametrize("preset", sorted(REFERENCE))
def test_a_preset_is_the_recipe_of_the_reference(preset):
    o = options(preset=preset)
    moments = tuple(o.optimizer_args[n] for n in ("beta1", "beta2") if n in o.optimizer_args)
    found = (o.loss, o.penalty, o.optimizer, o.learning_rate, moments, o.n_critic, o.weight_clip)
    assert found == REFERENCE[preset]
    assert (o.batch_size, o.latent_size, o.latent) == (64, 64, "normal")
    assert o.spectral_norm == (preset == "sn-hinge")
    assert o.penalty == "none" or o.critic_norm != "batch"


def test_a_leaky_relu_lets_a_fifth_through():
    assert evaluate(layers.leaky(tf.constant([-1.0, 1.0]))).tolist() == pytest.approx([-0.2, 1.0])


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_clipping_spares_every_bias_and_normalisation_of_the_discriminator(norm):
    discriminator = Discriminator(make_run(shape=(16, 16, 1), critic_norm=norm))
    clip = penalties.clip_weights(discriminator.variables, 1e-9)
    with session() as made:
        before = made.run(discriminator.variables)
        made.run(clip)
        after = made.run(discriminator.variables)
    changed = {
        v.op.name for v, a, b in zip(discriminator.variables, before, after) if (a != b).any()
    }
    assert changed == {v.op.name for v in discriminator.variables if v.op.name.endswith("/kernel")}


def test_the_embedding_of_a_projection_is_spectrally_normalised_with_the_discriminator():
    discriminator = Discriminator(make_run(classes=3, conditional="projection", spectral_norm=True))
    (kernel,) = [v for v in discriminator.variables if v.op.name == "critic/embedding/kernel"]
    iterated = discriminator.weights(iterate=True)
    with session() as made:
        for _ in range(100):
            made.run(iterated.updates)
        rows = made.run(discriminator.weights(iterate=False).values["embedding/kernel"])
        assert np.linalg.svd(rows)[1][0] == pytest.approx(1, abs=1e-3)
        assert np.linalg.svd(made.run(kernel))[1][0] != pytest.approx(1, abs=1e-3)


def test_two_rates_move_the_players_at_their_own_pace():
    op, model, _ = game(critic_rate=0.2, generator_rate=0.5)
    # psi = 1 - 0.2 * 1; theta = 1 + 0.5 * 0.8
    assert weights_after(op, model) == pytest.approx([0.8, 1.4])


def test_a_schedule_lowers_both_rates_alike():
    op, model, run = game(
        critic_rate=0.2, generator_rate=0.4, schedule="exponential", decay_steps=1, decay_rate=0.5
    )
    rates = [run.logged[name + "/learning_rate"] for name in ("critic", "generator")]
    with session() as made:
        assert made.run(rates) == pytest.approx([0.2, 0.4])
        made.run(run.global_step.assign(1))
        assert made.run(rates) == pytest.approx([0.1, 0.2])


def test_scores_take_10000_samples_of_five_seeds_and_2000_on_the_way():
    values = {name: field.default for name, field in GanOptions.model_fields.items()}
    assert (values["score_samples"], values["score_seeds"], values["quick_samples"]) == (
        10000,
        5,
        2000,
    )
    assert values["ema"] > 0 and neighbours.K == 5


# ------------------------------------------------------------------------------ 3: order of a step


@pytest.mark.parametrize("network", ["mlp", "dcgan", "resnet"])
def test_every_variable_is_a_resource_so_that_a_read_in_a_dependency_is_a_new_read(network):
    run = make_run(classes=3, network=network, conditional="projection", spectral_norm=True)
    Generator(run)
    Generator(run, "average", "generator", trainable=False)
    Discriminator(run)
    made = {v.op.type for v in tf.global_variables()}
    assert made == {"VarHandleOp"}


@pytest.mark.parametrize("update", ["alternating", "simultaneous"])
def test_no_gradient_of_the_generators_loss_reaches_the_discriminator(update):
    # Were the generator's loss -psi theta to move psi as well, psi would rise by 0.1 theta.
    op, model, _ = game(update=update, generator_rate=1e-30)
    assert weights_after(op, model)[0] == pytest.approx(0.9)


def test_fakes_of_the_discriminators_update_stop_the_gradient():
    _, model, _ = game(update="alternating")
    fakes = model.discriminator.calls[1]  # after the reals of the first update
    assert tf.gradients(fakes, model.generator.theta) == [None]


@pytest.mark.parametrize("update", ["alternating", "simultaneous"])
def test_the_average_moves_behind_the_generators_update(update):
    real_game(update=update, ema=0.9)
    graph = tf.get_default_graph()
    moves = [
        o
        for o in graph.get_operations()
        if o.type == "AssignSubVariableOp" and handle_of(o).startswith("average/")
    ]
    generator = set(applies("generator"))
    assert len(moves) == len([v for v in tf.global_variables() if v.op.name[:8] == "average/"])
    for move in moves:
        own = handle_of(move)[len("average/") :]
        update_of_own = [a for a in generator if handle_of(a) == "generator/" + own]
        assert update_of_own and set(update_of_own) <= ancestors(move)


@pytest.mark.parametrize("n_critic", [1, 2])
def test_weights_are_clipped_behind_the_update_and_before_the_next_pass(n_critic):
    real_game(weight_clip=0.01, n_critic=n_critic)
    operations = tf.get_default_graph().get_operations()
    clips = [
        o
        for o in operations
        if o.type == "AssignVariableOp"
        and handle_of(o) == "critic/conv1/kernel"
        and any(a.type in ("Maximum", "ClipByValue") for a in [o.inputs[1].op])
    ]
    assert len(clips) == n_critic
    updates = [o for o in applies("critic") if handle_of(o) == "critic/conv1/kernel"]
    for clip, update in zip(clips, updates):
        assert update in ancestors(clip)
    last = [o for o in applies("generator") if handle_of(o).endswith("/kernel")]
    assert all(set(clips) <= ancestors(o) for o in last)


def test_a_simultaneous_step_makes_one_power_iteration_and_one_pass_of_each_player():
    op, model, _ = real_game(update="simultaneous", spectral_norm=True)
    operations = tf.get_default_graph().get_operations()
    assigned = [handle_of(o) for o in operations if o.type == "AssignVariableOp"]
    vectors = [v.op.name for v in tf.global_variables() if v.op.name.endswith("/u")]
    stepped = ancestors(op)
    counts = {
        name: len(
            [
                o
                for o in stepped
                if o.type == "AssignVariableOp" and handle_of(o) == name and "optimizer/" in o.name
            ]
        )
        for name in vectors
    }
    assert vectors and set(vectors) <= set(assigned) and set(counts.values()) == {1}
    images = [o for o in operations if o.type == "Tanh"]
    assert len(images) == 1


# ----------------------------------------------------------------------------------- 4: numerics


def test_all_ways_to_bytes_are_the_one_of_the_reference(tmp_path):
    from PIL import Image

    x = np.linspace(-1, 1, 1001, dtype=np.float32)
    x = x[np.abs((x + 1) * 127.5 % 1 - 0.5) > 1e-3]  # a tie may go either way
    expected = np.clip(np.rint((x + 1) * 127.5), 0, 255)
    unit = (x + 1) / 2  # as networks' images reach samples and scores
    np.testing.assert_array_equal(sides.to_bytes(unit), expected)
    path = str(tmp_path / "grid.png")
    toolkit.save_grid(path, unit.reshape([1, 1, -1, 1]), 1)
    row = np.asarray(Image.open(path))
    assert expected.astype(np.uint8).tobytes() in row.tobytes()
    assert sides.to_bytes(np.float32([1.0, 1.0000001, -1e-7])).tolist() == [255, 255, 0]


def held_images(model, run, z):
    """As `toolkit sample` and an export make them: statistics once, in local variables."""
    return sampling.held(model, tf.constant(z), None, run)


@pytest.mark.parametrize("network", ["mlp", "dcgan", "resnet"])
def test_one_z_alone_gives_the_image_that_it_gives_in_a_batch(network):
    run = make_run(network=network, standing=16)
    model = Generator(run)
    z = latents.draw(run.options, run.data, 6, seed=2)["z"]
    alone, together = held_images(model, run, z[:1]), held_images(model, run, z)
    with tf.Session() as made:
        made.run(tf.global_variables_initializer())
        made.run(tf.local_variables_initializer())
        one, six = made.run([alone, together])
    np.testing.assert_allclose(one[0], six[0], atol=1e-6)
    assert np.abs(six[0] - six[1]).max() > 1e-4


def test_the_statistics_of_samples_are_those_of_the_averaged_weights():
    run = make_run(network="mlp", standing=16)
    average = Generator(run, "average", "generator", trainable=False)
    inputs = latents.draw(run.options, run.data, 3, seed=2)
    shown = sampling.sampled(average, inputs, run)
    z = tf.constant(latents.draw(run.options, run.data, 16, run.seed("standing"))["z"])
    fresh = sampling.images(
        average, tf.constant(inputs["z"]), None, average.statistics(z, None), run
    )
    with session() as made:
        before = made.run(shown)
        for variable in average.variables:
            made.run(variable.assign(variable * 1.5 + 0.1))
        after, expected = made.run([shown, fresh])
    assert np.abs(before - after).max() > 1e-3  # nothing is kept of the weights before
    np.testing.assert_allclose(after, expected, atol=1e-6)


def state_after(**values):
    """Every variable after one step at the same seed, by name."""
    with tf.Graph().as_default():
        op, _, _ = real_game(
            update="simultaneous", critic_norm="layer", spectral_norm=True, **values
        )
        with session() as made:
            made.run(op)
            return {v.op.name: made.run(v) for v in tf.global_variables()}


def test_weight_decay_touches_kernels_alone_and_the_average_through_them():
    plain, decayed = state_after(ema=0.9), state_after(ema=0.9, weight_decay=0.5)
    changed = {name for name in plain if np.abs(plain[name] - decayed[name]).max() > 1e-6}
    assert changed == {name for name in plain if name.endswith("/kernel")}
    assert {n.rsplit("/", 1)[1] for n in plain if "/" in n} >= {"bias", "gamma", "beta", "u"}
    for name in [n for n in plain if n.startswith("average/")]:
        own = "generator" + name[len("average") :]
        moved = 0.9 * (decayed[own] - plain[own])  # 1 - decay (1 + 0) / (10 + 0)
        np.testing.assert_allclose(decayed[name] - plain[name], moved, atol=1e-6)


# ------------------------------------------------------------------------------- 5: both sides


class Spy:
    """Features that keep what they are shown; the mean of an image is its one feature."""

    name, sha256, size, knows_classes = "spy", "0" * 64, 1, False

    def __init__(self):
        self.shown = []

    def both(self, images):
        self.shown.append(images)
        return images.reshape(len(images), -1).mean(1, keepdims=True).astype(np.float32), None

    def close(self):
        pass


def test_both_sides_are_bytes_before_they_are_looked_at():
    images = np.random.RandomState(0).uniform(size=(40, 8, 8, 1)).astype(np.float32)
    spy = Spy()
    run = make_run(quick_samples=100, score_samples=100)
    scorer = scoring.GanScorer(run, {}.get, features=spy)
    split = Split(images, None)
    scorer.score(split, lambda inputs: {"image": np.resize(images, (100, 8, 8, 1))})
    reals, fakes = spy.shown
    assert reals.dtype == fakes.dtype == np.uint8
    np.testing.assert_array_equal(reals, fakes[:40])  # the same floats become the same bytes


def test_samples_of_a_score_come_from_its_seed():
    seen = []
    run = make_run(quick_samples=100, score_samples=100)
    split = Split(np.random.RandomState(0).randint(0, 255, (40, 8, 8, 1)).astype(np.uint8), None)
    scorer = scoring.GanScorer(run, {}.get, features=Spy())

    def predict(inputs):
        seen.append(inputs["z"])
        return {"image": np.zeros([100, 8, 8, 1], np.float32)}

    scorer.score(split, predict)
    expected = latents.draw(run.options, run.data, 100, scoring.QUICK_SEED)["z"]
    np.testing.assert_array_equal(seen[0], expected)


# ------------------------------------------------------- what a training refuses, and watches


class Images(Split):
    """A split of `count` images in order of their classes, as a folder is read."""

    def __init__(self, count, classes=4):
        labels = np.sort(np.arange(count) % classes)
        images = np.ones([count, 8, 8, 1]) * (60 * labels)[:, None, None, None]
        super().__init__(images.astype(np.uint8), labels)


@pytest.mark.parametrize("best", ["min:frechet_distance", "coverage"])
def test_too_few_images_to_choose_the_best_by_are_refused_before_the_training(best):
    with pytest.raises(DataError, match="needs 10 images or more, and the split 'validation' has"):
        scoring.check_selection(options(best=best), Images(8))


@pytest.mark.parametrize(
    "values, count",
    [({"best": "none"}, 8), ({"best": "min:d_loss"}, 8), ({"best": "coverage"}, 10)],
)
def test_what_needs_no_score_is_not_refused(values, count):
    scoring.check_selection(options(**values), Images(count))


def test_a_metric_of_the_full_score_cannot_name_the_best():
    with pytest.raises(UsageError, match="by kernel_distance, which is measured by 'toolkit eval"):
        scoring.check_selection(options(best="min:kernel_distance"), Images(100))


def test_the_real_images_of_a_sorted_folder_are_of_every_class():
    run = make_run(classes=4, conditional="none")
    inputs = latents.draw(run.options, run.data, 16, seed=0)
    shown = watching.real_images(Images(400), inputs, run)
    assert sorted(set(shown[:, 0, 0, 0].tolist())) == [0, 60, 120, 180]


def test_fewer_reals_than_a_grid_has_are_repeated():
    run = make_run()
    inputs = latents.draw(run.options, run.data, 16, seed=0)
    assert len(watching.real_images(Images(5), inputs, run)) == 16


class Known(Spy):
    """Finds the class of `Images`."""

    knows_classes = True

    def __init__(self):
        super().__init__()
        self.closed = 0

    def labels(self, images):
        assert images.dtype == np.uint8
        return np.rint(images.reshape(len(images), -1).mean(1) / 60.0).astype(int)

    def close(self):
        self.closed += 1


def test_the_health_of_a_run_counts_classes_where_a_classifier_is_at_hand(monkeypatch):
    known, asked = Known(), []

    def at_hand(*_):
        asked.append(True)
        return known

    monkeypatch.setattr(watching.extractor, "at_hand", at_hand)
    run = make_run(classes=4, conditional="none", features="auto", standing=8)
    model = steps.Gan(None, None, Generator(run))
    zero = tf.constant(0.0)
    for name in ("critic/gradient_norm", "generator/gradient_norm"):
        run.log(name, zero)
    scores = {"d_accuracy_real": zero, "d_accuracy_fake": zero}
    train = Images(400)
    hook = watching.health(run, 500, None, model, scores, {"train": train}.get)
    said, recorded = [], []
    hook.loop = types.SimpleNamespace(
        say=said.append, record=lambda event: recorded.append(json.loads(json.dumps(event)))
    )
    values = dict.fromkeys(hook.fetches(), np.float32(0.5))
    with session() as made:
        for step in (500, 1000, 1500):
            hook.on_step(step, values, types.SimpleNamespace(session=made))
        hook.on_stop(made, 1500, None)
    # An untrained generator draws grey, which is class 2 of 0, 60, 120 and 180.
    assert "1 of 4 classes are seen (0 0 256 0)" in said[0]
    (event,) = [e for e in recorded if e["verdict"] == "lost-classes"]
    assert "'0' (0 of 256, expected 64)" in event["sentence"] and event["step"] == 1500
    assert asked == [True] and known.closed == 1


@pytest.mark.parametrize("features, classes", [("pixels", 4), ("auto", 0)])
def test_without_a_classifier_no_classes_are_looked_for(features, classes):
    run = make_run(classes=classes, features=features)
    assert not watching.may_know_classes(run, Images(40))


def test_no_classifier_is_trained_for_the_health_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(toolkit, "cache_folder", lambda: str(tmp_path))
    run = make_run(classes=4, features="auto")
    classify = watching.Classes(run, Images(40))
    assert classify(np.zeros([2, 8, 8, 1], np.float32)) is None
    assert list(tmp_path.iterdir()) == []
    classify.close()


def test_losses_are_all_those_of_the_options():
    from typing_extensions import get_args

    assert set(get_args(GanOptions.model_fields["loss"].annotation)) == set(losses.LOSSES)
    named = set(get_args(GanOptions.model_fields["penalty"].annotation)) - {"none"}
    assert named == set(penalties.DEFAULT_WEIGHT)
