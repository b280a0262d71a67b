"""What a resume lets change: options and data by name, the model by flags, where to pause."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from file_fixtures import edit
from linear_fixtures import LINEAR, write_bars
from run_fixtures import EXTRA, RENAMED, UNCHANGED, damage, sessions, write_plugin

from toolkit.testing import fingerprint, tensors

# An evaluation of the restored step is made with the changed model, which its checkpoint lacks.


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch):
    """So that a plugin's file that is edited within a second is read anew."""
    monkeypatch.setattr("sys.dont_write_bytecode", True)


@pytest.fixture
def run(trained):
    return trained / "run"


def begin(cli, name="run", plugin=LINEAR, *more):
    """`toolkit run` to step 6 in a folder of this name."""
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", name]
    return cli("run", *argv, "--steps", 6, "--log-steps", 1, *more)


def bits(name):
    """The tensors of the newest checkpoint, and metrics.jsonl."""
    with open(os.path.join(name, "metrics.jsonl"), "rb") as file:
        return fingerprint(name), file.read()


# ---------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "argv",
    [
        ["--learning-rate", "0.5", "--gain", "2"],
        ["--set", "learning-rate=0.5", "--set", "gain=2"],
    ],
)
def test_changed_options_are_refused_each_with_its_values(cli, run, argv):
    result = cli("resume", run, "--steps", 8, *argv)
    assert result.code == 2
    assert "learning_rate was 0.02, now 0.5; gain was 1.0, now 2.0." in result.err
    assert result.err.endswith("--allow learning_rate --allow gain\n")


def test_an_edited_configuration_is_refused_as_a_flag_is(cli, run):
    edit(run / "config.json", '"gain": 1.0', '"gain": 2.0')
    result = cli("resume", run, "--steps", 8)
    assert result.code == 2 and "gain was 1.0, now 2.0." in result.err
    assert cli("resume", run, "--steps", 8, "--allow", "gain").code == 0


def test_another_plugin_in_an_edited_configuration_is_refused(cli, run, here):
    write_plugin()
    edit(run / "config.json", LINEAR, str(here / "mine.py"))
    result = cli("resume", run, "--steps", 8)
    assert result.code == 2 and "plugin was linear_fixtures:Linear, now " in result.err
    assert cli("resume", run, "--steps", 8, "--allow", "plugin").code == 0


def test_another_extension_in_an_edited_configuration_is_refused(cli, here):
    for name in "one.py", "two.py":
        (here / name).write_text(
            "from toolkit import hookimpl\n@hookimpl\ndef run_finished(): pass\n"
        )
    assert begin(cli, "run", LINEAR, "--with", "./one.py").code == 0
    edit(here / "run" / "config.json", "../one.py", "../two.py")
    result = cli("resume", "run", "--steps", 8)
    assert result.code == 2 and "with was ../one.py, now ../two.py." in result.err
    assert cli("resume", "run", "--steps", 8, "--allow", "with").code == 0


def test_one_allowance_of_two_is_not_enough(cli, run):
    argv = ["resume", run, "--steps", 8, "--learning-rate", "0.5", "--gain", "2"]
    result = cli(*argv, "--allow", "gain")
    assert result.code == 2
    assert "learning_rate was" in result.err and "gain was" not in result.err
    assert cli(*argv, "--allow", "gain", "--allow", "learning-rate").code == 0


def test_an_allowance_of_what_is_no_option_gets_the_nearest(cli, run):
    result = cli("resume", run, "--steps", 8, "--allow", "learning_rat")
    assert result.code == 2
    assert "no such option.\nDid you mean 'learning_rate'?" in result.err


def test_a_refused_resume_leaves_the_run_as_it_was(cli, run):
    before = (run / "commits.jsonl").read_text(), (run / "manifest.json").read_text()
    assert cli("resume", run, "--steps", 8, "--seed", 4).code == 2
    assert ((run / "commits.jsonl").read_text(), (run / "manifest.json").read_text()) == before


@pytest.mark.parametrize("argv", [["--gain", "2"], ["--seed", "4"], ["--batch-size", "4"]])
def test_a_change_that_is_allowed_stands_in_the_line_of_its_session(cli, run, argv):
    name = argv[0][2:].replace("-", "_")
    assert cli("resume", run, "--steps", 8, *argv, "--allow", name).code == 0
    before, after = sessions(run)
    changed = {n for n in after["options"] if after["options"][n] != before["options"][n]}
    assert changed == {"steps", name}
    assert after["options"][name] == int(argv[1])


def test_a_change_that_was_allowed_once_is_the_runs_own_then(cli, run):
    argv = ["resume", run, "--learning-rate", "0.5", "--allow", "learning_rate"]
    assert cli(*argv, "--steps", 8).code == 0
    assert cli("resume", run, "--steps", 10).code == 0
    assert "learning_rate was 0.5" in cli("resume", run, "--learning-rate", "0.02").err


def test_what_changes_no_bits_needs_no_allowance(cli, run):
    argv = ["--log-steps", 3, "--keep-checkpoints", 2, "--eval-batch-size", 4, "--console-secs", 1]
    assert cli("resume", run, "--steps", 8, *argv).code == 0


def test_other_data_is_refused_and_allowed_by_name(cli, run):
    other = write_bars("other.npz", train=50)
    result = cli("resume", run, "--steps", 8, "--data", other)
    assert result.code == 4 and "--allow data" in result.err
    assert cli("resume", run, "--steps", 8, "--data", other, "--allow", "data").code == 0
    before, after = (session["data"] for session in sessions(run))
    assert (list(before), list(after)) == (["bars.npz"], ["other.npz"])


def test_data_that_was_allowed_once_is_the_runs_own_then(cli, run):
    argv = ["--data", write_bars("other.npz", train=50), "--allow", "data"]
    assert cli("resume", run, "--steps", 8, *argv).code == 0
    assert cli("resume", run, "--steps", 10).code == 0


# ------------------------------------------------------------------------------------------ model


def changed(cli, before, after, flags, *more):
    """A run to step 6 whose plugin then changes, and goes on to step 8; tensors of both ends."""
    assert begin(cli, "run", write_plugin(before), *more).code == 0
    old = tensors("run")
    write_plugin(after)
    result = cli("resume", "run", "--steps", 8)
    assert result.code == 5 and flags[0] in result.err
    shutil.copytree("run", "before")
    result = cli("resume", "run", "--steps", 8, *flags)
    assert result.code == 0, result.err
    with open("run/commits.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return old, tensors("run"), [x for x in lines if x["kind"] == "session"][-1]["model"]


def test_a_new_variable_begins_at_its_initial_value(cli, here):
    old, new, record = changed(cli, UNCHANGED, EXTRA, ["--init-new"], "--no-evaluate")
    assert new["extra"].tolist() == [5.0, 5.0]  # no gradient reaches it
    assert record["initialised"] == ["extra"] and record["dropped"] == []
    assert sorted(set(new) - set(old)) == ["extra"]


def test_a_dropped_variable_is_in_no_later_checkpoint(cli, here):
    old, new, record = changed(cli, EXTRA, UNCHANGED, ["--drop"], "--no-evaluate")
    assert sorted(set(old) - set(new)) == ["extra"]
    assert record["dropped"] == ["extra"] and record["initialised"] == []


def test_a_renamed_variable_takes_its_values_and_slots_along(cli, here):
    old, new, record = changed(
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
def test_a_changed_model_is_evaluated_too(cli, here, after, flags):
    _, new, _ = changed(cli, UNCHANGED, after, flags)
    assert new["global_step"] == 8


def test_a_best_checkpoint_of_the_old_model_hinders_no_test_of_the_new(cli, here):
    changed(cli, UNCHANGED, EXTRA, ["--init-new"], "--best-metric", "min:loss")


def test_flags_that_nothing_needs_change_nothing(cli, here, run):
    shutil.copytree(str(run), str(run) + "-plain")
    assert cli("resume", run, "--steps", 8, "--init-new", "--drop").code == 0
    assert cli("resume", str(run) + "-plain", "--steps", 8).code == 0
    assert bits(str(run)) == bits(str(run) + "-plain")
    assert "model" not in sessions(run)[-1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("linear/w", "--map linear/w is not OLD=NEW."),
        ("linear/w=linear/w", "renames nothing."),
        ("linear/w=dense/", "is not OLD=NEW."),
        ("linear/x=dense/x", "linear/x"),
    ],
)
def test_a_renaming_of_what_is_not_there_is_refused(cli, run, text, message):
    result = cli("resume", run, "--steps", 8, "--map", text)
    assert result.code == 2 and message in result.err


# ------------------------------------------------------------------------------------------ pause


@pytest.fixture
def straight(cli, here):
    """What a run that did not pause ends with."""
    assert begin(cli, "straight").code == 0
    return bits("straight")


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_a_run_that_paused_ends_with_the_same_bits(cli, straight, step):
    result = begin(cli, "run", LINEAR, "--pause-at", step)
    assert result.code == 0
    assert f"paused at step {step} " in result.out and "test " not in result.out
    assert tensors("run")["global_step"] == step
    assert cli("resume", "run").code == 0
    assert bits("run") == straight


def test_a_run_may_pause_often(cli, straight):
    assert begin(cli, "run", LINEAR, "--pause-at", 1).code == 0
    for step in 3, 4:
        assert cli("resume", "run", "--pause-at", step).code == 0
        assert tensors("run")["global_step"] == step
    assert cli("resume", "run").code == 0
    assert bits("run") == straight


def test_a_pause_at_the_target_or_behind_it_is_none(cli, straight):
    for step in 6, 60:
        name = f"run{step}"
        result = begin(cli, name, LINEAR, "--pause-at", step)
        assert result.code == 0 and "reached step 6 " in result.out and "test " in result.out
        assert bits(name) == straight


@pytest.mark.parametrize("step", [2, 4])
def test_a_pause_at_a_step_that_is_made_makes_none(cli, straight, step):
    assert begin(cli, "run", LINEAR, "--pause-at", 4).code == 0
    result = cli("resume", "run", "--pause-at", step)
    assert result.code == 0 and "paused at step 4 " in result.out
    assert tensors("run")["global_step"] == 4
    assert cli("resume", "run").code == 0
    assert bits("run") == straight


def test_a_pause_before_the_step_that_is_made_tests_nothing(cli, here):
    assert begin(cli, "run", LINEAR, "--pause-at", 4).code == 0
    assert "test " not in cli("resume", "run", "--pause-at", 2).out


def test_the_pause_leaves_no_trace_in_the_configuration(cli, here):
    assert begin(cli, "run", LINEAR, "--pause-at", 4).code == 0
    with open("run/config.json") as file:
        assert "pause_at" not in json.load(file)


@pytest.mark.parametrize("text", ["0", "-1", "x", "2.5"])
def test_a_pause_at_no_step_is_refused(cli, run, text):
    result = cli("resume", run, "--pause-at", text)
    assert result.code == 2 and "--pause-at" in result.err


# ----------------------------------------------------------------------------------- going on again


def test_a_run_that_was_ended_before_its_first_step_goes_on(cli, straight):
    os.mkdir("unbegun")
    shutil.copy("straight/config.json", "unbegun")
    assert cli("resume", "unbegun").code == 0
    assert bits("unbegun") == straight


def test_a_finished_run_whose_newest_checkpoint_is_damaged_makes_it_again(cli, run):
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
    assert bits(str(run)) == before and len(sessions(run)) == 1
