"""Checkpoints that can be trusted: committed, verified, and restored with all their state."""

import json
import os
import shutil

import pytest
from linear_fixtures import Linear, write_bars

from toolkit import hookimpl, testing, tf
from toolkit.errors import CheckpointError, DataError, ToolkitError, UsageError
from toolkit.storage.checkpoint_store import CheckpointStore
from toolkit.storage.commit_log import Checkpoint, retention_rule
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


@pytest.fixture
def run(golden):
    """A run of 8 steps with checkpoints 2, 4, 6 and 8."""
    flags = ["--steps", 8, "--checkpoint-steps", 2, "--no-evaluate", "--steps-per-call", 1]
    return str(golden(*flags) / "run")


def steps_of(run):
    return [c.step for c in RunFolder(run).checkpoints.list()]


def data_file(run, step):
    return os.path.join(run, "checkpoints", f"model.ckpt-{step}.data-00000-of-00001")


def truncate(path):
    with open(path, "r+b") as file:
        file.truncate(10)


def test_the_newest_intact_checkpoint_replaces_a_truncated_one(run):
    truncate(data_file(run, 8))
    warnings = []
    assert RunFolder(run).checkpoints.newest(warnings.append).step == 6
    assert warnings[0].startswith("the checkpoint of step 8 is damaged: model.ckpt-8.data")
    assert "has 10 bytes, expected" in warnings[0]


def test_a_changed_byte_is_detected(run):
    with open(data_file(run, 8), "r+b") as file:
        file.seek(5)
        byte = file.read(1)
        file.seek(5)
        file.write(bytes([byte[0] ^ 1]))
    assert RunFolder(run).checkpoints.newest().step == 6


def test_training_continues_without_a_missing_file_and_ends_with_the_same_bits(run):
    expected = testing.fingerprint(run)
    os.remove(data_file(run, 8))
    testing.train(Linear, run)
    assert steps_of(run)[-1] == 8
    assert testing.fingerprint(run) == expected


def test_metrics_are_cut_back_to_the_restored_step(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, steps=8, checkpoint_steps=2, log_steps=1, evaluate="no")
    before = [(r["step"], r["loss"]) for r in RunFolder(run).metrics.read()]
    truncate(data_file(run, 8))
    testing.train(Linear, run)
    assert [(r["step"], r["loss"]) for r in RunFolder(run).metrics.read()] == before


def test_no_intact_checkpoint_is_an_error_and_never_a_fresh_start(run):
    for step in (2, 4, 6, 8):
        truncate(data_file(run, step))
    with pytest.raises(CheckpointError, match="None of the 4 checkpoints") as raised:
        testing.train(Linear, run)
    assert raised.value.exit_code == 5


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}'])
def test_a_damaged_manifest_is_an_error_and_never_a_fresh_start(run, text):
    with open(os.path.join(run, "manifest.json"), "w") as file:
        file.write(text)
    with pytest.raises(CheckpointError, match="manifest.json"):
        testing.train(Linear, run)


def test_a_damaged_state_file_of_tensorflow_changes_nothing(run):
    with open(os.path.join(run, "checkpoints", "checkpoint"), "w") as file:
        file.write("garbage")
    assert RunFolder(run).checkpoints.newest().step == 8


def test_files_without_a_commit_are_no_checkpoint(run):
    for ending in (".index", ".data-00000-of-00001"):
        path = os.path.join(run, "checkpoints", "model.ckpt-8" + ending)
        shutil.copy(path, path.replace("-8.", "-9."))
    assert steps_of(run) == [2, 4, 6, 8]
    assert RunFolder(run).checkpoints.newest().step == 8


def test_a_crash_before_the_commit_leaves_the_checkpoint_before(run, monkeypatch):
    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(CheckpointStore, "add_commit", crash)
    with pytest.raises(KeyboardInterrupt):
        testing.train(Linear, run, steps=10)
    monkeypatch.undo()
    assert os.path.exists(data_file(run, 10))
    assert RunFolder(run).checkpoints.newest().step == 8
    testing.train(Linear, run, steps=10)
    assert RunFolder(run).checkpoints.newest().step == 10


def test_a_moved_run_continues(run, tmp_path):
    target = str(tmp_path / "elsewhere" / "moved")
    os.makedirs(os.path.dirname(target))
    shutil.move(run, target)
    shutil.move(str(tmp_path / "trained" / "bars.npz"), str(tmp_path / "elsewhere" / "bars.npz"))
    testing.train(Linear, target, steps=10)
    assert steps_of(target)[-1] == 10


def test_a_resume_saves_nothing_before_its_first_due_step(run):
    steps = []

    class Watching(Linear):
        @hookimpl
        def checkpoint_saved(self, step):
            steps.append(step)

    testing.train(Watching, run, steps=11, allow=["plugin"])
    assert steps == [10, 11]


def test_the_error_for_another_optimizer_names_its_variables(run):
    with pytest.raises(CheckpointError, match="added linear/b/Momentum.*removed linear/b/Adam"):
        testing.train(Linear, run, steps=10, optimizer="momentum", allow=["optimizer"])


def test_the_error_distinguishes_renamed_and_reshaped_variables(run):
    class Other(Linear):
        @hookimpl
        def build(self, run):
            w = tf.get_variable("line/w", [36, 3])
            return w, tf.get_variable("linear/b", [1, 3])

    with pytest.raises(CheckpointError) as raised:
        testing.train(Other, run, steps=10, optimizer="sgd", allow=["plugin", "optimizer"])
    assert "likely renamed line/w (was linear/w)" in str(raised.value)
    assert "reshaped linear/b [1, 3] (was [3])" in str(raised.value)


def test_changed_data_is_refused_on_resume(run, tmp_path):
    write_bars(tmp_path / "trained" / "bars.npz", train=41)
    trainer = testing.open_trainer(Linear, run, steps=10)
    with pytest.raises(DataError, match="bars.npz has SHA-256"):
        trainer.check_data()
    trainer.close()


def test_only_the_newest_are_kept(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(
        Linear, run, data=data, steps=8, checkpoint_steps=1, keep_checkpoints=2, evaluate="no"
    )
    assert steps_of(run) == [7, 8]
    names = os.listdir(os.path.join(run, "checkpoints"))
    assert sorted({n.split(".")[1] for n in names if "." in n}) == ["ckpt-7", "ckpt-8"]


def test_a_restart_counts_earlier_checkpoints(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(
        Linear, run, data=data, steps=4, checkpoint_steps=1, keep_checkpoints=3, evaluate="no"
    )
    testing.train(Linear, run, steps=6)
    assert steps_of(run) == [4, 5, 6]


def checkpoints(*hours):
    return [Checkpoint(i, "", hour * 3600.0, {}) for i, hour in enumerate(hours)]


def test_one_checkpoint_per_hour_is_kept_by_the_time_of_its_commit():
    rule = retention_rule(keep=1, every_hours=1.0)
    assert sorted(set(rule(checkpoints(0, 0.5, 1.1, 1.2, 2.2, 2.3)))) == [0, 2, 4, 5]


def test_an_old_best_checkpoint_is_kept():
    assert sorted(set(retention_rule(2, None, always=[0])(checkpoints(0, 1, 2, 3)))) == [0, 2, 3]


def test_a_run_in_use_cannot_be_trained_by_another_process(run):
    folder = RunFolder(run)
    folder.lock()
    with pytest.raises(UsageError, match="Another process is training"):
        testing.train(Linear, run, steps=10)
    folder.unlock()


def test_a_failing_evaluation_follows_the_commit_and_loses_nothing(data, tmp_path):
    class Failing(Linear):
        @hookimpl
        def metrics(self, labels, outputs):
            bad = tf.debugging.check_numerics(tf.log(tf.constant(-1.0)), "bad metric")
            return {"bad": (bad, bad)}

    run = str(tmp_path / "run")
    with pytest.raises(ToolkitError, match="bad metric"):
        testing.train(Failing, run, data=data, steps=6, checkpoint_steps=2)
    assert steps_of(run) == [2]


def test_the_checkpoint_with_the_best_metric_is_kept(data, tmp_path):
    run = str(tmp_path / "run")
    testing.train(
        Linear,
        run,
        data=data,
        steps=20,
        checkpoint_steps=2,
        keep_checkpoints=1,
        best_metric="min:loss",
    )
    records = [r for r in RunFolder(run).metrics.read() if r["kind"] == "eval"]
    lowest = min(records, key=lambda r: r["loss"])
    best = RunFolder(run).read_manifest()["best"]
    assert (best["step"], best["value"]) == (lowest["step"], lowest["loss"])
    assert RunFolder(run).checkpoints.find("best").step == lowest["step"]


def test_a_metric_that_nobody_computes_is_refused_before_step_1(data, tmp_path):
    with pytest.raises(UsageError, match="no metric 'acuracy'") as raised:
        testing.train(Linear, str(tmp_path / "run"), data=data, steps=4, best_metric="acuracy")
    assert "Did you mean 'accuracy'?" in raised.value.hint
    assert not os.path.exists(str(tmp_path / "run"))


def test_early_stopping_ends_the_run_after_its_patience(data, tmp_path):
    run = str(tmp_path / "run")
    summary = testing.train(
        Linear,
        run,
        data=data,
        steps=200,
        checkpoint_steps=2,
        best_metric="max:loss",  # which falls, so the first evaluation stays the best
        early_stopping=3,
    )
    assert summary["steps"] == 8
    assert summary["reason"] == "loss has not improved in 3 evaluations"
    assert summary["best"]["step"] == 2
    assert summary["test"]["step"] == 2


def test_a_run_builds_one_evaluation_graph(data, tmp_path):
    trainer = testing.open_trainer(
        Linear, str(tmp_path / "run"), data=data, steps=8, checkpoint_steps=2
    )
    trainer.train_and_test()
    evaluator = trainer.evaluator
    assert trainer.evaluator is evaluator
    assert evaluator.graph.tf_graph.finalized
    trainer.close()


def test_a_resume_makes_up_for_an_evaluation_that_a_kill_prevented(data, tmp_path, monkeypatch):
    from toolkit.training.hooks.validation import Validation

    def crash(self):
        if self._pending:
            raise KeyboardInterrupt

    run = str(tmp_path / "run")
    monkeypatch.setattr(Validation, "_evaluate_pending", crash)
    with pytest.raises(KeyboardInterrupt):
        testing.train(Linear, run, data=data, steps=8, checkpoint_steps=4)
    monkeypatch.undo()
    testing.train(Linear, run)
    steps = [r["step"] for r in RunFolder(run).metrics.read() if r["kind"] == "eval"]
    assert steps == [4, 8]


def test_the_manifest_describes_the_run(run):
    with open(os.path.join(run, "manifest.json")) as file:
        manifest = json.load(file)
    assert manifest["data"]["examples"] == {"train": 40, "validation": 7, "test": 13}
    assert manifest["data"]["sha256"].keys() == {"bars.npz"}
    assert manifest["versions"]["tensorflow"] == tf.__version__
    assert manifest["plugins"]["Linear"]["sha256"]["linear_fixtures.py"]
    assert manifest["status"] == "finished"
