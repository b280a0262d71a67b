"""Several steps in one call: how many, and what hooks, faults and signals make of them."""

import os
import signal

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import SessionHook, hookimpl, testing, tf
from toolkit.compat import VERSION_FAMILY
from toolkit.data.stream import StreamReader
from toolkit.errors import DataError, DivergedError, InterruptedRun, ToolkitError
from toolkit.graph.build import LoopInfo, StepOutputs, TrainingGraph
from toolkit.graph.guard import GuardValues
from toolkit.storage.run_folder import RunFolder
from toolkit.training import loop
from toolkit.training.autotune import CALL_SECS, MAX_STEPS, AdaptiveStepCount
from toolkit.training.step_runner import CallResult, StepRunner

RARE = {"log_steps": 1000, "checkpoint_steps": 1000, "summary_steps": 1000, "evaluate": "no"}
XLA = pytest.param(
    {"xla": "on"},
    id="xla",
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone"),
    ],
)
FORMS = [
    pytest.param({"steps_per_call": 1}, id="single"),
    pytest.param({"steps_per_call": 50}, id="loop"),
    XLA,
]
forms = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def data(tmp_path):
    """60 batches of 8, as many steps as a call may make."""
    return write_bars(tmp_path / "bars.npz", train=480)


@pytest.fixture
def calls(monkeypatch):
    """The calls without hooks of a run: (steps to the next due one, steps of the call)."""
    calls = []

    class RecordingRunner(StepRunner):
        def run(self, max_steps):
            result = super().run(max_steps)
            calls.append((max_steps, result.num_steps))
            return result

    monkeypatch.setattr(loop, "StepRunner", RecordingRunner)
    return calls


def records(run, kind="train"):
    return [r for r in RunFolder(run).metrics.read() if r["kind"] == kind]


def steps_of(run):
    return [c.step for c in RunFolder(run).checkpoints.list()]


# ------------------------------------------------------------------------------------ step count


def adapt(count, secs, calls=12, limit=10**6):
    """The steps of calls with steps of so many seconds.

    Args:
        count: an `AdaptiveStepCount`.
        limit: how many steps there are until the next due one.
    """
    steps = []
    for _ in range(calls):
        steps.append(min(count.steps, limit))
        count.observe(secs)
    return steps


def test_a_fixed_step_count_stays_whatever_a_step_costs():
    assert adapt(AdaptiveStepCount(7), 10.0, calls=3) == [7, 7, 7]


def test_the_step_count_doubles_until_a_call_takes_its_time():
    assert adapt(AdaptiveStepCount(), CALL_SECS / 10.5, calls=6) == [1, 2, 4, 8, 10, 10]


def test_a_step_that_takes_longer_than_a_call_should_is_made_alone():
    assert set(adapt(AdaptiveStepCount(), 2 * CALL_SECS)) == {1}


def test_the_step_count_falls_at_once_where_steps_become_slow():
    count = AdaptiveStepCount()
    assert adapt(count, CALL_SECS / 100)[-1] == 100
    assert adapt(count, CALL_SECS / 2.5, calls=2) == [100, 2]


@pytest.mark.parametrize("max_steps, highest", [(None, MAX_STEPS), (20, 20)])
def test_the_step_count_never_passes_the_maximum(max_steps, highest):
    assert max(adapt(AdaptiveStepCount(max_steps=max_steps), 0.0)) == highest
    assert AdaptiveStepCount(50, max_steps).steps == min(50, highest)


def test_a_short_call_before_a_due_step_does_not_slow_those_behind_it():
    count = AdaptiveStepCount()
    adapt(count, CALL_SECS / 100.5)
    assert adapt(count, CALL_SECS / 100.5, calls=1, limit=60) == [60]
    assert adapt(count, CALL_SECS / 100.5, calls=1) == [100]


# -------------------------------------------------------------------------------------------- calls


def counting_graph(has_loop=True, max_steps=None, all_finite=None, guard_values=()):
    """A graph whose train op counts a step, or as many as are fed."""
    count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer(), use_resource=True)
    num_steps = tf.placeholder_with_default(tf.constant(1), []) if has_loop else None
    add = count.assign_add(num_steps if has_loop else 1, read_value=False)
    with tf.control_dependencies([add]):
        step_after = tf.identity(count.read_value())
    return TrainingGraph(
        tf_graph=tf.get_default_graph(),
        run=None,
        model=None,
        step=StepOutputs(None, guard_values, {}, None, ()),
        counters={},
        train_op=add,
        step_after=step_after,
        loop=LoopInfo(num_steps, max_steps, all_finite) if has_loop else None,
        step_specs=None,
    )


def run_calls(graph, limits, **options):
    """The results of calls with at most so many steps."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        runner = StepRunner(session, graph, in_memory=True, **options)
        return [runner.run(limit) for limit in limits]


@pytest.mark.usefixtures("graph")
def test_a_call_makes_up_to_the_fixed_number_of_steps_and_returns_the_step_behind_it():
    assert run_calls(counting_graph(), [100, 3, 100], steps_per_call=7) == [
        CallResult(7, 7),
        CallResult(10, 3),
        CallResult(17, 7),
    ]


@pytest.mark.usefixtures("graph")
def test_no_call_makes_more_steps_than_there_are_whatever_a_step_costs():
    clock = iter(range(1000)).__next__  # a call takes a second
    results = run_calls(counting_graph(), [3] * 4, clock=clock)
    assert [result.num_steps for result in results] == [1] * 4
    results = run_calls(counting_graph_again(), [5] * 8, clock=lambda: 0.0)  # and none at all
    assert [result.num_steps for result in results] == [1, 2, 4, 5, 5, 5, 5, 5]


def counting_graph_again():
    """`counting_graph` beside the one that is there."""
    with tf.variable_scope("again"):
        return counting_graph()


@pytest.mark.usefixtures("graph")
def test_a_graph_without_a_loop_makes_single_steps_and_does_not_return_its_step():
    graph = counting_graph(has_loop=False)
    assert run_calls(graph, [9, 9], steps_per_call=5) == [CallResult(None, 1)] * 2


@pytest.mark.usefixtures("graph")
def test_no_call_feeds_more_than_the_graph_takes():
    graph = counting_graph(max_steps=4)
    assert run_calls(graph, [100], steps_per_call=50) == [CallResult(4, 4)]


@pytest.mark.usefixtures("graph")
def test_a_refused_step_is_returned_with_the_values_that_the_guard_saw():
    loss, norm = tf.constant(float("inf")), tf.constant(2.0)
    refusal = [GuardValues("player", "inf", "2")]
    for all_finite, expected in ((False, refusal), (True, None)):
        with tf.variable_scope(str(all_finite)):
            values = [GuardValues("player", loss, norm)]
            graph = counting_graph(all_finite=tf.constant(all_finite), guard_values=values)
        assert run_calls(graph, [3], steps_per_call=3) == [CallResult(3, 3, expected)]


# -------------------------------------------------------------------------- steps in calls of a run


def test_calls_end_before_each_due_step_and_the_run_at_its_target(data, tmp_path, calls):
    run = str(tmp_path / "run")
    options = dict(RARE, log_steps=20, steps_per_call=7)
    summary = testing.train(Linear, run, data=data, steps=45, **options)
    # Step 20 and 40 are made with the hooks, and the last one is.
    assert [steps for _, steps in calls] == [7, 7, 5, 7, 7, 5, 4]
    assert (summary["steps"], steps_of(run)) == (45, [45])


@pytest.mark.parametrize("form", FORMS[1:])
def test_no_call_makes_more_steps_than_an_epoch_of_data_in_memory_has(tmp_path, calls, form):
    small = write_bars(tmp_path / "small.npz", train=40)
    testing.train(Linear, str(tmp_path / "run"), data=small, steps=30, **dict(RARE, **form))
    assert max(steps for _, steps in calls) == 5
    assert sum(steps for _, steps in calls) == 29


# -------------------------------------------------------------------------------------------- guard


def failing_in(step, value):
    """The linear plugin with a loss of this value in that one step."""

    class Failing(Linear):
        @hookimpl
        def loss(self, labels, outputs, run):
            now = tf.equal(run.global_step.read_value(), step - 1)
            factor = tf.where(now, tf.constant(value, tf.float32), tf.constant(1.0))
            return factor * Linear.loss(self, labels, outputs)

    return Failing


@forms
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_the_step_that_diverged_is_named_and_the_one_before_it_saved(data, tmp_path, form, value):
    run = str(tmp_path / "run")
    with pytest.raises(DivergedError, match=f"diverged in step 6: loss {value}") as raised:
        testing.train(failing_in(6, value), run, data=data, steps=60, **dict(RARE, **form))
    assert raised.value.exit_code == 3
    assert steps_of(run) == [5]
    tensors = testing.tensors(run)
    assert tensors["global_step"] == 5
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())
    assert [(r["step"], r["event"]) for r in records(run, "event")] == [(5, "diverged")]


@forms
def test_the_state_before_a_divergence_has_the_bits_of_a_run_that_stopped_there(
    data, tmp_path, form
):
    diverged, stopped = str(tmp_path / "diverged"), str(tmp_path / "stopped")
    with pytest.raises(DivergedError):
        testing.train(failing_in(6, np.nan), diverged, data=data, steps=60, **dict(RARE, **form))
    testing.train(Linear, stopped, data=data, steps=5, **dict(RARE, **form))
    assert testing.fingerprint(diverged) == testing.fingerprint(stopped)


@forms
def test_a_value_that_is_not_finite_in_a_step_with_hooks_is_reported_too(data, tmp_path, form):
    run = str(tmp_path / "run")
    options = dict(RARE, log_steps=6, **form)
    with pytest.raises(DivergedError, match="diverged in step 6: loss nan"):
        testing.train(failing_in(6, np.nan), run, data=data, steps=60, **options)
    assert steps_of(run) == [5]


@forms
def test_a_skipped_step_in_the_middle_of_a_call_is_counted_once_and_changes_nothing(
    data, tmp_path, form
):
    run = str(tmp_path / "run")
    options = dict(RARE, log_steps=20, on_nonfinite="skip", optimizer="sgd", **form)
    testing.train(failing_in(6, np.nan), run, data=data, steps=45, **options)
    events = [(r["step"], r["event"], r["count"]) for r in records(run, "event")]
    assert len(events) == 1 and events[0][1:] == ("skipped_steps", 1)
    tensors = testing.tensors(run)
    assert (tensors["global_step"], tensors["toolkit/skipped_steps"]) == (45, 1)
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


# ------------------------------------------------------------------------- hooks from elsewhere


class Plain(tf.train.SessionRunHook):
    """A third party's hook: notes the global step after each step, and may ask for the end."""

    def __init__(self, last=None):
        self.last, self.seen = last, []

    def begin(self):
        self._step = tf.train.get_global_step()

    def after_run(self, run_context, run_values):
        self.seen.append(int(run_context.session.run(self._step)))
        if self.seen[-1] == self.last:
            run_context.request_stop()


def with_hook(hook):
    """The linear plugin with a session hook."""

    class WithHook(Linear):
        @hookimpl
        def session_hooks(self):
            return [hook]

    return WithHook


@forms
def test_a_plain_hook_sees_every_step_whatever_the_steps_per_call(data, tmp_path, form):
    hook = Plain()
    testing.train(with_hook(hook), str(tmp_path / "run"), data=data, steps=9, **dict(RARE, **form))
    assert hook.seen == list(range(1, 10))


@forms
def test_a_plain_hook_that_asks_for_the_end_gets_it_after_its_step(data, tmp_path, form):
    run = str(tmp_path / "run")
    summary = testing.train(with_hook(Plain(5)), run, data=data, steps=60, **dict(RARE, **form))
    assert (summary["steps"], steps_of(run)) == (5, [5])


@forms
def test_hooks_of_tensorflow_work_as_they_do_elsewhere(data, tmp_path, form):
    logged = []

    class Stock(Linear):
        @hookimpl
        def session_hooks(self, losses):
            (loss,) = losses.values()
            return [
                tf.train.StopAtStepHook(num_steps=7),
                tf.train.NanTensorHook(loss),
                tf.train.LoggingTensorHook(
                    {"loss": loss}, every_n_iter=3, formatter=lambda v: logged.append(v["loss"])
                ),
            ]

    run = str(tmp_path / "run")
    options = dict(RARE, log_steps=1, **form)
    summary = testing.train(Stock, run, data=data, steps=60, **options)
    assert summary["steps"] == 7
    losses = [r["loss"] for r in records(run)]
    assert [float(v) for v in logged] == [losses[0], losses[3], losses[6]]


class Fetching(SessionHook):
    """Keeps what it fetches in every fifth step."""

    name = "fetching"

    def __init__(self, tensors):
        self.tensors, self.seen = tensors, {}

    def next_due_step(self, step):
        return step - step % 5 + 5

    def is_due(self, step):
        return step % 5 == 0

    def fetches(self):
        return self.tensors

    def on_step(self, step, values, context):
        self.seen[step] = values


def fetched(run, data, **options):
    """Step -> (loss, logits, features, labels, learning rate) of a run's steps 5, 10 and 15."""
    hooks = []

    class Showing(Linear):
        @hookimpl
        def session_hooks(self, losses, outputs, features, labels, run):
            (loss,) = losses.values()
            rate = run.logged["learning_rate"]
            hooks.append(Fetching([loss, outputs["logits"], features, labels, rate]))
            return hooks[-1:]

    testing.train(
        Showing, run, data=data, steps=17, warmup_steps=17, **dict(RARE, log_steps=5, **options)
    )
    return hooks[-1].seen


@forms
def test_what_a_hook_fetches_is_of_its_own_step(data, tmp_path, form):
    single = fetched(str(tmp_path / "single"), data, steps_per_call=1, xla="off")
    found = fetched(str(tmp_path / "found"), data, **form)
    assert sorted(found) == sorted(single) == [5, 10, 15]
    for step, values in single.items():
        for expected, value in zip(values, found[step]):
            if "xla" in form:
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(value, expected)
    losses = {r["step"]: r["loss"] for r in records(str(tmp_path / "found"))}
    assert all(losses[step] == values[0] for step, values in found.items())


# ------------------------------------------------------------- what may happen in a call of a run


def in_call(number, act):
    """A StepRunner after one of whose calls, by its number from 1, `act` is called."""

    class InterruptedRunner(StepRunner):
        calls = 0

        def run(self, max_steps):
            result = super().run(max_steps)
            InterruptedRunner.calls += 1
            if InterruptedRunner.calls == number:
                act()
            return result

    return InterruptedRunner


def test_a_signal_during_a_call_ends_the_run_a_step_behind_it(data, tmp_path, monkeypatch):
    calm, run = str(tmp_path / "calm"), str(tmp_path / "run")
    options = dict(RARE, data=data, steps=60, steps_per_call=10)
    testing.train(Linear, calm, **options)
    monkeypatch.setattr(loop, "StepRunner", in_call(2, lambda: os.kill(os.getpid(), signal.SIGINT)))
    with pytest.raises(InterruptedRun) as raised:
        testing.train(Linear, run, **options)
    assert raised.value.exit_code == 130
    assert steps_of(run) == [21]
    testing.train(Linear, run)
    assert testing.fingerprint(run) == testing.fingerprint(calm)


class Timed(SessionHook):
    """Due once, from second 2 on."""

    name = "timed"

    def __init__(self):
        self.seen = []

    def deadline(self):
        return float("inf") if self.seen else 2

    def is_due(self, step):
        return not self.seen

    def on_step(self, step, values, context):
        self.seen.append(step)


def test_a_deadline_that_passes_in_a_call_makes_the_next_step_due(
    data, tmp_path, calls, monkeypatch
):
    class Time:
        @staticmethod
        def monotonic():
            return len(calls)  # a call takes a second

    monkeypatch.setattr(loop, "time", Time)
    hook, options = Timed(), dict(RARE, steps_per_call=10)
    testing.train(with_hook(hook), str(tmp_path / "run"), data=data, steps=50, **options)
    assert hook.seen == [21]
    assert [steps for _, steps in calls] == [10, 10, 10, 10, 8]


@forms
def test_time_is_up_after_the_call_in_which_it_passed(data, tmp_path, form):
    run = str(tmp_path / "run")
    options = dict(RARE, **form)
    summary = testing.train(Linear, run, data=data, steps=10**7, max_secs=0.3, **options)
    assert summary["reason"] == "0.3 seconds have passed"
    assert steps_of(run)[-1] == summary["steps"] < 10**7


@forms
def test_a_session_that_is_lost_behind_a_call_repeats_and_loses_nothing(
    data, tmp_path, monkeypatch, form
):
    def lose():
        raise tf.errors.UnavailableError(None, None, "the machine has gone")

    calm, shaken = str(tmp_path / "calm"), str(tmp_path / "shaken")
    options = dict(data=data, steps=60, log_steps=10, checkpoint_steps=20, evaluate="no", **form)
    testing.train(Linear, calm, **options)
    monkeypatch.setattr(loop, "StepRunner", in_call(12, lose))
    testing.train(Linear, shaken, **options)
    assert testing.fingerprint(calm) == testing.fingerprint(shaken)
    told = [[(r["step"], r["loss"]) for r in records(run)] for run in (calm, shaken)]
    assert told[0] == told[1]
    assert [step for step, _ in told[0]] == [10, 20, 30, 40, 50, 60]


@pytest.fixture
def nine_batches(monkeypatch, tmp_path):
    """A streamed input that ends after nine batches."""
    whole = StreamReader._dataset
    monkeypatch.setattr(StreamReader, "_dataset", lambda reader: whole(reader).take(9))
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("nine_batches")
@pytest.mark.parametrize(
    "form",
    FORMS[:2],
)
def test_data_that_runs_dry_in_a_call_is_told_with_its_step(data, tmp_path, form):
    run = str(tmp_path / "run")
    options = dict(RARE, reader="stream", **form)
    with pytest.raises(DataError, match="The data ended in step 10 of 60"):
        testing.train(Linear, run, data=data, steps=60, **options)
    manifest = RunFolder(run).read_manifest()
    assert (manifest["status"], manifest["step"]) == ("failed", 9)


@forms
def test_a_hook_of_the_data_that_fails_in_a_call_is_told_as_its_own_fault(
    data, tmp_path, monkeypatch, form
):
    class Fussy(Linear):
        read = 0

        @hookimpl
        def convert(self, features, labels):
            Fussy.read += 1
            if Fussy.read > 150:
                raise KeyError("enough")
            return features, labels

    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    options = dict(RARE, reader="stream", **form)
    with pytest.raises(ToolkitError, match="failed in its hook 'convert': KeyError"):
        testing.train(Fussy, str(tmp_path / "run"), data=data, steps=60, **options)


def test_a_train_op_that_moves_the_step_twice_is_told_in_a_call_too(data, tmp_path):
    class Twice(Linear):
        @hookimpl
        def optimize(self, losses, run):
            with tf.control_dependencies([run.minimize(losses)]):
                return run.global_step.assign_add(1, read_value=False)

    options = dict(RARE, steps_per_call=10)
    with pytest.raises(ToolkitError, match="moved the global step to 20, expected 10"):
        testing.train(Twice, str(tmp_path / "run"), data=data, steps=60, **options)
