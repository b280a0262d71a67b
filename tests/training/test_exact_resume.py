"""A run that dies at any step and goes on leaves what one leaves that did not die: the tensors, the
bytes of metrics.jsonl, the best checkpoint and the TensorBoard events.
"""

import glob
import os
import struct

import pytest
from linear_fixtures import Linear, write_bars

from toolkit import Hook, hookimpl, testing, tf
from toolkit.storage.run_folder import RunFolder

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


class Death(BaseException):
    """Nothing handles it, as nothing handles a kill."""


class Count(Hook):
    """Remembers from step to step, and records what it remembers."""

    name = "count"
    seen = 0

    def state(self):
        return {"seen": self.seen}

    def set_state(self, state):
        self.seen = state.get("seen", 0)

    def next_step(self, step):
        return step + 1

    def is_due(self, step):
        return True

    def on_step(self, step, values, context):
        self.seen += step
        if step % 7 == 0:
            self.loop.record({"step": step, "kind": "event", "event": "count", "sum": self.seen})


class Fatal(Hook):
    """Dies behind step `at`, once."""

    name = "fatal"

    def __init__(self, at):
        self.at = at

    def next_step(self, step):
        return self.at if step < self.at else step + 1

    def is_due(self, step):
        return step == self.at

    def on_step(self, step, values, context):
        raise Death


class Noisy(Linear):
    """Linear with dropout, noise and a hook with a memory; it dies where `dies_at` says."""

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
        return [Count()] + [Fatal(self.dies_at)] * bool(self.dies_at)


class Spoilt(Noisy):
    """Some steps are refused."""

    @hookimpl
    def loss(self, labels, outputs, run):
        loss = Linear.loss(self, labels, outputs)
        if run.mode != "train":
            return loss
        step = run.global_step.read_value()
        bad = tf.reduce_any(tf.equal(step, tf.constant([4, 8, 9], tf.int64)))
        return loss * tf.where(bad, float("nan"), 1.0)


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


def train(plugin, run, dies_at=0, **options):
    made = plugin()
    made.dies_at = dies_at
    if not dies_at:
        return testing.train(made, run, **options)
    with pytest.raises(Death):
        testing.train(made, run, **options)


def left(run):
    """What is to be the same."""
    folder = RunFolder(run)
    with open(folder.metrics.path, "rb") as file:
        metrics = file.read()
    best = folder.read_manifest()["best"]
    return testing.fingerprint(run), metrics, best, folder.checkpoints.list()[-1].tensors


def events(run):
    """(step, tag) -> text of the value, of what TensorBoard would show."""
    found = {}
    for path in sorted(glob.glob(os.path.join(run, "events", "*"))):
        for event in read_events(path):
            if event.HasField("session_log"):
                found = {key: value for key, value in found.items() if key[0] < event.step}
            for value in event.summary.value:
                if value.tag != "examples_per_sec":
                    found[event.step, value.tag] = repr(value.simple_value)  # a nan is a nan
    return found


def read_events(path):
    """The events of a file: each is its length, 4 bytes, its content, 4 bytes."""
    with open(path, "rb") as file:
        content = file.read()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        yield tf.Event.FromString(content[12 : 12 + length])
        content = content[16 + length :]


@pytest.mark.parametrize("plugin", [Noisy, Spoilt])
@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_a_death_at_any_step_leaves_no_trace(data, tmp_path, monkeypatch, plugin, reader):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    options = dict(OPTIONS, data=data, reader=reader, on_nonfinite="skip")
    whole = str(tmp_path / "whole")
    train(plugin, whole, **options)
    expected, shown = left(whole), events(whole)
    assert len(shown) > 20
    for step in (1, 4, 5, 7, 10, 13, 16, 17):
        run = str(tmp_path / f"died-{step}")
        train(plugin, run, dies_at=step, **options)
        train(plugin, run)
        assert left(run) == expected, step
        assert events(run) == shown, step


def test_a_run_that_dies_again_and_again_comes_to_the_same_end(data, tmp_path):
    options = dict(OPTIONS, data=data)
    whole, run = str(tmp_path / "whole"), str(tmp_path / "run")
    train(Noisy, whole, **options)
    for step in (3, 6, 9, 9, 11, 14, 17):
        train(Noisy, run, dies_at=step, **options)
    train(Noisy, run)
    assert left(run) == left(whole)


def test_early_stopping_comes_at_the_same_step(data, tmp_path):
    options = dict(OPTIONS, data=data, best_metric="max:loss", early_stopping=2)
    whole = str(tmp_path / "whole")
    train(Noisy, whole, **options)
    assert RunFolder(whole).checkpoints.list()[-1].step == 15  # 5 is the best, 10 and 15 are not
    for step in (6, 11, 15):
        run = str(tmp_path / f"died-{step}")
        train(Noisy, run, dies_at=step, **options)
        train(Noisy, run)
        assert left(run) == left(whole)


def test_an_evaluation_does_not_depend_on_when_checkpoints_are_made(data, tmp_path):
    rows = []
    for name, steps in (("few", 100), ("many", 1)):
        run = str(tmp_path / name)
        train(Noisy, run, **dict(OPTIONS, data=data, checkpoint_steps=steps))
        rows.append(RunFolder(run).metrics.read())
    assert rows[0] == rows[1]


@pytest.mark.parametrize("moment", ["before the line", "behind the line", "in the evaluation"])
def test_a_death_within_a_commit_leaves_no_trace(data, tmp_path, monkeypatch, moment):
    from toolkit.storage.commit_log import CommitLog
    from toolkit.training.hooks.validation import Validation

    options = dict(OPTIONS, data=data)
    whole, run = str(tmp_path / "whole"), str(tmp_path / "run")
    train(Noisy, whole, **options)
    add, tell = CommitLog.add, Validation._tell

    def die_at_a_line(self, kind, **values):
        if kind == "commit" and values["step"] == 10:
            if moment == "behind the line":
                add(self, kind, **values)
            raise Death
        add(self, kind, **values)

    def die_in_the_evaluation(self):
        if self.loop.step == 10:
            raise Death
        tell(self)

    if moment == "in the evaluation":
        monkeypatch.setattr(Validation, "_tell", die_in_the_evaluation)
    else:
        monkeypatch.setattr(CommitLog, "add", die_at_a_line)
    with pytest.raises(Death):
        testing.train(Noisy(), run, **options)
    monkeypatch.undo()
    train(Noisy, run)
    assert left(run) == left(whole) and events(run) == events(whole)


def test_a_death_between_training_and_evaluation_leaves_the_test_to_be_made(data, tmp_path):
    run = str(tmp_path / "run")
    made = testing.trainer(Noisy(), run, data=data, **OPTIONS)
    made.train()  # and no test
    made.close()
    assert RunFolder(run).read_manifest()["status"] == "trained"
    assert train(Noisy, run)["test"]["examples"] == 13
    assert RunFolder(run).read_manifest()["status"] == "finished"


def test_the_same_holds_where_a_call_makes_one_step(data, tmp_path):
    options = dict(OPTIONS, data=data)
    whole, run = str(tmp_path / "whole"), str(tmp_path / "run")
    train(Noisy, whole, **options)
    train(Noisy, run, dies_at=9, **dict(options, steps_per_call=1))
    train(Noisy, run)
    assert left(run) == left(whole)


class Losing(Noisy):
    """Its session is lost behind some steps, once each."""

    @hookimpl
    def session_hooks(self):
        return [Count(), Loses([3, 9, 14])]


class Loses(Hook):
    name = "loses"

    def __init__(self, steps):
        self._steps = steps

    def next_step(self, step):
        return step + 1

    def is_due(self, step):
        return step in self._steps

    def on_step(self, step, values, context):
        self._steps.remove(step)
        raise tf.errors.UnavailableError(None, None, "the machine was away")


def test_sessions_that_are_lost_leave_no_trace(data, tmp_path):
    options = dict(OPTIONS, data=data)
    whole, run = str(tmp_path / "whole"), str(tmp_path / "run")
    train(Noisy, whole, **options)
    testing.train(Losing(), run, **options)
    assert left(run) == left(whole) and events(run) == events(whole)
    sessions = [session["from"] for session in RunFolder(run).commits.sessions()]
    assert sessions == [0, 0, 8, 12]  # commits are made at multiples of 4 and of 5
