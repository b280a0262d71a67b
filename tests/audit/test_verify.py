"""`toolkit verify`: each kind of damage has its name, and a segment trains to the same bits."""

from __future__ import annotations

import json
import os
import signal

import pytest
from file_fixtures import REPOSITORY, drop_line, edit, flip_byte, sha256s
from linear_fixtures import LINEAR, write_bars
from run_fixtures import (
    EXTRA,
    RENAMED,
    UNCHANGED,
    UNSEEDED,
    checkpoint_file,
    damage,
    forget,
    rewrite_last_commit,
    set_manifest,
    write_plugin,
)

from toolkit.audit.chaos import Chaos
from toolkit.audit.replay import session_config
from toolkit.compat import HAS_XLA
from toolkit.errors import DivergedError, InterruptedRun, RetryError
from toolkit.files import sha256_of
from toolkit.storage.run_folder import RunFolder

# Counts the steps in Python, where a resume cannot know of them.
COUNTED = """
    @hookimpl
    def loss(self, labels, outputs):
        import itertools
        import numpy
        count = itertools.count(1.0)
        counted = tf.numpy_function(lambda: numpy.float32(next(count)), [], tf.float32)
        return tf.reshape(counted, []) * Linear.loss(self, labels, outputs)
"""
# Another factor in each process.
DRAWN = """
    @hookimpl
    def loss(self, labels, outputs):
        import os
        factor = 1.0 + int.from_bytes(os.urandom(2), "big") / 65536
        return Linear.loss(self, labels, {"logits": factor * outputs["logits"]})
"""
LOGGED = """
    @hookimpl
    def loss(self, labels, outputs, run):
        run.log("noise", tf.random.uniform([]))
        return Linear.loss(self, labels, outputs)
"""


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch):
    """So that a plugin's file that is edited within a second is read anew."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)


def trained_with(cli, plugin, *more):
    """A run of 6 steps in `run` with checkpoints at 2, 4 and 6."""
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--steps", 6, *more).code == 0
    return "run"


# ------------------------------------------------------------------------------------- the folder


def test_a_whole_run_is_told_part_by_part(cli, trained):
    result = cli("verify", trained / "run")
    assert (result.code, result.err) == (0, "")
    checks = {line[:12].strip(): line[12:] for line in result.out.splitlines()}
    assert list(checks) == ["manifest", "commit log", "checkpoints", "metrics", "config"]
    assert checks["manifest"] == "finished, step 6"
    assert checks["commit log"].startswith("4 entries, 1 session, head ")
    assert checks["checkpoints"] == "steps 2, 4, 6"


def test_the_head_is_the_hash_of_the_last_line(cli, trained):
    last = (trained / "run" / "commits.jsonl").read_text().splitlines()[-1]
    head = json.loads(last)["hash"]
    assert f"head {head[:16]}\n" in cli("verify", trained / "run").out


DAMAGES = {
    "a changed byte": (
        lambda run: damage(run, 6),
        "checkpoints: model.ckpt-6.data-00000-of-00001 has changed since it was written.",
    ),
    "a short file": (
        lambda run: os.truncate(checkpoint_file(run, 4, "index"), 20),
        "checkpoints: model.ckpt-4.index has 20 bytes, expected ",
    ),
    "a missing file": (
        lambda run: os.remove(checkpoint_file(run, 2, "index")),
        "checkpoints: model.ckpt-2.index is missing.",
    ),
    "a changed metric": (
        lambda run: edit(run / "metrics.jsonl", '"accuracy": 0.', '"accuracy": 1.'),
        "metrics: metrics.jsonl is not what it was at step 4; up to step 2 it is intact.",
    ),
    "no metrics": (
        lambda run: os.remove(str(run / "metrics.jsonl")),
        "metrics: metrics.jsonl is not what it was at step 4; up to step 2 it is intact.",
    ),
    "a line that is no JSON": (
        lambda run: (run / "metrics.jsonl").open("a").write("hello\n"),
        "metrics: line 5 of metrics.jsonl is not a JSON object.",
    ),
    "a commit less": (
        lambda run: drop_line(run / "commits.jsonl", 2),
        "commit log: entry 3 does not follow the entry before it: entries were removed, inserted "
        "or moved.",
    ),
    "a session less": (
        lambda run: drop_line(run / "commits.jsonl", 0),
        "commit log: entry 1 does not follow the entry before it: entries were removed, inserted "
        "or moved (1 more fault).",
    ),
    "a changed commit": (
        lambda run: edit(run / "commits.jsonl", '"step": 4', '"step": 3'),
        "commit log: entry 3 has changed since it was written.",
    ),
    "the last commit less": (
        lambda run: drop_line(run / "commits.jsonl", -1),
        "manifest: the run finished at step 6, but the commit log ends at step 4.",
    ),
    "a changed option": (
        lambda run: edit(run / "config.json", '"gain": 1.0', '"gain": 2.0'),
        "config: gain is 2.0, but the last session had 1.0.",
    ),
    "an option less": (
        lambda run: edit(run / "config.json", '"seed"', '"sead"'),
        "config: sead is 1, but the last session had no such option (1 more fault).",
    ),
    "no configuration": (
        lambda run: (run / "config.json").write_text("[]"),
        "config: config.json contains no options.",
    ),
    "another step": (
        lambda run: set_manifest(run, step=8),
        "manifest: the run finished at step 8, but the commit log ends at step 6.",
    ),
    "another status": (
        lambda run: set_manifest(run, status="hurried"),
        "manifest: its status is 'hurried', which is unknown.",
    ),
    "half a manifest": (
        lambda run: (run / "manifest.json").write_text('{"format": 2,'),
        "manifest.json is not valid JSON",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_damage_is_named(cli, trained, name):
    make, message = DAMAGES[name]
    make(trained / "run")
    result = cli("verify", trained / "run")
    assert result.code == 6
    assert message in result.err
    assert result.err.endswith("toolkit doctor trained/run\n")


def test_every_fault_is_listed_and_the_first_is_the_error(cli, trained):
    damage(trained / "run", 2, 4)
    result = cli("verify", trained / "run")
    assert result.out.count("FAULT: ") == 2
    assert result.err.startswith("Error: checkpoints: model.ckpt-2.")
    assert "(1 more fault)." in result.err


def test_other_tensors_show_where_all_hashes_of_files_fit(cli, trained):
    run = trained / "run"
    files = RunFolder(str(run)).commits.entries()[-1].values["files"]
    for name in files:  # the checkpoint of step 4 in the place of that of step 6
        path = str(run / "checkpoints" / name)
        os.replace(path.replace("ckpt-6", "ckpt-4"), path)
        files[name] = {"bytes": os.path.getsize(path), "sha256": sha256_of(path)}
    rewrite_last_commit(run, 6, files=files, kept=[2, 6])
    result = cli("verify", run)
    assert result.code == 6
    assert "commit log  4 entries" in result.out and result.out.count("FAULT") == 1
    assert "the tensors of step 6 are not those that were committed." in result.err


def test_files_that_are_no_checkpoint_are_told_where_their_hashes_fit(cli, trained):
    run = trained / "run"
    path = checkpoint_file(run, 6, "index")
    flip_byte(path)
    files = RunFolder(str(run)).commits.entries()[-1].values["files"]
    files[os.path.basename(path)]["sha256"] = sha256_of(path)
    rewrite_last_commit(run, 6, files=files)
    result = cli("verify", run)
    assert result.code == 6 and "checkpoints: " in result.err


def test_a_chain_that_is_gone_shows_also_where_the_run_was_killed(cli, trained):
    os.remove(str(trained / "run" / "commits.jsonl"))
    set_manifest(trained / "run", status="running")
    result = cli("verify", trained / "run")
    assert result.code == 6
    assert "commit log: commits.jsonl has no entries, but there are checkpoints." in result.err


def test_json_is_one_object(cli, trained):
    result = cli("verify", trained / "run", "--json", "--replay", ":")
    told = json.loads(result.out)
    assert result.code == 0 and [check["faults"] for check in told["checks"]] == [[]] * 5
    assert (told["replay"]["from"], told["replay"]["to"]) == (4, 6)


def test_json_tells_of_faults_too(cli, trained):
    damage(trained / "run", 6)
    result = cli("verify", trained / "run", "--json")
    told = json.loads(result.out)
    assert result.code == 6
    assert told["fault"].startswith("checkpoints: model.ckpt-6.")
    assert [c["name"] for c in told["checks"] if c["faults"]] == ["checkpoints"]


def test_a_run_in_training_is_refused(cli, trained):
    folder = RunFolder(str(trained / "run"))
    folder.lock()
    result = cli("verify", trained / "run")
    folder.unlock()
    assert result.code == 2 and "A process is training in trained/run." in result.err


@pytest.mark.parametrize("name, told", [("none", "does not exist"), ("trained", "contains no run")])
def test_what_is_no_run_is_refused(cli, trained, name, told):
    result = cli("verify", name)
    assert result.code == 2 and f"{name} {told}." in result.err


# --------------------------------------------------------------------------------------- a replay


@pytest.mark.parametrize(
    "wanted, first, last", [(":", 4, 6), ("0:", 0, 6), ("2:", 2, 6), ("2:4", 2, 4), (":4", 2, 4)]
)
def test_a_segment_trains_to_the_same_bits_again(cli, trained, wanted, first, last):
    result = cli("verify", trained / "run", "--replay", wanted)
    assert result.code == 0, result.err
    said = result.out.splitlines()[-1]
    assert f"steps {first} to {last}, step {last}: tensors " in said
    assert said.endswith("bytes of metrics.jsonl are equal")


def test_a_replay_changes_no_file(cli, trained):
    before = sha256s(trained)
    assert cli("verify", trained / "run", "--replay", "0:4").code == 0
    assert sha256s(trained) == before


@pytest.mark.parametrize(
    "wanted, message, hint",
    [
        ("1:4", "There is no checkpoint of step 1 to start from.", "starts from one of 0, 2."),
        ("-2:4", "There is no checkpoint of step -2 to start from.", "starts from one of 0, 2."),
        ("4:2", "There are no steps from 4 to 2.", "starts from one of 0."),
        ("6:", "There are no steps from 6 to 6.", "starts from one of 0, 2, 4."),
        ("2:5", "run has no commit of step 5.", "ends at one of 2, 4, 6."),
        (":0", "run has no commit of step 0.", "ends at one of 2, 4, 6."),
    ],
)
def test_a_segment_that_the_run_has_not_is_refused(cli, trained, wanted, message, hint):
    result = cli("verify", trained / "run", "--replay", wanted)
    assert result.code == 2
    assert message in result.err and hint in result.err


@pytest.mark.parametrize("wanted", ["", "4", "a:b", "2:4:6", "0x2:4", "2.0:4"])
def test_a_text_that_is_no_range_is_refused_before_anything_is_read(cli, trained, wanted):
    damage(trained / "run", 6)
    result = cli("verify", trained / "run", "--replay", wanted)
    assert (result.code, result.out) == (2, "")
    assert f"--replay '{wanted}' is not FROM:TO" in result.err


def test_a_checkpoint_that_was_not_kept_is_told(cli, here):
    trained_with(cli, LINEAR, "--keep-checkpoints", 1)
    result = cli("verify", "run", "--replay", "2:6")
    assert result.code == 2 and "The checkpoint of step 2 was not kept." in result.err
    assert cli("verify", "run", "--replay", ":4").code == 0  # compared by its hash


def test_a_run_without_a_commit_has_nothing_to_replay(cli, here):
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--learning-rate", "1e30", "--gain", "1e20").code == 3
    result = cli("verify", "run", "--replay", ":")
    assert result.code == 2 and "run has no checkpoint yet" in result.err


def test_a_plugin_that_has_changed_is_refused(cli, here):
    trained_with(cli, write_plugin())
    assert cli("verify", "run", "--replay", ":").code == 0
    write_plugin(UNCHANGED + "  # and a remark")
    result = cli("verify", "run", "--replay", ":")
    assert result.code == 2
    assert "cannot be replayed here: plugin 'mine' has changed (mine.py)." in result.err


@pytest.mark.parametrize("body", [UNSEEDED, COUNTED], ids=["unseeded", "counted"])
def test_a_plugin_that_computes_something_else_is_told_by_tensor_and_number(cli, here, body):
    trained_with(cli, write_plugin(body), "--steps-per-call", 1)
    result = cli("verify", "run", "--replay", "2:4")
    assert result.code == 6
    assert "Step 4 differs: linear/b differs in 3 of 3 numbers, first in number 0: " in result.err
    assert "draw with run.uniform" in result.err


def test_a_metric_that_differs_is_told_by_line_and_name(cli, here):
    trained_with(cli, write_plugin(LOGGED), "--log-steps", 1, "--no-evaluate")
    result = cli("verify", "run", "--json", "--replay", "2:4")
    assert result.code == 6
    assert "metrics.jsonl differs: line 3 (step 3): noise is 0." in result.err
    assert json.loads(result.out)["fault"] in result.err


def test_a_limit_of_time_ends_no_replay(trained):
    folder = RunFolder(str(trained / "run"))
    session = folder.commits.sessions()[0]
    limited = dict(session, options=dict(session["options"], max_secs=0.001))
    assert session_config(folder, limited).values["max_secs"] is None


def test_another_limit_of_time_is_no_change(cli, trained):
    argv = ["resume", trained / "run", "--steps", 8]
    assert cli(*argv, "--pause-at", 7).code == 0
    assert cli(*argv, "--max-secs", 60).code == 0
    assert cli("verify", trained / "run", "--replay", "6:8").code == 0


@pytest.mark.parametrize(
    "error, code, message",
    [
        (DivergedError("Training diverged."), 6, "did not reach step 6: Training diverged."),
        (InterruptedRun("Go on.", signum=2), 130, "The replay was interrupted."),
        (RetryError("/tmp/x cannot be written."), 138, "the run is unchanged."),
    ],
)
def test_what_ends_a_replay_is_told_of_the_replay(cli, trained, monkeypatch, error, code, message):
    def fail(trainer):
        raise error

    monkeypatch.setattr("toolkit.training.trainer.Trainer.train", fail)
    result = cli("verify", trained / "run", "--replay", ":")
    assert result.code == code and message in result.err
    assert "toolkit resume" not in result.err


# --------------------------------------------------------------------------------- several sessions


@pytest.mark.parametrize(
    "name, value, told",
    [
        ("learning-rate", 0.05, "learning_rate was 0.02, then 0.05"),
        ("seed", 2, "seed was 1, then 2"),
    ],
)
def test_a_segment_within_which_an_option_changed_is_refused_and_each_side_trains_again(
    cli, here, name, value, told
):
    trained_with(cli, LINEAR, "--pause-at", 4)
    assert cli("resume", "run", "--" + name, value, "--allow", name).code == 0
    result = cli("verify", "run", "--replay", "2:6")
    assert result.code == 2
    assert f"changes at step 4: {told}." in result.err
    assert cli("verify", "run", "--replay", "0:4").code == 0
    assert cli("verify", "run", "--replay", "4:6").code == 0


def test_a_segment_over_several_equal_sessions_trains_again(cli, here):
    trained_with(cli, LINEAR, "--pause-at", 3)
    assert cli("resume", "run", "--pause-at", 5, "--console-secs", 1).code == 0
    assert cli("resume", "run").code == 0
    assert cli("verify", "run", "--replay", "0:").code == 0
    assert cli("verify", "run", "--replay", "2:5").code == 0


def test_a_run_that_was_extended_trains_again_with_the_options_of_then(cli, here):
    trained_with(cli, LINEAR, "--schedule", "cosine")
    assert cli("resume", "run", "--steps", 8).code == 0
    assert cli("verify", "run", "--replay", "0:6").code == 0
    assert cli("verify", "run", "--replay", ":").code == 0
    result = cli("verify", "run", "--replay", "0:8")
    assert result.code == 2 and "changes at step 6: steps was 6, then 8." in result.err


def test_a_step_that_was_made_twice_is_replayed_as_the_second_time(cli, trained):
    run = trained / "run"
    damage(run, 4, 6)
    assert cli("resume", run, "--learning-rate", 0.05, "--allow", "learning_rate").code == 0
    assert cli("verify", run, "--replay", "2:4").code == 0
    assert cli("verify", run, "--replay", "0:2").code == 0
    assert "changes at step 2" in cli("verify", run, "--replay", "0:4").err


def test_a_step_that_was_taken_back_is_none_of_the_run(cli, trained):
    damage(trained / "run", 4, 6)
    assert cli("resume", trained / "run", "--steps", 4).code == 0
    result = cli("verify", trained / "run", "--replay", ":6")
    assert result.code == 2 and "has no commit of step 6." in result.err
    assert "ends at one of 2, 4." in result.err


def test_each_part_of_a_run_with_other_data_trains_again(cli, trained):
    other = write_bars("other.npz", train=50)
    argv = ["resume", trained / "run", "--steps", 8, "--data", other, "--allow", "data"]
    assert cli(*argv).code == 0
    assert cli("verify", trained / "run", "--replay", "6:8").code == 0
    assert cli("verify", trained / "run", "--replay", "4:6").code == 0
    assert "the data is other data" in cli("verify", trained / "run", "--replay", "4:8").err


@pytest.mark.parametrize(
    "before, after, flags",
    [
        (UNCHANGED, EXTRA, ["--init-new"]),
        (EXTRA, UNCHANGED, ["--drop"]),
        (UNCHANGED, RENAMED, ["--map", "linear/=dense/"]),
    ],
    ids=["added", "removed", "renamed"],
)
def test_the_first_steps_of_a_changed_model_train_again(cli, here, before, after, flags):
    trained_with(cli, write_plugin(before), "--no-evaluate")
    write_plugin(after)
    assert cli("resume", "run", "--steps", 10, *flags).code == 0
    assert cli("verify", "run", "--replay", "6:8").code == 0
    assert cli("verify", "run", "--replay", "8:10").code == 0
    assert cli("verify", "run", "--replay", "4:8").code == 2


def test_a_plugin_that_cannot_be_loaded_does_not_hinder_the_checks(cli, here):
    trained_with(cli, write_plugin())
    os.remove("mine.py")
    forget()
    assert cli("verify", "run").code == 0
    assert "no plugin file" in cli("verify", "run", "--replay", ":").err


@pytest.mark.slow
@pytest.mark.skipif(not HAS_XLA, reason="XLA compiles on TensorFlow 2.x alone")
def test_a_run_that_xla_compiled_trains_again(cli, here):
    trained_with(cli, LINEAR, "--xla", "on")
    assert cli("verify", "run", "--replay", "2:4").code == 0
    assert cli("verify", "run", "--replay", "0:").code == 0


# ------------------------------------------------------------------------------------------ chaos


@pytest.fixture
def processes(monkeypatch):
    """Processes of their own find this folder's modules."""
    monkeypatch.setenv("PYTHONPATH", os.path.join(REPOSITORY, "tests"))


@pytest.mark.slow
def test_a_run_that_is_killed_ends_with_the_same_bits(cli, trained, processes):
    before = sha256s(trained)
    result = cli("verify", trained / "run", "--chaos", 2, "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)["chaos"]
    assert sum(told["kills"].values()) == 2
    assert "step 6: tensors " in told["result"]
    assert "kill 2 of 2: " in result.err
    assert sha256s(trained) == before


@pytest.mark.slow
def test_chaos_tells_of_a_plugin_that_computes_something_else(cli, here, processes):
    trained_with(cli, write_plugin(DRAWN))
    result = cli("verify", "run", "--chaos", 1)
    assert result.code == 6
    assert "Step 6 differs: linear/b differs in " in result.err


def test_chaos_that_is_ended_ends_its_process(cli, trained, monkeypatch):
    started = []

    def wait(chaos, process, copy):
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Chaos, "_wait", wait)
    result = cli("verify", trained / "run", "--chaos", 1)
    assert result.code == 143 and "Interrupted; the run is unchanged." in result.err
    assert started[0].wait() == -signal.SIGKILL


def test_chaos_takes_a_run_of_one_way_alone(cli, here):
    trained_with(cli, LINEAR)
    assert cli("resume", "run", "--steps", 8).code == 0
    result = cli("verify", "run", "--chaos", 1)
    assert result.code == 2
    assert "changes at step 6: steps was 6, then 8." in result.err
    assert "--chaos trains the whole run again" in result.err
