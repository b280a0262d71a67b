"""Several steps in one call: their number, and hooks, faults and signals in such a run."""

import os
import signal
import time
from unittest import mock

import numpy as np
import pytest
from hook_fixtures import ONLY_2, Fetch, with_hooks
from linear_fixtures import Linear, spoiled, write_bars
from run_fixtures import records, steps_of

from toolkit import SessionHook, hookimpl, testing, tf
from toolkit.data.readers import stream
from toolkit.errors import DataError, DivergedError, InterruptedRun
from toolkit.storage.run_folder import RunFolder
from toolkit.training import loop, step_runner
from toolkit.training.step_runner import CALL_SECS, MAX_STEPS, TRIAL_CALLS, StepRunner

RARE = {"log_steps": 1000, "checkpoint_steps": 1000, "summary_steps": 1000, "evaluate": "no"}
LOOP = {"steps_per_call": 50}
FORMS = [pytest.param(LOOP, id="loop"), pytest.param({"xla": "on"}, id="xla", marks=ONLY_2)]
forms = pytest.mark.parametrize("form", FORMS)
DUE = pytest.param({"xla": "on", "log_steps": 6}, id="xla, with hooks", marks=ONLY_2)


@pytest.fixture
def data(here):
    """60 batches of 8, as many steps as a call may make."""
    return write_bars("bars.npz", train=480)


@pytest.fixture
def calls(monkeypatch):
    """The calls of a run without hooks: (steps until the next due step, steps of the call)."""
    calls, call = [], StepRunner.run

    def record(self, max_steps):
        result = call(self, max_steps)
        calls.append((max_steps, result.num_steps))
        return result

    monkeypatch.setattr(StepRunner, "run", record)
    return calls


def call_steps(monkeypatch, step_secs, fixed=None, max_steps=None):
    """The numbers of steps of calls whose steps take these seconds."""
    clock, counts = [0.0], []

    def call(num_steps):
        clock[0] += num_steps * step_secs[len(counts)]
        counts.append(int(num_steps))
        return [0]

    monkeypatch.setattr(step_runner, "time", mock.Mock(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(step_runner, "make_callable", lambda *_: call)
    graph = mock.Mock(loop=mock.Mock(max_steps=max_steps, all_finite=None))
    runner = StepRunner(None, graph, False, fixed)
    for _ in step_secs:
        runner.run(10**6)
    return counts


@pytest.mark.parametrize(
    "fixed, secs, expected",
    [
        (7, [10.0] * 3, [7, 7, 7]),
        (None, [CALL_SECS / 10.5] * 6, [1, 2, 4, 8, 10, 10]),
        (None, [2 * CALL_SECS] * 3, [1, 1, 1]),
        (None, [CALL_SECS / 10.5] * 5 + [CALL_SECS / 2.5] * 2, [1, 2, 4, 8, 10, 10, 2]),
    ],
    ids=["fixed", "doubled until a call takes its time", "alone if slow", "falls at once"],
)
def test_the_step_count_follows_the_time_of_a_step_unless_it_is_fixed(
    monkeypatch, fixed, secs, expected
):
    assert call_steps(monkeypatch, secs, fixed) == expected


@pytest.mark.parametrize("max_steps, highest", [(None, MAX_STEPS), (20, 20)])
def test_the_step_count_never_passes_the_maximum(monkeypatch, max_steps, highest):
    assert max(call_steps(monkeypatch, [0.0] * 12, None, max_steps)) == highest
    assert call_steps(monkeypatch, [0.0], 50, max_steps) == [min(50, highest)]


@pytest.mark.parametrize("inline_secs, faster", [(0.001, True), (0.003, False)])
def test_a_small_step_in_memory_runs_by_the_faster_threads(monkeypatch, inline_secs, faster):
    clock, modes = [0.0], []

    def make_call(*_, inline=False):
        def call():
            clock[0] += inline_secs if inline else 0.002
            modes.append(inline)

        return call

    monkeypatch.setattr(step_runner, "time", mock.Mock(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(step_runner, "make_callable", make_call)
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.zeros([32, 100]), tf.zeros([100, 50]))
    runner = StepRunner(None, mock.Mock(tf_graph=graph, loop=None), in_memory=True)
    for _ in range(2 * TRIAL_CALLS + 3):
        runner.run(1)
    assert modes == [False, True] * TRIAL_CALLS + [faster] * 3


def test_a_large_step_and_one_that_reads_a_stream_have_no_trial(monkeypatch):
    make = mock.Mock()
    monkeypatch.setattr(step_runner, "make_callable", make)
    for size, in_memory in (32, False), (40000, True):
        with tf.Graph().as_default() as graph:
            tf.matmul(tf.zeros([size, 100]), tf.zeros([100, 50]))
        StepRunner(None, mock.Mock(tf_graph=graph, loop=None), in_memory)
    assert ["inline" in call[1] for call in make.call_args_list] == [False, False]


def test_calls_end_before_each_due_step_and_the_run_ends_at_its_target(data, calls):
    options = dict(RARE, log_steps=20, steps_per_call=7)
    summary = testing.train(Linear, "run", data=data, steps=45, **options)
    # The steps 20, 40 and 45 are not in these calls: the hooks run with them.
    assert [steps for _, steps in calls] == [7, 7, 5, 7, 7, 5, 4]
    assert (summary["steps"], steps_of("run")) == (45, [45])


@forms
def test_no_call_makes_more_steps_than_an_epoch_of_data_in_memory_has(here, calls, form):
    options = {**RARE, **form, "steps_per_call": 50}  # whatever the time of a step
    testing.train(Linear, "run", data=write_bars("small.npz", train=40), steps=30, **options)
    calls = calls[1:] if form != LOOP else calls  # the first one tries what XLA has compiled
    assert max(steps for _, steps in calls) == 5
    assert sum(steps for _, steps in calls) == 29


@pytest.mark.parametrize("form", [*FORMS, DUE])
def test_the_error_names_the_diverged_step_and_the_state_before_it_is_saved(data, form):
    options = dict(RARE, **form)
    with pytest.raises(DivergedError, match="diverged in step 6: loss inf"):
        testing.train(spoiled("inf", 6), "run", data=data, steps=60, **options)
    assert steps_of("run") == [5]
    assert [(r["step"], r["event"]) for r in records("run", "event")] == [(5, "diverged")]
    assert RunFolder("run").state()["status"] == "diverged"
    testing.train(Linear, "short", data=data, steps=5, **options)
    assert testing.fingerprint("run") == testing.fingerprint("short")


@forms
def test_hooks_of_tensorflow_work_as_in_other_programs(data, form):
    values = []

    class Stock(Linear):
        @hookimpl
        def session_hooks(self, losses):
            (loss,) = losses.values()
            log = tf.train.LoggingTensorHook(losses, every_n_iter=3, formatter=values.append)
            return [tf.train.StopAtStepHook(num_steps=7), tf.train.NanTensorHook(loss), log]

    summary = testing.train(Stock, "run", data=data, steps=60, **dict(RARE, log_steps=1, **form))
    assert (summary["steps"], steps_of("run")) == (7, [7])
    expected = [r["loss"] for r in records("run")]
    assert [float(each["loss"]) for each in values] == [expected[0], expected[3], expected[6]]


def fetch_in_run(run, data, **options):
    """Step -> (loss, logits, features, labels, learning rate) of a run's steps 5, 10, 15 and 17."""
    hooks = []

    class WithFetches(Linear):
        @hookimpl
        def session_hooks(self, losses, outputs, features, labels, run):
            (loss,) = losses.values()
            rate = run.logged["learning_rate"]
            hooks.append(Fetch([loss, outputs["logits"], features, labels, rate]))
            return hooks[-1:]

    options = dict(RARE, log_steps=5, steps=17, warmup_steps=17, **options)
    testing.train(WithFetches, run, data=data, **options)
    return hooks[-1].values


@forms
def test_a_hook_fetches_the_values_of_its_own_step(data, form):
    single = fetch_in_run("single", data, steps_per_call=1, xla="off")
    values_by_step = fetch_in_run("run", data, **form)
    assert sorted(values_by_step) == sorted(single) == [5, 10, 15, 17]
    for step, values in single.items():
        for expected, value in zip(values, values_by_step[step]):
            if "xla" in form:
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(value, expected)


@forms
def test_a_record_has_the_means_of_the_steps_that_happened_since_the_one_before(data, form):
    options = dict(RARE, data=data, steps=17, warmup_steps=17, on_nonfinite="skip", **form)
    for run, steps in (("each", 1), ("run", 5)):
        testing.train(spoiled("nan", 7), run, **dict(options, log_steps=steps))
    each = {record["step"]: record for record in records("each")}
    assert each[7]["loss"] is None  # of no step
    spans = [range(1, 6), (6, 8, 9, 10), range(11, 16), (16, 17)]
    for record, span in zip(records("run"), spans):
        for name in ("loss", "gradient_norm"):
            mean = np.mean([each[step][name] for step in span])
            assert record[name] == pytest.approx(mean, rel=1e-5 if "xla" in form else 1e-12)
        assert record["learning_rate"] == each[span[-1]]["learning_rate"]


@pytest.mark.parametrize(
    "form, is_in_list",
    [
        pytest.param({"steps_per_call": 1}, True, id="single, beside the loss"),
        pytest.param(LOOP, False, id="loop, alone"),
        pytest.param({"xla": "on"}, True, id="xla, beside the loss", marks=ONLY_2),
    ],
)
def test_a_hook_reads_variables_after_its_step(data, form, is_in_list):
    hooks = []

    class WithReads(Linear):
        @hookimpl
        def session_hooks(self, model, losses):
            (loss,) = losses.values()
            reads = [model[0], tf.linalg.global_norm(model), "linear/b:0"]
            hooks.append(Fetch([loss, *reads] if is_in_list else reads))
            return hooks[-1:]

    options = dict(RARE, checkpoint_steps=5, log_steps=1, keep_checkpoints=9, steps=15)
    testing.train(WithReads, "run", data=data, **dict(options, **form))
    losses = {record["step"]: record["loss"] for record in records("run")}
    for step, values in hooks[-1].values.items():
        after = testing.tensors("run", str(step))
        *loss, w, norm, b = values
        assert loss == [losses[step]] * is_in_list
        np.testing.assert_array_equal(w, after["linear/w"])
        np.testing.assert_array_equal(b, after["linear/b"])
        assert norm == pytest.approx(np.sqrt((w**2).sum() + (b**2).sum()), rel=1e-5)
    assert sorted(hooks[-1].values) == [5, 10, 15]


def test_a_signal_during_a_call_ends_the_run_one_step_after_it(data, calls, monkeypatch):
    call = StepRunner.run

    def call_and_interrupt(self, max_steps):
        result = call(self, max_steps)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(StepRunner, "run", call_and_interrupt)
    options = dict(RARE, data=data, steps=60, steps_per_call=10)
    with pytest.raises(InterruptedRun) as error:
        testing.train(Linear, "run", **options)
    assert error.value.exit_code == 130
    assert steps_of("run") == [21]
    testing.train(Linear, "run")
    testing.train(Linear, "reference", **options)
    assert testing.fingerprint("run") == testing.fingerprint("reference")


def test_a_deadline_that_passes_in_a_call_makes_the_next_step_due(data, calls, monkeypatch):
    # A call takes a second, and the hook is due once, at the first step from second 2 on.
    monkeypatch.setattr(loop, "time", mock.Mock(time=time.time, monotonic=lambda: len(calls)))
    steps, hook = [], SessionHook()
    hook.deadline = lambda: float("inf") if steps else 2
    hook.is_due = lambda step: not steps
    hook.on_step = lambda step, *_: steps.append(step)
    testing.train(with_hooks(hook), "run", data=data, steps=50, steps_per_call=10, **RARE)
    assert steps == [21]
    assert [steps for _, steps in calls] == [10, 10, 10, 10, 8]


@forms
def test_a_run_ends_after_the_call_in_which_its_time_limit_passes(data, form):
    options = dict(RARE, log_steps=10**7, **form)
    summary = testing.train(Linear, "run", data=data, steps=10**7, max_secs=0.3, **options)
    assert summary["reason"] == "0.3 seconds have passed"
    assert steps_of("run")[-1] == summary["steps"] < 10**7
    assert records("run") == []  # an uninterrupted run has none at these steps
    assert RunFolder("run").state()["status"] == "stopped"


def test_the_error_for_data_that_ends_in_a_call_names_the_step(data, monkeypatch):
    monkeypatch.setattr(stream, "_NO_END", 9)
    monkeypatch.setattr(stream.StreamReader, "_batches_per_read", 1)
    monkeypatch.setenv("TOOLKIT_CACHE", "cache")
    with pytest.raises(DataError, match="The data ended in step 10 of 60"):
        testing.train(Linear, "run", data=data, steps=60, **dict(RARE, reader="stream", **LOOP))
    manifest = RunFolder("run").state()
    assert (manifest["status"], manifest["step"]) == ("failed", 9)
