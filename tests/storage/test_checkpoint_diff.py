"""How a checkpoint differs from a model, and restores that make deliberate changes.

Sides are written as texts: "linear/w:36,3 step: half:2:float16" are three variables, float32 where
nothing is said. Each side gets its `global_step` besides.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars

from toolkit import hookimpl, testing, tf
from toolkit.errors import CheckpointError, UsageError
from toolkit.storage.checkpoint_diff import (
    RestoreOptions,
    VariableSpec,
    build_saver,
    difference,
    plan_restore,
    read_variable_specs,
    variable_specs,
)
from toolkit.storage.run_folder import RunFolder
from toolkit.storage.variable_map import parse_map

STEP = "global_step"
ADAM = "linear/w:4 linear/w/Adam:4 linear/w/Adam_1:4 linear/b:2 linear/b/Adam:2"
RENAMED = ADAM.replace("linear/w", "line/w")


def side(text):
    """name -> VariableSpec, of a text as above."""
    specs = {STEP: VariableSpec([], "int64")}
    for word in text.split():
        name, _, rest = word.partition(":")
        shape, _, dtype = rest.partition(":")
        specs[name] = VariableSpec([int(n) for n in shape.split(",") if n], dtype or "float32")
    return specs


def options(*maps, init_new=False, drop=False):
    return RestoreOptions(init_new, drop, parse_map(maps))


def plan_for(in_checkpoint, in_graph, *maps, **flags):
    return plan_restore(side(in_checkpoint), side(in_graph), options(*maps, **flags))


def compare(in_checkpoint, in_graph, partial=False):
    return difference(side(in_checkpoint), side(in_graph), partial)


def restore_error(in_checkpoint, in_graph, *maps, **flags):
    with pytest.raises(CheckpointError) as raised:
        plan_for(in_checkpoint, in_graph, *maps, **flags)
    return raised.value


def usage_error(in_checkpoint, in_graph, *maps):
    with pytest.raises(UsageError) as raised:
        plan_for(in_checkpoint, in_graph, *maps, init_new=True, drop=True)
    return raised.value


# -------------------------------------------------------------------------------------- differences


def test_an_identical_model_has_no_difference_and_all_is_restored():
    diff = compare(ADAM, ADAM)
    assert not diff
    assert (diff.sentence(), diff.lines(), diff.hint()) == ("", [], "")
    plan = plan_for(ADAM, ADAM)
    assert plan.mapping == {name: name for name in side(ADAM)}
    assert plan.is_plain and plan.sentence() == ""


def test_added_and_removed_variables_are_named_with_their_flags():
    added, removed = compare("w:4", "w:4 b:2"), compare("w:4 b:2", "w:4")
    assert added.sentence() == "The model differs from its checkpoint: added b."
    assert removed.sentence() == "The model differs from its checkpoint: removed b."
    assert added.hint().startswith("Allow it with --init-new, or resume with the options")
    assert removed.hint().startswith("Allow it with --drop, or")


def test_a_partial_comparison_ignores_variables_of_the_checkpoint_alone():
    assert not compare("w:4 b:2", "w:4", partial=True)
    assert compare("w:4", "w:4 b:2", partial=True).additions == ["b"]


def test_both_shapes_of_a_reshaped_variable_are_named():
    diff = compare("linear/b:3", "linear/b:1,3")
    assert "reshaped linear/b [1, 3] (was [3])" in diff.sentence()
    assert "Allow it with --init-new --drop, or" in diff.hint()


def test_both_dtypes_of_a_variable_are_named():
    assert "reshaped b [3] float16 (was [3] float32)." in compare("b:3", "b:3:float16").sentence()


def test_a_likely_rename_includes_its_slots():
    diff = compare(ADAM, RENAMED)
    assert diff.renames == [("linear/w", "line/w")]
    assert diff.slots == [("linear/w/Adam", "line/w/Adam"), ("linear/w/Adam_1", "line/w/Adam_1")]
    assert diff.sentence().endswith(": likely renamed line/w (was linear/w).")
    assert "Allow it with --map linear/w=line/w, or" in diff.hint()


def test_an_average_of_a_renamed_variable_is_a_slot_of_it():
    diff = compare("net/w:4 average/net/w:4", "nets/w:4 average/nets/w:4")
    assert diff.renames == [("net/w", "nets/w")]
    assert diff.slots == [("average/net/w", "average/nets/w")]


def test_similar_names_match_even_if_their_last_parts_differ():
    assert compare("dense/kernel:4", "dense/kernels:4").renames == [
        ("dense/kernel", "dense/kernels")
    ]


@pytest.mark.parametrize(
    "now", ["line/w:5", "line/w:4:float64", "other/name:4", "line1/w:4 line2/w:4"]
)
def test_a_rename_needs_equal_shape_and_dtype_and_one_similar_name(now):
    diff = compare("lines/w:4", now)
    assert diff.renames == [] and diff.removals == ["lines/w"]


def test_the_most_similar_of_several_names_is_the_rename():
    diff = compare("a1/w:4 a2/w:4", "b1/w:4 b2/w:4")
    assert diff.renames == [("a1/w", "b1/w"), ("a2/w", "b2/w")]


def test_another_optimizers_slots_are_new_and_not_renamed():
    diff = compare("b:3 b/Adam:3 b/Adam_1:3", "b:3 b/Momentum:3")
    assert diff.additions == ["b/Momentum"]
    assert diff.removals == ["b/Adam", "b/Adam_1"]
    assert diff.renames == []


def test_a_slot_is_no_variable_of_its_own():
    assert compare("w:4 w/Adam:4", "w:4 v/Adam:4").renames == []


def test_a_variable_that_contains_the_name_of_one_with_another_shape_is_no_slot():
    assert compare("w:4 head/w:9", "w:4 heads/w:9").renames == [("head/w", "heads/w")]


def test_a_slot_with_another_shape_is_not_renamed_along():
    diff = compare("line/w:4 line/w/Adam:4", "lines/w:4 lines/w/Adam:9")
    assert diff.renames == [("line/w", "lines/w")] and diff.slots == []
    assert (diff.additions, diff.removals) == (["lines/w/Adam"], ["line/w/Adam"])


def test_the_hint_has_one_map_for_a_renamed_scope():
    diff = compare("enc/a/w:4 enc/b/w:2", "encoder/a/w:4 encoder/b/w:2")
    assert diff.maps == ["enc/=encoder/"]
    assert compare("a/w:4 b/v:2", "tower/a/w:4 tower/b/v:2").maps == ["/=tower/"]


def test_the_hint_maps_variables_if_mapping_the_scope_would_rename_more():
    # enc/c is on both sides, so enc/=encoder/ would take its value to encoder/c, which is new.
    before = "enc/a:4 enc/b:2 enc/c:3"
    diff = compare(before, "encoder/a:4 encoder/b:2 encoder/c:3 enc/c:3")
    assert diff.maps == ["enc/a=encoder/a", "enc/b=encoder/b"]


def test_a_line_has_up_to_20_names_and_the_sentence_up_to_5():
    many = " ".join(f"v{i:02}:1" for i in range(22))
    diff = compare("", many)
    assert diff.sentence().endswith("added v00, v01, v02, v03, v04 and 17 more.")
    assert diff.lines()[0].endswith("v19 and 2 more")
    assert diff.lines(limit=22)[0].endswith(", v20, v21")


def test_there_is_a_line_for_each_kind():
    assert compare(ADAM + " old:1 size:2", RENAMED + " fresh:7 size:3").lines() == [
        "added: fresh",
        "removed: old",
        "reshaped: size [3] (was [2])",
        "likely renamed: line/w (was linear/w)",
        "their slots: line/w/Adam (was linear/w/Adam), line/w/Adam_1 (was linear/w/Adam_1)",
    ]


@pytest.mark.parametrize(
    "before, now",
    [
        (ADAM, RENAMED),
        (ADAM + " old:1 size:2", RENAMED + " fresh:7 size:3"),
        ("enc/a/w:4 enc/b/w:2 enc/c:1", "encoder/a/w:4 encoder/b/w:2 enc/c:1"),
        ("a/w:4 b/v:2 b/v/Adam:2", "tower/a/w:4 tower/b/v:2 tower/b/v/Adam:2"),
        ("b:3 b/Adam:3", "b:3 b/Momentum:3"),
        ("line/w:4 line/w/Adam:4", "lines/w:4 lines/w/Adam:9"),
    ],
)
def test_the_flags_in_the_hint_allow_the_difference(before, now):
    words = compare(before, now).hint().split(", or")[0].split()
    maps = [text for flag, text in zip(words, words[1:]) if flag == "--map"]
    init_new, drop = "--init-new" in words, "--drop" in words
    assert plan_for(before, now, *maps, init_new=init_new, drop=drop).mapping


# -------------------------------------------------------------------------------------------- plans


def test_each_flag_allows_its_kind_and_the_error_names_the_rest():
    before, now = "w:4 old:1", "w:4 fresh:7"
    error = restore_error(before, now, init_new=True)
    assert error.message.endswith(": removed old.") and "with --drop, or" in error.hint
    error = restore_error(before, now, drop=True)
    assert error.message.endswith(": added fresh.") and "with --init-new, or" in error.hint
    plan = plan_for(before, now, init_new=True, drop=True)
    assert plan == ({STEP: STEP, "w": "w"}, ["fresh"], ["old"])


def test_a_map_alone_allows_its_rename_and_no_other_change():
    error = restore_error(ADAM, RENAMED + " fresh:7", "linear/w=line/w")
    assert error.message.endswith("checkpoint: added fresh.")


@pytest.mark.parametrize("flags", [{"init_new": True}, {"drop": True}, {}])
def test_a_reshaped_variable_and_a_likely_rename_need_both_flags(flags):
    assert "reshaped b [4] (was [2])" in restore_error("b:2", "b:4", **flags).message
    assert "likely renamed" in restore_error(ADAM, RENAMED, **flags).message


def test_a_reshaped_variable_is_initialised_and_its_old_value_dropped():
    plan = plan_for("b:2", "b:4", init_new=True, drop=True)
    assert (plan.init_names, plan.drop_names) == (["b"], ["b"])


def test_a_map_renames_the_slots_too():
    plan = plan_for(ADAM, RENAMED, "linear/w=line/w")
    assert plan.renames == {
        "linear/w": "line/w",
        "linear/w/Adam": "line/w/Adam",
        "linear/w/Adam_1": "line/w/Adam_1",
    }
    assert not plan.is_plain and (plan.init_names, plan.drop_names) == ([], [])


@pytest.mark.parametrize(
    "before, now, new",
    [
        ("head/w:4", "head/w:4 head/v:4", ["head/v"]),  # restored under its own name
        ("head/w:4 head/v:4", "head/v:4", []),  # head/v is
        ("head/w:9", "head/v:9", ["head/v"]),  # a slot has the shape of its variable
    ],
)
def test_a_map_does_not_rename_a_variable_that_only_contains_the_old_name(before, now, new):
    plan = plan_for("w:4 " + before, "v:4 " + now, "w=v", init_new=True, drop=True)
    assert plan.renames == {"w": "v"}
    assert plan.init_names == new


def test_a_slots_own_map_overrides_the_slot_that_would_be_renamed_along():
    maps = ["linear/w=line/w", "linear/w/Adam_1=line/w/Adam"]
    plan = plan_for(ADAM, RENAMED, *maps, init_new=True, drop=True)
    assert plan.renames["linear/w/Adam_1"] == "line/w/Adam"
    assert (plan.init_names, plan.drop_names) == (["line/w/Adam_1"], ["linear/w/Adam"])


def test_two_variables_can_be_swapped_with_their_slots():
    both = "a:4 a/Adam:4 b:4 b/Adam:4"
    plan = plan_for(both, both, "a=b", "b=a")
    assert plan.renames == {"a": "b", "a/Adam": "b/Adam", "b": "a", "b/Adam": "a/Adam"}


def test_a_map_replaces_the_variable_that_has_the_new_name():
    error = restore_error("a:4 b:4", "b:4", "a=b")
    assert error.message.endswith("checkpoint: removed b.")
    assert plan_for("a:4 b:4", "b:4", "a=b", drop=True).mapping == {STEP: STEP, "a": "b"}


def test_a_mapped_variable_of_another_shape_is_reshaped():
    error = restore_error("a:4", "b:5", "a=b")
    assert "reshaped b [5] (was [4])" in error.message
    plan = plan_for("a:4", "b:5", "a=b", init_new=True, drop=True)
    assert (plan.init_names, plan.drop_names) == (["b"], ["a"])


def test_renaming_a_scope_renames_its_variables_slots_and_averages():
    before = "net/a/w:4 net/a/w/Adam:4 net/b:2 average/net/b:2"
    plan = plan_for(before, before.replace("net/", "tower/net/"), "net/=tower/net/")
    assert sorted(plan.renames) == ["average/net/b", "net/a/w", "net/a/w/Adam", "net/b"]
    assert plan.renames["average/net/b"] == "average/tower/net/b"


def test_renaming_the_root_scope_does_not_rename_the_global_step():
    plan = plan_for("w:4 w/Adam:4", "tower/w:4 tower/w/Adam:4", "/=tower/")
    assert plan.mapping == {STEP: STEP, "w": "tower/w", "w/Adam": "tower/w/Adam"}


@pytest.mark.parametrize("closer", ["a/d/y=c/y", "a/d/=c/"])
def test_the_map_of_a_variable_or_a_longer_scope_has_priority(closer):
    plan = plan_for("a/x:1 a/d/y:1", "b/x:1 b/d/y:1 c/y:1", "a/=b/", closer, init_new=True)
    assert plan.renames == {"a/x": "b/x", "a/d/y": "c/y"}
    assert plan.init_names == ["b/d/y"]


def test_a_command_can_be_repeated_after_the_renamed_variable_was_saved():
    assert plan_for(RENAMED, RENAMED, "linear/w=line/w").is_plain
    assert plan_for("b/x:1", "b/x:1", "a/=b/", init_new=True).is_plain


@pytest.mark.parametrize("dtype", [None, "int32"])
def test_a_plan_without_the_global_step_is_an_error(dtype):
    before = side("w:4 counter::int64")
    del before[STEP]
    if dtype:
        before[STEP] = VariableSpec([], dtype)
    everything = RestoreOptions(init_new=True, drop=True)
    with pytest.raises(
        CheckpointError, match="no variable from which the model's 'global_step'"
    ) as raised:
        plan_restore(before, side("w:4"), everything)
    assert "--map NAME=global_step" in raised.value.hint
    mapped = everything._replace(renames={"counter": STEP})
    assert plan_restore(before, side("w:4"), mapped).mapping["counter"] == STEP


def test_a_plan_has_a_sentence_and_a_json_form():
    plan = plan_for("a/w:4 old:1", "b/w:4 new:2 newer:3", "a/w=b/w", init_new=True, drop=True)
    assert plan.sentence() == (
        "1 variable is renamed: b/w (was a/w). 2 variables are new and initialised: new, newer. "
        "1 variable is dropped: old."
    )
    assert plan.as_json() == {
        "restored": 1,
        "renamed": {"a/w": "b/w"},
        "initialised": ["new", "newer"],
        "dropped": ["old"],
    }


# ------------------------------------------------------------------------------------ maps


def test_maps_are_pairs_of_names_or_of_scopes():
    assert parse_map(["a/w=b/w", "c/=d/"]) == {"a/w": "b/w", "c/": "d/"}


@pytest.mark.parametrize("text", ["", "a", "=b", "a=", "a=b=c", "a/=b", "a=b/"])
def test_a_text_in_another_form_is_refused(text):
    with pytest.raises(UsageError, match="is not OLD=NEW"):
        parse_map([text])


@pytest.mark.parametrize("texts, twice", [(["a=b", "a=c"], "a"), (["a=c", "b=c"], "c")])
def test_a_name_on_the_same_side_twice_is_refused(texts, twice):
    with pytest.raises(UsageError, match=f"--map {texts[1]} names '{twice}' a second"):
        parse_map(texts)


def test_a_map_of_a_name_to_itself_is_refused():
    with pytest.raises(UsageError, match="--map a=a renames nothing"):
        parse_map(["a=a"])


def test_an_unknown_name_is_reported_with_its_side_and_a_similar_name():
    error = usage_error(ADAM, RENAMED, "lineer/w=line/w")
    assert "the checkpoint has no variable 'lineer/w'" in error.message
    assert error.hint == "Did you mean 'linear/w'?"
    error = usage_error(ADAM, RENAMED, "linear/w=lime/w")
    assert "the model has no variable 'lime/w'" in error.message
    assert error.hint == "Did you mean 'line/w'?"


def test_an_unknown_name_is_reported_with_a_similar_one_if_the_model_is_equal():
    assert usage_error("w:4", "w:4", "ww=v").hint == "Did you mean 'w'?"


def test_an_unknown_scope_is_reported_with_a_similar_one():
    error = usage_error("enc/w:4", "encoder/w:4", "emc/=encoder/")
    assert "the checkpoint has no scope 'emc/'" in error.message
    assert error.hint == "Did you mean 'enc/'?"


def test_the_hint_for_a_reversed_map_has_the_right_order():
    assert usage_error(ADAM, RENAMED, "line/w=linear/w").hint.endswith("--map linear/w=line/w")


def test_scopes_without_a_common_name_are_refused():
    assert "no variable has one name" in usage_error("a/x:1", "b/y:1", "a/=b/").message


# ------------------------------------------------------------------------------------ real restores


class Renamed(Linear):
    """The linear model with another name for `linear/w`."""

    @hookimpl
    def build(self, run):
        w = tf.get_variable("line/w", [36, 3])
        return w, tf.get_variable("linear/b", [3])


@pytest.fixture
def trained(tmp_path):
    """`trained(Linear, "adam")` -> the prefix of a checkpoint after 2 steps."""
    data = write_bars(tmp_path / "bars.npz")

    def train(plugin, optimizer):
        run = str(tmp_path / (plugin.__name__ + optimizer))
        testing.train(plugin, run, data=data, steps=2, optimizer=optimizer, evaluate="no")
        return RunFolder(run).checkpoints.newest().path

    return train


def variables_like(path):
    """Variables of the current graph with the names, shapes and dtypes of a checkpoint's."""
    return [
        tf.get_variable(n, s.shape, s.dtype) for n, s in sorted(read_variable_specs(path).items())
    ]


def restore(path, variables, options):
    """(plan, values by name) after initial values of 7 and a restore into the current graph."""
    plan = plan_restore(read_variable_specs(path), variable_specs(variables), options)
    saver = build_saver(plan, variables)
    with tf.Session() as session:
        for variable in variables:
            variable.load(np.full(variable.shape.as_list(), 7), session)
        saver.restore(session, path)
        return plan, {v.op.name: session.run(v) for v in variables}


@pytest.mark.parametrize(
    "optimizer, slots", [("adam", ["Adam", "Adam_1"]), ("momentum", ["Momentum"])]
)
def test_the_optimizer_slots_of_a_renamed_variable_are_restored(trained, graph, optimizer, slots):
    path = trained(Linear, optimizer)
    variables = variables_like(trained(Renamed, optimizer))
    assert difference(read_variable_specs(path), variable_specs(variables)).maps == [
        "linear/w=line/w"
    ]
    plan, values = restore(path, variables, options("linear/w=line/w"))
    names = ["linear/w"] + ["linear/w/" + slot for slot in slots]
    assert plan.renames == {name: name.replace("linear", "line") for name in names}
    assert sorted(plan.mapping.values()) == sorted(values)
    reader = tf.train.NewCheckpointReader(path)
    for old, new in plan.mapping.items():
        np.testing.assert_array_equal(values[new], reader.get_tensor(old), err_msg=new)


def test_another_optimizer_keeps_the_weights_and_initialises_its_slots(trained, graph):
    path = trained(Linear, "adam")
    variables = variables_like(trained(Linear, "momentum"))
    plan, values = restore(path, variables, options(init_new=True, drop=True))
    assert plan.init_names == ["linear/b/Momentum", "linear/w/Momentum"]
    assert len(plan.drop_names) == 6  # two slots for each of two variables, and two powers
    assert values[STEP] == 2
    weights = tf.train.NewCheckpointReader(path).get_tensor("linear/w")
    np.testing.assert_array_equal(values["linear/w"], weights)
    assert (values["linear/w/Momentum"] == 7).all()


def save(tmp_path, values):
    """The prefix of a checkpoint with these values by name, float32 unless they have a dtype."""
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            dtype = getattr(value, "dtype", np.float32)
            tf.get_variable(name, initializer=np.asarray(value, dtype))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, os.path.join(str(tmp_path), "made"))


def test_a_restore_by_plan_sets_the_exact_values_and_keeps_the_others(graph, tmp_path):
    path = save(tmp_path, {STEP: np.int64(5), "a/x": [1.5, 2.5], "b": [[3.0]], "gone": 4.0})
    step = tf.get_variable(STEP, [], tf.int64)
    variables = [step] + [tf.get_variable(n, s) for n, s in [("c/x", [2]), ("b", [2]), ("new", [])]]
    _, values = restore(path, variables, options("a/=c/", init_new=True, drop=True))
    assert values[STEP] == 5
    assert values["c/x"].tolist() == [1.5, 2.5]
    assert values["b"].tolist() == [7, 7] and values["new"] == 7


def test_the_specs_of_a_checkpoint_equal_those_of_its_graph(graph, tmp_path):
    path = save(tmp_path, {STEP: np.int64(5), "w": [[1.0, 2.0]], "half": np.float16(3)})
    for name, shape, dtype in [(STEP, [], "int64"), ("w", [1, 2], "float32")]:
        tf.get_variable(name, shape, dtype)
    tf.get_variable("half", [], "float16")
    assert variable_specs(tf.global_variables()) == read_variable_specs(path)
    assert read_variable_specs(path)["w"] == VariableSpec([1, 2], "float32")


def test_the_error_for_an_unreadable_checkpoint_has_its_path(tmp_path):
    (tmp_path / "made.index").write_bytes(b"no table")
    for name in ("made", "nothing"):
        with pytest.raises(CheckpointError, match=name + ": not a readable checkpoint"):
            read_variable_specs(str(tmp_path / name))
