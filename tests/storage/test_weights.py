"""Which checkpoint a path names, and which of its tensors a model starts with.

Sides are written as texts, as `checkpoint_fixtures.side` reads them.
"""

import os
import shutil
from unittest import mock

import numpy as np
import pytest
from checkpoint_fixtures import save, side

from toolkit import tf
from toolkit.compat import OBJECT_GRAPH
from toolkit.errors import CheckpointError, UsageError
from toolkit.storage.entries import WEIGHTS, Parent
from toolkit.storage.variables import find_misfit, parse_map
from toolkit.storage.weights import WeightSource, open_weights, plan_weights, read_weights


def plan(in_checkpoint, in_graph, *maps):
    specs = side(in_checkpoint)
    source = WeightSource("there", "", Parent(WEIGHTS, "there", 7, "", ""), specs, {})
    return plan_weights(source, side(in_graph), parse_map(maps))


# ------------------------------------------------------------------------------------------- plan


OTHERS = "global_step::int64 toolkit/refused::int64 state/ema:3 beta1_power: adam/beta2_power:"
SAME = "w=w beta1_power=beta1_power adam/beta2_power=adam/beta2_power"
TO_OUT = "c=c a/out/w=a/in/w"
CLOSER = "b/x=a/x c/y=a/d/y"


@pytest.mark.parametrize(
    "before, now, maps, names, unused",
    [
        ("w:4,3 b:3 old:2", "w:4,3 b:5 new:2", "", "w=w", "old"),
        # Numbers of another precision fit, and integers do not.
        ("a:2:float64 b:2:float16 c:2:int32", "a:2 b:2 c:2", "", "a=a b=b", ""),
        # The step, slots and the state of plugins are no weights.
        ("w:4 w/Adam:4 toolkit/accumulated/w:4 " + OTHERS, "w:4 " + OTHERS, "", SAME, ""),
        # But a map takes the averages that an extension keeps as its state.
        ("w:4 b:2 state/ema/w:4", "w:4 b:2", "state/ema/=/", "w=state/ema/w b=b", "w"),
        ("one/w:4 one/b:2 x:3", "two/w:4 two/b:5 y:3", "one/=two/ x=y", "two/w=one/w y=x", ""),
        # Without a new name, variables are left out.
        ("a/w:4 a/in/w:2 c:1", "a/w:4 a/out/w:2 c:1", "a/= a/in/=a/out/", TO_OUT, "a/w"),
        # The map of a variable or of a longer scope goes first.
        ("a/x:1 a/d/y:1", "b/x:1 b/d/y:1 c/y:1", "a/=b/ a/d/y=c/y", CLOSER, ""),
        ("w:4", "tower/w:4", "/=tower/", "tower/w=w", ""),
        ("a:4 b:4", "a:4 b:4", "a=b b=a", "a=b b=a", ""),
    ],
)
def test_variables_of_one_name_and_shape_get_the_weights(before, now, maps, names, unused):
    result = plan(before, now, *maps.split())
    assert result.names == dict(pair.split("=") for pair in names.split())
    assert result.unused == unused.split()


@pytest.mark.parametrize("text", ["a", "=b", "a=b=c", "a=b/"])
def test_a_map_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="is not OLD=NEW"):
        parse_map([text])


@pytest.mark.parametrize("texts, name", [(("a=b", "a=c"), "a"), (("a=c", "b=c"), "c")])
def test_a_map_names_each_variable_once(texts, name):
    with pytest.raises(UsageError, match=f"--map .* names '{name}' a second time"):
        parse_map(texts)
    assert parse_map(["a=", "b="]) == {"a": "", "b": ""}


OLD, NEW = "linear/w:4 linear/b:2", "line/w:4 linear/b:2"
STEP_AND_SLOTS = "w:4 w/Adam:4 w/Adam_1:4 global_step::int64 beta1_power:"
NONE = "No variable of there, step 7 has the name and the shape .*\n"


@pytest.mark.parametrize(
    "before, now, maps, words",
    [
        (OLD, NEW, "linear/w=lime/w", "has no variable 'lime/w'.\nDid you mean 'line/w'[?]"),
        (OLD, NEW, "line/w=linear/w", "--map linear/w=line/w"),  # it was reversed
        ("enc/w:4", "encoder/w:4", "emc/=encoder/", "no scope 'emc/'.\nDid you mean 'enc/'[?]"),
        ("a/x:1", "b/y:1", "a/=b/", "no variable has one name"),
        # The suggestion is among the weights.
        (STEP_AND_SLOTS, "w:4", "w_Adam=w", "has no variable 'w_Adam'.\nKnown: w[.]"),
        ("a:4", "b:5", "a=b", r"--map a=b: 'a' is float32 \[4\], and 'b' is float32 \[5\]."),
        ("dense/w:4 dense/b:3", "linear/w:4 linear/b:3", "", NONE + "Rename them: --map dense/=li"),
        ("a/w:9 z:1", "w:4 b:3", "", NONE + "It has a/w, z; the model has b, w. Rename variables"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_the_way_out(before, now, maps, words):
    with pytest.raises((UsageError, CheckpointError), match=words):
        plan(before, now, *maps.split())


@pytest.mark.parametrize(
    "before, now, text",
    [
        ("enc/a/w:4 enc/b/w:2", "encoder/a/w:4 encoder/b/w:2", "enc/=encoder/"),
        ("a/w:4 b/v:2", "tower/a/w:4 tower/b/v:2", "/=tower/"),
        # All else has to be equal.
        ("lines/w:4", "line/w:5", ""),
        ("lines/w:4", "other/name:4", ""),
    ],
)
def test_a_renamed_scope_is_found(before, now, text):
    result = plan("same:1 " + before, "same:1 " + now)
    assert result.rename == (text and f"--map {text}")


@pytest.mark.parametrize(
    "before, now, sentence",
    [
        ("w:4 b:2", "w:4 b:2", ""),
        ("w:4", "w:4 b:2", "added b."),
        ("w:4 b:2", "w:4", "removed b."),
        ("b:3", "b:1,3", "reshaped b float32 [1, 3] (was float32 [3])."),
    ],
)
def test_a_resume_needs_the_same_variables(before, now, sentence):
    start = "The model differs from its checkpoint: " if sentence else ""
    assert find_misfit(side(before), side(now)) == start + sentence
    partial = find_misfit(side(before), side(now), partial=True)
    assert partial == ("" if "removed" in sentence else start + sentence)


def test_a_renamed_scope_is_said_where_others_fit():
    sentences = plan("w:2 dense/a:4 dense/c:3", "w:2 layer/a:4 layer/c:3").sentences("there")
    assert sentences[3:] == ["They may only have another name: --map dense/=layer/"]


# ------------------------------------------------------------------------------------------- open


def open_(path, step=""):
    return open_weights(str(path), step, lambda text: None)


def open_error(path, step=""):
    with pytest.raises((UsageError, CheckpointError)) as caught:
        open_(path, step)
    return caught.value


W = np.arange(6, dtype=np.float32).reshape(2, 3)
THIRDS = W.astype(np.float64) / 3


def read(source, text="w:2,3"):
    """The arrays of a model of these variables that starts with the weights."""
    return read_weights(source, plan_weights(source, side(text), {}), side(text))


@pytest.mark.parametrize("name", ["w-3", "w-3.index", "w-3.data-00000-of-00001", ""])
@pytest.mark.parametrize("folder", ["a [1] *b", "a@7"])
def test_a_checkpoint_is_named_by_its_prefix_a_file_or_its_folder(here, folder, name):
    (here / folder).mkdir()
    save(here / "w-3", {"w": W})  # TensorFlow itself cannot write to a folder with such a name
    for each in list(here.glob("w-3*")) + [here / "checkpoint"]:
        shutil.move(str(each), str(here / folder))
    source = open_(here / folder / name)
    assert os.path.basename(source.path) == "w-3"
    assert list(source.specs) == ["w"]
    assert np.array_equal(read(source)["w"], W)


@pytest.mark.parametrize("name", ["", "saved_model.pb"])
def test_a_saved_model_is_named_by_its_folder_or_its_file(here, name):
    (here / "m" / "variables").mkdir(parents=True)
    save(here / "m" / "variables" / "variables", {"w": W})
    (here / "m" / "saved_model.pb").write_bytes(b"")
    assert np.array_equal(read(open_(here / "m" / name))["w"], W)


def test_a_folder_with_several_checkpoints_has_that_which_its_file_names(here):
    for step in 3, 5:
        save(here / f"w-{step}", {"w": W})
    assert os.path.basename(open_(here).path) == "w-5"
    os.remove("checkpoint")
    error = open_error(here)
    assert error.message == f"{here} has 2 checkpoints." and "w-3, w-5" in error.hint


def test_the_step_of_a_checkpoint_is_its_global_step(here):
    assert open_(save(here / "a", {"w": W, "global_step": np.int64(12)})).parent.step == 12
    assert open_(save(here / "b", {"w": W})).parent.step is None


def test_partitioned_and_float64_variables_are_read_as_whole_ones_of_the_model(here):
    with tf.Graph().as_default(), tf.Session() as session:
        divide = tf.fixed_size_partitioner(2)
        tf.get_variable("w", initializer=tf.constant(THIRDS), partitioner=divide)
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(here / "w"))
    values = read(open_(path))
    assert values["w"].dtype == np.float32
    assert np.array_equal(values["w"], THIRDS.astype(np.float32))


def test_other_files_and_folders_are_refused_each_in_a_sentence(here):
    for name in "model.h5", "notes.txt":
        (here / name).write_text("x")
    (here / "empty").mkdir()
    (here / "frozen").mkdir()
    (here / "frozen" / "saved_model.pb").write_bytes(b"")
    path = save(here / "w", {"w": np.zeros(5000)})
    assert open_error(path, "3").message == f"{path}@3 names a step of a run, and {path} is no run."
    os.truncate(path + ".data-00000-of-00001", 100)
    messages = {
        "w": "not a readable checkpoint",
        "model.h5": "is a file of Keras, which is not read.",
        "notes.txt": "not a readable checkpoint",
        "empty": "contains no run, checkpoint or SavedModel.",
        "frozen": "has no variables, so it has no weights.",
        "missing": "there is no run, checkpoint or SavedModel.",
    }
    for name, message in messages.items():
        error = open_error(here / name)
        assert message in error.message, name
        assert "\n" not in error.message


@pytest.mark.parametrize("name", ["", "w"])
def test_a_folder_that_cannot_be_listed_is_refused(here, monkeypatch, name):
    refuse = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("os.listdir", refuse)
    error = open_error(here / name)
    assert isinstance(error, UsageError)
    assert error.message.endswith(" cannot be read: Permission denied.")


def test_a_checkpoint_of_keras_has_the_names_of_the_variables_in_the_model(here):
    with tf.Graph().as_default(), tf.Session() as session:
        layers = [tf.keras.layers.Dense(3), tf.keras.layers.Dense(2, name="head")]
        model = tf.keras.Sequential(layers)
        model.build((None, 4))
        session.run(tf.global_variables_initializer())
        tf.train.Checkpoint(model=model).save(str(here / "keras"), session=session)
        names = [variable.op.name for variable in model.variables]
        arrays = dict(zip(names, session.run(model.variables)))
    source = open_(here)
    assert sorted(source.specs) == sorted(names) and OBJECT_GRAPH not in source.specs
    values = read_weights(source, plan_weights(source, source.specs, {}), source.specs)
    for name in names:
        assert np.array_equal(values[name], arrays[name])
    specs = side("body/kernel:4,3 body/bias:3 head/kernel:3,9")
    result = plan_weights(source, specs, parse_map(["dense/=body/"]))
    assert result.names == {"body/kernel": "dense/kernel", "body/bias": "dense/bias"}
    assert result.fresh == ["head/kernel float32 [3, 9] (there float32 [3, 2])"]
    assert result.unused == ["head/bias"]
