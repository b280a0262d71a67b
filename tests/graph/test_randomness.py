"""Random numbers are a function of (seed, name, step), in an evaluation of (seed, name, place)."""

import numpy as np
import pytest
from graph_fixtures import Constant, evaluate, make_plugin, make_run, session
from linear_fixtures import Linear
from update_fixtures import ONLY_2

from toolkit import hookimpl, testing, tf
from toolkit.api import open_trained
from toolkit.compat import compile_with_xla
from toolkit.graph import randomness
from toolkit.graph.build import build_training
from toolkit.graph.randomness import BLOCK_SIZE, draw_by_position
from toolkit.graph.step_strategy import XLA
from toolkit.plugins import Plugins


def draw(build, step=0, **options):
    """The value of the random tensor `build(run)` in a step, in a new graph and session."""
    with tf.Graph().as_default():
        run = make_run(**options)
        tensor = build(run)
        with session() as tf_session:
            tf_session.run(run.global_step.assign(step))
            return tf_session.run(tensor)


def noise(name="z"):
    """Build 1000 normal numbers."""
    return lambda run: run.normal(name, [1000])


@pytest.mark.parametrize(
    "name, step, seed", [("z", 6, 1), ("y", 5, 1), ("z", 5, 2)], ids=["step", "name", "seed"]
)
def test_a_draw_differs_by_step_name_and_seed(name, step, seed):
    assert abs(np.corrcoef(draw(noise(), 5), draw(noise(name), step, seed=seed))[0, 1]) < 0.15


def test_a_draw_depends_neither_on_its_session_nor_on_the_ops_before_it():
    def draw_after_others(run):
        tf.random.normal([3])
        run.uniform("other", [5])
        return tf.stack([run.normal("z", tf.stack([tf.constant(1000)])), run.normal("z", [1000])])

    first, second = draw(draw_after_others, 3)
    assert np.array_equal(draw(noise(), 3), first) and np.array_equal(first, second)


def test_a_uniform_draw_fills_its_interval_and_a_normal_one_has_its_mean_and_deviation():
    values = draw(lambda run: run.uniform("u", [10000], 2.0, 4.0))
    assert values.dtype == np.float32
    assert 2 <= values.min() < 2.01 and 3.99 < values.max() < 4
    assert values.mean() == pytest.approx(3, abs=0.03)
    values = draw(lambda run: run.normal("z", [10000], 5.0, 2.0))
    assert values.mean() == pytest.approx(5, abs=0.1)
    assert values.std() == pytest.approx(2, rel=0.05)


def test_dropout_preserves_the_mean_and_zeroes_its_share_also_of_what_is_infinite():
    values = draw(lambda run: run.dropout(tf.ones([10000]), 0.75, "d"))
    assert set(values.tolist()) == {0.0, 4.0}  # 1 / (1 - 0.75)
    assert values.mean() == pytest.approx(1, abs=0.07)
    assert (values == 0).mean() == pytest.approx(0.75, abs=0.02)
    values = draw(lambda run: run.dropout(tf.fill([100], float("inf")), 0.5, "d"))
    assert not np.isnan(values).any()


@pytest.mark.parametrize("mode, rate", [("eval", 0.5), ("predict", 0.5), ("train", 0)])
def test_dropout_changes_nothing_outside_of_training_and_at_rate_0(mode, rate):
    x = tf.ones([3])
    assert make_run(mode).dropout(x, rate, "d") is x


@pytest.mark.parametrize("rate", [1, 1.5, -0.1])
def test_a_dropout_rate_outside_of_0_to_1_and_an_unknown_initializer_are_refused(rate):
    with pytest.raises(ValueError, match=f"dropout rate is {rate}, expected a number in"):
        make_run().dropout(tf.ones([3]), rate, "d")
    with pytest.raises(ValueError, match="unknown initializer 'glorot'. Did you mean"):
        make_run().initializer("glorot", "w")


def initial_values(kind, shape, name="w", **options):
    """The values of an initializer in a new graph and session."""
    with tf.Graph().as_default():
        return evaluate(make_run(**options).initializer(kind, name)(shape))


@pytest.mark.parametrize("kind, deviation", [("he_normal", 0.2), ("lecun_normal", 0.1414)])
def test_the_deviation_of_normal_initial_values_follows_from_the_number_of_inputs(kind, deviation):
    # Of 50 inputs: sqrt(2 / 50) = 0.2, and sqrt(1 / 50) = 0.1414.
    assert initial_values(kind, [50, 400]).std() == pytest.approx(deviation, rel=0.02)
    assert initial_values(kind, [5, 5, 2, 400]).std() == pytest.approx(deviation, rel=0.02)


# The limit is the root of 6 over both fans: sqrt(6 / 600); those of a kernel count its receptive
# field: sqrt(6 / (25 x 24)).
@pytest.mark.parametrize("shape", [[300, 300], [5, 5, 12, 12]])
def test_glorot_uniform_has_the_limit_of_the_root_of_6_over_both_fans(shape):
    values = initial_values("glorot_uniform", shape)
    assert 0.0999 < np.abs(values).max() <= 0.1 and abs(values.mean()) < 0.001


def test_normal_and_uniform_initial_values_have_the_scale_of_the_argument():
    run = make_run()
    kinds = ("normal", "uniform")
    initializers = [run.initializer(kind, "w", stddev=0.02) for kind in kinds]
    normal, uniform = evaluate(*[each([200, 200], tf.float64) for each in initializers])
    assert normal.std() == pytest.approx(0.02, rel=0.02) and normal.dtype == np.float64
    assert 0.0199 < np.abs(uniform).max() <= 0.02


def test_initial_values_differ_by_name_and_by_seed():
    base = initial_values("normal", [3, 3])
    assert np.array_equal(base, initial_values("normal", [3, 3]))
    assert not np.array_equal(base, initial_values("normal", [3, 3], name="v"))
    assert not np.array_equal(base, initial_values("normal", [3, 3], seed=2))


def draw_compiled(build, *counters):
    """The values of `build(seed_pair)`, compiled by XLA, one for each counter."""
    with tf.Graph().as_default(), tf.Session() as tf_session:
        counter = tf.placeholder(tf.int32, [])
        (tensor,) = compile_with_xla(lambda c: [build(randomness.seed_pair(5, c))], [counter])
        return [tf_session.run(tensor, {counter: c}) for c in counters]


@ONLY_2
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


@ONLY_2
def test_compiled_uniforms_are_uniform_and_independent_of_the_step_before():
    first, second = draw_compiled(lambda p: XLA.uniform([400, 500], p, -1, 1), 3, 4)
    assert first.min() >= -1 and first.max() < 1
    counts = np.histogram(first, 100, (-1, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 161  # chi squared, 99 degrees: p = 0.0001
    # Standard deviations of a correlation of 200,000 pairs.
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) * 200000**0.5 < 4
    assert abs(np.corrcoef(first.ravel()[1:], first.ravel()[:-1])[0, 1]) * 200000**0.5 < 4


@ONLY_2
def test_compiled_normals_are_normal():
    from scipy import stats

    (values,) = draw_compiled(lambda pair: XLA.normal([100000], pair, 2.0, 3.0), 1)
    assert np.isfinite(values).all()
    assert stats.kstest((values - 2) / 3, "norm").pvalue > 1e-4


def build_values(create, num_ops=0, run_seed=1, graph_seed=None):
    """The initial values of what `create()` returns in the hook `build`.

    An extension adds `num_ops` ops before it; the plugin sets the seed of the graph, or not.
    """

    class Model(Linear):
        @hookimpl
        def build(self, run):
            for _ in range(num_ops):
                tf.random.normal([])
            if graph_seed is not None:
                tf.set_random_seed(graph_seed)
            self.variables = create()
            return Linear.build(self, run)

    model = Model()
    plugins = Plugins(make_plugin(model))
    run = make_run(classes=plugins.options(), seed=run_seed)
    with tf.Graph().as_default() as graph:
        build_training(plugins, run, Constant(np.ones([2, 4]), [0, 1]), graph)
        with session() as tf_session:
            return tf_session.run(model.variables)


def by_keras(initializer, name):
    layer = tf.keras.layers.Dense(4, kernel_initializer=initializer)
    with tf.name_scope(name + "/"):
        return layer.build(tf.TensorShape([None, 3])) or layer.kernel


def by_new_keras(name, **seed):
    """By an initializer of tf_keras itself, which draws by stateless ops."""
    return by_keras(pytest.importorskip("tf_keras").initializers.HeNormal(**seed), name)


def by_tf_layers(name, **seed):
    initializer = tf.variance_scaling_initializer(**seed)
    layer = tf.layers.Dense(4, kernel_initializer=initializer, name=name)
    return layer.build(tf.TensorShape([None, 3])) or layer.kernel


def by_variable(name, **seed):
    return tf.Variable(tf.random.normal([3, 4], **seed), name=name)


def by_initializer(name, **seed):
    return tf.get_variable(name, [3, 4], initializer=tf.orthogonal_initializer(**seed))


WAYS = [
    by_variable,
    by_initializer,
    lambda name, **seed: tf.get_variable(
        name, initializer=lambda: tf.random.truncated_normal([3, 4], **seed)
    ),
    by_tf_layers,
    lambda name, **seed: by_keras(tf.keras.initializers.he_normal(**seed), name),
    by_new_keras,
]
WITHOUT_SEED = [
    lambda name: tf.get_variable(name, [3, 4]),
    lambda name: by_keras("glorot_uniform", name),
    lambda name: tf.Variable(tf.random.normal([3]) - tf.random.normal([3]), name=name),
    lambda name: tf.random.normal([3], name=name),
]


@pytest.mark.parametrize("way", WAYS + WITHOUT_SEED)
def test_initial_values_depend_on_name_and_run_seed_alone(way):
    v, w = build_values(lambda: [way("v"), way("w")])
    assert not np.array_equal(v, w) and np.all(v != 0)
    other_w, other_v = build_values(lambda: [way("w"), way("v")], num_ops=3)
    assert np.array_equal(v, other_v) and np.array_equal(w, other_w)
    assert not np.array_equal(w, build_values(lambda: way("w"), run_seed=2))


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_of_the_user_holds(way):
    values = build_values(lambda: [way("v", seed=5), way("w", seed=5), way("x", seed=6)])
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


def test_the_seed_that_a_plugin_sets_for_its_graph_holds():
    expected = build_values(lambda: by_variable("w"), graph_seed=5)
    assert np.array_equal(expected, build_values(lambda: by_variable("w"), 0, 2, graph_seed=5))


def draw_from(position, count, sizes=(3,)):
    """The numbers of `count` examples from a position on."""
    rows = tf.placeholder(tf.float32, [None])
    shape = tf.concat([tf.shape(rows), list(sizes)], 0)
    start = tf.constant(position, tf.int64)
    numbers = draw_by_position(tf.random.stateless_normal, shape, start, 7)
    assert numbers.shape.as_list() == [None, *sizes]
    with tf.Session() as session:
        return session.run(numbers, {rows: np.zeros(count)})


def test_a_row_depends_on_its_position_alone():
    whole = draw_from(0, 3 * BLOCK_SIZE)
    assert np.unique(whole, axis=0).shape == whole.shape
    for start, count in [(0, 1), (BLOCK_SIZE - 1, 2), (BLOCK_SIZE, 5), (300, BLOCK_SIZE)]:
        np.testing.assert_array_equal(draw_from(start, count), whole[start : start + count])


@pytest.mark.parametrize("count, sizes", [(4, ()), (4, (2, 3)), (0, (3,))])
def test_rows_have_any_shape_and_number(count, sizes):
    assert draw_from(5, count, sizes).shape == (count, *sizes)


class Noisy(Linear):
    """Its logits have noise in every mode."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        noise = run.normal("noise", tf.shape(outputs["logits"]))
        return dict(outputs, logits=outputs["logits"] + noise)


def test_examples_of_one_evaluation_have_different_numbers(data):
    testing.train("test_randomness:Noisy", "run", data=data, steps=2)
    same = np.zeros([6, 6, 6, 1], np.uint8)
    with open_trained("run") as run:
        logits, again = (run.predict(same, batch_size=size)["logits"] for size in (2, 5))
    assert len(np.unique(logits, axis=0)) == 6
    np.testing.assert_array_equal(logits, again)


def test_a_shape_that_is_known_draws_the_same_in_every_batch():
    numbers = testing.make_run(Linear, "eval", None).uniform("latents", [4, 2], 1.0, 3.0)
    with session() as tf_session:
        first, second = tf_session.run(numbers), tf_session.run(numbers)
    np.testing.assert_array_equal(first, second)
    assert first.shape == (4, 2) and first.min() >= 1 and first.max() < 3
