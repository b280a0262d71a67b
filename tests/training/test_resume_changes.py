"""Changes on resume: options and data by name, the model by flags, and pauses."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from file_fixtures import edit, read_json, sha256s
from linear_fixtures import LINEAR, write_bars
from run_fixtures import EXTRA, RENAMED, UNCHANGED, damage, sessions, write_plugin

from toolkit.testing import fingerprint, tensors

FLAGS = ["--steps", 6, "--log-steps", 1]


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch):
    """Let a plugin's file that is edited within a second be read again."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)


@pytest.fixture
def run(trained):
    return trained / "run"


def start_run(cli, name="run", plugin=LINEAR, *more):
    """`toolkit run` to step 6 in a folder of this name."""
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", name]
    return cli("run", *argv, *FLAGS, *more)


def bits(name):
    """The tensors of the newest checkpoint, and metrics.jsonl."""
    with open(os.path.join(name, "metrics.jsonl"), "rb") as file:
        return fingerprint(name), file.read()


# ---------------------------------------------------------------------------------------- options


TWO_CHANGES = "learning_rate was 0.02, now 0.5; gain was 1.0, now 2.0."


@pytest.mark.parametrize(
    "argv, message, end",
    [
        (
            ["--learning-rate", "0.5", "--gain", "2"],
            TWO_CHANGES,
            "--allow learning_rate --allow gain\n",
        ),
        (
            ["--set", "learning-rate=0.5", "--set", "gain=2"],
            TWO_CHANGES,
            "--allow learning_rate --allow gain\n",
        ),
        (
            ["--learning-rate", "0.5", "--gain", "2", "--allow", "gain"],
            "options: learning_rate was 0.02, now 0.5.",
            "--allow learning_rate\n",
        ),
        (["--allow", "learning_rat"], "no such option.\nDid you mean 'learning_rate'?", "\n"),
        (["--map", "linear/w"], "--map linear/w is not OLD=NEW.", "\n"),
        (["--map", "linear/w=linear/w"], "renames nothing.", "\n"),
        (["--map", "linear/w=dense/"], "is not OLD=NEW.", "\n"),
        (["--map", "linear/x=dense/x"], "linear/x", "\n"),
        *((["--pause-at", text], "--pause-at", "\n") for text in ("0", "-1", "x", "2.5")),
    ],
)
def test_what_a_resume_refuses_leaves_the_run_as_it_was(cli, run, argv, message, end):
    before = sha256s(run)
    result = cli("resume", run, "--steps", 8, *argv)
    assert result.code == 2 and message in result.err and result.err.endswith(end)
    assert sha256s(run) == before


def test_an_edited_configuration_is_refused_as_a_flag_is(cli, run):
    edit(run / "config.json", '"gain": 1.0', '"gain": 2.0')
    result = cli("resume", run, "--steps", 8)
    assert result.code == 2 and "gain was 1.0, now 2.0." in result.err
    assert cli("resume", run, "--steps", 8, "--allow", "gain").code == 0


def test_another_plugin_in_an_edited_configuration_is_refused(cli, run, here):
    write_plugin()
    edit(run / "config.json", LINEAR, str(here / "mine.py"))
    result = cli("resume", run, "--steps", 8, "--trust")
    assert result.code == 2 and "plugin was linear_fixtures:Linear, now " in result.err
    assert cli("resume", run, "--steps", 8, "--allow", "plugin").code == 0


def test_another_extension_in_an_edited_configuration_is_refused(cli, here):
    for name in "one.py", "two.py":
        (here / name).write_text(
            "from toolkit import hookimpl\n@hookimpl\ndef run_finished(): pass\n"
        )
    assert start_run(cli, "run", LINEAR, "--with", "./one.py").code == 0
    edit(here / "run" / "config.json", "../one.py", "../two.py")
    result = cli("resume", "run", "--steps", 8, "--trust")
    assert result.code == 2 and "with was one.py, now two.py." in result.err
    assert cli("resume", "run", "--steps", 8, "--allow", "with").code == 0


def test_two_changes_have_two_allowances(cli, run):
    argv = ["resume", run, "--steps", 8, "--learning-rate", "0.5", "--gain", "2"]
    assert cli(*argv, "--allow", "gain", "--allow", "learning-rate").code == 0


@pytest.mark.parametrize("argv", [["--gain", "2"], ["--seed", "4"], ["--batch-size", "4"]])
def test_an_allowed_change_is_in_the_session_entry(cli, run, argv):
    name = argv[0][2:].replace("-", "_")
    assert cli("resume", run, "--steps", 8, *argv, "--allow", name).code == 0
    before, after = sessions(run)
    changed = {n for n in after["options"] if after["options"][n] != before["options"][n]}
    assert changed - {"folder"} == {"steps", name}  # the run is a copy in another folder
    assert after["options"][name] == int(argv[1])


def test_an_allowed_change_needs_no_allowance_later(cli, run):
    argv = ["resume", run, "--learning-rate", "0.5", "--allow", "learning_rate"]
    assert cli(*argv, "--steps", 8).code == 0
    assert cli("resume", run, "--steps", 10).code == 0
    assert "learning_rate was 0.5" in cli("resume", run, "--learning-rate", "0.02").err


def test_options_without_effect_on_the_result_need_no_allowance(cli, run):
    argv = ["--log-steps", 3, "--keep-checkpoints", 2, "--eval-batch-size", 4, "--console-secs", 1]
    assert cli("resume", run, "--steps", 8, *argv).code == 0


def test_other_data_is_refused_and_allowed_by_name(cli, run):
    other = write_bars("other.npz", train=50)
    result = cli("resume", run, "--steps", 8, "--data", other)
    assert result.code == 4 and "--allow data" in result.err
    assert cli("resume", run, "--steps", 8, "--data", other, "--allow", "data").code == 0
    before, after = (session["data"] for session in sessions(run))
    assert (list(before), list(after)) == (["bars.npz"], ["other.npz"])


def test_allowed_data_needs_no_allowance_later(cli, run):
    argv = ["--data", write_bars("other.npz", train=50), "--allow", "data"]
    assert cli("resume", run, "--steps", 8, *argv).code == 0
    assert cli("resume", run, "--steps", 10).code == 0


# ------------------------------------------------------------------------------------------ model


def resume_with_changes(cli, before, after, flags, *more):
    """Train to step 6, change the plugin, and resume to step 8.

    Returns the tensors of both steps, and the model changes in the session entry.
    """
    assert start_run(cli, "run", write_plugin(before), *more).code == 0
    old = tensors("run")
    write_plugin(after)
    result = cli("resume", "run", "--steps", 8, "--trust")
    assert result.code == 5 and flags[0] in result.err
    shutil.copytree("run", "before")
    result = cli("resume", "run", "--steps", 8, *flags)
    assert result.code == 0, result.err
    with open("run/commits.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return old, tensors("run"), [x for x in lines if x["kind"] == "session"][-1]["model"]


def test_a_new_variable_starts_at_its_initial_value(cli, here):
    old, new, record = resume_with_changes(cli, UNCHANGED, EXTRA, ["--init-new"], "--no-evaluate")
    assert new["extra"].tolist() == [5.0, 5.0]  # no gradient reaches it
    assert record["initialised"] == ["extra"] and record["dropped"] == []
    assert sorted(set(new) - set(old)) == ["extra"]


def test_a_dropped_variable_is_not_in_later_checkpoints(cli, here):
    old, new, record = resume_with_changes(cli, EXTRA, UNCHANGED, ["--drop"], "--no-evaluate")
    assert sorted(set(old) - set(new)) == ["extra"]
    assert record["dropped"] == ["extra"] and record["initialised"] == []


def test_a_renamed_variable_keeps_its_value_and_slots(cli, here):
    old, new, record = resume_with_changes(
        cli, UNCHANGED, RENAMED, ["--map", "linear/=dense/"], "--no-evaluate"
    )
    assert record["renamed"]["linear/w"] == "dense/w"
    assert record["renamed"]["linear/w/Adam"] == "dense/w/Adam"
    write_plugin(UNCHANGED)  # the same steps without the renaming
    assert cli("resume", "before", "--steps", 8).code == 0
    plain = tensors("before")
    assert np.array_equal(plain["linear/w"], new["dense/w"])
    assert np.array_equal(plain["linear/w/Adam"], new["dense/w/Adam"])
    assert not np.array_equal(old["linear/w"], new["dense/w"])


@pytest.mark.parametrize(
    "after, flags", [(EXTRA, ["--init-new"]), (RENAMED, ["--map", "linear/=dense/"])]
)
def test_a_changed_model_is_evaluated(cli, here, after, flags):
    _, new, _ = resume_with_changes(cli, UNCHANGED, after, flags)
    assert new["global_step"] == 8


def test_a_changed_model_is_tested_although_the_best_checkpoint_is_of_the_old_one(cli, here):
    # The loss falls, so the highest is that of the old model, whose checkpoint no longer loads.
    resume_with_changes(cli, UNCHANGED, EXTRA, ["--init-new"], "--best-metric", "max:loss")
    summary = read_json("run", "manifest.json")["summary"]
    assert summary["best"]["step"] == 8
    assert (summary["test"]["checkpoint"], summary["test"]["step"]) == ("best", 8)


def test_unneeded_flags_change_nothing(cli, here, run):
    shutil.copytree(str(run), str(run) + "-plain")
    assert cli("resume", run, "--steps", 8, "--init-new", "--drop").code == 0
    assert cli("resume", str(run) + "-plain", "--steps", 8).code == 0
    assert bits(str(run)) == bits(str(run) + "-plain")
    assert "model" not in sessions(run)[-1]


# ------------------------------------------------------------------------------------------ pause


@pytest.fixture
def straight(golden):
    """A run without a pause."""
    return str(golden(*FLAGS, name="straight") / "run")


@pytest.fixture
def paused(golden):
    """The same run, paused at step 4."""
    return str(golden(*FLAGS, "--pause-at", 4, name="paused") / "run")


def test_a_run_that_pauses_several_times_ends_with_the_same_bits(cli, here, straight):
    assert start_run(cli, "run", LINEAR, "--pause-at", 1).code == 0
    for step in 3, 4:
        result = cli("resume", "run", "--pause-at", step)
        assert result.code == 0
        assert f"paused at step {step} " in result.out and "test " not in result.out
        assert tensors("run")["global_step"] == step
    assert cli("resume", "run").code == 0
    assert bits("run") == bits(straight)


def test_a_pause_at_the_last_step_or_after_it_has_no_effect(cli, straight):
    for step in 6, 60:
        name = f"run{step}"
        result = start_run(cli, name, LINEAR, "--pause-at", step)
        assert result.code == 0 and "reached step 6 " in result.out and "test " in result.out
        assert bits(name) == bits(straight)


@pytest.mark.parametrize("step", [2, 4])
def test_a_pause_at_an_earlier_step_trains_and_tests_nothing(cli, straight, paused, step):
    result = cli("resume", paused, "--pause-at", step)
    assert result.code == 0 and "paused at step 4 " in result.out and "test " not in result.out
    assert tensors(paused)["global_step"] == 4
    assert cli("resume", paused).code == 0
    assert bits(paused) == bits(straight)


def test_the_pause_is_not_in_the_configuration(paused):
    assert "pause_at" not in read_json(paused, "config.json")


# ----------------------------------------------------------------------------------- continue


def test_a_run_that_ended_before_its_first_step_continues(cli, straight):
    os.mkdir("straight/unstarted")
    for name in "config.json", ".lock":
        shutil.copy(os.path.join(straight, name), "straight/unstarted")
    assert cli("resume", "straight/unstarted").code == 0
    assert bits("straight/unstarted") == bits(straight)


def test_a_finished_run_repeats_the_steps_of_a_damaged_checkpoint(cli, run):
    before = bits(str(run))
    damage(run, 6)
    result = cli("resume", run)
    assert result.code == 0
    assert "the checkpoint of step 6 is damaged" in result.err
    assert bits(str(run)) == before
    assert os.listdir(str(run / "checkpoints" / "damaged"))
    assert cli("verify", run).code == 0


def test_a_finished_run_has_nothing_left_to_do(cli, run):
    before = bits(str(run))
    result = cli("resume", run)
    assert result.code == 0 and "Nothing left to do" in result.err
    assert result.err.endswith("To train longer, set a larger --steps or --epochs.\n")
    assert bits(str(run)) == before and len(sessions(run)) == 1


@pytest.mark.parametrize("more, is_enough", [([], False), (["--decay-steps", 6], True)])
def test_a_finished_run_names_all_that_a_longer_one_needs(cli, golden, more, is_enough):
    flags = ["--steps", 2, "--no-evaluate", "--schedule", "cosine"]
    run = golden(*flags, *more, "--steps-per-call", 1) / "run"
    result = cli("resume", run)
    sentence = "with --allow steps: the cosine schedule follows the length of the run."
    assert (sentence in result.err) == (not is_enough)
    assert (cli("resume", run, "--steps", 20).code == 0) == is_enough
    assert cli("resume", run, "--steps", 20, "--allow", "steps").code == 0
