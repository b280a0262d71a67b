"""Changes on resume: options and data by name, no other model, and pauses; in code as well."""

from __future__ import annotations

import os

import numpy as np
import pytest
from file_fixtures import edit, read_json, sha256s
from hook_fixtures import with_hooks
from linear_fixtures import LINEAR, Linear, Tabled, write_bars
from run_fixtures import EXTRA, RENAMED, damage, sessions, write_plugin

import toolkit
from toolkit import SessionHook, UsageError
from toolkit.storage.run_folder import RunFolder
from toolkit.testing import fingerprint, tensors
from toolkit.testing import train as train_object

FLAGS = ["--steps", 6, "--log-steps", 1]


def start_run(cli, *more, plugin=LINEAR):
    """`toolkit run` to step 6 in the folder `run`."""
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    return cli("run", *argv, *FLAGS, "--steps-per-call", 1, *more)


def bits(name):
    """The tensors of the newest checkpoint, and metrics.jsonl."""
    with open(os.path.join(name, "metrics.jsonl"), "rb") as file:
        return fingerprint(name), file.read()


@pytest.mark.parametrize(
    "argv, message, end",
    [
        (
            ["--learning-rate", "0.5", "--gain", "2"],
            "learning_rate was 0.02, now 0.5; gain was 1.0, now 2.0.",
            "--allow learning_rate --allow gain (toolkit resume)\n",
        ),
        (
            ["--learning-rate", "0.5", "--gain", "2", "--allow", "gain"],
            "options: learning_rate was 0.02, now 0.5.",
            "--allow learning_rate (toolkit resume)\n",
        ),
        (["--allow", "learning_rat"], "no such option.\nDid you mean 'learning_rate'?", "\n"),
        (["--map", "a=b"], "map was none, now a=b: a change has no effect", "\n"),
        (["--pause-at", "0"], "--pause-at", "\n"),
    ],
)
def test_what_a_resume_refuses_leaves_the_run_as_it_was(cli, run, argv, message, end):
    before = sha256s(run)
    result = cli("resume", run, "--steps", 8, *argv)
    assert result.code == 2 and message in result.err and result.err.endswith(end)
    assert sha256s(run) == before


@pytest.mark.parametrize(
    "old, new, change, name",
    [
        ('"gain": 1.0', '"gain": 2.0', "gain was 1.0, now 2.0.", "gain"),
        (LINEAR, "../../mine.py", f"plugin was {LINEAR}, now ", "plugin"),
    ],
)
def test_an_edited_configuration_is_refused_as_a_flag_is(cli, run, here, old, new, change, name):
    write_plugin()
    edit(run / "config.json", old, new)
    cli.refuse(2, change, "resume", run, "--steps", 8, "--trust")
    assert cli("resume", run, "--steps", 8, "--allow", name).code == 0


def test_an_allowed_change_is_in_the_session_entry_and_needs_no_allowance_later(cli, run):
    change = ["--gain", 2, "--batch-size", 4, "--allow", "gain", "--allow", "batch-size"]
    assert cli("resume", run, "--steps", 8, *change).code == 0
    assert cli("resume", run, "--steps", 10).code == 0
    first, *others = (session["options"] for session in sessions(run))
    for now, steps in zip(others, (8, 10)):
        changed = {n: now[n] for n in now if now[n] != first[n] and n != "folder"}
        assert changed == {"steps": steps, "gain": 2, "batch_size": 4}
    assert "gain was 2.0, now 1.0" in cli("resume", run, "--gain", 1).err


def test_options_without_effect_on_the_result_need_no_allowance(cli, run):
    argv = ["--log-steps", 3, "--keep-checkpoints", 2, "--eval-batch-size", 4, "--console-secs", 1]
    assert cli("resume", run, "--steps", 8, *argv).code == 0
    saved = read_json(run, "config.json")
    assert (saved["log_steps"], saved["eval_batch_size"], saved["steps"]) == (3, 4, 8)


def test_other_data_is_refused_allowed_by_name_and_needs_no_allowance_later(cli, run):
    other = write_bars("other.npz", train=50)
    cli.refuse(4, "--allow data", "resume", run, "--steps", 8, "--data", other)
    assert cli("resume", run, "--steps", 8, "--data", other, "--allow", "data").code == 0
    assert cli("resume", run, "--steps", 10).code == 0
    names = [list(session["data"]) for session in sessions(run)]
    assert names == [["bars.npz"], ["other.npz"], ["other.npz"]]


@pytest.mark.parametrize(
    "after, words, is_renamed",
    [(EXTRA, "added extra.", False), (RENAMED, "added dense/b, ", True)],
    ids=["added", "renamed"],
)
def test_another_model_is_refused_and_begins_with_the_weights_by_the_command_that_is_said(
    cli, here, after, words, is_renamed
):
    assert start_run(cli, plugin=write_plugin()).code == 0
    old = tensors("run")
    write_plugin(after)
    files = sha256s("run")
    words = f"The model differs from its checkpoint: {words}"
    refused = cli.refuse(5, words, "resume", "run", "--steps", 8, "--trust")
    assert sha256s("run") == files
    command = refused.err.strip().split("weights: toolkit ")[1].split()
    cli.succeed(*command, "--run-dir", "new", "--learning-rate", 1e-30, "--trust")
    assert ("--map linear/=dense/" in refused.err) == is_renamed
    name = "dense/w" if is_renamed else "linear/w"
    np.testing.assert_allclose(tensors("new")[name], old["linear/w"], rtol=1e-6)


@pytest.fixture
def straight(golden):
    """A run without a pause."""
    return str(golden(*FLAGS, name="straight") / "run")


def test_a_run_that_pauses_several_times_ends_with_the_same_bits(cli, here, straight):
    assert start_run(cli, "--pause-at", 1).code == 0
    # A pause at a step that is behind trains nothing.
    for pause_at, step in (4, 4), (2, 4):
        result = cli.succeed("resume", "run", "--pause-at", pause_at)
        assert f"paused at step {step} " in result.out and "test " not in result.out
        assert tensors("run")["global_step"] == step
    assert cli("resume", "run").code == 0
    assert bits("run") == bits(straight)


def test_a_pause_at_the_last_step_has_no_effect(cli, straight):
    result = start_run(cli, "--pause-at", 6)
    assert result.code == 0 and "reached step 6 " in result.out and "test " in result.out
    assert bits("run") == bits(straight)


def test_a_finished_run_repeats_the_steps_of_a_damaged_checkpoint(cli, run):
    before = bits(str(run))
    damage(run, 6)
    assert "the checkpoint of step 6 is damaged" in cli.succeed("resume", run).err
    assert bits(str(run)) == before
    assert os.listdir(str(run / "checkpoints" / "damaged"))
    assert cli("verify", run).code == 0


def test_a_longer_run_is_not_taken_for_finished_where_the_log_lost_its_session(cli, run):
    lines = (run / "commits.jsonl").read_bytes().splitlines(True)
    assert b'"kind": "session"' in lines[1]
    (run / "commits.jsonl").write_bytes(b"".join([lines[0], b"z" + lines[1][1:], *lines[2:]]))
    result = cli("resume", run, "--steps", 8)
    assert result.code == 0 and "reached step 8" in result.out + result.err


@pytest.mark.parametrize("more", [[], ["--steps", 6], ["--steps", 4]], ids=str)
def test_a_finished_run_has_nothing_left_to_do(cli, run, more):
    before = sha256s(run)
    result = cli("resume", run, *more)
    assert result.code == 0 and "Nothing left to do" in result.err
    assert result.err.endswith("To train longer, set a larger --steps or --epochs.\n")
    assert sha256s(run) == before


@pytest.mark.parametrize("method", ["begin", "set_state"])
def test_a_finished_run_whose_resume_a_session_hook_refuses_stays_finished(cli, run, method):
    def refuse(self, *_):
        raise UsageError("It has ended.")

    hook = type("Refuses", (SessionHook,), {method: refuse})()
    with pytest.raises(UsageError, match="It has ended"):
        train_object(with_hooks(hook), str(run), steps=8)
    assert RunFolder(str(run)).state()["status"] == "finished"
    assert cli("verify", run).code == 0  # config.json, too, is that of its last session


@pytest.fixture
def train(golden, monkeypatch):
    """A function that continues, in code, the run `run` of 4 steps."""
    monkeypatch.chdir(golden("--steps", 4, "--log-steps", 2, "--no-evaluate"))

    def call(plugin=LINEAR, extensions=(), **options):
        return toolkit.train(plugin, "run", options, extensions=extensions).summary

    return call


def test_train_refuses_other_options_than_those_of_the_run(train):
    before, message = sha256s("run"), "The run was trained with other options: "
    with pytest.raises(UsageError, match=f"^{message}with was none, now ema.\n"):
        train(steps=8, extensions=["ema"])
    with pytest.raises(UsageError) as caught:
        train(steps=8, learning_rate=0.5, batch_size=4)
    message += "batch_size was 8, now 4; learning_rate was 0.02, now 0.5."
    assert caught.value.message == message
    assert caught.value.hint.endswith("allow=['batch_size', 'learning_rate'].")
    assert sha256s("run") == before


def test_train_continues_with_the_options_of_the_run_where_none_is_set(train):
    assert train(steps=6)["steps"] == 6
    config = read_json("run", "config.json")
    assert config["log_steps"] == 2
    assert config["origins"]["log_steps"] == "flag --log-steps"
    assert config["origins"]["learning_rate"] == "plugin Linear"
    assert train(steps=8, log_steps=3)["steps"] == 8  # which a resume may change
    assert read_json("run", "config.json")["log_steps"] == 3


def test_train_accepts_the_runs_plugin_as_an_object(train):
    assert train(plugin=Linear, steps=6)["steps"] == 6
    assert train(plugin=Linear(), steps=6)["steps"] == 6


def test_a_plugin_file_by_another_path_is_the_same_plugin(here, monkeypatch):
    data, plugin = write_bars("bars.npz"), write_plugin()
    toolkit.train(plugin, "r", {"data": data, "steps": 2})
    (here / "link.py").symlink_to(here / "mine.py")
    for other in ("mine.py", str(here / "mine.py"), "link.py"):
        assert toolkit.train(other, "r", {"steps": 4}).step == 4, other


def test_a_file_by_another_path_is_no_change(here):
    (here / "table.txt").write_text("1")
    (here / "link.txt").symlink_to("table.txt")
    options = {"data": write_bars("bars.npz"), "steps": 2, "table": "table.txt"}
    toolkit.train(Tabled, "r", options)
    toolkit.train(Tabled, "r", dict(options, steps=4, table="link.txt"))
    before, now = (session["options"]["table"] for session in sessions(here / "r"))
    assert before != now
