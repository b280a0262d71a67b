"""The loop between the first step and the last: stops, errors, retries and interrupts."""

import contextlib
import glob
import io
import json
import os
import signal
import threading

import numpy as np
import pytest
from linear_fixtures import Linear, LinearOptions, write_bars

from toolkit import SessionHook, hookimpl, testing, tf
from toolkit.display.console import Console
from toolkit.errors import (
    DataError,
    DivergedError,
    InterruptedRun,
    RetryError,
    ToolkitError,
    UsageError,
)
from toolkit.storage.run_folder import RunFolder
from toolkit.training.loop import MAX_RETRIES


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


def records(run_dir, kind="train"):
    return [r for r in RunFolder(str(run_dir)).metrics.read() if r["kind"] == kind]


def steps_of(run_dir):
    return [c.step for c in RunFolder(str(run_dir)).checkpoints.list()]


def with_hooks(*hooks):
    """The linear plugin with session hooks."""

    class WithHooks(Linear):
        @hookimpl
        def session_hooks(self):
            return list(hooks)

    return WithHooks


class StockHook(tf.train.SessionRunHook):
    """A third party's hook without due steps.

    Args:
        act: act(calls, run_context) is called after each step; None for nothing.
    """

    def __init__(self, act=None):
        self.act, self.calls = act, 0

    def after_run(self, run_context, run_values):
        self.calls += 1
        if self.act is not None:
            self.act(self.calls, run_context)


class Infinite(Linear):
    """Its loss is infinite in step 6."""

    @hookimpl
    def loss(self, labels, outputs, run):
        step = run.global_step.read_value()
        factor = tf.where(tf.equal(step, 5), tf.constant(np.inf), tf.constant(1.0))
        return factor * super().loss(labels, outputs)


def test_after_a_divergence_the_newest_checkpoint_is_finite_and_of_the_last_good_step(
    data, tmp_path
):
    run = tmp_path / "run"
    with pytest.raises(DivergedError, match="diverged in step 6: loss inf") as error:
        testing.train(Infinite, str(run), data=data, steps=20, checkpoint_steps=100)
    assert error.value.exit_code == 3
    assert steps_of(run) == [5]
    assert all(np.isfinite(v).all() for v in testing.tensors(str(run)).values())
    assert [r["event"] for r in records(run, "event")] == ["diverged"]
    assert RunFolder(str(run)).read_manifest()["status"] == "diverged"


def test_training_that_skips_a_non_finite_step_continues_and_records_it(data, tmp_path):
    run = str(tmp_path / "run")
    summary = testing.train(Infinite, run, data=data, steps=12, on_nonfinite="skip", log_steps=4)
    assert summary["steps"] == 12
    assert [(r["event"], r["count"]) for r in records(run, "event")] == [("skipped_steps", 1)]


def test_a_run_in_which_every_step_is_skipped_diverges(data, tmp_path):
    class Never(Linear):
        @hookimpl
        def loss(self, labels, outputs):
            return np.float32("inf") * super().loss(labels, outputs)

    with pytest.raises(DivergedError, match="All of the last"):
        testing.train(
            Never, str(tmp_path / "run"), data=data, steps=50, on_nonfinite="skip", log_steps=5
        )


class InfiniteUntil(Linear):
    """Its loss is infinite in the steps 101 to 200, or to an earlier one."""

    last = 200

    @hookimpl
    def loss(self, labels, outputs, run):
        step = run.step_index  # of steps before
        is_infinite = tf.logical_and(step >= 100, step < self.last)
        factor = tf.where(is_infinite, tf.constant(np.inf), tf.constant(1.0))
        return factor * super().loss(labels, outputs)


class InfiniteUntil199(InfiniteUntil):
    """Its loss is finite again in step 200."""

    last = 199


@pytest.mark.parametrize("log_steps", [1, 7, 1000])
def test_whether_skipped_steps_end_a_run_does_not_depend_on_the_log(data, tmp_path, log_steps):
    options = {"data": data, "steps": 210, "on_nonfinite": "skip", "evaluate": "no"}
    options["log_steps"] = log_steps
    with pytest.raises(DivergedError, match="All of the last 100 steps up to step 200 were non"):
        testing.train(InfiniteUntil, str(tmp_path / "lost"), **options)
    run = tmp_path / "continued"
    assert testing.train(InfiniteUntil199, str(run), **options)["steps"] == 210
    events = [r for r in records(run, "event") if r["event"] == "skipped_steps"]
    assert sum(r["count"] for r in events) == 99
    assert all(r["step"] % log_steps == 0 or r["step"] == 210 for r in events)


def test_a_hook_without_due_steps_is_called_on_every_step(data, tmp_path):
    hook = StockHook()
    testing.train(with_hooks(hook), str(tmp_path / "run"), data=data, steps=7, log_steps=100)
    assert hook.calls == 7


def test_a_hook_with_due_steps_is_called_on_those_and_the_last(data, tmp_path):
    class Due(SessionHook):
        name = "due"

        def __init__(self):
            self.steps = []

        def next_due_step(self, step):
            return 3 if step < 3 else float("inf")

        def is_due(self, step):
            return step == 3 or self.loop.is_last(step)

        def on_step(self, step, values, context):
            self.steps.append(step)

    hook = Due()
    testing.train(with_hooks(hook), str(tmp_path / "run"), data=data, steps=7, log_steps=100)
    assert hook.steps == [3, 7]


def test_a_stock_hook_that_requests_a_stop_ends_the_run_with_a_checkpoint(data, tmp_path):
    run = str(tmp_path / "run")
    stock = tf.train.StopAtStepHook(num_steps=5)
    summary = testing.train(with_hooks(stock), run, data=data, steps=20, checkpoint_steps=100)
    assert (summary["steps"], steps_of(run)) == (5, [5])


def test_the_steps_are_the_same_with_every_hook_due_and_with_none(data, tmp_path):
    few, many = str(tmp_path / "few"), str(tmp_path / "many")
    testing.train(Linear, few, data=data, steps=23, log_steps=100, checkpoint_steps=1000)
    testing.train(
        with_hooks(StockHook()), many, data=data, steps=23, log_steps=1, checkpoint_steps=2
    )
    assert testing.fingerprint(few) == testing.fingerprint(many)


def test_metrics_are_logged_at_multiples_and_at_the_last_step(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, steps=10, log_steps=4)
    assert [r["step"] for r in records(run)] == [4, 8, 10]
    names = {"step", "kind", "loss", "learning_rate", "gradient_norm"}
    assert set(records(run)[0]) == names  # no times: a resumed run has equal records


def test_the_speed_is_recorded_in_a_file_of_its_own(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, steps=10, log_steps=4, evaluate="no")
    with open(os.path.join(run, "speed.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    assert [row["step"] for row in rows] == [4, 8, 10]
    assert all(row["examples_per_sec"] > 0 and row["seconds"] > 0 for row in rows)


def read_events(run):
    """The events in all event files of a run."""
    folder = os.path.join(str(run), "events")
    return [
        event
        for name in sorted(os.listdir(folder))
        for event in tf.train.summary_iterator(os.path.join(folder, name))
    ]


def test_summaries_are_written_at_multiples_and_at_the_last_step(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, steps=10, summary_steps=4, evaluate="no")
    steps = [e.step for e in read_events(run) if e.HasField("summary")]
    assert steps == [4, 8, 10]


def test_events_contain_loss_rate_gradient_norm_speed_and_evaluations(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, steps=4, summary_steps=2)
    tags = {value.tag for event in read_events(run) for value in event.summary.value}
    assert {"loss", "learning_rate", "gradient_norm", "examples_per_sec"} <= tags
    assert {"validation/loss", "validation/accuracy"} <= tags


def test_two_runs_in_one_process_do_not_share_a_writer(data, tmp_path):
    for name, steps in (("one", 2), ("two", 3)):
        testing.train(
            Linear, str(tmp_path / name), data=data, steps=steps, summary_steps=1, evaluate="no"
        )
    for name, steps in (("one", 2), ("two", 3)):
        assert len([e for e in read_events(tmp_path / name) if e.HasField("summary")]) == steps


def test_checkpoints_contain_no_graph(data, tmp_path):
    run = tmp_path / "run"
    testing.train(Linear, str(run), data=data, steps=2)
    names = [name for _, _, files in os.walk(str(run)) for name in files]
    assert not [n for n in names if n.endswith((".meta", ".pbtxt"))]


def test_the_error_for_data_that_ends_names_the_step(data, tmp_path):
    def end_data(calls, context):
        if calls == 3:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence")

    run = str(tmp_path / "run")
    with pytest.raises(DataError, match="The data ended in step 4 of 9"):
        testing.train(with_hooks(StockHook(end_data)), run, data=data, steps=9)
    assert RunFolder(run).read_manifest()["status"] == "failed"


def test_stop_iteration_in_a_hook_is_the_fault_of_the_hook(data, tmp_path):
    def stop(calls, context):
        raise StopIteration

    with pytest.raises(ToolkitError, match="failed in after_run: StopIteration") as caught:
        testing.train(with_hooks(StockHook(stop)), str(tmp_path / "run"), data=data, steps=9)
    assert caught.value.exit_code == 1


def lose_session(at, times=1):
    """An `act` that loses the session.

    Args:
        at: the number of the first call that loses it.
        times: the number of times.
    """
    remaining = [times]

    def act(calls, context):
        if calls >= at and remaining[0]:
            remaining[0] -= 1
            raise tf.errors.UnavailableError(None, None, "the machine has gone")

    return act


def test_a_lost_session_repeats_and_loses_nothing(data, tmp_path):
    reference, retry = str(tmp_path / "reference"), str(tmp_path / "retry")
    options = {"data": data, "steps": 12, "log_steps": 1, "checkpoint_steps": 4, "evaluate": "no"}
    testing.train(Linear, reference, **options)
    testing.train(with_hooks(StockHook(lose_session(at=6))), retry, **options)
    assert testing.fingerprint(reference) == testing.fingerprint(retry)
    losses, retry_losses = (
        [(r["step"], r["loss"]) for r in records(run)] for run in (reference, retry)
    )
    assert losses == retry_losses


def test_a_lost_session_gives_one_warning(data, tmp_path, capsys):
    from toolkit.display.console import Console

    trainer = testing.open_trainer(
        with_hooks(StockHook(lose_session(at=3))),
        str(tmp_path / "run"),
        data=data,
        steps=5,
        console=Console(),
    )
    trainer.train()
    trainer.close()
    warnings = [line for line in capsys.readouterr().err.split("\n") if "warning" in line]
    assert warnings == ["warning: the session was lost at step 3; continuing from step 2"]


def test_a_run_whose_session_is_lost_too_often_ends_with_exit_code_138(data, tmp_path):
    hook = StockHook(lose_session(at=3, times=1000))
    with pytest.raises(RetryError, match=f"was lost {MAX_RETRIES + 1} times") as error:
        testing.train(with_hooks(hook), str(tmp_path / "run"), data=data, steps=9)
    assert error.value.exit_code == 138


def test_sessions_that_are_lost_at_later_and_later_steps_do_not_end_a_run(data, tmp_path):
    losses = []

    def lose_at_every_other_step(calls, context):
        step = int(context.session.run(tf.train.get_global_step()))
        if step % 2 == 0 and step not in losses:
            losses.append(step)
            raise tf.errors.AbortedError(None, None, "lost")

    run = str(tmp_path / "run")
    options = {"data": data, "steps": 12, "checkpoint_steps": 1, "evaluate": "no"}
    summary = testing.train(with_hooks(StockHook(lose_at_every_other_step)), run, **options)
    assert (summary["steps"], losses) == (12, [2, 4, 6, 8, 10, 12])
    assert len(losses) > MAX_RETRIES


def test_the_error_for_an_op_that_is_built_too_late_names_plugin_and_hook(data, tmp_path):
    def build_op(calls, context):
        with context.session.graph.as_default():
            tf.constant(1)

    with pytest.raises(ToolkitError, match="StockHook of plugin 'withhooks' failed in after_run"):
        testing.train(with_hooks(StockHook(build_op)), str(tmp_path / "run"), data=data, steps=3)


def test_a_train_op_that_does_not_advance_the_step_is_refused(data, tmp_path):
    class Still(Linear):
        @hookimpl
        def optimize(self, losses, run):
            return run.minimize(losses, advance_step=False)

    with pytest.raises(ToolkitError, match="moved the global step to 0, expected 1"):
        testing.train(Still, str(tmp_path / "run"), data=data, steps=3, log_steps=1)


@pytest.mark.parametrize("signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_after_a_signal_the_step_is_finished_and_committed(data, tmp_path, signum, code):
    def kill(calls, context):
        if calls == 7:
            os.kill(os.getpid(), signum)

    run = str(tmp_path / "run")
    with pytest.raises(InterruptedRun) as error:
        testing.train(
            with_hooks(StockHook(kill)), run, data=data, steps=50, log_steps=3, checkpoint_steps=5
        )
    assert error.value.exit_code == code
    last = steps_of(run)[-1]
    assert last in (7, 8)  # the step during which the signal came, or the one after
    assert [r["step"] for r in records(run) if r["kind"] == "train"] == [3, 6]
    assert steps_of(run) == [5, last]
    assert "toolkit resume" in error.value.hint
    assert RunFolder(run).read_manifest()["status"] == "interrupted"


def test_a_second_signal_ends_the_process_as_the_system_does(data, tmp_path):
    handlers = []

    def kill(calls, context):
        handlers.append(signal.getsignal(signal.SIGTERM))
        if calls == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            handlers.append(signal.getsignal(signal.SIGTERM))

    with pytest.raises(InterruptedRun):
        testing.train(with_hooks(StockHook(kill)), str(tmp_path / "run"), data=data, steps=50)
    assert signal.SIG_DFL not in handlers[:3]  # the first signal is handled
    assert set(handlers[3:]) == {signal.SIG_DFL}  # and no other one


def test_hooks_flush_before_a_commit_and_learn_of_it_afterwards(data, tmp_path):
    run = str(tmp_path / "run")
    calls = []

    class Recorder(SessionHook):
        def on_commit(self):
            calls.append(("flush", self.loop.step, steps_of(run)))

        def on_committed(self, step, path):
            calls.append(("committed", step, steps_of(run)))

    options = {"data": data, "steps": 4, "checkpoint_steps": 2, "evaluate": "no"}
    testing.train(with_hooks(Recorder()), run, **options)
    assert calls == [
        ("flush", 2, []),
        ("committed", 2, [2]),
        ("flush", 4, [2]),
        ("committed", 4, [2, 4]),
    ]


def test_an_interrupted_run_resumes_to_the_bits_of_an_uninterrupted_one(data, tmp_path):
    def kill(calls, context):
        if calls == 7:
            os.kill(os.getpid(), signal.SIGINT)

    whole, resumed = str(tmp_path / "whole"), str(tmp_path / "resumed")
    testing.train(Linear, whole, data=data, steps=20)
    with pytest.raises(InterruptedRun):
        testing.train(with_hooks(StockHook(kill)), resumed, data=data, steps=20)
    testing.train(Linear, resumed, allow=["plugin"])
    assert testing.fingerprint(whole) == testing.fingerprint(resumed)


def test_the_signal_handlers_are_restored(data, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    testing.train(Linear, str(tmp_path / "run"), data=data, steps=2)
    assert signal.getsignal(signal.SIGINT) is before


def test_closing_takes_bounded_time_although_a_thread_does_not_end(data, tmp_path, monkeypatch):
    monkeypatch.setattr("toolkit.training.loop.CLOSE_SECS", 0.1)
    release, seconds = threading.Event(), []
    thread = threading.Thread(target=release.wait, daemon=True)

    class Stuck(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            coord.register_thread(thread)
            thread.start()
            join = coord.join

            def record(*threads, **settings):
                seconds.append(settings["stop_grace_period_secs"])
                join(*threads, **settings)

            coord.join = record

    testing.train(with_hooks(Stuck()), str(tmp_path / "run"), data=data, steps=2, evaluate="no")
    assert seconds == [0.1] and thread.is_alive()
    release.set()


def test_a_run_at_its_time_limit_ends_after_a_step_that_is_saved(data, tmp_path):
    run = str(tmp_path / "run")
    summary = testing.train(Linear, run, data=data, steps=10**7, max_secs=0.5, log_steps=10**6)
    assert summary["reason"] == "0.5 seconds have passed"
    assert steps_of(run)[-1] == summary["steps"] < 10**7
    assert records(run) == []  # an uninterrupted run has none at these steps
    assert RunFolder(run).read_manifest()["status"] == "stopped"


def test_profiled_steps_are_chrome_traces(data, tmp_path):
    run = tmp_path / "run"
    testing.train(Linear, str(run), data=data, steps=4, profile_steps="2,3", evaluate="no")
    assert sorted(os.listdir(str(run / "profile"))) == ["step-2.json", "step-3.json"]
    trace = json.loads((run / "profile" / "step-2.json").read_text())
    assert [e for e in trace["traceEvents"] if e.get("ph") == "X"]


def test_the_hooks_run_in_the_printed_order(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(with_hooks(StockHook()), run, data=data, steps=2, profile_steps="1")
    assert RunFolder(run).read_manifest()["hooks"] == [
        "counter",
        "guard",
        "metrics",
        "withhooks:StockHook",
        "summaries",
        "profile",
        "checkpoint",
        "evaluation",
        "stop",
    ]


def test_threads_memory_and_placement_reach_the_session():
    from graph_fixtures import make_run

    from toolkit.graph.session_config import session_config

    options = make_run(
        intra_op_threads=3,
        inter_op_threads=2,
        gpu_memory_fraction=0.5,
        gpu_memory_growth=False,
        log_device_placement=True,
    ).options
    config = session_config(options)
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (3, 2)
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert not config.gpu_options.allow_growth
    assert config.log_device_placement


@pytest.mark.parametrize("batch_size, option, threads", [(32, 0, 1), (32, 2, 2), (40000, 0, 0)])
def test_a_small_step_gets_one_thread_within_an_op(batch_size, option, threads):
    from graph_fixtures import make_run

    from toolkit.compat import float_operations
    from toolkit.graph.session_config import choose_threads

    with tf.Graph().as_default() as graph:
        tf.matmul(tf.zeros([batch_size, 100]), tf.zeros([100, 50]))
    assert float_operations(graph) >= 2 * batch_size * 100 * 50  # a multiplication and an addition
    options = make_run(intra_op_threads=option).options
    assert choose_threads(options, graph).intra_op_threads == threads


class LoggingHook(SessionHook):
    """Logs a line, writes a record and writes a summary on its due steps."""

    name = "logging"

    def next_due_step(self, step):
        return step + 3 - step % 3

    def is_due(self, step):
        return step % 3 == 0

    def on_step(self, step, values, context):
        self.loop.log(f"hello from step {step}")
        self.loop.record({"step": step, "kind": "event", "event": "test"})
        self.loop.summarize(
            step, tf.Summary(value=[tf.Summary.Value(tag="height", simple_value=float(step))])
        )


def test_a_hook_can_log_record_and_summarize(data, tmp_path):
    stream = io.StringIO()
    console = Console(stream, every_secs=1e9)
    run = str(tmp_path / "run")
    testing.train(with_hooks(LoggingHook()), run, console=console, data=data, steps=6)
    lines = stream.getvalue().split("\n")
    assert [line for line in lines if line.startswith("hello")] == [
        "hello from step 3",
        "hello from step 6",
    ]
    assert [(r["step"], r["event"]) for r in records(run, "event")] == [(3, "test"), (6, "test")]
    (path,) = glob.glob(os.path.join(run, "events", "*"))
    values = [(e.step, v.tag) for e in tf.train.summary_iterator(path) for v in e.summary.value]
    assert [step for step, tag in values if tag == "height"] == [3, 6]


class TwoBatches(Linear):
    """Reads two batches per step and trains on the second."""

    class Options(LinearOptions):
        @property
        def batches_per_step(self):
            return 2

    @hookimpl
    def options(self):
        return self.Options

    @hookimpl
    def call(self, model, features, run):
        return super().call(model, features[run.options.batch_size :], run)

    @hookimpl
    def loss(self, labels, outputs, run):
        return super().loss(labels[run.options.batch_size :], outputs)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_step_of_two_batches_reads_two_resumes_exactly_and_counts_epochs(data, tmp_path, reader):
    options = {"data": data, "batch_size": 4, "evaluate": "no", "reader": reader}
    trainer = testing.open_trainer(TwoBatches, str(tmp_path / "one"), epochs=1, **options)
    with contextlib.closing(trainer):
        assert trainer.total_steps == 5  # 40 examples, 8 per step
    whole, halves = str(tmp_path / "whole"), str(tmp_path / "halves")
    testing.train(TwoBatches, whole, steps=6, **options)
    testing.train(TwoBatches, halves, steps=3, **options)
    testing.train(TwoBatches, halves, steps=6, **options)
    assert testing.fingerprint(whole) == testing.fingerprint(halves)


def test_the_error_for_a_step_of_too_many_examples_names_their_number(data, tmp_path):
    count = len(
        testing.open_trainer(TwoBatches, str(tmp_path / "a"), data=data)._run_data.splits["train"]
    )
    size = count // 2 + 1
    message = (
        f"A step takes 2 batches of {size} = {2 * size} examples, but the split 'train' has {count}"
    )
    with pytest.raises(UsageError, match=message) as caught:
        testing.open_trainer(TwoBatches, str(tmp_path / "b"), data=data, batch_size=size)
    assert caught.value.hint.startswith(f"Set --batch-size {count // 2} or less, or take fewer")


def test_no_batch_size_is_proposed_where_a_step_takes_more_batches_than_examples(
    data, tmp_path, monkeypatch
):
    monkeypatch.setattr(TwoBatches.Options, "batches_per_step", 41)
    with pytest.raises(UsageError, match="A step takes 41 batches of 1 = 41 examples") as caught:
        testing.open_trainer(TwoBatches, str(tmp_path / "a"), data=data, batch_size=1)
    assert caught.value.hint == "Take fewer batches per step."
