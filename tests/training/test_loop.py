"""The loop between the first step and the last: stops, errors, retries and interrupts."""

import contextlib
import errno
import glob
import json
import multiprocessing
import os
import signal
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from graph_fixtures import make_run
from hook_fixtures import CallAt, lose_session, with_hooks
from linear_fixtures import Linear, LinearOptions, spoiled, write_bars
from run_fixtures import records, steps_of

import toolkit
from toolkit import Every, SessionHook, compat, hookimpl, testing, tf
from toolkit.compat import float_operations
from toolkit.errors import DivergedError, InterruptedRun, RetryError, ToolkitError, UsageError
from toolkit.graph.session_config import choose_threads, session_config
from toolkit.options import CoreOptions
from toolkit.storage.run_folder import RunFolder
from toolkit.training.hooks import metrics
from toolkit.training.setup import evaluation_steps, record_steps
from toolkit.training.signals import FirstSignal


def infinite(last):
    """A plugin whose loss is infinite in the steps 101 to `last`."""
    return spoiled("inf", *range(101, last + 1))


def test_whether_skipped_steps_end_a_run_depends_on_neither_log_nor_resume(data):
    options = {"data": data, "steps": 210, "on_nonfinite": "skip", "evaluate": "no"}
    testing.train(infinite(200), "lost", pause_at=150, log_steps=1000, **options)
    with pytest.raises(DivergedError, match="All of the last 100 steps up to step 200 were non"):
        testing.train(infinite(200), "lost", **options)
    assert testing.train(infinite(199), "continued", log_steps=9, **options)["steps"] == 210
    events = [r for r in records("continued", "event") if r["event"] == "skipped_steps"]
    assert sum(r["count"] for r in events) == 99
    assert all(r["step"] % 9 == 0 for r in events)


def test_a_run_that_ended_since_every_step_was_skipped_continues_where_its_steps_are_finite(data):
    options = {"data": data, "steps": 310, "on_nonfinite": "skip", "evaluate": "no"}
    with pytest.raises(DivergedError, match="up to step 200 were non-finite"):
        testing.train(infinite(200), "run", **options)
    assert testing.train(infinite(200), "run", **options)["steps"] == 310


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run of 10 steps whose log and summaries are due every 4."""
    folder = tmp_path_factory.mktemp("written")
    data = write_bars(folder / "bars.npz")
    testing.train(Linear, str(folder / "run"), data=data, steps=10, log_steps=4, summary_steps=4)
    return folder / "run"


@pytest.mark.parametrize(
    "total, examples, more, steps",
    [
        (1250, 4000, {}, 62),  # of an epoch
        (94, 1000, {}, 10),  # a tenth of the run
        (10000, 640, {}, 200),  # a fiftieth
        (3, 8, {}, 1),
        (10**9, 64, {"max_secs": 60.0}, 100),
        (1250, 4000, {"log_steps": 7}, 7),
    ],
)
def test_by_default_a_record_is_an_epoch_a_tenth_or_a_fiftieth(total, examples, more, steps):
    options = CoreOptions(batch_size=64, **more)
    assert record_steps(options, total, SimpleNamespace(splits={"train": range(examples)})) == steps


@pytest.mark.parametrize(
    "total, examples, steps", [(1250, 500, 125), (1250, 9000, 1250), (0, 9, 1)]
)
def test_evaluations_are_ten_or_few_enough_for_the_size_of_their_split(total, examples, steps):
    data = SimpleNamespace(splits={"validation": range(examples)})
    assert evaluation_steps(CoreOptions(batch_size=64), total, data) == steps


def test_the_speed_is_recorded_in_a_file_of_its_own(written):
    rows = [json.loads(line) for line in (written / "speed.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [4, 8, 10]
    assert all(row["examples_per_sec"] > 0 and row["seconds"] > 0 for row in rows)


def test_the_time_left_is_by_the_mean_speed_of_the_session(monkeypatch):
    times, shown, ignore = iter([0.0, 1.0, 9.0]), [], mock.Mock()  # an evaluation took 8 seconds
    monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda: next(times)))
    step = mock.Mock(losses={}, logged={})
    graph = mock.Mock(sums=mock.Mock(names=[]), step=step)
    graph.run.replica.weights = [1.0]
    console = mock.Mock(show_metrics=shown.append)
    hook = metrics.Metrics(graph, CoreOptions(batch_size=1), Every(5), ignore, console)
    hook.loop = mock.Mock(target=100)
    hook.on_restore(None, 10)
    for step in (15, 20):
        hook.on_step(step, (np.ones([1, 1]), {}), None)
    assert [record["secs_left"] for record in shown] == [85 / 5 * 1, 80 / 10 * 9]


def test_summaries_have_loss_rate_gradient_norm_and_speed_at_the_same_steps(written):
    steps = {}
    for path in glob.glob(str(written / "events" / "*")):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
    for tag in "loss", "learning_rate", "gradient_norm", "examples_per_sec":
        assert steps[tag] == [4, 8, 10]
    assert {"validation/loss", "validation/accuracy"} <= set(steps)


def test_a_run_whose_session_is_lost_ends_with_exit_code_138_and_continues_exactly(data):
    options = {"data": data, "steps": 9, "checkpoint_steps": 2}
    lost = "session was lost in step 6: the machine has gone"
    with pytest.raises(RetryError, match=lost) as error:
        testing.train(with_hooks(CallAt([5], lose_session)), "run", **options)
    assert error.value.exit_code == 138 and "toolkit resume" in error.value.hint
    assert (RunFolder("run").state()["status"], steps_of("run")[-1]) == ("failed", 4)
    testing.train(with_hooks(), "run")
    testing.train(with_hooks(), "whole", **options)
    assert testing.fingerprint("run") == testing.fingerprint("whole")


class Begins(SessionHook):
    def begin(self):
        tf.get_variable("extra", [2])


def test_a_variable_that_is_created_too_late_is_named_with_its_line(data):
    with pytest.raises(ToolkitError) as caught:
        testing.train(with_hooks(Begins()), "run", data=data, steps=1, steps_per_call=1)
    place = "the method 'begin' of session hook Begins of plugin 'linear' ("
    assert "was created in " + place in caught.value.message
    assert "test_loop.py:" in caught.value.message
    assert "run.state" in caught.value.hint


class Twice(Linear):
    @hookimpl
    def optimize(self, losses, run):
        with tf.control_dependencies([run.minimize(losses)]):
            return run.global_step.assign_add(1, read_value=False)


def test_a_train_op_that_does_not_advance_the_step_by_one_is_refused(data):
    # Calls make no more than the 5 steps of an epoch.
    options = {"steps": 60, "steps_per_call": 10, "log_steps": 100, "checkpoint_steps": 100}
    with pytest.raises(ToolkitError, match="moved the global step to 10, expected 5"):
        testing.train(Twice, "run", data=data, **options)


@pytest.mark.parametrize(
    "signum, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_after_a_signal_the_step_is_committed_and_a_second_one_ends_the_process(data, signum, code):
    def kill(step):
        os.kill(os.getpid(), signum)
        handlers.append(signal.getsignal(signum))

    handlers = []
    before = signal.getsignal(signum)
    options = {"data": data, "steps": 50, "log_steps": 3, "checkpoint_steps": 5}
    with pytest.raises(InterruptedRun) as error:
        testing.train(with_hooks(CallAt([7], kill)), "run", **options)
    assert error.value.exit_code == code and signal.getsignal(signum) is before
    # A terminal that closes may send several SIGHUP.
    assert (handlers == [signal.SIG_DFL]) == (signum != signal.SIGHUP)
    # The step during which the signal came, or the one after.
    assert steps_of("run") in ([5, 7], [5, 8])
    assert [record["step"] for record in records("run")] == [3, 6]
    assert "toolkit resume" in error.value.hint
    assert RunFolder("run").state()["status"] == "interrupted"


def test_the_signals_of_a_closing_terminal_are_one_and_a_second_of_another_kind_kills(monkeypatch):
    kills = []
    monkeypatch.setattr(os, "kill", lambda pid, signum: kills.append(signum))

    def signum_after(*signals):
        with FirstSignal() as first:
            for signum in signals:
                signal.getsignal(signum)(signum, None)
            return first.signum

    assert signum_after(signal.SIGHUP, signal.SIGHUP, signal.SIGTERM) == signal.SIGHUP
    assert signum_after(signal.SIGTERM, signal.SIGHUP) == signal.SIGTERM and kills == []
    assert signum_after(signal.SIGINT, signal.SIGTERM) == signal.SIGINT
    assert kills == [signal.SIGTERM]


def test_a_hook_that_fails_at_the_end_loses_no_step(data):
    class Broken(SessionHook):
        every = Every(steps=3)

        def on_step(self, step, values, context):
            self.loop.request_stop("enough")

        def on_stop(self, session, step, error):
            raise ValueError("too late")

    with pytest.raises(ToolkitError, match="failed in on_stop: ValueError: too late"):
        testing.train(with_hooks(Broken()), "run", data=data, steps=9, evaluate="no")
    assert steps_of("run") == [2, 3]


def test_a_session_that_is_lost_in_the_end_of_a_hook_is_a_fault_of_the_machine(data):
    hook = type("Ends", (SessionHook,), {"end": lambda self, session: lose_session(2)})()
    with pytest.raises(RetryError, match="the machine has gone"):
        testing.train(with_hooks(hook), "run", data=data, steps=2, evaluate="no")


def test_a_worker_that_a_plugin_has_forked_ends_when_it_is_asked_to():
    worker = multiprocessing.get_context("fork").Process(
        target=lambda: os.kill(os.getpid(), signal.SIGTERM)  # as `worker.terminate()` does
    )
    with FirstSignal():
        worker.start()
        worker.join()
    assert worker.exitcode == -signal.SIGTERM


def test_a_handler_that_is_not_of_python_stays(monkeypatch):
    """As in a program that runs Python within it: there is no way to put it back."""
    find, before = signal.getsignal, signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signal, "getsignal", lambda signum: None)
    with FirstSignal():
        assert find(signal.SIGTERM) is before


def test_hooks_flush_before_a_commit_and_learn_of_it_afterwards(data):
    calls = []

    class Recorder(SessionHook):
        def on_commit(self):
            calls.append(("flush", self.loop.step, steps_of("run")))

        def on_committed(self, step, path):
            calls.append(("committed", step, steps_of("run")))

    options = {"data": data, "steps": 4, "checkpoint_steps": 2, "evaluate": "no"}
    testing.train(with_hooks(Recorder()), "run", **options)
    assert calls == [
        ("flush", 2, []),
        ("committed", 2, [2]),
        ("flush", 4, [2]),
        ("committed", 4, [2, 4]),
    ]


def test_threads_memory_and_placement_reach_the_session():
    options = {"intra_op_threads": 3, "inter_op_threads": 2, "log_device_placement": True}
    options.update(gpu_memory_fraction=0.5, gpu_memory_growth=False)
    config = session_config(make_run(**options).options)
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (3, 2)
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert not config.gpu_options.allow_growth
    assert config.log_device_placement


@pytest.mark.parametrize("batch_size, option, threads", [(32, 0, 1), (32, 2, 2), (40000, 0, 0)])
def test_a_small_step_gets_one_thread_within_an_op(batch_size, option, threads):
    with tf.Graph().as_default() as graph:
        tf.matmul(tf.zeros([batch_size, 100]), tf.zeros([100, 50]))
    assert float_operations(graph) >= 2 * batch_size * 100 * 50  # a multiplication and an addition
    options = make_run(intra_op_threads=option).options
    assert choose_threads(options, graph).intra_op_threads == threads


def test_float_operations_are_counted_where_stdout_has_no_descriptor(monkeypatch):
    """As in a daemon that has a stream of its own in its place."""
    fault = OSError(errno.EBADF, os.strerror(errno.EBADF))
    monkeypatch.setattr(os, "dup", mock.Mock(side_effect=fault))
    assert float_operations(tf.Graph()) == 0


def test_two_threads_count_float_operations_one_after_the_other(monkeypatch):
    """Each would put back what the other one has put in the place of stderr."""
    was_held, dup2 = [], os.dup2

    def exchange(*descriptors):
        was_held.append(compat._counting.locked())
        return dup2(*descriptors)

    monkeypatch.setattr(os, "dup2", exchange)
    float_operations(tf.Graph())
    assert was_held == [True] * 4  # stdout and stderr, each replaced and put back


def test_a_hook_can_log_record_and_summarize(data):
    def write(step):
        hook.loop.log(f"hello from step {step}")
        hook.loop.record({"step": step, "kind": "event", "event": "test"})
        value = tf.Summary.Value(tag="height", simple_value=float(step))
        hook.loop.summarize(step, tf.Summary(value=[value]))

    hook, lines = CallAt([3, 6], write), []
    toolkit.train(with_hooks(hook), "run", {"data": data, "steps": 6}, say=lines.append)
    greetings = [line for line in lines if line.startswith("hello")]
    assert greetings == ["hello from step 3", "hello from step 6"]
    assert [(r["step"], r["event"]) for r in records("run", "event")] == [(3, "test"), (6, "test")]
    (path,) = glob.glob("run/events/*")
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


def test_a_step_of_two_batches_reads_two_resumes_exactly_and_counts_epochs(data):
    options = {"data": data, "batch_size": 4, "evaluate": "no", "reader": "stream"}
    trainer = testing.open_trainer(TwoBatches, "one", epochs=1, **options)
    with contextlib.closing(trainer):
        assert trainer.total_steps == 5  # 40 examples, 8 per step
    testing.train(TwoBatches, "whole", steps=6, **options)
    testing.train(TwoBatches, "halves", steps=3, **options)
    testing.train(TwoBatches, "halves", steps=6, **options)
    assert testing.fingerprint("whole") == testing.fingerprint("halves")


def test_a_step_of_too_many_examples_is_refused_with_the_size_that_is_possible(data):
    message = "A step takes 2 batches of 21 = 42 examples, but the split 'train' has 40"
    with pytest.raises(UsageError, match=message) as caught:
        testing.open_trainer(TwoBatches, "run", data=data, batch_size=21)
    assert caught.value.hint.startswith("Set --batch-size 20")
