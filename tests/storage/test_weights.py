"""Which checkpoint a path names, and which of its tensors a model starts with.

Sides are written as in test_checkpoint_diff.py: "linear/w:36,3 half:2:float16".
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from run_fixtures import damage

from toolkit import tf
from toolkit.compat import OBJECT_GRAPH
from toolkit.errors import CheckpointError, UsageError
from toolkit.storage.checkpoint_diff import VariableSpec
from toolkit.storage.parent import WEIGHTS, Parent
from toolkit.storage.run_folder import RunFolder
from toolkit.storage.variable_map import parse_map
from toolkit.storage.weights import (
    WeightSource,
    _name_keys,
    open_weights,
    plan_weights,
    read_weights,
)

VERSIONS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "versions")


def side(text):
    """name -> VariableSpec, of a text as above."""
    specs = {}
    for word in text.split():
        name, shape, dtype = (word + "::").split(":")[:3]
        specs[name] = VariableSpec([int(n) for n in shape.split(",") if n], dtype or "float32")
    return specs


def plan(in_checkpoint, in_graph, *maps):
    specs = side(in_checkpoint)
    source = WeightSource("there", "", Parent(WEIGHTS, "there", 7, "", ""), specs, {})
    return plan_weights(source, side(in_graph), parse_map(maps, allow_empty=True))


def refusal(error, *args):
    with pytest.raises(error) as caught:
        plan(*args)
    return caught.value


# ------------------------------------------------------------------------------------------- plan


def test_variables_of_one_name_and_shape_get_the_weights():
    result = plan("w:4,3 b:3 old:2", "w:4,3 b:5 new:2")
    assert result.names == {"w": "w"}
    assert result.fresh == ["b float32 [5] (there float32 [3])", "new"]
    assert result.unused == ["old"]


def test_an_empty_new_leaves_variables_out():
    specs = "body/w:4 head/w:4 head/b:3 head/in/w:2 x:4"
    result = plan(specs, specs.replace("/in/", "/out/"), "head/=", "head/in/=head/out/", "x=")
    assert result.names == {"body/w": "body/w", "head/out/w": "head/in/w"}
    assert result.unused == ["head/b", "head/w", "x"] and result.maps == []


def test_an_unknown_name_suggests_weights_only():
    source = "w:4 w/Adam:4 w/Adam_1:4 global_step::int64 beta1_power:"
    for name, renames in ("w_Adam", ["w_Adam=w"]), ("globl_step", ["globl_step="]):
        error = refusal(UsageError, source, "w:4", *renames)
        assert f"the checkpoint has no variable '{name}'" in error.message
        assert "Adam" not in error.hint and "global_step" not in error.hint


def test_the_step_slots_and_the_state_of_plugins_are_no_weights():
    others = "global_step::int64 toolkit/refused::int64 state/ema:3 beta1_power: adam/beta2_power:"
    result = plan(f"w:4 w/Adam:4 w/Adam_1:4 toolkit/accumulated/w:4 {others}", f"w:4 {others}")
    assert result.names == {
        "w": "w",
        "beta1_power": "beta1_power",
        "adam/beta2_power": "adam/beta2_power",
    }
    assert result.unused == []


def test_numbers_of_another_precision_fit_and_integers_do_not():
    result = plan("a:2:float64 b:2:float16 c:2:int32 d:2:int64", "a:2 b:2 c:2 d:2:int64")
    assert sorted(result.names) == ["a", "b", "d"]


def test_a_scope_and_a_variable_are_renamed_as_on_a_resume():
    result = plan("one/w:4 one/b:2 x:3", "two/w:4 two/b:2 y:3", "one/=two/", "x=y")
    assert result.names == {"two/w": "one/w", "two/b": "one/b", "y": "x"}


def test_averages_that_an_extension_keeps_as_state_are_taken_by_map():
    result = plan("w:4 b:2 state/ema/w:4 state/ema/count::int64", "w:4 b:2", "state/ema/=/")
    assert result.names == {"w": "state/ema/w", "b": "b"}


def test_a_renaming_to_another_shape_is_refused_for_a_variable_and_not_for_a_scope():
    error = refusal(UsageError, "a:4 w:2", "b:5 w:2", "a=b")
    assert error.message == "--map a=b: 'a' is float32 [4], and 'b' is float32 [5]."
    result = plan("one/w:4 one/b:2", "two/w:4 two/b:5", "one/=two/")
    assert (result.names, len(result.fresh)) == ({"two/w": "one/w"}, 1)


def test_a_renaming_of_what_does_not_exist_is_refused_with_a_suggestion():
    error = refusal(UsageError, "dense/w:4", "linear/w:4", "dens/w=linear/w")
    assert "the checkpoint has no variable 'dens/w'" in error.message
    assert error.hint == "Did you mean 'dense/w'?"


def test_weights_of_which_none_fits_are_refused_with_the_renaming_that_would_do():
    error = refusal(CheckpointError, "dense/w:4,3 dense/b:3", "linear/w:4,3 linear/b:3")
    assert error.message.startswith("No variable of there, step 7 has the name and the shape")
    assert error.hint == "Rename them: --map dense/=linear/"


def test_weights_of_another_model_are_refused_with_both_lists_of_names():
    error = refusal(CheckpointError, "generator/a:9,9,3 z:1", "linear/w:4,3 linear/b:3")
    assert error.hint.startswith(
        "It has generator/a, z; the model has linear/b, linear/w. Rename variables"
    )


def test_likely_renamings_are_said_where_others_fit():
    sentences = plan("w:2 dense/a:4 dense/c:3", "w:2 layer/a:4 layer/c:3").sentences("there")
    assert sentences == [
        "1 of 3 variables start with the weights of there.",
        "Initialised: layer/a, layer/c.",
        "Not used of there: dense/a, dense/c.",
        "Some may only have other names: --map dense/=layer/",
    ]


# ------------------------------------------------------------------------------------------- open


def save(path, **arrays):
    """A checkpoint of tf.train.Saver with these variables; returns its prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        for name, array in arrays.items():
            tf.get_variable(name, initializer=tf.constant(array))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(path), write_meta_graph=False)


def open_(path, step=""):
    return open_weights(str(path), step, lambda text: None)


def open_error(path, step=""):
    with pytest.raises((UsageError, CheckpointError)) as caught:
        open_(path, step)
    return caught.value


W = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "name",
    [
        "w.ckpt-3",
        "w.ckpt-3.index",
        "w.ckpt-3.data-00000-of-00001",
        "w.ckpt-3.meta",
        "",
        "checkpoint/..",
    ],
)
@pytest.mark.parametrize("folder", ["plain", "a [1] *b", "a@7"])
def test_a_checkpoint_is_named_by_its_prefix_a_file_or_its_folder(here, folder, name):
    (here / folder).mkdir()
    save(here / "w.ckpt-3", w=W)  # TensorFlow itself cannot write to a folder with such a name
    for each in list(here.glob("w.ckpt*")) + [here / "checkpoint"]:
        shutil.move(str(each), str(here / folder))
    path = here / folder / name if not name.startswith("checkpoint") else here / folder
    source = open_(path)
    assert os.path.basename(source.path) == "w.ckpt-3"
    assert list(source.specs) == ["w"]
    values = read_weights(source, plan_weights(source, side("w:2,3"), {}), side("w:2,3"))
    assert np.array_equal(values["w"], W)


def test_a_folder_with_several_checkpoints_has_that_which_its_file_names(here):
    for step in 3, 5:
        save(here / f"w-{step}", w=W)
    assert os.path.basename(open_(here).path) == "w-5"
    os.remove("checkpoint")
    error = open_error(here)
    assert error.message == f"{here} has 2 checkpoints." and "w-3, w-5" in error.hint


def test_the_step_of_a_checkpoint_is_its_global_step(here):
    assert open_(save(here / "a", w=W, global_step=np.int64(12))).parent.step == 12
    assert open_(save(here / "b", w=W)).parent.step is None
    assert open_(save(here / "c", w=W, global_step=np.float32(1))).parent.step is None


def test_float64_weights_become_float32(here):
    source = open_(save(here / "w", w=W.astype(np.float64) / 3))
    values = read_weights(source, plan_weights(source, side("w:2,3"), {}), side("w:2,3"))
    assert values["w"].dtype == np.float32
    assert np.array_equal(values["w"], (W.astype(np.float64) / 3).astype(np.float32))


def test_partitioned_variables_are_read_as_a_whole(here):
    with tf.Graph().as_default(), tf.Session() as session:
        divide = tf.fixed_size_partitioner(2)
        tf.get_variable("w", initializer=tf.constant(W), partitioner=divide)
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(here / "w"))
    source = open_(path)
    values = read_weights(source, plan_weights(source, side("w:2,3"), {}), side("w:2,3"))
    assert np.array_equal(values["w"], W)


@pytest.mark.parametrize("version", ["1.15", "2.x"])
def test_a_run_and_a_saved_model_of_either_version_have_the_same_weights(here, version):
    run = open_(os.path.join(VERSIONS, version))
    model = open_(os.path.join(VERSIONS, "models", version))
    assert (run.parent.step, len(run.parent.head)) == (4, 64)
    assert (model.parent.name, model.parent.head) == (version, "")
    graph = side("linear/w:36,3 linear/b:3")
    values = [read_weights(s, plan_weights(s, graph, {}), graph) for s in (run, model)]
    for name in graph:
        assert np.array_equal(values[0][name], values[1][name])


def test_a_run_has_its_best_checkpoint_or_the_one_of_a_step(trained):
    run = trained / "run"
    assert open_(run).parent.step == RunFolder(str(run)).checkpoints.best()["step"]
    assert open_(run, "4").parent.step == open_(run, "04").parent.step == 4
    error = open_error(run, "5")
    assert "has no checkpoint '5'" in error.message and "2, 4, 6" in error.hint


def test_a_damaged_checkpoint_of_a_run_is_refused(trained):
    damage(trained / "run", 4)
    assert "The checkpoint of step 4 is damaged" in open_error(trained / "run", "4").message


def test_a_damaged_checkpoint_of_no_run_is_refused(here):
    path = save(here / "w", w=np.zeros(5000, np.float32))
    with open(path + ".data-00000-of-00001", "r+b") as file:
        file.truncate(100)
    assert "not a readable checkpoint" in open_error(path).message


def test_other_files_and_folders_are_refused_each_in_a_sentence(here):
    for name in "model.h5", "model.keras", "notes.txt":
        (here / name).write_text("x")
    (here / "empty").mkdir()
    (here / "frozen").mkdir()
    (here / "frozen" / "saved_model.pb").write_bytes(b"")
    messages = {
        "model.h5": "is a file of Keras, which is not read.",
        "model.keras": "is a file of Keras, which is not read.",
        "notes.txt": "not a readable checkpoint",
        "empty": "contains no run, checkpoint or SavedModel.",
        "frozen": "has no variables, so it has no weights.",
        "frozen/saved_model.pb": "has no variables, so it has no weights.",
        "missing": "there is no run, checkpoint or SavedModel.",
    }
    for name, message in messages.items():
        error = open_error(here / name)
        assert message in error.message, name
        assert "\n" not in error.message


def test_a_step_of_what_is_no_run_is_refused(here):
    path = save(here / "w", w=W)
    assert open_error(path, "3").message == f"{path}@3 names a step of a run, and {path} is no run."


# ------------------------------------------------------------------------------------------ Keras


def write_keras_weights(path):
    """A checkpoint of objects of two layers, as Keras 2 writes it; the names of its variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        layers = [tf.keras.layers.Dense(3), tf.keras.layers.Dense(2, name="head")]
        model = tf.keras.Sequential(layers)
        model.build((None, 4))
        names = [variable.op.name for variable in model.variables]
        session.run(tf.global_variables_initializer())
        with_objects = tf.train.Checkpoint(model=model)
        with_objects.save(str(path), session=session)
        return names, dict(zip(names, session.run(model.variables)))


def test_a_checkpoint_of_keras_has_the_names_of_the_variables_in_the_model(here):
    names, arrays = write_keras_weights(here / "keras")
    source = open_(here)
    assert OBJECT_GRAPH not in source.specs
    assert sorted(source.specs) == sorted(names)
    values = read_weights(source, plan_weights(source, source.specs, {}), source.specs)
    for name in names:
        assert np.array_equal(values[name], arrays[name])


def test_variables_of_keras_that_share_a_name_have_that_of_their_place():
    end = "/.ATTRIBUTES/VARIABLE_VALUE"
    values = {"a" + end: 1, "b" + end: 2, "c" + end: 3, "again" + end: 3, "optimizer/x" + end: 4}
    full_names = dict.fromkeys(values, "dense/bias")
    full_names.update({"c" + end: "dense/kernel", "again" + end: "dense/kernel"})
    assert _name_keys(values, full_names) == {
        "a": "a" + end,
        "b": "b" + end,
        "dense/kernel": "again" + end,  # twice the same
    }


def test_a_keras_model_starts_a_plugin_with_other_names(here):
    write_keras_weights(here / "keras")
    source = open_(here)
    result = plan_weights(
        source, side("body/kernel:4,3 body/bias:3 head/kernel:3,9"), parse_map(["dense/=body/"])
    )
    assert result.names == {"body/kernel": "dense/kernel", "body/bias": "dense/bias"}
    assert result.fresh == ["head/kernel float32 [3, 9] (there float32 [3, 2])"]
    assert result.unused == ["head/bias"]
