"""How a checkpoint differs from a model, and restores that make deliberate changes.

Sides are written as texts, as `checkpoint_fixtures.side` reads them. Each gets its `global_step`
besides.
"""

import numpy as np
import pytest
from checkpoint_fixtures import pairs, save, side

from toolkit import tf
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
SLOTS = "linear/w/Adam=line/w/Adam linear/w/Adam_1=line/w/Adam_1"
SWAPPED = "a=b a/S=b/S b=a b/S=a/S"
IN_SCOPE = "n/w=t/n/w n/w/S=t/n/w/S ema/n/w=ema/t/n/w"
CLOSER = "a/x=b/x a/d/y=c/y"


def with_step(text):
    """The variables of a text, and the global step."""
    return {STEP: VariableSpec([], "int64"), **side(text)}


def options(*maps, init_new=False, drop=False):
    return RestoreOptions(init_new, drop, parse_map(maps))


def plan_for(in_checkpoint, in_graph, *maps, **flags):
    return plan_restore(with_step(in_checkpoint), with_step(in_graph), options(*maps, **flags))


def compare(in_checkpoint, in_graph, partial=False):
    return difference(with_step(in_checkpoint), with_step(in_graph), partial)


# -------------------------------------------------------------------------------------- differences


def test_an_identical_model_has_no_difference_and_all_is_restored():
    diff = compare(ADAM, ADAM)
    assert not diff
    assert (diff.sentence(), diff.lines(), diff.hint()) == ("", [], "")
    plan = plan_for(ADAM, ADAM)
    assert plan.mapping == {name: name for name in with_step(ADAM)}
    assert plan.is_plain and plan.sentence() == ""


@pytest.mark.parametrize(
    "before, now, sentence, flags",
    [
        ("w:4", "w:4 b:2", "added b.", "--init-new"),
        ("w:4 b:2", "w:4", "removed b.", "--drop"),
        ("b:3", "b:1,3", "reshaped b [1, 3] (was [3]).", "--init-new --drop"),
        ("b:3", "b:3:float16", "reshaped b [3] float16 (was [3] float32).", "--init-new --drop"),
        (ADAM, RENAMED, "likely renamed line/w (was linear/w).", "--map linear/w=line/w"),
    ],
)
def test_each_kind_of_difference_is_a_sentence_with_the_flags_that_allow_it(
    before, now, sentence, flags
):
    diff = compare(before, now)
    assert diff.sentence() == "The model differs from its checkpoint: " + sentence
    assert diff.hint().startswith(f"Allow it with {flags}, or resume with the options")


def test_a_partial_comparison_ignores_variables_of_the_checkpoint_alone():
    assert not compare("w:4 b:2", "w:4", partial=True)
    assert compare("w:4", "w:4 b:2", partial=True).additions == ["b"]


@pytest.mark.parametrize(
    "before, now, renames, slots",
    [
        (ADAM, RENAMED, "linear/w=line/w", SLOTS),
        ("net/w:4 ema/net/w:4", "nets/w:4 ema/nets/w:4", "net/w=nets/w", "ema/net/w=ema/nets/w"),
        ("dense/kernel:4", "dense/kernels:4", "dense/kernel=dense/kernels", ""),
        ("a1/w:4 a2/w:4", "b1/w:4 b2/w:4", "a1/w=b1/w a2/w=b2/w", ""),
        ("w:4 head/w:9", "w:4 heads/w:9", "head/w=heads/w", ""),  # no slot of w
        # A slot with another shape is not renamed along.
        ("line/w:4 line/w/Adam:4", "lines/w:4 lines/w/Adam:9", "line/w=lines/w", ""),
        # A rename needs equal shape and dtype and one similar name.
        ("lines/w:4", "line/w:5", "", ""),
        ("lines/w:4", "line/w:4:float64", "", ""),
        ("lines/w:4", "other/name:4", "", ""),
        ("lines/w:4", "line1/w:4 line2/w:4", "", ""),
        ("w:4 w/Adam:4", "w:4 v/Adam:4", "", ""),  # a slot is no variable of its own
        ("b:3 b/Adam:3 b/Adam_1:3", "b:3 b/Momentum:3", "", ""),  # nor of another optimizer
    ],
)
def test_likely_renames_are_found_with_their_slots_and_the_rest_is_new_or_removed(
    before, now, renames, slots
):
    diff = compare(before, now)
    assert (dict(diff.renames), dict(diff.slots)) == (pairs(renames), pairs(slots))
    found = {**pairs(renames), **pairs(slots)}
    assert set(diff.removals) == set(side(before)) - set(side(now)) - set(found)
    assert set(diff.additions) == set(side(now)) - set(side(before)) - set(found.values())


def test_the_hint_has_one_map_for_a_renamed_scope():
    diff = compare("enc/a/w:4 enc/b/w:2", "encoder/a/w:4 encoder/b/w:2")
    assert diff.maps == ["enc/=encoder/"]
    assert compare("a/w:4 b/v:2", "tower/a/w:4 tower/b/v:2").maps == ["/=tower/"]


def test_the_hint_maps_variables_if_mapping_the_scope_would_rename_more():
    # enc/c is on both sides, so enc/=encoder/ would take its value to encoder/c, which is new.
    before = "enc/a:4 enc/b:2 enc/c:3"
    diff = compare(before, "encoder/a:4 encoder/b:2 encoder/c:3 enc/c:3")
    assert diff.maps == ["enc/a=encoder/a", "enc/b=encoder/b"]


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


INIT, DROP = {"init_new": True}, {"drop": True}


@pytest.mark.parametrize(
    "before, now, maps, flags, words",
    [
        ("w:4 old:1", "w:4 fresh:7", [], INIT, ": removed old.\nAllow it with --drop, or"),
        ("w:4 old:1", "w:4 fresh:7", [], DROP, ": added fresh.\nAllow it with --init-new, or"),
        ("b:2", "b:4", [], INIT, "reshaped b [4] (was [2])"),
        ("b:2", "b:4", [], DROP, "reshaped b [4] (was [2])"),
        (ADAM, RENAMED, [], INIT, "likely renamed"),
        (ADAM, RENAMED, [], DROP, "likely renamed"),
        (ADAM, RENAMED + " fresh:7", ["linear/w=line/w"], {}, "checkpoint: added fresh."),
        ("a:4 b:4", "b:4", ["a=b"], {}, "checkpoint: removed b."),
        ("a:4", "b:5", ["a=b"], {}, "reshaped b [5] (was [4])"),
    ],
)
def test_each_flag_allows_its_kind_and_the_error_names_the_rest(before, now, maps, flags, words):
    with pytest.raises(CheckpointError) as raised:
        plan_for(before, now, *maps, **flags)
    assert words in f"{raised.value.message}\n{raised.value.hint}"


@pytest.mark.parametrize(
    "before, now, maps, renames, fresh, dropped",
    [
        ("w:4 old:1", "w:4 fresh:7", "", "", "fresh", "old"),
        ("b:2", "b:4", "", "", "b", "b"),  # its old value is dropped
        ("a:4", "b:5", "a=b", "", "b", "a"),
        ("a:4 b:4", "b:4", "a=b", "a=b", "", "b"),
        (ADAM, RENAMED, "linear/w=line/w", "linear/w=line/w " + SLOTS, "", ""),
        # The map of a slot goes before that of its variable.
        ("w:4 w/A:4 w/B:4", "v:4 v/A:4 v/B:4", "w=v w/B=v/A", "w=v w/B=v/A", "v/B", "w/A"),
        ("a:4 a/S:4 b:4 b/S:4", "a:4 a/S:4 b:4 b/S:4", "a=b b=a", SWAPPED, "", ""),
        # A variable that only contains the old name is not renamed: it is restored under its own
        # name, has the new name already, or has another shape than a slot.
        ("w:4 head/w:4", "v:4 head/w:4 head/v:4", "w=v", "w=v", "head/v", ""),
        ("w:4 head/w:4 head/v:4", "v:4 head/v:4", "w=v", "w=v", "", "head/w"),
        ("w:4 head/w:9", "v:4 head/v:9", "w=v", "w=v", "head/v", "head/w"),
        ("n/w:4 n/w/S:4 ema/n/w:4", "t/n/w:4 t/n/w/S:4 ema/t/n/w:4", "n/=t/n/", IN_SCOPE, "", ""),
        ("w:4", "tower/w:4", "/=tower/", "w=tower/w", "", ""),  # without the global step
        # The map of a variable or a longer scope has priority.
        ("a/x:1 a/d/y:1", "b/x:1 b/d/y:1 c/y:1", "a/=b/ a/d/y=c/y", CLOSER, "b/d/y", ""),
        ("a/x:1 a/d/y:1", "b/x:1 b/d/y:1 c/y:1", "a/=b/ a/d/=c/", CLOSER, "b/d/y", ""),
    ],
)
def test_a_plan_renames_initialises_and_drops(before, now, maps, renames, fresh, dropped):
    plan = plan_for(before, now, *maps.split(), init_new=True, drop=True)
    assert plan.renames == pairs(renames)
    assert (plan.init_names, plan.drop_names) == (fresh.split(), dropped.split())
    assert plan.mapping[STEP] == STEP and not plan.is_plain


def test_a_command_can_be_repeated_after_the_renamed_variable_was_saved():
    assert plan_for(RENAMED, RENAMED, "linear/w=line/w").is_plain
    assert plan_for("b/x:1", "b/x:1", "a/=b/", init_new=True).is_plain


@pytest.mark.parametrize("dtype", [None, "int32"])
def test_a_plan_without_the_global_step_is_an_error(dtype):
    before = side("w:4 counter::int64")
    if dtype:
        before[STEP] = VariableSpec([], dtype)
    everything = RestoreOptions(init_new=True, drop=True)
    with pytest.raises(
        CheckpointError, match="no variable from which the model's 'global_step'"
    ) as raised:
        plan_restore(before, with_step("w:4"), everything)
    assert "--map NAME=global_step" in raised.value.hint
    mapped = everything._replace(renames={"counter": STEP})
    assert plan_restore(before, with_step("w:4"), mapped).mapping["counter"] == STEP


@pytest.mark.parametrize(
    "texts, words",
    [
        *(([text], "is not OLD=NEW") for text in ["", "a", "=b", "a=", "a=b=c", "a/=b", "a=b/"]),
        (["a=b", "a=c"], "--map a=c names 'a' a second"),
        (["a=c", "b=c"], "--map b=c names 'c' a second"),
        (["a=a"], "--map a=a renames nothing"),
    ],
)
def test_a_map_that_is_none_is_refused(texts, words):
    with pytest.raises(UsageError, match=words):
        parse_map(texts)


@pytest.mark.parametrize(
    "before, now, text, words",
    [
        (ADAM, RENAMED, "lineer/w=line/w", "the checkpoint has no variable 'lineer/w'"),
        (ADAM, RENAMED, "lineer/w=line/w", "Did you mean 'linear/w'?"),
        (ADAM, RENAMED, "linear/w=lime/w", "the model has no variable 'lime/w'"),
        (ADAM, RENAMED, "linear/w=lime/w", "Did you mean 'line/w'?"),
        (ADAM, RENAMED, "line/w=linear/w", "--map linear/w=line/w"),  # it was reversed
        ("w:4", "w:4", "ww=v", "Did you mean 'w'?"),
        ("enc/w:4", "encoder/w:4", "emc/=encoder/", "the checkpoint has no scope 'emc/'"),
        ("enc/w:4", "encoder/w:4", "emc/=encoder/", "Did you mean 'enc/'?"),
        ("a/x:1", "b/y:1", "a/=b/", "no variable has one name"),
    ],
)
def test_a_map_that_does_not_fit_is_refused_with_a_similar_name(before, now, text, words):
    with pytest.raises(UsageError) as raised:
        plan_for(before, now, text, init_new=True, drop=True)
    assert words in f"{raised.value.message}\n{raised.value.hint}"


# ------------------------------------------------------------------------------------ real restores


def restore(path, variables, options):
    """(plan, values by name) after initial values of 7 and a restore into the current graph."""
    plan = plan_restore(read_variable_specs(path), variable_specs(variables), options)
    saver = build_saver(plan, variables)
    with tf.Session() as session:
        for variable in variables:
            variable.load(np.full(variable.shape.as_list(), 7), session)
        saver.restore(session, path)
        return plan, {v.op.name: session.run(v) for v in variables}


def test_another_optimizer_keeps_the_weights_and_initialises_its_slots(golden, graph):
    paths = []
    for name in ("adam", "momentum"):
        run = golden("--steps", 2, "--no-evaluate", "--optimizer", name, name=name) / "run"
        paths.append(RunFolder(str(run)).checkpoints.newest().path)
    specs = read_variable_specs(paths[1])
    variables = [tf.get_variable(n, spec.shape, spec.dtype) for n, spec in sorted(specs.items())]
    plan, values = restore(paths[0], variables, options(init_new=True, drop=True))
    assert plan.init_names == ["linear/b/Momentum", "linear/w/Momentum"]
    assert len(plan.drop_names) == 6  # two slots for each of two variables, and two powers
    assert values[STEP] == 2
    weights = tf.train.NewCheckpointReader(paths[0]).get_tensor("linear/w")
    np.testing.assert_array_equal(values["linear/w"], weights)
    assert (values["linear/w/Momentum"] == 7).all()


def test_a_restore_by_plan_sets_the_exact_values_and_keeps_the_others(graph, tmp_path):
    path = save(
        tmp_path / "made", {STEP: np.int64(5), "a/x": [1.5, 2.5], "b": [[3.0]], "gone": 4.0}
    )
    step = tf.get_variable(STEP, [], tf.int64)
    variables = [step] + [tf.get_variable(n, s) for n, s in [("c/x", [2]), ("b", [2]), ("new", [])]]
    _, values = restore(path, variables, options("a/=c/", init_new=True, drop=True))
    assert values[STEP] == 5
    assert values["c/x"].tolist() == [1.5, 2.5]
    assert values["b"].tolist() == [7, 7] and values["new"] == 7


def test_the_specs_of_a_checkpoint_equal_those_of_its_graph(graph, tmp_path):
    path = save(tmp_path / "made", {STEP: np.int64(5), "w": [[1.0, 2.0]], "half": np.float16(3)})
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
