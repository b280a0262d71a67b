"""A run that dies at any step and is resumed ends like an undisturbed one: with the same tensors,
bytes of metrics.jsonl, best checkpoint and TensorBoard events.
"""

import collections
import glob
import os

import pytest
from hook_fixtures import CallAt, Death, die, with_hooks
from linear_fixtures import Linear, spoiled, write_bars
from run_fixtures import steps_of

from toolkit import Every, SessionHook, ToolkitError, hookimpl, testing, tf
from toolkit.storage.commit_log import CommitLog
from toolkit.storage.run_folder import RunFolder
from toolkit.training.hooks.validation import Validation
from toolkit.training.session_record import SessionRecord

pytestmark = pytest.mark.usefixtures("here")
STEPS = 17
OPTIONS = {
    "steps": STEPS,
    "log_steps": 3,
    "summary_steps": 2,
    "checkpoint_steps": 4,
    "evaluate_steps": 5,
    "best_metric": "min:loss",
    "keep_checkpoints": 2,
    "schedule": "cosine",
}


class Count(SessionHook):
    """A hook with state: it sums the steps, and records the sum."""

    name, every, total = "count", Every(steps=1), 0

    def state(self):
        return {"total": self.total}

    def set_state(self, state):
        self.total = state.get("total", 0)

    def on_step(self, step, values, context):
        self.total += step
        if step % 7 == 0:
            self.loop.record({"step": step, "kind": "event", "event": "count", "sum": self.total})


class Noisy(Linear):
    """Linear with dropout, noise and a hook with state; it dies after step `dies_at`."""

    dies_at = 0

    @hookimpl
    def call(self, model, features, run):
        if run.mode == "train":
            features = run.dropout(features, 0.3, "dropout")
            features += 0.1 * run.normal("noise", features.shape.as_list())
        return Linear.call(self, model, features, run)

    @hookimpl
    def loss(self, labels, outputs):
        loss = Linear.loss(self, labels, outputs)
        tf.summary.scalar("twice", 2 * loss)
        return loss

    @hookimpl
    def session_hooks(self):
        return [Count(), CallAt([self.dies_at], die)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


def train(plugin, run, dies_at=0, **options):
    model = plugin()
    model.dies_at = dies_at
    if not dies_at:
        return testing.train(model, run, **options)
    with pytest.raises(Death):
        testing.train(model, run, **options)


def final_state(run):
    """The tensors, metrics.jsonl, the evaluations and the best checkpoint of a run."""
    folder = RunFolder(run)
    with open(folder.metrics.path, "rb") as file:
        metrics = file.read()
    state = folder.state()
    evaluations = state["best"], state["validation"]
    return testing.fingerprint(run), metrics, evaluations, folder.checkpoints.list()[-1].tensors


def events(run):
    """The values that TensorBoard would show, as text, by (step, tag)."""
    values = {}
    for path in sorted(glob.glob(os.path.join(run, "events", "*"))):
        for event in tf.train.summary_iterator(path):
            if event.HasField("session_log"):
                values = {key: value for key, value in values.items() if key[0] < event.step}
            for value in event.summary.value:
                if value.tag != "examples_per_sec":
                    # As text, so that a nan equals a nan.
                    values[event.step, value.tag] = repr(value.simple_value)
    return values


Whole = collections.namedtuple("Whole", "state events")


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """Noisy with OPTIONS, undisturbed."""
    run = str(tmp_path_factory.mktemp("whole") / "run")
    train(Noisy, run, data=data, **OPTIONS)
    return Whole(final_state(run), events(run))


def check_deaths(plugin, run, deaths, expected, **options):
    """Check that a run which dies after these steps in turn ends as the `expected` one does."""
    for step in deaths:
        train(plugin, run, dies_at=step, **options)
    train(plugin, run)
    assert final_state(run) == expected.state, deaths
    assert events(run) == expected.events, deaths


def test_a_death_at_any_step_leaves_no_trace(data, whole):
    assert len(whole.events) > 20
    # Before the first commit, at one that is evaluated, twice between two, and at the end.
    check_deaths(Noisy, "run", [1, 5, 9, 9, 17], whole, **dict(OPTIONS, data=data))


def test_a_death_leaves_no_trace_in_a_stream_and_after_skipped_steps(data, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", "cache")
    options = dict(OPTIONS, data=data, reader="stream", on_nonfinite="skip")
    plugin = spoiled("nan", 5, 9, 10, plugin=Noisy)
    train(plugin, "whole", **options)
    check_deaths(plugin, "died", [10], Whole(final_state("whole"), events("whole")), **options)


def test_early_stopping_happens_at_the_same_step(data):
    options = dict(OPTIONS, data=data, best_metric="max:loss", early_stopping=2)
    train(Noisy, "whole", **options)
    assert RunFolder("whole").checkpoints.list()[-1].step == 15  # 5 is the best, 10 and 15 are not
    # The evaluation of 10 is repeated; after the commit of 12 it is remembered.
    train(Noisy, "died", dies_at=11, **options)
    train(Noisy, "died", dies_at=13)
    train(Noisy, "died")
    assert final_state("died") == final_state("whole")


def test_an_evaluation_does_not_depend_on_the_steps_of_checkpoints(data, whole):
    train(Noisy, "run", **dict(OPTIONS, data=data, checkpoint_steps=1))
    assert final_state("run")[1] == whole.state[1]  # the bytes of metrics.jsonl


def test_deaths_within_a_commit_leave_no_trace(data, monkeypatch, whole):
    add, update = CommitLog.add, Validation._record_state

    def is_commit(kind, values):
        return (kind, values.get("step")) == ("commit", 10)

    def die_before_the_entry(self, kind, **values):
        if is_commit(kind, values):
            raise Death
        add(self, kind, **values)

    def die_after_the_entry(self, kind, **values):
        add(self, kind, **values)
        if is_commit(kind, values):
            raise Death

    def die_in_the_evaluation(self, step):
        if step == 10:
            raise Death
        update(self, step)

    for owner, name, die_there in (
        (CommitLog, "add", die_before_the_entry),
        (CommitLog, "add", die_after_the_entry),
        (Validation, "_record_state", die_in_the_evaluation),
    ):
        with monkeypatch.context() as patch, pytest.raises(Death):
            patch.setattr(owner, name, die_there)
            testing.train(Noisy(), "run", data=data, **OPTIONS)
    train(Noisy, "run")
    assert final_state("run") == whole.state and events("run") == whole.events


def test_a_death_between_training_and_test_leaves_the_test_to_the_resume(data):
    trainer = testing.open_trainer(Noisy(), "run", data=data, **OPTIONS)
    trainer.train()  # without a test
    trainer.close()
    assert RunFolder("run").state()["status"] == "trained"
    assert train(Noisy, "run")["test"]["examples"] == 13
    assert RunFolder("run").state()["status"] == "finished"


def test_a_resume_only_tests_a_run_that_a_hook_had_ended_unless_its_length_changes(data):
    hook = CallAt([5], lambda step: hook.loop.request_stop("enough"))
    trainer = testing.open_trainer(with_hooks(hook), "run", data=data, steps=20)
    trainer.train()  # without a test
    trainer.close()
    before = testing.fingerprint("run")
    trainer = testing.open_trainer(Linear, "run", data=data, steps=20)
    result = trainer.train()
    trainer.close()
    assert (result.step, result.reason, result.is_done) == (5, "enough", True)
    assert testing.fingerprint("run") == before
    assert testing.train(Linear, "run", data=data, steps=8)["steps"] == 8


@pytest.mark.parametrize("steps", [3, 5])  # of a commit that is due later, or with the end
def test_an_end_that_a_hook_asked_for_counts_from_its_commit_on(data, monkeypatch, steps):
    options = {"data": data, "steps": 20, "checkpoint_steps": steps, "evaluate": "no"}
    own = CallAt([5], lambda step: own.loop.request_stop("enough"))
    hooks = {"enough": own, "a session hook asked for the end": tf.train.StopAtStepHook(None, 5)}
    for reason, hook in hooks.items():
        folder = reason[:3]
        with monkeypatch.context() as patch, pytest.raises(Death):
            patch.setattr(SessionRecord, "end", lambda self, result: die(result.step))
            testing.train(with_hooks(hook), folder, **options)
        summary = testing.train(Linear, folder, **options)
        assert (summary["steps"], summary["reason"]) == (5, reason)


class Partitioned(Linear):
    """Linear, whose weights are a variable of two parts."""

    @hookimpl
    def build(self, run):
        start, halves = run.initializer("glorot_uniform", "w"), tf.fixed_size_partitioner(2)
        w = tf.get_variable("w", [36, 3], initializer=start, partitioner=halves)
        return w, tf.get_variable("b", [3], initializer=tf.zeros_initializer())


def test_a_partitioned_variable_is_evaluated_and_resumed_as_a_whole_one(data):
    options = {"data": data, "steps": 4, "checkpoint_steps": 2}
    testing.train(Partitioned, "whole", **options)
    testing.train(Partitioned, "run", pause_at=2, **options)
    assert testing.train(Partitioned, "run", **options)["test"]["examples"] == 13
    assert testing.tensors("run")["w"].shape == (36, 3)
    assert testing.fingerprint("run") == testing.fingerprint("whole")


def test_a_resume_saves_nothing_before_its_first_due_step(golden):
    run, steps = str(golden("--steps", 8, "--checkpoint-steps", 2, "--no-evaluate") / "run"), []

    class Watching(Linear):
        @hookimpl
        def checkpoint_saved(self, step):
            steps.append(step)

    testing.train(Watching, run, steps=11, allow=["plugin"])
    assert steps == [10, 11]


def test_a_failing_evaluation_follows_the_commit_and_loses_nothing(data):
    class Failing(Linear):
        @hookimpl
        def metrics(self, labels, outputs):
            bad = tf.debugging.check_numerics(tf.log(tf.constant(-1.0)), "bad metric")
            return {"bad": (bad, bad)}

    with pytest.raises(ToolkitError, match="bad metric"):
        testing.train(Failing, "run", data=data, steps=6, checkpoint_steps=2)
    assert steps_of("run") == [2]
