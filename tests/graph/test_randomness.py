"""Random numbers are a function of (seed, name, step), initial values of (seed, name, shape)."""

from __future__ import annotations

import numpy as np
import pytest
from graph_fixtures import Constant, Spec, make_plugin, make_run, session
from linear_fixtures import Linear

from toolkit import hookimpl, tf
from toolkit.compat import HAS_XLA, compile_with_xla
from toolkit.graph import randomness
from toolkit.graph.build import build_training
from toolkit.graph.step_strategy import XLA, dropout
from toolkit.plugins import Plugins

pytestmark = pytest.mark.usefixtures("graph")


def draw(build, step=0, **options):
    """Evaluate a random tensor in a new graph and session.

    Args:
        build: build(run) returns the tensor.
        step: the global step.
        options: of the run.
    """
    with tf.Graph().as_default():
        run = make_run(**options)
        tensor = build(run)
        with session() as tf_session:
            tf_session.run(run.global_step.assign(step))
            return tf_session.run(tensor)


def noise(name="z"):
    """Build 1000 normal numbers."""
    return lambda run: run.normal(name, [1000])


# -------------------------------------------------------------------------------------------- seeds


def test_a_seed_is_a_fixed_function_of_the_runs_seed_and_the_name():
    assert randomness.seed_of(1, "shuffle") == randomness.seed_of(1, "shuffle")
    assert len({randomness.seed_of(s, n) for s in range(10) for n in "abc"}) == 30


def test_a_seed_has_31_bits():
    seeds = [randomness.seed_of(s, "x") for s in range(200)]
    assert min(seeds) >= 0 and 2**30 < max(seeds) < 2**31


def test_the_seed_of_a_run_follows_from_its_option():
    assert make_run(seed=7).seed("x") == randomness.seed_of(7, "x") != make_run(seed=8).seed("x")


# -------------------------------------------------------------------------------------------- draws


def test_a_draw_is_equal_in_another_session():
    assert np.array_equal(draw(noise(), 5), draw(noise(), 5))


@pytest.mark.parametrize(
    "name, step, seed", [("z", 6, 1), ("y", 5, 1), ("z", 5, 2)], ids=["step", "name", "seed"]
)
def test_a_draw_differs_by_step_name_and_seed(name, step, seed):
    assert abs(np.corrcoef(draw(noise(), 5), draw(noise(name), step, seed=seed))[0, 1]) < 0.15


def test_two_draws_of_one_name_in_one_step_are_equal():
    a, b = draw(lambda run: tf.stack([run.uniform("u", [3]), run.uniform("u", [3])]))
    assert np.array_equal(a, b)


def test_a_draw_does_not_depend_on_the_ops_before_it():
    def draw_after_others(run):
        tf.random.normal([3])
        run.uniform("other", [5])
        return run.normal("z", [1000])

    assert np.array_equal(draw(noise(), 3), draw(draw_after_others, 3))


def test_a_draw_changes_from_step_to_step_in_one_session():
    run = make_run()
    z, advance = run.normal("z", [3]), run.global_step.assign_add(1)
    with session() as tf_session:
        first = tf_session.run(z)
        again = tf_session.run(z)
        tf_session.run(advance)
        later = tf_session.run(z)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, later)


def test_a_uniform_draw_fills_its_interval():
    values = draw(lambda run: run.uniform("u", [10000], 2.0, 4.0))
    assert values.dtype == np.float32
    assert 2 <= values.min() < 2.01 and 3.99 < values.max() < 4
    assert values.mean() == pytest.approx(3, abs=0.03)


def test_a_normal_draw_has_its_mean_and_deviation():
    values = draw(lambda run: run.normal("z", [10000], 5.0, 2.0))
    assert values.mean() == pytest.approx(5, abs=0.1)
    assert values.std() == pytest.approx(2, rel=0.05)


def test_the_shape_of_a_draw_may_be_a_tensor():
    assert draw(lambda run: run.normal("z", tf.stack([tf.constant(2), 3]))).shape == (2, 3)


# ------------------------------------------------------------------------------------------ dropout


def test_dropout_preserves_the_mean_and_zeroes_its_share():
    values = draw(lambda run: run.dropout(tf.ones([10000]), 0.75, "d"))
    assert set(values.tolist()) == {0.0, 4.0}  # 1 / (1 - 0.75)
    assert values.mean() == pytest.approx(1, abs=0.07)
    assert (values == 0).mean() == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("mode", ["eval", "predict"])
def test_dropout_changes_nothing_outside_of_training(mode):
    x = tf.ones([3])
    assert make_run(mode).dropout(x, 0.5, "d") is x


def test_dropout_at_rate_0_changes_nothing():
    x = tf.ones([3])
    assert make_run().dropout(x, 0, "d") is x


@pytest.mark.parametrize("rate", [1, 1.5, -0.1])
def test_a_dropout_rate_outside_of_0_to_1_is_refused(rate):
    with pytest.raises(ValueError, match=f"dropout rate is {rate}, expected a number in"):
        make_run().dropout(tf.ones([3]), rate, "d")


def test_dropout_zeroes_infinite_elements():
    values = draw(lambda run: run.dropout(tf.fill([100], float("inf")), 0.5, "d"))
    assert not np.isnan(values).any()


# ----------------------------------------------------------------------------------- initial values


def initial_values(kind, shape, name="w", **options):
    """The values of an initializer in a new graph and session."""
    with tf.Graph().as_default(), tf.Session() as tf_session:
        return tf_session.run(make_run(**options).initializer(kind, name)(shape))


def test_glorot_uniform_has_the_limit_of_the_root_of_6_over_both_fans():
    values = initial_values("glorot_uniform", [300, 300])  # sqrt(6 / 600) = 0.1
    assert 0.0999 < np.abs(values).max() <= 0.1
    assert abs(values.mean()) < 0.001


def test_glorot_uniform_counts_the_receptive_field_of_a_kernel():
    values = initial_values("glorot_uniform", [5, 5, 12, 12])  # sqrt(6 / (25 x 24)) = 0.1
    assert 0.0999 < np.abs(values).max() <= 0.1


@pytest.mark.parametrize("kind, deviation", [("he_normal", 0.2), ("lecun_normal", 0.1414)])
def test_the_deviation_of_normal_initial_values_follows_from_the_number_of_inputs(kind, deviation):
    # Of 50 inputs: sqrt(2 / 50) = 0.2, and sqrt(1 / 50) = 0.1414.
    assert initial_values(kind, [50, 400]).std() == pytest.approx(deviation, rel=0.02)
    assert initial_values(kind, [5, 5, 2, 400]).std() == pytest.approx(deviation, rel=0.02)


def test_normal_and_uniform_initial_values_have_the_scale_of_the_argument():
    run = make_run()
    normal, uniform = (
        run.initializer(k, "w", stddev=0.02)([200, 200]) for k in ("normal", "uniform")
    )
    with tf.Session() as tf_session:
        normal, uniform = tf_session.run([normal, uniform])
    assert normal.std() == pytest.approx(0.02, rel=0.02)
    assert 0.0199 < np.abs(uniform).max() <= 0.02


def test_an_unknown_initializer_is_refused():
    with pytest.raises(ValueError, match="unknown initializer 'glorot', known: "):
        make_run().initializer("glorot", "w")


def test_initial_values_differ_by_name_and_by_seed():
    base = initial_values("normal", [3, 3])
    assert np.array_equal(base, initial_values("normal", [3, 3]))
    assert not np.array_equal(base, initial_values("normal", [3, 3], name="v"))
    assert not np.array_equal(base, initial_values("normal", [3, 3], seed=2))


def test_an_initializer_works_in_a_keras_layer():
    layer = tf.keras.layers.Dense(
        3, kernel_initializer=make_run().initializer("he_normal", "dense")
    )
    layer.build([None, 2])
    with session() as tf_session:
        kernel = tf_session.run(layer.kernel)
    assert np.array_equal(kernel, initial_values("he_normal", [2, 3], "dense"))


# ------------------------------------------------------------ the same weights whatever is around


class Noisy:
    """An extension that adds stateful random ops and a variable before the plugin's build."""

    @hookimpl(wrapper=True)
    def build(self, run):
        tf.random.normal([3])
        run.normal("noise", [3])
        tf.get_variable("noisy", [2], initializer=tf.random_normal_initializer())
        return (yield)


def train_weights(extensions, steps):
    """The weights [4, 2] and the bias [2] of the linear model after so many steps."""
    plugins = Plugins(make_plugin(Linear), [make_plugin(e, "e", "extension") for e in extensions])
    reader = Constant([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], [0, 1])
    with tf.Graph().as_default() as graph:
        run = make_run(data=Spec(), classes=plugins.options())
        training = build_training(plugins, run, reader, graph)
        with session() as tf_session:
            for _ in range(steps):
                tf_session.run(training.train_op)
            return tf_session.run(list(training.model))


@pytest.mark.parametrize("steps", [0, 3])
def test_an_extension_that_adds_random_ops_does_not_change_the_weights(steps):
    for plain, noisy in zip(train_weights([], steps), train_weights([Noisy], steps)):
        assert np.array_equal(plain, noisy)


# ------------------------------------------------------------------------------------------ for XLA


needs_xla = pytest.mark.skipif(not HAS_XLA, reason="XLA compiles on TensorFlow 2.x alone")


def draw_compiled(build, *counters):
    """The values of `build(seed_pair)`, compiled by XLA, one for each counter."""
    with tf.Graph().as_default(), tf.Session() as tf_session:
        counter = tf.placeholder(tf.int32, [])
        (tensor,) = compile_with_xla(lambda c: [build(randomness.seed_pair(5, c))], [counter])
        return [tf_session.run(tensor, {counter: c}) for c in counters]


@needs_xla
def test_pcg3d_equals_an_independent_computation():
    def pcg3d(x, y, z):
        mask = 0xFFFFFFFF
        x, y, z = [(v * 1664525 + 1013904223) & mask for v in (x, y, z)]
        for number in range(2):
            if number == 1:
                x, y, z = [v ^ (v >> 16) for v in (x, y, z)]
            x = (x + y * z) & mask
            y = (y + z * x) & mask
            z = (z + x * y) & mask
        return x

    (words,) = draw_compiled(lambda pair: randomness.hash_places([3, 4], pair), 9)
    assert words.ravel().tolist() == [pcg3d(place, 5, 9) for place in range(12)]


@needs_xla
def test_compiled_uniforms_are_uniform_and_independent_of_the_step_before():
    first, second = draw_compiled(lambda p: XLA.uniform([400, 500], p, -1, 1), 3, 4)
    assert first.min() >= -1 and first.max() < 1
    counts = np.histogram(first, 100, (-1, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 161  # chi squared, 99 degrees: p = 0.0001
    # Standard deviations of a correlation of 200,000 pairs.
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) * 200000**0.5 < 4
    assert abs(np.corrcoef(first.ravel()[1:], first.ravel()[:-1])[0, 1]) * 200000**0.5 < 4


@needs_xla
def test_compiled_normals_are_normal():
    from scipy import stats

    (values,) = draw_compiled(lambda pair: XLA.normal([100000], pair, 2.0, 3.0), 1)
    assert np.isfinite(values).all()
    assert stats.kstest((values - 2) / 3, "norm").pvalue > 1e-4


@needs_xla
def test_compiled_dropout_zeroes_its_share_and_scales_the_rest():
    ones = np.ones([200, 500], np.float32)

    def drop(pair):
        x = tf.constant(ones)
        return dropout(x, 0.2, XLA.uniform(tf.shape(x), pair))

    (values,) = draw_compiled(drop, 1)
    assert set(np.unique(values).tolist()) == {0.0, 1.25}
    assert abs((values == 0).mean() - 0.2) < 4 * (0.2 * 0.8 / ones.size) ** 0.5
