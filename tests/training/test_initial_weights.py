"""A run that starts with the weights of another model: which ones, exactly once, and recorded."""

import os
import shutil

import numpy as np
import pytest
from file_fixtures import read_json
from hook_fixtures import ONLY_2, CallAt, Death, die
from linear_fixtures import LINEAR, Linear, bars, read_weights
from run_fixtures import EXTRA, set_state, write_plugin

from toolkit import hookimpl, testing, tf
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def kill(cli, monkeypatch):
    """A function that starts a run, `new`, of 3 steps and kills it before its first commit."""

    def call(data, *argv):
        with monkeypatch.context() as patch, pytest.raises(Death):
            hooks = hookimpl(lambda self: [CallAt([1], die)])
            patch.setattr(Linear, "session_hooks", hooks, raising=False)
            start(cli, data, *argv, steps=3)
        assert not RunFolder(os.path.abspath("new")).checkpoints.list()

    return call


@pytest.fixture
def source(trained, here):
    """A trained run of Linear, with checkpoints of steps 2, 4 and 6, in the folder `source`."""
    shutil.move(str(trained / "run"), "source")
    return "source"


def start(cli, data, *argv, name="new", steps=1, per_call=1):
    """A run whose steps change no weight."""
    return cli(
        *("run", "--plugin", LINEAR, "--data", data, "--run-dir", name, "--steps", steps),
        *("--learning-rate", "1e-30", "--optimizer", "gradient-descent", "--no-evaluate"),
        *("--steps-per-call", per_call, *argv),
    )


def best_step(run):
    return RunFolder(run).checkpoints.best()["step"]


def parent(run):
    return read_json(run, "manifest.json")["parent"]


def assert_equal_weights(run, expected, step=1):
    for actual, wanted in zip(read_weights(run, step), expected):
        assert np.array_equal(actual, wanted)


def test_a_run_starts_with_the_best_weights_of_another(cli, data, source):
    result = start(cli, data, "--init-from", source).ok()
    step = best_step(source)
    assert_equal_weights("new", read_weights(source, step))
    assert f"2 of 2 variables start with the weights of source, step {step}." in result.err
    assert testing.tensors("new")["global_step"] == 1
    assert read_json("new", "config.json")["init_from"] == f"../source@{step}"


@pytest.mark.parametrize("per_call, xla", [(3, "off"), pytest.param(1, "on", marks=ONLY_2)])
def test_the_weights_of_a_named_step_are_in_place_before_the_first_step(
    cli, data, source, per_call, xla
):
    assert start(cli, data, "--init-from", "source@2", "--xla", xla, per_call=per_call).code == 0
    assert_equal_weights("new", read_weights(source, 2))
    assert read_json("new", "config.json")["init_from"] == "../source@2"


def test_the_manifest_and_the_first_entry_name_the_parent(cli, data, source):
    assert start(cli, data, "--init-from", "source@4").code == 0
    commits = RunFolder(source).commits
    expected = {"kind": "weights", "name": "source", "step": 4, "head": commits.head()}
    expected["tensors"] = commits.find_commit(4).tensors
    assert parent("new") == expected
    assert RunFolder("new").commits.entries()[0].values["parent"] == expected
    assert cli("verify", "new").code == 0
    sentence = "The run began with the weights of source, step 4 (tensors "
    assert sentence in cli.succeed("doctor", "new").out


def test_a_run_killed_before_its_first_commit_begins_again_with_the_recorded_step(
    cli, data, source, here, kill
):
    before = best_step(source)
    kill(data, "--init-from", source)
    set_state(here / source, best={"step": 2 if before != 2 else 4})  # another one is best now
    assert cli("resume", "new").code == 0
    assert_equal_weights("new", read_weights(source, before), step=3)
    records = [session["parent"] for session in RunFolder("new").commits.sessions()]
    assert records == [parent("new")] * 2


def test_it_refuses_weights_that_have_changed(cli, data, source, kill):
    kill(data, "--init-from", "source@2")
    shutil.rmtree(source)
    assert start(cli, data, "--seed", 5, name=source, steps=2).code == 0
    result = cli.refuse(5, "have changed since the run began with them", "resume", "new")
    assert "(toolkit resume RUN --init-from PATH --allow init_from)" in result.err


def test_without_the_weights_it_is_refused_and_their_new_place_is_recorded_with_the_step(
    cli, data, source, kill
):
    kill(data, "--init-from", "source@2")
    assert cli("doctor", "new").code == 0
    shutil.move(source, "elsewhere")
    gone = "source: there is no run, checkpoint or SavedModel."
    result = cli("doctor", "new")
    assert result.code == 6 and "weights: " + gone in result.out
    assert "begins with these weights again: put them back" in result.out
    cli.refuse(2, gone, "resume", "new")
    assert cli("resume", "new", "--init-from", "elsewhere", "--allow", "init_from").code == 0
    assert_equal_weights("new", read_weights("elsewhere", 2), step=3)
    assert read_json("new", "config.json")["init_from"] == "../elsewhere@2"


def test_once_something_is_committed_the_weights_are_not_needed(cli, data, source):
    assert start(cli, data, "--init-from", "source@2", steps=4).code == 0
    shutil.rmtree(source)
    assert cli("resume", "new", "--steps", 6).code == 0
    for argv in ["evaluate", "new"], ["doctor", "new"], ["verify", "new", "--replay", "2:4"]:
        cli.succeed(*argv)
    words = "source: there is no run, checkpoint or SavedModel."
    result = cli.refuse(2, words, "verify", "new", "--replay", "0:4")
    assert "it cannot be trained again from step 0 without them: put them back" in result.err
    assert result.err.count("\n") == 2


@pytest.mark.parametrize(
    "argv, code, message",
    [
        (["--init-from", "nothing"], 2, "nothing: there is no run, checkpoint or SavedModel."),
        (["--init-from", "source@best"], 2, "the STEP of RUN@STEP is a number, and 'best' is none"),
        (["--init-from", "source", "--map", "x=linear/w"], 2, "has no variable 'x'."),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    cli, data, source, argv, code, message
):
    result = start(cli, data, *argv)
    assert result.code == code and message in result.err
    assert len(result.err.strip().split("\n")) == 2
    assert not os.path.exists("new")


def test_the_folder_of_the_run_itself_is_not_renamed_away(cli, data, source):
    for path in "source", "source@2", "source/checkpoints/model.ckpt-2":
        result = start(cli, data, "--init-from", path, "--force", name="source")
        assert result.code == 2 and "--force cannot rename source" in result.err, path


def test_a_run_without_a_checkpoint_has_no_weights(cli, data, source, kill):
    kill(data, "--init-from", source)
    result = start(cli, data, "--init-from", "new", name="next")
    assert result.code == 5 and "new has no checkpoint yet." in result.err


def test_the_start_of_a_run_does_not_change_after_its_first_commit(cli, data, source):
    shutil.copytree(source, "other")
    assert start(cli, data, "--init-from", "source@2").code == 0
    resume = ["resume", "new", "--steps", 3]
    cli.refuse(2, "init_from was ../source@2, now source@4", *resume, "--init-from", "source@4")
    sentence = "now other: a change has no effect after the first commit."
    result = cli.refuse(2, sentence, *resume, "--init-from", "other", "--allow", "init_from")
    assert "or start a new run." in result.err
    assert cli(*resume, "--init-from", "source").code == 0
    assert read_json("new", "config.json")["init_from"] == "../source@2"


def test_other_classes_are_noted_and_start_afresh_in_the_last_layer_by_map(cli, here):
    write_plugin(EXTRA)

    def run(classes, name, *flags):
        argv = ["--plugin", "./mine.py", "--steps", 1, "--learning-rate", "1e-30", *flags]
        labels = np.arange(30) % len(classes)
        x, y = bars(labels), np.array(list(classes))[labels]
        np.savez(classes + ".npz", x_train=x, y_train=y, x_test=x, y_test=y)
        return cli.succeed("run", *argv, "--data", f"npz:{classes}.npz", "--run-dir", name).err

    run("abc", "old")
    fresh = run("abd", "fresh", "--init-from", "old", "--map", "linear/=")
    assert "1 of 3 variables start with the weights of old, step 1." in fresh
    assert "Initialised: linear/b, linear/w." in fresh
    assert "Not used of old, step 1: linear/b, linear/w." in fresh


class Follower(Linear):
    """Linear with a variable that starts as twice another, and one that shares an initial value."""

    @hookimpl
    def build(self, run):
        w, b = Linear.build(self, run)
        tf.get_variable("twice", initializer=2 * w.initializer.inputs[1], trainable=False)
        tf.get_variable("shared/b", initializer=b.initializer.inputs[1], trainable=False)
        return w, b


def test_what_follows_an_initial_value_follows_the_weights(data, source):
    options = {"learning_rate": 1e-30, "optimizer": "gradient-descent"}  # a step changes no weight
    testing.train(Follower, "new", data=data, steps=1, init_from="source@2", **options)
    tensors = testing.tensors("new")
    w, b = read_weights(source, 2)
    assert np.array_equal(tensors["twice"], 2 * w)
    assert np.array_equal(tensors["linear/b"], b)


def test_frozen_weights_stay_those_of_the_other_run_until_the_next_one_trains_them(
    cli, data, source
):
    argv = ["run", "--plugin", LINEAR, "--data", data, "--run-dir", "new", "--steps", 4]
    assert cli(*argv, "--init-from", "source@2", "--freeze", "*/w").code == 0
    before, (w, b) = read_weights(source, 2), read_weights("new", 4)
    assert np.array_equal(w, before[0]) and not np.array_equal(b, before[1])
    assert "linear/w/Adam" not in testing.tensors("new")
    refused = cli("resume", "new", "--steps", 6, "--freeze", "", "--allow", "freeze")
    command = "toolkit run --config new/config.json --init-from new"
    assert refused.code == 5 and f"begin a new run with its weights: {command}" in refused.err
    assert cli(*command.split()[1:], "--freeze", "", "--run-dir", "next").code == 0
    assert not np.array_equal(read_weights("next", 4)[0], w)
