"""`toolkit verify`: each kind of damage is named, and a segment trains to the same bits."""

from __future__ import annotations

import json
import os
import shutil
from unittest import mock

import process_fixtures
import pytest
from file_fixtures import edit, sha256s
from generator_fixtures import SCORED_GENERATOR
from linear_fixtures import LINEAR, write_bars
from run_fixtures import (
    UNCHANGED,
    UNSEEDED,
    cut_log,
    damage,
    forget,
    records,
    rewrite_last_commit,
    write_plugin,
)

from toolkit.audit.chaos import kill_copies
from toolkit.audit.replay import compare_runs, find_segment, replay_segment
from toolkit.errors import CheckFailed, DivergedError, InterruptedRun, RetryError, UsageError
from toolkit.storage.run_folder import RunFolder

TRAIN = "toolkit.training.trainer.Trainer.train"
BEST = ["--best-metric", "accuracy", "--eval-batch-size", 5]  # as `trained` has them


@pytest.fixture
def enter(golden, monkeypatch):
    """`enter("--pause-at", 4)`: a run `run` of Linear of up to 6 steps in the working directory."""
    return lambda *flags: monkeypatch.chdir(golden("--steps", 6, *flags))


def train_with(cli, body, *more):
    """A run `run` of a plugin in mine.py, of 6 steps with checkpoints at 2, 4 and 6."""
    argv = ["--plugin", write_plugin(body), "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--steps", 6, *more).code == 0


# ------------------------------------------------------------------------------------- the folder


def test_each_part_of_an_intact_run_has_a_line(cli, run):
    result = cli("verify", run)
    assert (result.code, result.err) == (0, "")
    checks = {line[:12].strip(): line[12:] for line in result.out.splitlines()}
    names = "commit log, manifest, checkpoints, metrics, config, seal, sources, ok"
    assert ", ".join(checks) == names
    assert checks["manifest"] == "finished, step 6"
    assert checks["commit log"] == "10 entries, 1 session"
    last = (run / "commits.jsonl").read_text().splitlines()[-1]
    assert f"head {json.loads(last)['hash']}\n" in cli("verify", "-v", run).out
    assert checks["checkpoints"] == "steps 2, 4, 6"


def test_json_is_one_object_with_the_faults(cli, run):
    facts = cli.succeed("verify", run, "--json", "--replay", ":").json()
    assert [check["faults"] for check in facts["checks"]] == [[]] * 7
    assert (facts["replay"]["from"], facts["replay"]["to"]) == (4, 6)
    damage(run, 6)
    result = cli("verify", run, "--json")
    facts = result.json()
    assert result.code == 6 and facts["fault"].startswith("checkpoints: model.ckpt-6.")
    assert [c["name"] for c in facts["checks"] if c["faults"]] == ["checkpoints"]


def test_a_run_in_training_is_refused(cli, trained):
    folder = RunFolder(str(trained / "run"))
    folder.lock()
    result = cli("verify", trained / "run")
    folder.unlock()
    assert result.code == 2 and "A process is training in trained/run." in result.err


# --------------------------------------------------------------------------------------- a replay


@pytest.mark.parametrize("steps, first, last", [("0:", 0, 6), (":4", 2, 4)])
def test_a_segment_trains_to_the_same_bits_again_and_no_file_changes(
    cli, trained, steps, first, last
):
    before = sha256s(trained)
    result = cli.succeed("verify", trained / "run", "--replay", steps)
    line, verdict = result.out.splitlines()[-2:]
    assert f"steps {first} to {last}, step {last}: tensors " in line
    assert line.endswith("bytes of metrics.jsonl are equal")
    assert verdict.endswith("as the run committed it, and trained again it has the same bits")
    assert sha256s(trained) == before


def test_a_seed_without_chaos_is_refused(cli, run):
    cli.refuse(2, "--seed is that of --chaos", "verify", run, "--seed", 5)


@pytest.mark.parametrize("flags", [["--replay", ":"], ["--chaos", 1]])
def test_a_replay_is_nowhere_but_in_the_temporary_folder(cli, trained, monkeypatch, flags):
    monkeypatch.setenv("TMPDIR", "file")
    (trained.parent / "file").write_text("")
    words = "Error: TMPDIR=file cannot be written: Not a directory."
    cli.refuse(2, words, "verify", trained / "run", *flags)


@pytest.mark.parametrize(
    "steps, message, hint",
    [
        ("1:4", "There is no checkpoint of step 1 to start from", "starts from one of 0, 2."),
        ("4:2", "step 4 to start from, before step 2.", "starts from one of 0."),
        ("6:", "step 6 to start from, before step 6.", "starts from one of 0, 2, 4."),
        ("2:5", "run has no commit of step 5.", "ends at one of 2, 4, 6."),
    ],
)
def test_a_segment_that_does_not_exist_is_refused(cli, run, steps, message, hint):
    result = cli.refuse(2, message, "verify", run, "--replay", steps)
    assert hint in result.err


@pytest.mark.parametrize("steps", ["", "4", "a:b", "2:4:6", "0x2:4", "2.0:4", "1:" + "9" * 5000])
def test_a_text_in_another_form_is_refused_before_the_run_is_read(cli, run, steps):
    damage(run, 6)
    words = f"--replay '{steps}' is not FROM:TO"
    assert cli.refuse(2, words, "verify", run, "--replay", steps).out == ""
    os.mkdir("my run")
    words = "toolkit verify --replay : 'my run' (the whole run: 0:)"
    assert cli.refuse(2, words, "verify", "--replay", "my run").out == ""


def test_a_run_without_a_commit_has_nothing_to_replay(run):
    cut_log(run, 2)
    with pytest.raises(UsageError, match="run has no checkpoint yet"):
        find_segment(RunFolder(str(run)), None, None)


def test_a_replay_cannot_start_from_a_deleted_checkpoint(cli, enter):
    enter("--keep-checkpoints", 1)
    cli.refuse(2, "There is no checkpoint of step 2", "verify", "run", "--replay", "2:6")
    assert cli("verify", "run", "--replay", ":4").code == 0  # compared by its hash


def test_a_plugin_that_has_changed_or_is_gone_prevents_a_replay_alone(cli, here):
    train_with(cli, UNCHANGED)
    with open("mine.py", "a") as file:
        file.write("raise SystemExit('executed')\n")
    forget()
    words = "cannot be trained again here: plugin 'mine' has changed (mine.py)."
    result = cli.refuse(2, words, "verify", "run", "--replay", ":", "--trust")
    assert "sources/ in the run has copies" in result.err
    os.remove("mine.py")
    forget()
    assert cli("verify", "run").code == 0
    assert "no plugin file" in cli("verify", "run", "--replay", ":").err


def test_a_plugin_that_is_not_reproducible_is_reported_with_tensor_and_number(cli, here):
    train_with(cli, UNSEEDED, "--steps-per-call", 1)
    words = "Step 4 differs: linear/b differs in 3 of 3 numbers, first in number 0: "
    result = cli.refuse(6, words, "verify", "run", "--replay", "2:4")
    assert "draw with run.uniform" in result.err


def test_a_different_metric_is_reported_with_line_and_name(trained, golden):
    run, other = trained / "run", golden("--steps", 6, *BEST, name="other") / "run"
    edit(other / "metrics.jsonl", '"accuracy": 0.', '"accuracy": 7.')
    rewrite_last_commit(other, 6, metrics=RunFolder(str(other)).metrics.position()._asdict())
    folders = [RunFolder(str(run)), RunFolder(str(other))]
    message = r"metrics.jsonl differs: line \d \(step \d\): accuracy is 7.\d+, expected 0."
    with pytest.raises(CheckFailed, match=message):
        compare_runs(*folders, folders[0].commits.find_commit(6))


@pytest.mark.parametrize(
    "place, error, code, message",
    [
        (TRAIN, DivergedError("Diverged."), 6, "did not reach step 6: Diverged."),
        (TRAIN, InterruptedRun("Go on.", signum=2), 130, "The replay was interrupted."),
        (TRAIN, RetryError("/tmp/x cannot be written."), 138, "the run is unchanged."),
        ("shutil.copyfile", OSError(28, "Disk full"), 138, "cannot be written: Disk full."),
    ],
)
def test_an_error_in_a_replay_is_reported_as_one_of_the_replay(
    cli, trained, monkeypatch, place, error, code, message
):
    monkeypatch.setattr(place, mock.Mock(side_effect=error))
    result = cli.refuse(code, message, "verify", trained / "run", "--replay", ":")
    assert "toolkit resume" not in result.err
    assert code != 138 or "the run is unchanged" in result.err


@pytest.mark.parametrize("code", [138, 1])
def test_a_process_that_fails_by_the_machine_does_not_make_a_run_irreproducible(
    trained, here, monkeypatch, code
):
    monkeypatch.setattr("toolkit.audit.replay.train", lambda *arguments: code)
    monkeypatch.setattr("toolkit.audit.replay.count_processes", lambda session: 2)
    monkeypatch.setattr("toolkit.audit.chaos.train", lambda *arguments: code)
    folder = RunFolder(str(trained / "run"))
    kind = {138: RetryError, 1: CheckFailed}[code]
    with pytest.raises(kind, match=f"a process ended with exit code {code}"):
        replay_segment(folder, find_segment(folder, None, None), "replay")
    os.mkdir("chaos")
    with pytest.raises(kind):
        kill_copies(folder, find_segment(folder, 0, None), "chaos", 1, print)


def test_of_copies_that_are_killed_no_more_than_one_is_on_the_disk(trained, here, monkeypatch):
    def train(words, path, count, log, chaos):
        assert os.listdir("chaos") == ["config.json"]
        shutil.copytree(str(trained / "run"), path)
        chaos.choose(["chief"])
        chaos.on_death()
        return 0

    os.mkdir("chaos")
    monkeypatch.setattr("toolkit.audit.chaos.train", train)
    folder = RunFolder(str(trained / "run"))
    assert kill_copies(folder, find_segment(folder, 0, None), "chaos", 2, print)["copies"] == 2


def test_a_replay_has_the_best_checkpoint_of_before_so_that_a_value_within_the_noise_is_one(
    cli, here
):
    argv = ["--plugin", SCORED_GENERATOR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    argv += ["--best-metric", "max:brightness", "--checkpoint-steps", 2]
    assert cli("run", *argv, "--steps", 6).code == 0
    last = RunFolder("run").metrics.read()[-1]
    assert last["step"] == 6 and last["within_noise"]
    cli.succeed("verify", "run", "--replay", ":")


def test_a_replay_of_a_session_with_a_time_limit_has_its_records(cli, here):
    # By default 2000 steps of 200 examples are recorded each 200, and each 100 with a limit.
    data = write_bars("bars.npz", train=200)
    argv = ["--plugin", LINEAR, "--data", data, "--run-dir", "run", "--no-evaluate"]
    argv += ["--steps", 2000, "--batch-size", 1, "--checkpoint-steps", 200]
    cli.succeed("run", *argv, "--pause-at", 200)
    cli.succeed("resume", "run", "--max-secs", 10**6, "--pause-at", 400)
    assert [record["step"] for record in records("run")] == [200, 300, 400]
    cli.succeed("verify", "run", "--replay", ":")
    changed = "changes at step 200: metrics were recorded each 200 steps, then each 100."
    cli.refuse(2, changed, "verify", "run", "--replay", "0:400")


# --------------------------------------------------------------------------------- several sessions


def test_a_segment_of_equal_sessions_trains_again_and_one_across_a_changed_option_is_refused(
    cli, enter
):
    enter("--pause-at", 3)
    assert cli("resume", "run", "--pause-at", 4, "--console-secs", 1, "--max-secs", 10**6).code == 0
    flags = ["--learning-rate", 0.05, "--allow", "learning-rate"]
    assert cli("resume", "run", *flags).code == 0
    assert cli("verify", "run", "--replay", "0:4").code == 0
    assert cli("verify", "run", "--replay", "4:6").code == 0
    for check in (["--replay", "2:6"], ["--chaos", 1]):
        words = "changes at step 4: learning_rate was 0.02, then 0.05."
        result = cli.refuse(2, words, "verify", "run", *check)
    assert "--chaos trains the whole run again" in result.err


def test_a_segment_across_a_change_of_the_steps_of_records_is_refused(cli, enter):
    enter("--pause-at", 4)
    assert cli("resume", "run", "--log-steps", 2, "--checkpoint-steps", 3).code == 0
    changes = "log_steps was not set, then 2; checkpoint_steps was 2, then 3."
    cli.refuse(2, f"changes at step 4: {changes}", "verify", "run", "--replay", "2:6")


def test_what_was_trained_twice_is_replayed_as_the_second_time_and_a_discarded_step_never(
    cli, trained
):
    run = trained / "run"
    damage(run, 4, 6)
    flags = ["--learning-rate", 0.05, "--allow", "learning_rate", "--steps", 4]
    assert cli("resume", run, *flags).code == 0
    assert cli("verify", run, "--replay", "2:4").code == 0
    result = cli.refuse(2, "has no commit of step 6.", "verify", run, "--replay", ":6")
    assert "ends at one of 2, 4." in result.err


# ------------------------------------------------------------------------------------------ chaos


def test_a_run_that_is_killed_ends_with_the_same_bits(cli, trained):
    process_fixtures.take_turn()
    before = sha256s(trained)
    result = cli.succeed("verify", trained / "run", "--chaos", 1, "--json")
    facts = result.json()["chaos"]
    assert sum(facts["kills"].values()) == 1
    assert "step 6: tensors " in facts["result"]
    assert "kill 1 of 1: " in result.err
    assert sha256s(trained) == before


# While there is a file `hold`, a run that begins waits after its second save to be killed.
WAIT_FOR_KILL = """
    @hookimpl
    def checkpoint_saved(self, run, step):
        import os, time

        if step == 2 and os.path.exists("hold"):
            os.remove("hold")
            self.holds = True
        while step == 4 and getattr(self, "holds", False):
            time.sleep(0.01)
"""


def test_chaos_detects_a_plugin_that_is_not_reproducible(cli, here, monkeypatch):
    process_fixtures.take_turn()
    train_with(cli, UNSEEDED + WAIT_FOR_KILL)
    (here / "hold").touch()
    monkeypatch.setattr("toolkit.cluster.chaos.MOMENTS", {"save": 1})
    monkeypatch.setattr("random.Random.randint", lambda *_: 2)  # in the second save
    cli.refuse(6, "Step 6 differs: linear/b differs in ", "verify", "run", "--chaos", 1)
