"""From a loss to a step: schedules, clipping, accumulation, decay, and the guard.

The loss sum(g w) has the gradient g, and plain descent at rate 1 moves w by -g.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from graph_fixtures import Constant, Spec, make_plugin, make_run, session
from linear_fixtures import Linear

from toolkit import Run, Split, ToolkitError, UsageError, hookimpl, tf
from toolkit.compat import VERSION_FAMILY, compile_with_xla
from toolkit.data.resident import ResidentReader
from toolkit.graph import optimizer as opt
from toolkit.graph.build import build_compiled, build_training
from toolkit.graph.guard import NOT_FINITE
from toolkit.graph.run import step_builder_of
from toolkit.graph.step_strategy import PLAIN, XLA
from toolkit.plugins import Plugins

SGD = {"optimizer": "sgd", "learning_rate": 1.0, "clip": "none"}
INF = float("inf")
ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")

pytestmark = pytest.mark.usefixtures("graph")


def variable(name, value):
    return tf.get_variable(name, initializer=tf.constant(value, tf.float32))


def after(loss, steps=1, run=None, **options):
    """Every trainable variable by name after some steps on a loss of the graph."""
    op = (run or make_run(**dict(SGD, **options))).minimize(loss)
    with session() as made:
        for _ in range(steps):
            made.run(op)
        return {v.op.name: made.run(v).tolist() for v in tf.trainable_variables()}


def moved(gradient, steps=1, **options):
    """Where w ends that starts at 0 and always has this gradient."""
    w = variable("w", np.zeros_like(gradient))
    return after(tf.reduce_sum(w * np.float32(gradient)), steps, **options)["w"]


# ---------------------------------------------------------------------------------------- schedules


def rates(steps, total_steps=None, **options):
    """The learning rate, of a full rate of 1, in each of the steps."""
    given = make_run(**dict({"learning_rate": 1.0}, **options)).options
    with tf.Session() as made:
        tensors = [opt.learning_rate(given, tf.constant(s, tf.int64), total_steps) for s in steps]
        return pytest.approx(made.run(tensors), abs=1e-6)


def test_a_constant_rate_stays():
    assert rates([0, 1000]) == [1, 1]


def test_cosine_falls_from_one_by_half_to_zero_and_stays_there():
    assert rates([0, 50, 100, 150], schedule="cosine", decay_steps=100) == [1, 0.5, 0, 0]


def test_cosine_ends_with_the_run_and_begins_after_the_warm_up():
    assert rates([10, 60, 110], 110, schedule="cosine", warmup_steps=10) == [1, 0.5, 0]


def test_a_cosine_without_any_length_is_refused():
    with pytest.raises(UsageError, match="The cosine schedule has no length"):
        rates([0], schedule="cosine")


def test_step_decays_at_every_tenth_step():
    found = rates([0, 9, 10, 19, 20], schedule="step", decay_steps=10, decay_rate=0.1)
    assert found == [1, 1, 0.1, 0.1, 0.01]


def test_step_decays_ten_times_in_a_run_by_default():
    assert rates([9, 10, 95], 100, schedule="step", decay_rate=0.5) == [1, 0.5, 0.5**9]


def test_exponential_decay_is_a_root_halfway():
    found = rates([0, 5, 10], schedule="exponential", decay_steps=10, decay_rate=0.25)
    assert found == [1, 0.5, 0.25]


def test_a_warm_up_of_four_steps_rises_by_quarters():
    assert rates([0, 1, 2, 3, 4], warmup_steps=4) == [0.25, 0.5, 0.75, 1, 1]


def test_the_schedule_counts_from_the_end_of_the_warm_up():
    found = rates([3, 4, 13, 14], schedule="step", warmup_steps=4, decay_steps=10, decay_rate=0.5)
    assert found == [1, 1, 1, 0.5]


def test_the_rate_of_a_step_is_the_one_before_it_was_counted():
    # Warm-up over two steps: 1/2, then 1, of a gradient of 1.
    assert moved([1.0], 2, warmup_steps=2) == [-1.5]


# ----------------------------------------------------------------------------------------- clipping


def test_clip_by_value_cuts_each_element():
    assert moved([3.0, -0.5, -2.0], clip="value", clip_limit=1.0) == [-1, 0.5, 1]


def test_clip_by_norm_scales_each_variable_alone():
    a, b = variable("a", [0.0, 0.0]), variable("b", [0.0])
    loss = tf.reduce_sum(a * [3.0, 4.0]) + tf.reduce_sum(b * 0.5)
    found = after(loss, clip="norm", clip_limit=1.0)
    assert found["a"] == pytest.approx([-0.6, -0.8])  # 3-4-5, scaled to norm 1
    assert found["b"] == [-0.5]  # within the limit


def test_clip_by_global_norm_scales_all_variables_alike():
    a, b = variable("a", [0.0]), variable("b", [0.0])
    found = after(tf.reduce_sum(3 * a + 4 * b), clip="global-norm", clip_limit=1.0)
    assert found == {"a": pytest.approx([-0.6]), "b": pytest.approx([-0.8])}


def test_no_clipping_leaves_a_gradient_as_it_is():
    assert moved([30.0], clip="none", clip_limit=1.0) == [-30]


def test_the_logged_norm_is_taken_before_clipping_over_all_variables():
    a, b = variable("a", [0.0]), variable("b", [0.0])
    run = make_run(**dict(SGD, clip="value", clip_limit=1.0))
    run.minimize(tf.reduce_sum(3 * a + 4 * b), name="critic")
    with session() as made:
        logged = made.run(run.logged)
    assert logged == {"critic/gradient_norm": 5.0, "critic/learning_rate": 1.0}


# ------------------------------------------------------------------------------------- squared norm


def squared(value):
    with tf.Session() as made:
        return float(made.run(PLAIN.squared_norm(tf.constant(value, tf.float32))))


def test_squared_norm_of_3_and_4_is_25_in_any_shape():
    assert squared([3.0, 4.0]) == squared([[3.0], [4.0]]) == 25
    assert squared(-2.0) == 4
    assert squared(np.zeros([0, 3])) == 0


@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
@pytest.mark.parametrize("place", [0, 517, 999])
def test_squared_norm_is_not_finite_where_an_element_is_not(bad, place):
    values = np.ones(1000)
    values[place] = bad
    assert not math.isfinite(squared(values))


def test_squared_norm_of_finite_elements_is_finite():
    assert squared([1e18, -1e18, 1e-30]) == pytest.approx(2e36)


def squared_compiled(value, by_xla=False):
    value = tf.constant(value, tf.float32)
    with tf.Session() as made:
        norm = XLA.squared_norm
        tensor = compile_with_xla(lambda x: [norm(x)], [value])[0] if by_xla else norm(value)
        return float(made.run(tensor))


FORMS = pytest.mark.parametrize("by_xla", [False, pytest.param(True, marks=ONLY_2)])


@FORMS
@pytest.mark.parametrize(
    "shape", [(), (2,), (64,), (65,), (128, 3), (7, 11), (5, 3, 2, 32), (0, 3)]
)
def test_both_squared_norms_are_the_sum_of_squares(shape, by_xla):
    values = np.random.RandomState(0).uniform(-2, 2, shape).astype(np.float32)
    expected = pytest.approx(float((values.astype(float) ** 2).sum()), rel=1e-5)
    assert squared_compiled(values, by_xla) == expected
    assert squared(values) == expected


@FORMS
@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
@pytest.mark.parametrize("size, place", [(1000, 0), (1000, 517), (1024, 1023), (7, 3), (1, 0)])
def test_the_compiled_norm_is_not_finite_where_an_element_is_not(bad, size, place, by_xla):
    values = np.ones(size)
    values[place] = bad
    assert not math.isfinite(squared_compiled(values, by_xla))


@FORMS
def test_the_compiled_norm_of_large_finite_elements_is_finite(by_xla):
    assert squared_compiled([1e18, -1e18, 1e-30], by_xla) == pytest.approx(2e36)


# --------------------------------------------------------------------------------------- optimizers

NAMES = [
    "adadelta",
    "adagrad",
    "adagradda",
    "adam",
    "ftrl",
    "gradientdescent",
    "momentum",
    "proximaladagrad",
    "proximalgradientdescent",
    "rmsprop",
]


def test_the_optimizers_are_those_of_tf_train():
    assert sorted(opt.optimizer_names()) == NAMES


@pytest.mark.parametrize("name", NAMES + ["sgd", "Adam", "RMSProp", "gradient-descent"])
def test_each_optimizer_builds_and_goes_downhill(name):
    (w,) = moved([1.0], optimizer=name, learning_rate=0.1)
    assert -0.5 < w < 0


def test_adam_moves_by_the_rate_in_its_first_step():
    assert moved([0.3], optimizer="adam", learning_rate=0.1) == [pytest.approx(-0.1, rel=1e-4)]


def test_momentum_is_nine_tenths_unless_said():
    # Two steps of gradient 1: 1, then 1 + 0.9; with half of it: 1, then 1 + 0.5.
    assert moved([1.0], 2, optimizer="momentum") == [pytest.approx(-2.9)]


def test_arguments_reach_the_optimizer():
    found = moved([1.0], 2, optimizer="momentum", optimizer_args={"momentum": 0.5})
    assert found == [pytest.approx(-2.5)]


def test_an_unknown_optimizer_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="There is no optimizer 'adm' in tf.train") as caught:
        opt.make_optimizer("adm", 1.0, {})
    assert caught.value.hint == "Did you mean 'adam'?"


def test_an_unknown_argument_of_an_optimizer_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="Optimizer 'adam' has no argument 'beta_1'") as caught:
        opt.make_optimizer("adam", 1.0, {"beta_1": 0.5})
    assert caught.value.hint == "Did you mean 'beta1'?"


# ----------------------------------------------------------------------- accumulation, weight decay


def rising(w):
    """A loss whose gradient is 1 in step 0, 3 in step 1, 5 in step 2, 7 in step 3."""
    step = tf.cast(tf.train.get_or_create_global_step().read_value(), tf.float32)
    return tf.reduce_sum(w * (2 * step + 1))


@pytest.mark.parametrize("steps, w", [(1, 0), (2, -2), (3, -2), (4, -8)])
def test_two_accumulated_steps_are_one_with_the_mean_gradient(steps, w):
    # Means: (1 + 3) / 2 = 2, then (5 + 7) / 2 = 6.
    assert after(rising(variable("w", [0.0])), steps, accumulate=2) == {"w": [w]}


def test_the_mean_gradient_is_clipped_not_its_parts():
    # Each part alone would be cut to 1.5, and the mean of 1 and 1.5 is 1.25.
    found = after(rising(variable("w", [0.0])), 2, accumulate=2, clip="value", clip_limit=1.5)
    assert found == {"w": [-1.5]}


def test_accumulated_gradients_are_in_the_checkpoint():
    make_run(**dict(SGD, accumulate=2)).minimize(tf.reduce_sum(variable("w", [0.0])))
    assert "toolkit/accumulated/w" in {v.op.name for v in tf.global_variables()}


def test_weight_decay_touches_matrices_and_leaves_vectors():
    w, b = variable("w", [[1.0]]), variable("b", [1.0])
    loss = 0 * tf.reduce_sum(w) + 0 * tf.reduce_sum(b)
    found = after(loss, learning_rate=0.1, weight_decay=0.5)
    assert found == {"w": [[pytest.approx(0.95)]], "b": [1]}  # 1 - 0.1 x 0.5 x 1


def test_weight_decay_is_apart_from_the_gradient():
    # 1 - 0.1 x 1 = 0.9, and 0.1 x 0.5 of that is taken away.
    found = after(tf.reduce_sum(variable("w", [[1.0]])), learning_rate=0.1, weight_decay=0.5)
    assert found == {"w": [[pytest.approx(0.855)]]}


# -------------------------------------------------------------------------------------- whole steps


def test_the_global_step_advances_by_one():
    run = make_run(**SGD)
    op = run.minimize(tf.reduce_sum(variable("w", [0.0])))
    with session() as made:
        made.run([op, op])
        made.run(op)
        assert made.run(run.global_step) == 2


def test_the_first_of_two_updates_may_leave_the_global_step():
    run = make_run(**SGD)
    a, b = variable("a", [0.0]), variable("b", [0.0])
    first = run.minimize(tf.reduce_sum(a), [a], advance_step=False)
    with tf.control_dependencies([first]):
        both = run.minimize(tf.reduce_sum(b), [b])
    with session() as made:
        made.run(both)
        assert made.run([run.global_step, a, b]) == [1, [-1], [-1]]


def test_a_loss_that_depends_on_no_variable_is_told():
    with pytest.raises(ToolkitError, match="depends on none of the variables"):
        make_run(**SGD).minimize(tf.constant(1.0), [variable("w", [0.0])])


def test_a_variable_that_the_loss_does_not_depend_on_stays():
    w, other = variable("w", [0.0]), variable("other", [5.0])
    assert after(tf.reduce_sum(w)) == {"w": [-1], "other": [5]}
    assert other is not None


def test_minimize_is_refused_outside_of_training():
    with pytest.raises(ToolkitError, match="minimize was called in mode 'eval'"):
        make_run("eval").minimize(tf.constant(1.0))


def half_infinite():
    """The loss a + sqrt(b) = 1 at a = 1, b = 0: finite, but its gradient in b is infinite."""
    a, b = variable("a", [1.0]), variable("b", [0.0])
    return tf.reduce_sum(a + tf.sqrt(b))


def state(made):
    return {v.op.name: made.run(v).tolist() for v in tf.global_variables()}


def test_one_infinite_gradient_stops_with_weights_slots_and_step_unchanged():
    op = make_run(optimizer="adam", on_nonfinite="stop").minimize(half_infinite())
    with session() as made:
        before = state(made)
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            made.run(op)
        assert state(made) == before
    assert {"a/Adam", "b/Adam_1", "global_step"} <= set(before)


def test_one_infinite_gradient_is_skipped_and_counted():
    run = make_run(optimizer="adam", on_nonfinite="skip")
    op = run.minimize(half_infinite())
    with session() as made:
        before = state(made)
        made.run(op)
        made.run(op)
        changed = {n: v for n, v in state(made).items() if v != before[n]}
        assert made.run(step_builder_of(run).counters) == {"skipped_steps": 2}
    assert changed == {"global_step": 2, "toolkit/skipped_steps": 2}


def test_a_skipped_step_adds_nothing_to_accumulated_gradients():
    op = make_run(on_nonfinite="skip", accumulate=3).minimize(half_infinite())
    with session() as made:
        made.run(op)
        assert state(made)["toolkit/accumulated/a"] == [0]


def test_training_goes_on_after_a_skipped_step():
    # In step 0 the loss is log(0); from step 1 on its gradient is 1.
    w = variable("w", [0.0])
    step = tf.cast(tf.train.get_or_create_global_step().read_value(), tf.float32)
    assert after(tf.reduce_sum(w) + tf.log(step), 3, on_nonfinite="skip") == {"w": [-2]}


# --------------------------------------------------------------------------------- batch statistics


class Normed(Linear):
    """Batch norm with momentum 0.9 before the linear layer."""

    @hookimpl
    def build(self, run):
        norm = tf.keras.layers.BatchNormalization(momentum=0.9, name="norm")
        norm.build([None, run.data.shape[0]])
        return norm, Linear.build(self, run)

    @hookimpl
    def call(self, model, features, run):
        norm, linear = model
        return Linear.call(self, linear, norm(features, training=run.mode == "train"), run)


class Exploding(Normed):
    @hookimpl
    def loss(self, outputs):
        return tf.log(0 * tf.reduce_sum(outputs["logits"]))


def batch_norm_state(plugin, steps, **options):
    """The moving mean after steps on batches whose mean is 2, and whether a step was refused."""
    plugins = Plugins(make_plugin(plugin))
    run = make_run(data=Spec((2,)), classes=plugins.options(), **options)
    reader = Constant([[1.0, 1.0], [3.0, 3.0]], [0, 1])
    built = build_training(plugins, run, reader, tf.get_default_graph())
    refused = False
    with session() as made:
        for _ in range(steps):
            try:
                made.run(built.train_op)
            except tf.errors.InvalidArgumentError:
                refused = True
        return made.run(built.model[0].moving_mean).tolist(), refused


def test_batch_statistics_move_once_per_step():
    # 0.9 x 0 + 0.1 x 2 = 0.2; after another step 0.9 x 0.2 + 0.2 = 0.38.
    assert batch_norm_state(Normed, 1)[0] == pytest.approx([0.2, 0.2])


def test_batch_statistics_move_twice_in_two_steps():
    assert batch_norm_state(Normed, 2)[0] == pytest.approx([0.38, 0.38])


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_batch_statistics_stay_in_a_step_that_is_not_finite(policy):
    assert batch_norm_state(Exploding, 1, on_nonfinite=policy) == ([0, 0], policy == "stop")


def test_batch_statistics_move_in_each_step_of_an_accumulation():
    assert batch_norm_state(Normed, 2, accumulate=2)[0] == pytest.approx([0.38, 0.38])


# --------------------------------------------------------------------- several updates in one step


def product(run, name, factor):
    """The part of a loss factor * w of its own variable, which starts at 1."""
    with tf.init_scope():
        w = variable(name, 1.0)
    return run.gradients(factor * w, [w], name), w


def test_parts_that_are_applied_together_all_see_the_old_values():
    run = make_run(**SGD)
    a, b = variable("a", 1.0), variable("b", 2.0)
    # Each one's gradient is the other's value.
    parts = [run.gradients(a * b, [a], "a"), run.gradients(a * b, [b], "b")]
    op = run.apply(parts)
    with session() as made:
        made.run(op)
        assert made.run([a, b, run.global_step]) == [1 - 2, 2 - 1, 1]


def test_parts_that_are_applied_together_are_all_refused_where_one_is_not_finite():
    run = make_run(**dict(SGD, on_nonfinite="skip"))
    first, a = product(run, "a", 1.0)
    second, b = product(run, "b", INF)
    op = run.apply([first, second])
    with session() as made:
        made.run(op)
        assert made.run([a, b]) == [1, 1]
        assert made.run(step_builder_of(run).counters) == {"skipped_steps": 1}


def in_turn(run, factors):
    """One step of an update per factor, each behind the one before it; their variables."""
    done, variables = [], []
    for number, factor in enumerate(factors):
        with tf.control_dependencies(done):
            part, w = product(run, f"w{number}", factor)
            done = [run.apply([part], advance_step=number == len(factors) - 1)]
            variables.append(w)
    return done[0], variables


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "momentum", "rmsprop", "adagrad", "ftrl"])
def test_a_later_update_that_is_not_finite_takes_the_earlier_ones_back(optimizer):
    run = make_run(optimizer=optimizer, on_nonfinite="stop")
    op, _ = in_turn(run, [1.0, 2.0, INF])
    with session() as made:
        before = state(made)
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            made.run(op)
        assert state(made) == before


def test_updates_in_turn_are_all_made_where_all_are_finite():
    run = make_run(**SGD)
    op, variables = in_turn(run, [1.0, 2.0, 3.0])
    with session() as made:
        made.run(op)
        assert made.run(variables) == [0, -1, -2]
        assert made.run(run.global_step) == 1


def test_state_updates_and_accumulated_gradients_are_taken_back_too():
    run = make_run(**dict(SGD, on_nonfinite="skip", accumulate=2))
    a, seen = variable("a", 1.0), variable("seen", 0.0)
    mark = seen.assign(7.0, read_value=False)
    done = run.minimize(2.0 * a, [a], "a", advance_step=False, updates=[mark])
    with tf.control_dependencies([done]):
        part, _ = product(run, "b", INF)
        op = run.apply([part])
    with session() as made:
        before = state(made)
        made.run(op)
        changed = {n: v for n, v in state(made).items() if v != before[n]}
    assert changed == {"global_step": 1, "toolkit/skipped_steps": 1}


def test_updates_of_one_name_share_an_optimizer_and_its_slots():
    run = make_run(optimizer="adam")
    w = variable("w", 1.0)
    done = run.minimize(3.0 * w, [w], "player", advance_step=False)
    with tf.control_dependencies([done]):
        run.minimize(3.0 * w.read_value(), [w], "player")
    names = {v.op.name for v in tf.global_variables()}
    assert {"w/Adam", "w/Adam_1"} == {n for n in names if n.startswith("w/")}
    assert {n for n in names if "beta1" in n} == {"optimizer/player/beta1_power"}


def test_a_part_may_have_a_learning_rate_of_its_own():
    run = make_run(**SGD)
    a, b = variable("a", 0.0), variable("b", 0.0)
    parts = [run.gradients(1.0 * a, [a], "a"), run.gradients(1.0 * b, [b], "b", learning_rate=0.5)]
    op = run.apply(parts)
    with session() as made:
        rates = [run.logged["a/learning_rate"], run.logged["b/learning_rate"]]
        assert made.run(rates) == [1.0, 0.5]
        made.run(op)
        assert made.run([a, b]) == [-1, -0.5]


def test_after_runs_behind_the_update_and_not_where_the_step_is_skipped():
    for factor, expected in ((1.0, 5.0), (INF, 1.0)):
        with tf.Graph().as_default():
            run = make_run(**dict(SGD, on_nonfinite="skip"))
            w = variable("w", 1.0)
            # The update leads to 0, and 0 + 5 is what comes after it.
            op = run.minimize(factor * w, [w], after=lambda w=w: w.assign(w.read_value() + 5))
            with session() as made:
                made.run(op)
                assert made.run(w) == expected


# ---------------------------------------------------------------------------------- compiled by XLA


class Compiled:
    """A step that XLA compiles, and a session with its variables.

    make(run, good): adds the updates of the step and returns the op of the last one; `good` is a
    float32 scalar that is 1, or 0 in a step that is to be refused.
    """

    def __init__(self, make, **options):
        options = dict({"optimizer": "adam", "learning_rate": 0.1}, **options)
        self.run = Run("train", make_run(**options).options, Spec(), strategy=XLA)
        self.run.global_step  # noqa: B018 - made before the step, as the core makes it
        self._good = tf.placeholder(tf.float32, [])

        def step(good):
            builder = step_builder_of(self.run)
            builder.begin_step()
            with tf.control_dependencies([make(self.run, good)]):
                finite = builder.all_finite
                return [tf.identity(tf.constant(True) if finite is None else finite)]

        (self._going,) = compile_with_xla(step, [self._good])
        self._session = tf.Session()
        self._session.run(tf.global_variables_initializer())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def step(self, good=1.0):
        """Make one; whether the run is to go on."""
        return bool(self._session.run(self._going, {self._good: good}))

    @property
    def state(self):
        return state(self._session)


def poisoned(w, good, value=None):
    """A loss whose gradient has one infinite element, or which is itself `value`, where good = 0.

    Elsewhere it is the sum of w * (1, 2, 3).
    """
    loss = tf.reduce_sum(w * [1.0, 2.0, 3.0])
    if value is not None:
        return loss + tf.where(good > 0, 0.0, value)
    # sqrt(0) is 0, and its slope there is infinite.
    last = w[2] - tf.stop_gradient(w[2]) + good
    return loss + tf.sqrt(last) - tf.sqrt(good)


def one_update(value=None):
    w = variable("w", [1.0, 1.0, 1.0])
    average = variable("average", [0.0, 0.0, 0.0])

    def make(run, good):
        def move():
            return average.assign(0.5 * average.read_value() + 0.5 * w.read_value()).op

        return run.minimize(poisoned(w, good, value), [w], after=move)

    return make


def check_refused(step, policy):
    """A step that is refused changes nothing but counters, and one that follows is made."""
    assert step.step()
    before = step.state
    assert step.step(0.0) == (policy == "skip")
    now = step.state
    changed = {name for name in now if now[name] != before[name]}
    if policy == "stop":
        assert not changed
    else:
        assert changed == {"global_step", "toolkit/skipped_steps"}
        assert (now["global_step"], now["toolkit/skipped_steps"]) == (2, 1)
    assert step.step()
    assert step.state["global_step"] == now["global_step"] + 1
    assert step.state != now


policies = pytest.mark.parametrize("policy", ["stop", "skip"])


@ONLY_2
@policies
@pytest.mark.parametrize("value", [None, INF, float("nan")], ids=["gradient", "inf", "nan"])
def test_a_compiled_step_that_is_not_finite_changes_no_weight_slot_or_average(policy, value):
    with Compiled(one_update(value), on_nonfinite=policy) as step:
        check_refused(step, policy)


@ONLY_2
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "rmsprop", "adagrad", "ftrl", "adadelta"])
def test_a_compiled_step_is_refused_as_a_whole_with_any_optimizer(optimizer):
    with Compiled(one_update(), on_nonfinite="skip", optimizer=optimizer) as step:
        check_refused(step, "skip")


@ONLY_2
@policies
@pytest.mark.parametrize("options", [{"accumulate": 2}, {"weight_decay": 0.1, "clip": "norm"}])
def test_a_compiled_step_that_is_not_finite_changes_no_sum_of_gradients(policy, options):
    with Compiled(one_update(), on_nonfinite=policy, **options) as step:
        if "accumulate" in options:
            assert step.step()
            step.step()  # so that the sums are not zero
            assert step.step()
            assert any(step.state["toolkit/accumulated/w"])
        before = step.state
        step.step(0.0)
        changed = {name for name, value in step.state.items() if value != before[name]}
        assert changed == (set() if policy == "stop" else {"global_step", "toolkit/skipped_steps"})


@ONLY_2
@policies
def test_compiled_parts_are_all_refused_where_one_is_not_finite(policy):
    a, b = variable("a", [1.0, 1.0, 1.0]), variable("b", [1.0, 1.0, 1.0])

    def make(run, good):
        parts = [
            run.gradients(poisoned(a, tf.constant(1.0)), [a], "a"),
            run.gradients(poisoned(b, good), [b], "b"),
        ]
        return run.apply(parts)

    with Compiled(make, on_nonfinite=policy) as step:
        check_refused(step, policy)


def updates_in_turn(bad, names):
    """A step of several updates in turn, of which number `bad` is not finite where good = 0."""
    made = {name: variable(name, [1.0, 1.0, 1.0]) for name in sorted(set(names))}

    def make(run, good):
        done = []
        for number, name in enumerate(names):
            last = number == len(names) - 1
            with tf.control_dependencies(done):
                w, fed = made[name], good if number == bad else tf.constant(1.0)
                values = w.read_value()
                loss = poisoned(values, fed)
                part = run.gradients(loss, [w], name)
                done = [run.apply([part], advance_step=last)]
        return done[0]

    return make


@ONLY_2
@policies
@pytest.mark.parametrize(
    "names, bad", [("abc", 0), ("abc", 1), ("abc", 2), ("aab", 2), ("aba", 2), ("aaa", 1)]
)
def test_compiled_updates_in_turn_are_all_taken_back_whichever_is_not_finite(policy, names, bad):
    with Compiled(updates_in_turn(bad, names), on_nonfinite=policy) as step:
        check_refused(step, policy)


@ONLY_2
@policies
def test_compiled_state_updates_and_sums_are_taken_back_by_a_later_update(policy):
    a, b, seen = (variable(name, [1.0, 1.0, 1.0]) for name in ("a", "b", "seen"))

    def make(run, good):
        mark = seen.assign_add(a.read_value(), read_value=False)
        one = poisoned(a, tf.constant(1.0))
        done = run.minimize(one, [a], "a", advance_step=False, updates=[mark])
        with tf.control_dependencies([done]):
            return run.minimize(poisoned(b.read_value(), good), [b], "b", updates=[])

    with Compiled(make, on_nonfinite=policy, accumulate=2) as step:
        before = step.state
        step.step(0.0)
        changed = {name for name, value in step.state.items() if value != before[name]}
        assert changed == (set() if policy == "stop" else {"global_step", "toolkit/skipped_steps"})


def compiled_batch_norm_state(plugin, steps, **options):
    """`batch_norm_state` with XLA: the moving mean, and whether a step was refused."""
    plugins = Plugins(make_plugin(plugin))
    given = make_run(data=Spec((2,)), classes=plugins.options(), **options).options
    labels = np.array([0, 1])
    split = Split(np.array([[1.0, 1.0], [3.0, 3.0]], np.float32), labels)

    def built(by_xla):
        with tf.Graph().as_default() as made:
            reader = ResidentReader(split, 2)
        run = Run("train", given, Spec((2,)), strategy=XLA if by_xla else PLAIN)
        if not by_xla:
            return build_training(plugins, run, reader, made, in_loop=True), reader
        return build_compiled(plugins, run, reader, made, built(False)[0], max_steps=1), reader

    made, reader = built(True)
    with made.tf_graph.as_default(), session() as opened:
        reader.initialize(opened)
        going = [opened.run([made.train_op, made.loop.all_finite])[1] for _ in range(steps)]
        return opened.run(made.model[0].moving_mean).tolist(), not all(going)


@ONLY_2
@pytest.mark.parametrize("steps, mean", [(1, 0.2), (2, 0.38)])
def test_compiled_batch_statistics_move_once_per_step(steps, mean):
    assert compiled_batch_norm_state(Normed, steps) == (pytest.approx([mean, mean]), False)


@ONLY_2
@policies
def test_compiled_batch_statistics_stay_in_a_step_that_is_not_finite(policy):
    found = compiled_batch_norm_state(Exploding, 1, on_nonfinite=policy)
    assert found == ([0, 0], policy == "stop")


@ONLY_2
@pytest.mark.parametrize("names", ["a", "ab", "aab"])
@pytest.mark.parametrize("options", [{}, {"optimizer": "momentum", "accumulate": 2}])
def test_compiled_updates_are_those_that_are_made_without_xla(names, options):
    with Compiled(updates_in_turn(None, names), **options) as step:
        for _ in range(4):
            assert step.step()
        found = step.state
    with tf.Graph().as_default():
        run = make_run(**dict({"optimizer": "adam", "learning_rate": 0.1}, **options))
        run.global_step  # noqa: B018
        op = updates_in_turn(None, names)(run, tf.constant(1.0))
        with session() as made:
            for _ in range(4):
                made.run(op)
            expected = state(made)
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name
