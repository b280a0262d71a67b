"""A run that starts with the weights of another model: which ones, exactly once, and recorded."""

from __future__ import annotations

import os
import shutil

import numpy as np
import process_fixtures
import pytest
from file_fixtures import edit, read_json
from linear_fixtures import LINEAR, Linear, bars, read_weights, write_bars
from run_fixtures import EXTRA, RENAMED, damage, set_manifest, write_plugin

import toolkit
from toolkit import CheckpointError, SessionHook, UsageError, hookimpl, testing, tf
from toolkit.storage.run_folder import RunFolder

BEFORE = {"learning_rate": 1e-30, "optimizer": "gradient-descent"}  # a step changes no weight


class Death(BaseException):
    """An end of the process that no code handles, like a kill."""


class Fatal(SessionHook):
    """Raises Death after step 1."""

    name = "fatal"

    def is_due(self, step):
        return True

    def on_step(self, step, values, context):
        raise Death


class Mortal(Linear):
    """Linear that dies after its first step, before a commit."""

    is_dying = False

    @hookimpl
    def session_hooks(self):
        return [Fatal()] * self.is_dying


@pytest.fixture
def data(here):
    return write_bars("bars.npz")


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


def head(run):
    return RunFolder(run).commits.head()


def parent(run):
    return read_json(run, "manifest.json")["parent"]


def assert_equal_weights(run, expected, step=1):
    for actual, wanted in zip(read_weights(run, step), expected):
        assert np.array_equal(actual, wanted)


# ----------------------------------------------------------------------------------- from where


def test_a_run_starts_with_the_best_weights_of_another(cli, data, source):
    result = start(cli, data, "--init-from", source)
    assert result.code == 0, result.err
    step = best_step(source)
    assert_equal_weights("new", read_weights(source, step))
    line = f"2 of 2 variables start with the weights of source, step {step}."
    assert line in result.err
    assert testing.tensors("new")["global_step"] == 1


def test_a_step_of_the_run_may_be_named(cli, data, source):
    assert start(cli, data, "--init-from", "source@2").code == 0
    assert_equal_weights("new", read_weights(source, 2))


def test_a_run_without_a_best_checkpoint_gives_its_last(cli, data, source, here):
    set_manifest(here / source, best=None)
    assert start(cli, data, "--init-from", source).code == 0
    assert_equal_weights("new", read_weights(source, 6))


def test_an_export_and_a_checkpoint_give_the_weights_of_their_run(cli, data, source):
    assert cli("export", source, "exported", "--checkpoint", "4").code == 0
    for number, path in enumerate(["exported", "source/checkpoints/model.ckpt-4.index"]):
        assert start(cli, data, "--init-from", path, name=f"new-{number}").code == 0
        assert_equal_weights(f"new-{number}", read_weights(source, 4))


def test_weights_are_in_place_before_the_first_step_of_a_loop(cli, data, source):
    assert start(cli, data, "--init-from", "source@2", per_call=3).code == 0
    assert_equal_weights("new", read_weights(source, 2))


@pytest.mark.skipif(not toolkit.compat.HAS_XLA, reason="XLA compiles steps on 2.x")
def test_weights_are_in_place_before_the_first_compiled_step(cli, data, source):
    assert start(cli, data, "--init-from", "source@2", "--xla", "on").code == 0
    assert_equal_weights("new", read_weights(source, 2))


def test_another_number_of_classes_starts_afresh_in_the_last_layer(cli, source, here):
    labels = np.arange(40) % 4
    np.savez("four.npz", x_train=bars(labels), y_train=labels, x_test=bars(labels), y_test=labels)
    refused = start(cli, "npz:four.npz", "--init-from", source)
    assert refused.code == 5 and "No variable of source, step" in refused.err  # Linear is one layer

    write_plugin(TWO_LAYERS)
    argv = ["--plugin", "./mine.py", "--steps", 1]
    assert cli("run", *argv, "--data", write_bars("bars.npz"), "--run-dir", "two").code == 0
    result = cli("run", *argv, "--data", "npz:four.npz", "--run-dir", "new", "--init-from", "two")
    assert result.code == 0, result.err
    assert "1 of 3 variables start with the weights of two, step 1." in result.err
    assert "Initialised: linear/b float32 [4] (there float32 [3]), linear/w float32 [5, 4]" in (
        result.err
    )


TWO_LAYERS = """
    @hookimpl
    def build(self, run):
        start = run.initializer("glorot_uniform", "body/w")
        body = tf.get_variable("body/w", [36, 5], initializer=start)
        sizes = [5, run.data.num_classes]
        start = run.initializer("glorot_uniform", "linear/w")
        w = tf.get_variable("linear/w", sizes, initializer=start)
        return body, w, tf.get_variable("linear/b", sizes[1:], initializer=tf.zeros_initializer())

    @hookimpl
    def call(self, model, features, run):
        body, w, b = model
        flat = tf.reshape(features, [-1, 36])
        return {"flat": flat, "logits": tf.matmul(tf.nn.relu(tf.matmul(flat, body)), w) + b}
"""


def test_variables_are_renamed_by_map_with_one_flag_or_several(cli, data, source):
    write_plugin(RENAMED)
    argv = ["--plugin", "./mine.py", "--init-from", "source@2"]
    refused = start(cli, data, *argv[2:], "--map", "nothing/=dense/")
    assert refused.code == 2 and "has no scope 'nothing/'" in refused.err
    for number, maps in enumerate(
        [
            ["--map", "linear/=dense/"],
            ["--map", "linear/w=dense/w", "--map", "linear/b=dense/b"],
            ["--map", "linear/w=dense/w,linear/b=dense/b"],
        ]
    ):
        name = f"new-{number}"
        command = ["run", "--data", data, "--run-dir", name, "--steps", 1]
        result = cli(*command, "--learning-rate", 1e-30, *argv, *maps)
        assert result.code == 0, result.err
        tensors = testing.tensors(name)
        for old, new in ("linear/w", "dense/w"), ("linear/b", "dense/b"):
            np.testing.assert_allclose(tensors[new], value(source, old))


def value(run, name, step=2):
    reader = tf.train.NewCheckpointReader(RunFolder(run).checkpoints.prefix(step))
    return reader.get_tensor(name)


def test_code_names_the_weights_in_its_options(data, source):
    options = dict(BEFORE, data=data, steps=1, init_from=source)
    toolkit.train(LINEAR, "new", options)
    assert_equal_weights("new", read_weights(source, best_step(source)))
    assert toolkit.train(LINEAR, "new", options)["steps"] == 1  # finished: the same options


def test_a_path_in_a_configuration_starts_at_its_folder(cli, data, source, here):
    os.makedirs("configs")
    (here / "configs" / "a.toml").write_text('init_from = "../source@2"\n')
    assert start(cli, data, "--config", "configs/a.toml").code == 0
    assert_equal_weights("new", read_weights(source, 2))


# -------------------------------------------------------------------------------------- records


def test_the_manifest_and_the_first_entry_name_the_parent(cli, data, source):
    assert start(cli, data, "--init-from", "source@4").code == 0
    expected = {
        "kind": "weights",
        "name": "source",
        "step": 4,
        "tensors": RunFolder(source).commits.find_commit(4).tensors,
        "head": head(source),
    }
    assert parent("new") == expected
    assert RunFolder("new").commits.entries()[0].values["parent"] == expected
    assert cli("verify", "new").code == 0
    doctor = cli("doctor", "new")
    assert doctor.code == 0
    assert "The run began with the weights of source, step 4 (tensors " in doctor.out


def test_the_configuration_names_the_step_that_was_chosen(cli, data, source):
    assert start(cli, data, "--init-from", source).code == 0
    assert read_json("new", "config.json")["init_from"] == f"../source@{best_step(source)}"


def test_a_parent_that_was_changed_is_found(cli, data, source):
    assert start(cli, data, "--init-from", "source@4").code == 0
    edit(os.path.join("new", "manifest.json"), '"name": "source"', '"name": "other"')
    result = cli("verify", "new")
    assert result.code == 6 and "the parent is not that of the commit log" in result.out


def test_a_run_without_other_weights_names_no_parent(source):
    assert "parent" not in read_json(source, "manifest.json")
    assert "parent" not in RunFolder(source).commits.sessions()[0]


# ------------------------------------------------------------------------- killed, moved, deleted


def train(name, **options):
    return testing.train(Mortal, name, **dict(BEFORE, **options))


@pytest.fixture
def killed(data, source, monkeypatch):
    """A run, `new`, that began with source@2 and was killed before its first commit."""
    monkeypatch.setattr(Mortal, "is_dying", True)
    with pytest.raises(Death):
        train("new", data=data, steps=3, checkpoint_steps=2, init_from="source@2")
    monkeypatch.setattr(Mortal, "is_dying", False)
    assert not RunFolder(os.path.abspath("new")).checkpoints.list()
    return "new"


def test_a_run_killed_before_its_first_commit_begins_again_with_the_same_weights(killed, source):
    train(killed)
    assert_equal_weights(killed, read_weights(source, 2), step=3)
    records = [session["parent"] for session in RunFolder(killed).commits.sessions()]
    assert records == [parent(killed)] * 2
    assert testing.fingerprint(killed)


def test_it_begins_with_the_recorded_step_although_another_is_the_best_now(
    data, source, here, monkeypatch
):
    monkeypatch.setattr(Mortal, "is_dying", True)
    with pytest.raises(Death):
        train("new", data=data, steps=3, init_from="source")
    monkeypatch.setattr(Mortal, "is_dying", False)
    before = best_step(source)
    set_manifest(here / source, best={"step": 2 if before != 2 else 4})
    train("new", init_from="source")
    assert_equal_weights("new", read_weights(source, before), step=3)


def test_it_refuses_weights_that_have_changed(killed, source):
    for ending in "index", "data-00000-of-00001":
        path = os.path.join(source, "checkpoints", "model.ckpt-%d." + ending)
        shutil.copy(path % 4, path % 2)
    edit_commit(source, 2, like=4)
    with pytest.raises(
        CheckpointError, match="have changed since the run began with them"
    ) as caught:
        train(killed)
    assert "name their new place (--init-from PATH --allow init_from)" in caught.value.hint


def edit_commit(run, step, like):
    """Let the commit log list for one step the files of another."""
    folder = RunFolder(os.path.abspath(run))
    other = folder.commits.find_commit(like)
    files = {name.replace(f"-{like}.", f"-{step}."): digest for name, digest in other.files.items()}
    for name in other.files:
        shutil.copy(
            folder.file("checkpoints", name),
            folder.file("checkpoints", name.replace(f"-{like}.", f"-{step}.")),
        )
    steps = [checkpoint.step for checkpoint in folder.checkpoints.list()]
    folder.checkpoints.add_commit(other._replace(step=step, files=files), steps)


def test_it_refuses_to_begin_without_the_weights_and_finds_them_elsewhere(killed, source):
    shutil.move(source, "elsewhere")
    with pytest.raises(UsageError, match="source: there is no run, checkpoint or SavedModel"):
        train(killed)
    options = dict(BEFORE, init_from="elsewhere@2")
    toolkit.train(Mortal(), killed, options, allow=["init_from"])
    assert_equal_weights(killed, read_weights("elsewhere", 2), step=3)


def test_doctor_says_that_the_weights_to_begin_with_are_gone(cli, data, source, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr(Linear, "session_hooks", hookimpl(lambda self: [Fatal()]), raising=False)
        start(cli, data, "--init-from", "source@2", steps=3)
    assert cli("doctor", "new").code == 0
    shutil.rmtree(source)
    result = cli("doctor", "new")
    assert result.code == 6
    assert "weights: source: there is no run, checkpoint or SavedModel." in result.out
    assert "begins with these weights again: put them back" in result.out


def test_once_something_is_committed_the_weights_are_not_needed(cli, data, source):
    assert start(cli, data, "--init-from", "source@2", steps=4).code == 0
    shutil.rmtree(source)
    assert cli("resume", "new", "--steps", 6).code == 0
    for argv in ["evaluate", "new"], ["doctor", "new"], ["verify", "new"]:
        assert cli(*argv).code == 0, argv
    assert cli("verify", "new", "--replay", "2:4").code == 0
    result = cli("verify", "new", "--replay", "0:4")
    assert result.code == 2
    assert result.err.startswith(
        "Error: The run began with the weights of source, so it cannot be trained again from step 0"
    )
    assert result.err.count("\n") == 2


def test_a_replay_from_step_0_begins_with_the_weights(cli, data, source):
    argv = ["--plugin", LINEAR, "--data", data, "--run-dir", "new", "--steps", 4]
    assert cli("run", *argv, "--init-from", source).code == 0
    assert cli("verify", "new", "--replay", "0:4").code == 0
    assert cli("run", "--config", "new/config.json", "--run-dir", "again").code == 0
    assert testing.fingerprint("again") == testing.fingerprint("new")


def test_a_run_that_moved_with_its_parent_is_trained_again(cli, data, source, here):
    argv = ["--plugin", LINEAR, "--data", data, "--run-dir", "work/new", "--steps", 2]
    shutil.copytree(source, "work/source")
    assert cli("run", *argv, "--init-from", "work/source@2").code == 0
    shutil.rmtree(source)
    shutil.move("work", "moved")
    assert cli("run", "--config", "moved/new/config.json", "--run-dir", "again").code == 0
    assert testing.fingerprint("again") == testing.fingerprint("moved/new")


@pytest.fixture
def run_of_40_steps(cli, data, source):
    """A run `new` that starts with other weights."""
    argv = ["--plugin", LINEAR, "--data", data, "--run-dir", "new", "--steps", 40]
    assert cli("run", *argv, "--init-from", source).code == 0


def test_a_run_that_starts_with_other_weights_survives_kills(cli, run_of_40_steps):
    process_fixtures.take_turn()
    assert cli("verify", "new", "--chaos", 4, "--seed", 2).code == 0


def test_without_the_other_weights_nothing_is_killed(cli, source, run_of_40_steps):
    shutil.rmtree(source)
    result = cli("verify", "new", "--chaos", 2)
    assert result.code == 2 and "The run began with the weights of source" in result.err


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "argv, code, message",
    [
        (["--init-from", "nothing"], 2, "nothing: there is no run, checkpoint or SavedModel."),
        (["--init-from", "source@3"], 5, "source has no checkpoint '3'."),
        (["--init-from", "source@0"], 5, "source has no checkpoint '0'."),
        (["--init-from", "source@99"], 5, "source has no checkpoint '99'."),
        (["--init-from", "source", "--map", "x"], 2, "--map x is not OLD=NEW."),
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


def test_map_without_weights_is_noted(cli, data):
    assert (
        "map (flag --map) has no effect: init_from is none" in start(cli, data, "--map", "a=b").err
    )


def test_a_run_without_a_checkpoint_has_no_weights(cli, data, killed):
    result = start(cli, data, "--init-from", killed, name="next")
    assert result.code == 5 and "new has no checkpoint yet." in result.err


def test_a_damaged_last_checkpoint_is_skipped_with_a_warning(cli, data, source, here):
    set_manifest(here / source, best=None)
    damage(here / source, 6)
    result = start(cli, data, "--init-from", source)
    assert result.code == 0
    assert "warning: the checkpoint of step 6 is damaged" in result.err
    assert_equal_weights("new", read_weights(source, 4))


def test_other_weights_on_a_resume_are_refused(cli, data, source):
    assert start(cli, data, "--init-from", "source@2").code == 0
    result = cli("resume", "new", "--steps", 3, "--init-from", "source@4")
    assert result.code == 2 and "init_from was ../source@2, now source@4" in result.err
    assert cli("resume", "new", "--steps", 3, "--init-from", "source").code == 0
    assert read_json("new", "config.json")["init_from"] == "../source@2"


def test_the_start_of_a_run_does_not_change_after_its_first_commit(cli, data, source):
    shutil.copytree(source, "other")
    assert start(cli, data, "--init-from", "source@2").code == 0
    resume = ["resume", "new", "--steps", 3]
    sentence = "now {}: a change has no effect after the first commit."
    for name, argv in (
        ("other", ["--init-from", "other", "--allow", "init_from"]),
        ("a=b", ["--set", "map=a=b", "--allow", "map"]),
    ):
        result = cli(*resume, *argv)
        assert result.code == 2 and sentence.format(name) in result.err, result.err
        assert "or start a new run." in result.err
    options = dict(BEFORE, data=data, steps=3, init_from="other")
    with pytest.raises(UsageError, match="now other: a change has no effect after the first"):
        toolkit.train(LINEAR, "new", options, allow=["init_from"])
    assert read_json("new", "config.json")["init_from"] == "../source@2"
    assert cli(*resume).code == 0


def test_a_resume_before_the_first_commit_renames_nothing_of_a_checkpoint(cli, data, source, kill):
    kill(data, "--init-from", "source@2")
    result = cli("resume", "new", "--map", "x=y")
    assert result.code == 2
    assert "--map renames variables of a checkpoint, and new has committed none yet." in result.err
    assert cli("resume", "new").code == 0


def test_the_new_place_of_the_weights_is_recorded_with_the_step(cli, data, source, kill):
    kill(data, "--init-from", "source@2")
    shutil.move(source, "elsewhere")
    assert cli("resume", "new", "--init-from", "elsewhere", "--allow", "init_from").code == 0
    assert read_json("new", "config.json")["init_from"] == "../elsewhere@2"


@pytest.fixture
def kill(cli, monkeypatch):
    """A function that starts a run, `new`, and kills it before its first commit."""

    def call(data, *argv):
        with monkeypatch.context() as patch, pytest.raises(Death):
            patch.setattr(Linear, "session_hooks", hookimpl(lambda self: [Fatal()]), raising=False)
            start(cli, data, *argv, steps=3)

    return call


def test_a_step_of_a_run_is_a_number_and_may_end_in_a_slash(cli, data, source):
    result = start(cli, data, "--init-from", "source@best")
    assert result.code == 2
    assert "source@best: the STEP of RUN@STEP is a number, and 'best' is none." in result.err
    assert "source without a step means its best checkpoint, or else its last one." in result.err
    assert start(cli, data, "--init-from", "source@2/").code == 0
    assert_equal_weights("new", read_weights(source, 2))
    assert read_json("new", "config.json")["init_from"] == "../source@2"


# --------------------------------------------------------------------------------- other classes


def write_classes(path, names):
    labels = np.arange(30) % 3
    texts = np.array(names)[labels]
    np.savez(path, x_train=bars(labels), y_train=texts, x_test=bars(labels), y_test=texts)
    return f"npz:{path}"


def test_as_many_other_classes_are_noted_with_the_flag_for_a_new_last_layer(cli, here):
    write_plugin(TWO_LAYERS)
    argv = ["run", "--plugin", "./mine.py", "--steps", 1, "--learning-rate", "1e-30"]
    abc, abd = write_classes("abc.npz", list("abc")), write_classes("abd.npz", list("abd"))
    assert cli(*argv, "--data", abc, "--run-dir", "old").code == 0
    same = cli(*argv, "--data", abc, "--run-dir", "same", "--init-from", "old")
    assert same.code == 0 and "other classes" not in same.err
    other = cli(*argv, "--data", abd, "--run-dir", "other", "--init-from", "old")
    assert (
        "note   linear/ starts with weights for other classes: old has ..., c; the data has "
        "..., d. To initialise it: --map linear/="
    ) in other.err, other.err
    flags = ["--init-from", "old", "--map", "linear/="]
    fresh = cli(*argv, "--data", abd, "--run-dir", "fresh", *flags)
    assert fresh.code == 0 and "other classes" not in fresh.err
    assert "1 of 3 variables start with the weights of old, step 1." in fresh.err
    assert "Initialised: linear/b, linear/w." in fresh.err
    assert "Not used of old, step 1: linear/b, linear/w." in fresh.err
    assert "other names" not in fresh.err


# ------------------------------------------------------------------------------------- exactness


class Follower(Linear):
    """Linear with a variable that starts as twice another, and one that shares an initial value."""

    @hookimpl
    def build(self, run):
        w, b = Linear.build(self, run)
        tf.get_variable("twice", initializer=2 * w.initializer.inputs[1], trainable=False)
        tf.get_variable("shared/b", initializer=b.initializer.inputs[1], trainable=False)
        return w, b


def test_what_follows_an_initial_value_follows_the_weights(data, source):
    testing.train(Follower, "new", data=data, steps=1, init_from="source@2", **BEFORE)
    tensors = testing.tensors("new")
    w, b = read_weights(source, 2)
    assert np.array_equal(tensors["twice"], 2 * w)
    assert np.array_equal(tensors["linear/b"], b)


def test_the_next_steps_do_not_depend_on_where_the_weights_are_from(cli, data, source):
    argv = ["run", "--plugin", LINEAR, "--data", data, "--steps", 4]
    assert cli("export", source, "exported", "--checkpoint", "4").code == 0
    assert cli(*argv, "--run-dir", "a", "--init-from", "source@4").code == 0
    assert cli(*argv, "--run-dir", "b", "--init-from", "exported").code == 0
    assert testing.fingerprint("a") == testing.fingerprint("b")


def test_frozen_weights_stay_those_of_the_other_run_until_a_resume_trains_them(cli, data, source):
    argv = ["run", "--plugin", LINEAR, "--data", data, "--run-dir", "new", "--steps", 4]
    assert cli(*argv, "--init-from", "source@2", "--freeze", "*/w").code == 0
    before, (w, b) = read_weights(source, 2), read_weights("new", 4)
    assert np.array_equal(w, before[0]) and not np.array_equal(b, before[1])
    assert "linear/w/Adam" not in testing.tensors("new")
    resume = ["resume", "new", "--steps", 6, "--freeze", "", "--allow", "freeze"]
    assert cli(*resume).code == 5  # the slots are missing
    assert cli(*resume, "--init-new").code == 0
    assert not np.array_equal(read_weights("new", 6)[0], w)


def test_the_autopsy_of_the_first_step_has_the_weights(cli, data, here):
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable(
            "linear/w", initializer=tf.fill([36, 3], tf.constant(1e300, tf.float64))
        )
        session.run(w.initializer)
        tf.train.Saver().save(session, str(here / "huge"))
    result = start(cli, data, "--init-from", "huge")
    assert result.code == 3 and "Training diverged in step 1" in result.err
    assert "the variable 'linear/w' was already non-finite before the update" in result.err


def test_variables_that_an_extension_adds_start_afresh(cli, data, source):
    write_plugin(EXTRA)
    result = cli(
        *("run", "--plugin", "./mine.py", "--data", data, "--run-dir", "new", "--steps", 1),
        *("--init-from", "source@2"),
    )
    assert "2 of 3 variables start" in result.err and "Initialised: extra." in result.err
