"""Options: text to types, limits, precedence with the origin of each value."""

from __future__ import annotations

from typing import Dict, List, Optional

import click
import pydantic
import pytest
from graph_fixtures import make_plugin
from linear_fixtures import Linear, LinearOptions
from typing_extensions import Literal

from toolkit import Options, UsageError, option
from toolkit.config import read_values
from toolkit.options import (
    FIXED_FLAGS,
    FLAGS,
    VARIABLES,
    CoreOptions,
    Layer,
    changeable_options,
    current_names,
    describe,
    from_text,
    merge,
    misspelt_variables,
    resolve,
    result_options,
    type_name,
)
from toolkit.options.collection import describe_errors
from toolkit.plugins import Plugins

# A text for each option of the core, as a flag or a variable gives it, and the value it becomes.
TEXTS = {
    "data": ("idx:here", "idx:here"),
    "image_size": ("32", 32),
    "channels": ("3", 3),
    "normalize": ("yes", True),
    "fit": ("crop", "crop"),
    "background": ("#102030", "#102030"),
    "label_column": ("left, right", ["left", "right"]),
    "label_kind": ("value", "value"),
    "image_column": ("path", "path"),
    "feature_columns": ("width,height", ["width", "height"]),
    "ignore_columns": ("id", ["id"]),
    "split_column": ("part", "part"),
    "missing": ("drop", "drop"),
    "categories": ("one-hot", "one-hot"),
    "validation_share": ("0.25", 0.25),
    "test_share": ("0.25", 0.25),
    "folds": ("5", 5),
    "fold": ("4", 4),
    "split_seed": ("7", 7),
    "rehash": ("yes", True),
    "reader": ("stream", "stream"),
    "resident_limit": ("16", 16),
    "shuffle_buffer": ("500", 500),
    "batch_size": ("32", 32),
    "steps": ("100", 100),
    "epochs": ("2.5", 2.5),
    "max_secs": ("60", 60.0),
    "init_from": ("runs/a@400", "runs/a@400"),
    "map": ("a/=b/, c=d", ["a/=b/", "c=d"]),
    "optimizer": ("momentum", "momentum"),
    "optimizer_args": ("beta1=0.5,beta2=0.9", {"beta1": 0.5, "beta2": 0.9}),
    "learning_rate": ("1e-4", 0.0001),
    "schedule": ("cosine", "cosine"),
    "warmup_steps": ("10", 10),
    "decay_steps": ("none", None),
    "decay_rate": ("0.1", 0.1),
    "clip": ("global-norm", "global-norm"),
    "clip_limit": ("5", 5.0),
    "accumulate": ("4", 4),
    "weight_decay": ("0.01", 0.01),
    "decay_exclude": ("*/embedding, *gamma", ["*/embedding", "*gamma"]),
    "group": (
        "conv*:learning_rate=1e-4,weight_decay=0, */bias:frozen=true",
        ["conv*:learning_rate=1e-4,weight_decay=0", "*/bias:frozen=true"],
    ),
    "freeze": ("conv1/*,conv2/*", ["conv1/*", "conv2/*"]),
    "on_nonfinite": ("skip", "skip"),
    "log_steps": ("10", 10),
    "console_secs": ("0", 0.0),
    "summary_steps": ("50", 50),
    "summary_secs": ("30", 30.0),
    "checkpoint_steps": ("1000", 1000),
    "checkpoint_secs": ("600", 600.0),
    "keep_checkpoints": ("3", 3),
    "keep_every_hours": ("0.5", 0.5),
    "evaluate": ("no", False),
    "evaluate_steps": ("250", 250),
    "eval_batch_size": ("100", 100),
    "best_metric": ("max:accuracy", "max:accuracy"),
    "early_stopping": ("0", 0),
    "seed": ("7", 7),
    "devices": ("2", 2),
    "intra_op_threads": ("2", 2),
    "inter_op_threads": ("1", 1),
    "gpu_memory_growth": ("false", False),
    "gpu_memory_fraction": ("0.5", 0.5),
    "log_device_placement": ("true", True),
    "page": ("no", False),
    "keep_sources": ("off", False),
    "profile_hooks": ("yes", True),
    "steps_per_call": ("50", 50),
    "xla": ("on", "on"),
    "profile_steps": ("100,101", [100, 101]),
}

# Beyond a limit of each option that has one.
BEYOND = {
    "image_size": "0",
    "channels": "2",
    "fit": "squeeze",
    "label_kind": "text",
    "missing": "guess",
    "categories": "texts",
    "validation_share": "0.6",
    "test_share": "0.6",
    "folds": "-1",
    "fold": "-1",
    "split_seed": "-1",
    "reader": "disk",
    "resident_limit": "-1",
    "shuffle_buffer": "0",
    "batch_size": "0",
    "steps": "0",
    "epochs": "0",
    "max_secs": "0",
    "learning_rate": "0",
    "schedule": "linear",
    "warmup_steps": "-1",
    "decay_steps": "0",
    "decay_rate": "1.5",
    "clip": "all",
    "clip_limit": "0",
    "accumulate": "0",
    "weight_decay": "-0.1",
    "decay_exclude": "w:0",
    "group": "conv1/*",
    "freeze": "w:0",
    "on_nonfinite": "ignore",
    "log_steps": "0",
    "console_secs": "-1",
    "summary_steps": "0",
    "summary_secs": "0",
    "checkpoint_steps": "0",
    "checkpoint_secs": "0",
    "keep_checkpoints": "0",
    "keep_every_hours": "0",
    "evaluate_steps": "0",
    "eval_batch_size": "0",
    "best_metric": "most:accuracy",
    "early_stopping": "-1",
    "seed": "2147483648",
    "devices": "0",
    "intra_op_threads": "4097",
    "inter_op_threads": "-1",
    "gpu_memory_fraction": "1.1",
    "steps_per_call": "0",
    "xla": "1",
}

# Numbers that count nothing.
PURE_NUMBERS = {
    "channels",
    "validation_share",
    "test_share",
    "folds",
    "fold",
    "split_seed",
    "epochs",
    "learning_rate",
    "decay_rate",
    "clip_limit",
    "weight_decay",
    "seed",
    "gpu_memory_fraction",
}


def one(name, text):
    return getattr(resolve([], [], None, {name: text}).options, name)


# ---------------------------------------------------------------------------- every option there is


@pytest.mark.parametrize("name", list(CoreOptions.model_fields))
def test_each_option_of_the_core_takes_its_text(name):
    text, value = TEXTS[name]
    assert one(name, text) == value
    assert type(one(name, text)) is type(value)


@pytest.mark.parametrize("name", sorted(BEYOND))
def test_each_limit_of_the_core_holds_and_names_value_and_origin(name):
    flag = "--" + name.replace("_", "-")
    with pytest.raises(UsageError, match=f"Option '{name}' is .* \\(flag {flag}\\)"):
        one(name, BEYOND[name])


def test_the_table_has_a_value_beyond_each_limit():
    limited = {f.name for f in describe(CoreOptions) if f.limits or "|" in f.type}
    assert limited <= set(BEYOND)


def test_steps_per_call_may_be_auto_which_is_its_default():
    assert one("steps_per_call", "auto") is None
    assert CoreOptions().steps_per_call is None


@pytest.mark.parametrize("field", describe(CoreOptions), ids=lambda field: field.name)
def test_each_option_has_one_line_of_help_a_group_and_a_unit_where_it_counts(field):
    assert field.help and "\n" not in field.help and not field.help.endswith(".")
    assert field.group
    assert field.help[0].islower() or field.help.startswith("TensorBoard")
    if field.type in ("int", "float", "1|3") and field.name not in PURE_NUMBERS:
        assert field.unit
    if field.name in PURE_NUMBERS:
        assert not field.unit, f"{field.name} has a unit now"


@pytest.mark.parametrize("field", describe(CoreOptions), ids=lambda field: field.name)
def test_each_default_is_valid_and_survives_json(field):
    assert one(field.name, field.default) == field.default
    dumped = CoreOptions().model_dump(mode="json")
    assert CoreOptions(**dumped) == CoreOptions()


# ----------------------------------------------------------------------------------- text and types


class Many(Options):
    sizes: List[int] = option([64], "sizes", unit="units", min_length=1)
    rates: Dict[str, float] = option({}, "rates")
    limit: Optional[float] = option(None, "limit", unit="seconds")
    kind: Literal["a", "b"] = option("a", "kind")
    flag: bool = option(False, "flag")


def many(name, text):
    return getattr(resolve([("many", Many)], [], None, {name: text}).options, name)


def test_a_list_reads_numbers_between_commas():
    assert many("sizes", "128, 64,") == [128, 64]


def test_a_list_may_be_empty_where_no_limit_says_otherwise():
    assert one("profile_steps", "") == []
    with pytest.raises(UsageError, match="Option 'sizes' is \\[\\]"):
        many("sizes", "")


def test_a_dict_reads_pairs_between_commas():
    assert many("rates", "a=1, b=0.5") == {"a": 1.0, "b": 0.5}


def test_arguments_of_the_optimizer_are_numbers_booleans_or_text():
    text = "momentum=0.5,use_nesterov=true,centered=NO,accum_name=sums,batches=3"
    values = one("optimizer_args", text)
    expected = {"momentum": 0.5, "use_nesterov": True, "centered": False, "accum_name": "sums"}
    assert values == dict(expected, batches=3.0)
    from_json = one("optimizer_args", dict(values, batches=3))
    assert from_json == values and isinstance(from_json["batches"], float)
    assert isinstance(from_json["use_nesterov"], bool)


@pytest.mark.parametrize("value", [{"a": None}, {"a": [1]}, {"a": 10**400}, {"a": {"b": 1}}])
def test_an_argument_of_the_optimizer_of_another_type_is_refused_in_one_sentence(value):
    with pytest.raises(UsageError, match="should be numbers, true, false or text") as caught:
        one("optimizer_args", value)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["a=1,a=2", "a=1,,b=2", ",a=1", "a"])
def test_pairs_that_contradict_or_lack_something_are_refused(text):
    with pytest.raises(UsageError, match=text):
        many("rates", text)


@pytest.mark.parametrize("text", ["1,,2", ",1", "1, ,2"])
def test_a_list_with_nothing_between_two_commas_is_refused(text):
    with pytest.raises(UsageError, match="nothing between two commas"):
        many("sizes", text)


def test_a_pair_without_an_equals_sign_is_an_error():
    with pytest.raises(UsageError, match="'beta1' is not of the form name=value"):
        one("optimizer_args", "beta1")


@pytest.mark.parametrize("text", ["none", "None", " NONE ", ""])
def test_an_optional_value_reads_none(text):
    assert many("limit", text) is None


def test_an_optional_value_reads_a_number():
    assert many("limit", "2.5") == 2.5


@pytest.mark.parametrize(
    "text, value", [("true", True), ("no", False), ("1", True), ("off", False)]
)
def test_a_bool_reads_words(text, value):
    assert many("flag", text) is value


def test_an_unknown_choice_is_an_error_that_lists_the_choices():
    with pytest.raises(
        UsageError, match="Option 'kind' is 'c' \\(flag --kind\\): should be 'a' or 'b'"
    ):
        many("kind", "c")


def test_a_value_that_is_no_text_is_unchanged():
    assert from_text(List[int], [1, 2]) == [1, 2]
    assert from_text(Optional[int], None) is None


def test_types_read_as_a_person_writes_them():
    types = {field.name: field.type for field in describe(Many)}
    assert types == {
        "sizes": "int,...",
        "rates": "name=float,...",
        "limit": "float",
        "kind": "a|b",
        "flag": "bool",
    }
    assert type_name(int) == "int"


def test_limits_read_as_inequalities():
    limits = {field.name: field.limits for field in describe(CoreOptions)}
    assert limits["validation_share"] == ">= 0 and <= 0.5"
    assert limits["epochs"] == "> 0"
    assert limits["seed"] == ">= 0 and < 2147483648"


def test_resolved_options_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        resolve([]).options.steps = 3


def test_a_word_for_a_number_is_an_error_with_its_origin():
    with pytest.raises(
        UsageError, match="Option 'steps' is 'many' \\(TOOLKIT_STEPS\\): should be a"
    ):
        resolve([], [], {"TOOLKIT_STEPS": "many"})


def test_one_error_reports_all_wrong_values():
    with pytest.raises(UsageError) as caught:
        resolve([], [("a.toml", {"keep_checkpoints": 0, "seed": -1})])
    assert [line.split(":")[0] for line in caught.value.message.split("\n")] == [
        "Option 'keep_checkpoints' is 0 (a.toml)",
        "Option 'seed' is -1 (a.toml)",
    ]


def test_early_stopping_needs_a_metric_to_watch():
    with pytest.raises(UsageError, match="^Early stopping needs a metric: set best_metric.$"):
        resolve([], [("a", {"early_stopping": 3})])


def test_best_needs_evaluations():
    with pytest.raises(
        UsageError, match="^Best_metric needs evaluations: set evaluate, or leave it out.$"
    ):
        resolve([], [("a", {"best_metric": "loss", "evaluate": False})])


# --------------------------------------------------------------------------------------- precedence


def layered(count):
    """batch_size and its origin when the `count` weakest of the five layers say something."""
    layers = [("a.toml", {"batch_size": 2}), ("b.toml", {"batch_size": 3})][: max(0, count - 1)]
    variables = {"TOOLKIT_BATCH_SIZE": "4"} if count > 3 else {}
    flags = {"batch_size": "5"} if count > 4 else {}
    classes = [("linear", LinearOptions)] if count else []
    resolved = resolve(classes, layers, variables, flags)
    return resolved.options.batch_size, resolved.origins["batch_size"]


def test_defaults_yield_to_plugin_to_files_in_order_to_variables_to_flags():
    assert [layered(count) for count in range(6)] == [
        (64, "default"),
        (8, "plugin linear"),
        (2, "a.toml"),
        (3, "b.toml"),
        (4, "TOOLKIT_BATCH_SIZE"),
        (5, "flag --batch-size"),
    ]


def test_an_option_of_a_plugin_has_its_variable_and_its_flag():
    classes = Plugins(make_plugin(Linear)).options()
    assert resolve(classes, [], {"TOOLKIT_GAIN": "3"}).options.gain == 3.0
    assert resolve(classes, [], {}, {"gain": "2"}).origins["gain"] == "flag --gain"


def test_a_core_default_that_is_no_option_is_an_error():
    class Odd(Options):
        core_defaults = {"batchsize": 3}

    with pytest.raises(UsageError, match="'batchsize' \\(plugin odd\\)") as caught:
        resolve([("odd", Odd)])
    assert caught.value.hint == "Did you mean 'batch_size'?"


@pytest.mark.parametrize(
    "layers, variables, flags, origin",
    [
        ([("a.toml", {"stepps": 1})], {}, {}, "a.toml"),
        ([], {}, {"stepps": "1"}, "flag --stepps"),
    ],
)
def test_an_unknown_name_is_an_error_with_its_origin_and_the_nearest_name(
    layers, variables, flags, origin
):
    with pytest.raises(UsageError) as caught:
        resolve([], layers, variables, flags)
    assert caught.value.message == f"There is no option 'stepps' ({origin})."
    assert caught.value.hint == "Did you mean 'steps'?"


def test_a_dash_in_a_name_counts_as_an_underscore():
    assert resolve([], [("a.toml", {"batch-size": 3})]).options.batch_size == 3


def test_epochs_win_over_steps_of_a_weaker_layer():
    file = [("a.toml", {"steps": 100})]
    options = resolve([], file, {}, {"epochs": "2"}).options
    assert (options.steps, options.epochs) == (None, 2.0)
    assert resolve([], file + [("b.toml", {"epochs": 2})]).options.steps is None


def test_epochs_of_a_variable_win_over_steps_of_a_file():
    options = resolve([], [("a.toml", {"steps": 100})], {"TOOLKIT_EPOCHS": "2"}).options
    assert (options.steps, options.epochs) == (None, 2.0)


def test_steps_win_over_epochs_of_a_weaker_layer():
    assert resolve([], [("a", {"epochs": 2})], {}, {"steps": "7"}).options.steps == 7


@pytest.mark.parametrize(
    "layers, variables, flags, origins",
    [
        ([("a.toml", {"epochs": 2, "steps": 7})], {}, {}, ("a.toml", "a.toml")),
        (
            [],
            {"TOOLKIT_STEPS": "7", "TOOLKIT_EPOCHS": "2"},
            {},
            ("TOOLKIT_STEPS", "TOOLKIT_EPOCHS"),
        ),
        ([], {}, {"steps": "7", "epochs": "2"}, ("flag --steps", "flag --epochs")),
    ],
    ids=["file", "variables", "flags"],
)
def test_steps_and_epochs_in_one_place_are_refused(layers, variables, flags, origins):
    with pytest.raises(UsageError) as caught:
        resolve([], layers, variables, flags)
    assert caught.value.message == (
        f"Both steps ({origins[0]}) and epochs ({origins[1]}) set the length of the run."
    )


@pytest.mark.parametrize("text", ["none", "None", " NONE ", "", None])
def test_epochs_beside_no_steps_are_accepted(text):
    options = resolve([], [], {}, {"steps": text, "epochs": "2"}).options
    assert (options.steps, options.epochs) == (None, 2.0)


def test_a_saved_run_has_steps_and_epochs():
    values = {"steps": 7, "epochs": 2.0}
    assert resolve([], [Layer("r/config.json", values, (), {})]).options.steps == 7


def test_steps_that_epochs_replaced_are_back_at_their_default_origin():
    resolved = resolve([], [("a.toml", {"steps": 100})], {}, {"epochs": "2"})
    assert resolved.origins["steps"] == "default"


# ---------------------------------------------------------------------------- variables and merging


def test_a_misspelt_variable_is_reported():
    assert misspelt_variables(CoreOptions, {"TOOLKIT_BATCHSIZE": "3", "PATH": "/"}) == [
        "TOOLKIT_BATCHSIZE is not used; did you mean TOOLKIT_BATCH_SIZE?"
    ]


def test_a_variable_that_is_read_elsewhere_is_not_taken_for_a_misspelling():
    reserved = dict.fromkeys(["TOOLKIT_CACHE", "TOOLKIT_PLUGIN", "TOOLKIT_VERBOSE"], "1")
    assert misspelt_variables(CoreOptions, reserved) == []


def test_merged_options_are_those_of_the_core_and_of_the_plugin():
    merged = merge([("linear", LinearOptions)])
    assert set(merged.model_fields) == set(CoreOptions.model_fields) | {"gain"}


@pytest.mark.parametrize("owner", ["the core", "plugin 'linear'"])
def test_an_option_that_is_declared_twice_is_refused_with_its_first_owner(owner):
    class Again(Options):
        if owner == "the core":
            steps: int = option(1, "a number")
        else:
            gain: float = option(1.0, "a factor")

    name = "steps" if owner == "the core" else "gain"
    with pytest.raises(UsageError) as caught:
        resolve([("linear", LinearOptions), ("second", Again)])
    assert caught.value.message == (
        f"Option '{name}' of plugin 'second' is already an option of {owner}."
    )


# ------------------------------------------------------------------------------------ reading files


def test_toml_and_json_have_the_same_values(tmp_path):
    (tmp_path / "a.toml").write_text('plugin = "x"\nbatch-size = 3\nprofile_steps = [1, 2]\n')
    (tmp_path / "a.json").write_text('{"plugin": "x", "batch_size": 3, "profile_steps": [1, 2]}')
    toml, json = read_values(str(tmp_path / "a.toml")), read_values(str(tmp_path / "a.json"))
    assert toml == json == {"plugin": "x", "batch_size": 3, "profile_steps": [1, 2]}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.toml", "steps = = 3", "a.toml: not valid TOML: "),
        ("a.json", "{", "a.json: not valid JSON: "),
        ("a.json", "[1]", "a.json: expected names with values, found a list."),
        ("a.toml", b"\xff\xfe", "a.toml: not valid TOML: "),
    ],
)
def test_a_file_that_is_no_flat_mapping_is_an_error(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        read_values(str(path))
    assert message in caught.value.message


@pytest.mark.parametrize("name, start", [("a.toml", "a = "), ("a.json", '{"a": ')])
def test_a_file_with_endless_nesting_is_an_error(tmp_path, name, start):
    (tmp_path / name).write_text(start + "[" * 10**5)
    with pytest.raises(UsageError, match=name + ": not valid "):
        read_values(str(tmp_path / name))


@pytest.mark.parametrize("name, text", [("a.toml", "steps = 3"), ("a.json", '{"steps": 3}')])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path, name, text):
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_values(str(tmp_path / name)) == {"steps": 3}


@pytest.mark.parametrize(
    "name, value",
    [
        ("steps", 2**63),
        ("steps", 16**5000),
        ("profile_steps", [1, 16**5000]),
        ("steps", "9" * 999),
        ("steps", [[[1]]] * 999),
    ],
    ids=["2^63", "16^5000", "in a list", "text", "a list"],
)
def test_an_enormous_value_is_refused_in_few_words(name, value):
    with pytest.raises(UsageError) as caught:
        resolve([], [("a.toml", {name: value})])
    assert f"Option '{name}' is " in caught.value.message
    assert len(caught.value.message) < 250


def test_a_preset_that_is_no_name_is_an_error():
    with pytest.raises(UsageError, match="Option 'preset' is .*a.toml"):
        resolve([("plugin", Recipes)], [("a.toml", {"preset": []})])


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="none.toml: No such file or directory."):
        read_values(str(tmp_path / "none.toml"))


# ------------------------------------------------------------------------------------------ presets


class Recipes(Options):
    """Two recipes that set an option of the core and one of the plugin."""

    core_defaults = {"batch_size": 16}
    presets = {"slow": {"learning_rate": 0.1, "gain": 2.0}, "fast": {"learning_rate": 0.9}}

    preset: Literal["slow", "fast"] = option("slow", "which recipe")
    gain: float = option(1.0, "a factor")


def with_preset(layers=(), environment=None, **flags):
    return resolve([("recipes", Recipes)], layers, environment, flags)


def test_the_default_preset_counts_where_none_is_named():
    resolved = with_preset()
    assert (resolved.options.learning_rate, resolved.options.gain) == (0.1, 2.0)
    assert resolved.origins["learning_rate"] == resolved.origins["gain"] == "preset slow"


def test_a_named_preset_takes_the_place_of_the_default_one():
    resolved = with_preset(preset="fast")
    assert (resolved.options.learning_rate, resolved.options.gain) == (0.9, 1.0)


def test_the_strongest_layer_names_the_preset():
    layers = [("file.toml", {"preset": "fast"})]
    assert with_preset(layers).options.learning_rate == 0.9
    assert with_preset(layers, {"TOOLKIT_PRESET": "slow"}).options.learning_rate == 0.1
    assert with_preset(layers, {"TOOLKIT_PRESET": "slow"}, preset="fast").options.gain == 1.0


def test_a_preset_replaces_values_of_weaker_layers_and_a_note_says_which():
    resolved = with_preset([("file.toml", {"learning_rate": 0.5, "gain": 7.0})], preset="fast")
    assert (resolved.options.learning_rate, resolved.options.gain) == (0.9, 7.0)
    assert resolved.origins["learning_rate"] == "preset fast"
    assert resolved.notes == [
        "learning_rate is 0.9 by preset fast (flag --preset), no longer 0.5 (file.toml)"
    ]


@pytest.mark.parametrize("text", ["9e-1", " 0.90 ", 0.9])
def test_a_preset_with_the_value_that_was_set_is_not_noted(text):
    assert with_preset([("file.toml", {"learning_rate": text})], preset="fast").notes == []


class Momenta(Options):
    """Presets with arguments of their optimizers."""

    presets = {
        "plain": {"optimizer_args": {"beta1": 0.5}},
        "clipped": {"optimizer": "rmsprop", "optimizer_args": {"decay": 0.8}},
    }

    preset: Literal["plain", "clipped"] = option("plain", "which optimizer")


@pytest.mark.parametrize(
    "flags, arguments",
    [
        ({}, {"beta1": 0.5}),
        ({"optimizer": "Adam"}, {"beta1": 0.5}),
        ({"optimizer": "adamw"}, {"beta1": 0.5}),
        ({"optimizer": "sgd"}, {}),
        ({"optimizer": "sgd", "optimizer_args": {"beta1": 0.1}}, {"beta1": 0.1}),
        ({"preset": "clipped"}, {"decay": 0.8}),
        ({"preset": "clipped", "optimizer": "RMSProp"}, {"decay": 0.8}),
        ({"preset": "clipped", "optimizer": "adam"}, {}),
    ],
)
def test_arguments_of_a_preset_are_for_its_own_optimizer(flags, arguments):
    resolved = resolve([("momenta", Momenta)], (), None, flags)
    assert resolved.options.optimizer_args == arguments
    name = flags.get("preset", "plain")
    assert resolved.notes == (
        []
        if arguments
        else [
            f"optimizer_args of preset {name} are left out: optimizer is {flags['optimizer']} "
            "(flag --optimizer)"
        ]
    )


def test_arguments_of_a_preset_that_are_left_out_stay_so_in_a_resume():
    first = resolve([("momenta", Momenta)], (), None, {"optimizer": "sgd"})
    again = resolve([("momenta", Momenta)], [saved(first)], None, {})
    assert (again.options.optimizer, again.options.optimizer_args) == ("sgd", {})


class Styles(Options):
    """Presets that an option of another name chooses."""

    presets = {"thin": {"width": 1}, "thick": {"width": 9}}
    preset_option = "style"

    style: Literal["thin", "thick"] = option("thin", "which style")
    width: int = option(5, "of a line")


def with_two(layers=(), **flags):
    return resolve([("recipes", Recipes), ("styles", Styles)], layers, None, flags)


def test_two_classes_have_presets_of_their_own():
    resolved = with_two(style="thick")
    assert (resolved.options.width, resolved.options.gain) == (9, 2.0)
    assert (resolved.origins["width"], resolved.origins["gain"]) == ("preset thick", "preset slow")
    assert with_two(style="thick", width="3").options.width == 3
    assert with_two([("a.toml", {"width": 4})], style="thick").notes == [
        "width is 9 by preset thick (flag --style), no longer 4 (a.toml)"
    ]


def test_another_preset_of_one_class_leaves_those_of_the_other_as_they_were_saved():
    first = with_two(preset="fast", style="thick")
    again = with_two([saved(first)], style="thin")
    assert (again.options.width, again.options.learning_rate) == (1, 0.9)
    again = with_two([saved(first)], preset="slow")
    assert (again.options.width, again.options.learning_rate) == (9, 0.1)


class Lengths(Options):
    """Presets that set the length of the run."""

    presets = {"steps": {"steps": 50}, "epochs": {"epochs": 5.0}, "none": {}}

    preset: Literal["steps", "epochs", "none"] = option("none", "which length")


@pytest.mark.parametrize(
    "preset, layers, length, notes",
    [
        (
            "steps",
            [("a.toml", {"epochs": 3})],
            (50, 3.0),
            ["steps is 50 by preset steps (flag --preset), no longer epochs 3 (a.toml)"],
        ),
        (
            "epochs",
            [("a.toml", {"steps": 7})],
            (None, 5.0),
            ["epochs is 5.0 by preset epochs (flag --preset), no longer steps 7 (a.toml)"],
        ),
        (
            "steps",
            [("a.toml", {"epochs": 3}), ("b.toml", {"steps": 7})],
            (50, 3.0),
            ["steps is 50 by preset steps (flag --preset), no longer 7 (b.toml)"],
        ),
        ("steps", [], (50, 10.0), []),
        ("epochs", [("a.toml", {"preset": "steps"})], (None, 5.0), []),
    ],
)
def test_the_length_of_a_preset_replaces_a_weaker_one_and_a_note_says_which(
    preset, layers, length, notes
):
    resolved = resolve([("lengths", Lengths)], layers, flags={"preset": preset})
    assert (resolved.options.steps, resolved.options.epochs) == length
    assert resolved.notes == notes


def test_values_beside_a_preset_in_one_layer_take_precedence_over_it():
    layer = "file.toml", {"learning_rate": 0.5, "preset": "slow"}
    assert with_preset([layer]).options.learning_rate == 0.5
    assert with_preset([layer]).options.gain == 2.0
    assert with_preset(preset="slow", learning_rate="0.5").options.learning_rate == 0.5
    assert with_preset(preset="slow", learning_rate="0.5").notes == []


def test_a_value_of_a_stronger_layer_takes_precedence_over_a_preset():
    layers = [("a.toml", {"preset": "fast"}), ("b.toml", {"learning_rate": 0.5})]
    assert with_preset(layers).options.learning_rate == 0.5
    assert with_preset(layers).notes == []


def saved(resolved, **changes):
    """A layer with the configuration that a run with these options saves."""
    values = dict(resolved.options.model_dump(mode="json"), **changes)
    return Layer("r/config.json", values, (), resolved.first_origins)


def test_a_preset_takes_the_place_of_the_preset_of_a_saved_run():
    first = with_preset(log_steps="7")
    assert (first.options.learning_rate, first.options.gain) == (0.1, 2.0)
    again = with_preset([saved(first)], preset="fast")
    assert (again.options.learning_rate, again.options.gain) == (0.9, 1.0)
    assert (again.options.log_steps, again.notes) == (7, [])
    assert again.origins["log_steps"] == "r/config.json: flag --log-steps"
    assert again.first_origins["log_steps"] == "flag --log-steps"


def test_a_preset_also_takes_the_place_of_that_of_a_run_saved_without_origins():
    layer = saved(with_preset())._replace(first_origins={})
    again = with_preset([layer], preset="fast")
    assert (again.options.learning_rate, again.options.gain) == (0.9, 1.0)


def test_a_choice_of_a_saved_run_that_a_preset_replaces_is_noted():
    layer = saved(with_preset(learning_rate="0.3", gain="5"))
    again = with_preset([layer], preset="fast")
    assert (again.options.learning_rate, again.options.gain) == (0.9, 5.0)
    assert again.notes == [
        "learning_rate is 0.9 by preset fast (flag --preset), "
        "no longer 0.3 (r/config.json: flag --learning-rate)"
    ]


def test_a_saved_run_without_a_new_preset_has_its_values_and_their_first_origins():
    first = with_preset(preset="fast", gain="3")
    again = with_preset([saved(first)])
    assert again.options.model_dump() == first.options.model_dump()
    assert again.first_origins == first.first_origins


def test_an_unknown_preset_is_an_error_that_lists_the_presets():
    with pytest.raises(UsageError, match="'preset' is 'quick'.*'slow' or 'fast'"):
        with_preset(preset="quick")


def test_a_saved_configuration_with_a_preset_resolves_to_itself():
    first = with_preset(preset="fast", gain="3").options
    again = with_preset([("config.json", first.model_dump(mode="json"))]).options
    assert again.model_dump() == first.model_dump()


def test_a_step_takes_one_batch_unless_the_plugin_says_otherwise():
    class Double(Options):
        @property
        def batches_per_step(self):
            return 2

    assert CoreOptions().batches_per_step == 1
    assert resolve([("double", Double)]).options.batches_per_step == 2


def test_a_plugins_best_metric_counts_only_with_evaluations():
    class Ranked(Options):
        core_defaults = {"best_metric": "min:distance"}

    with_it, without = (
        resolve([("ranked", Ranked)], flags={"evaluate": text}) for text in ("yes", "no")
    )
    assert with_it.options.best_metric == "min:distance"
    assert (without.options.best_metric, without.origins["best_metric"]) == (None, "no evaluation")
    with pytest.raises(UsageError, match="(?i)^best_metric needs evaluations"):
        resolve([("ranked", Ranked)], flags={"evaluate": "no", "best_metric": "min:distance"})


def test_a_plugins_best_metric_is_back_where_a_resume_evaluates_again():
    class Ranked(Options):
        core_defaults = {"best_metric": "min:distance"}

    first = resolve([("ranked", Ranked)], flags={"evaluate": "no"})
    same = resolve([("ranked", Ranked)], [saved(first)])
    assert (same.options.best_metric, same.first_origins["best_metric"]) == (None, "no evaluation")
    again = resolve([("ranked", Ranked)], [saved(same)], flags={"evaluate": "yes"})
    assert again.options.best_metric == "min:distance"
    assert again.first_origins["best_metric"] == "plugin ranked"
    chosen = resolve([("ranked", Ranked)], flags={"best_metric": "none"})
    assert resolve([("ranked", Ranked)], [saved(chosen)]).options.best_metric is None


# ------------------------------------------------------- what a result depends on, what may change


class Traced(Options):
    plain: int = option(1, "an option that says nothing more")
    trace: bool = option(False, "an option without effect", affects_result=False)
    scored: int = option(1, "an option that a resume may change", resume_may_change=True)


def test_an_option_affects_the_result_unless_its_declaration_says_otherwise():
    assert result_options(Traced) == {"plain", "scored"}
    assert changeable_options(Traced) == {"trace", "scored"}


def test_reports_checkpoints_and_the_machine_do_not_affect_the_result_but_the_seed_does():
    without_effect = {
        field.name
        for field in describe(CoreOptions)
        if field.group in ("Reports", "Checkpoints", "Machine")
    }
    expected = without_effect - {"seed"} | {"max_secs"}
    assert set(CoreOptions.model_fields) - result_options(CoreOptions) == expected


def test_a_resume_may_also_change_the_length_and_the_evaluations():
    groups = ("Length", "Reports", "Checkpoints", "Evaluation", "Machine")
    expected = {field.name for field in describe(CoreOptions) if field.group in groups} - {"seed"}
    assert changeable_options(CoreOptions) == expected


def test_merged_options_keep_what_each_declares():
    merged = merge([("traced", Traced)])
    assert changeable_options(merged) == changeable_options(CoreOptions) | {"trace", "scored"}


# ---------------------------------------------------------------------------------- earlier names


class Renamed(Options):
    presets = {"large": {"samples": 50}}

    preset: Literal["large"] = option("large", "which recipe")
    norm_samples: int = option(10, "a number", aliases=("samples", "standing"))


RENAMED = [("renamed", Renamed)]


@pytest.mark.parametrize("alias", ["samples", "standing"])
@pytest.mark.parametrize("source", ["file", "variable", "flag"])
def test_an_earlier_name_works_in_each_layer_and_its_use_is_recorded(alias, source):
    if source == "file":
        resolved = resolve(RENAMED, [("a.toml", {alias: 7})])
        expected = "a.toml", "a.toml"
    elif source == "variable":
        variable = "TOOLKIT_" + alias.upper()
        resolved = resolve(RENAMED, [], {variable: "7"})
        expected = variable, VARIABLES
    else:
        resolved = resolve(RENAMED, flags={alias: "7"})
        expected = "flag --" + alias, FLAGS
    assert resolved.options.norm_samples == 7
    assert (resolved.origins["norm_samples"], resolved.earlier_names) == (
        expected[0],
        [(alias, "norm_samples", expected[1])],
    )


def test_a_present_name_is_not_recorded_as_an_earlier_one():
    assert resolve(RENAMED, [("a.toml", {"norm_samples": 7})]).earlier_names == []


def test_earlier_names_in_presets_of_a_plugin_work_silently():
    resolved = resolve(RENAMED)
    assert (resolved.options.norm_samples, resolved.earlier_names) == (50, [])


def test_two_names_with_different_values_in_one_layer_are_refused_in_one_sentence():
    with pytest.raises(UsageError) as caught:
        resolve(RENAMED, flags={"samples": "1", "norm_samples": "2"})
    assert caught.value.message == (
        "Options 'samples' (flag --samples) and 'norm_samples' (flag --norm-samples) are two names "
        "of 'norm_samples' and have different values."
    )


def test_two_names_with_one_value_are_accepted():
    resolved = resolve(RENAMED, [("a.toml", {"samples": 3, "norm-samples": 3})])
    assert resolved.options.norm_samples == 3


def test_a_stronger_layer_takes_precedence_whichever_name_it_uses():
    file = [("a.toml", {"norm_samples": 2})]
    assert resolve(RENAMED, file, flags={"samples": "3"}).options.norm_samples == 3
    file = [("a.toml", {"samples": 2})]
    assert resolve(RENAMED, file, flags={"norm_samples": "3"}).options.norm_samples == 3


def test_code_may_read_an_option_by_its_earlier_name():
    assert resolve(RENAMED, flags={"norm_samples": "7"}).options.standing == 7


def test_an_attribute_that_is_no_name_of_an_option_is_an_error():
    with pytest.raises(AttributeError, match="nann"):
        CoreOptions().nann  # noqa: B018


def test_saved_values_are_read_under_the_present_names():
    assert current_names(Renamed, {"samples": 4, "steps": 3, "with": []}) == {
        "norm_samples": 4,
        "steps": 3,
        "with": [],
    }


def test_an_earlier_name_of_a_plugin_is_no_free_name_for_another():
    class Taken(Options):
        samples: int = option(1, "a number")

    with pytest.raises(UsageError, match="'samples' of plugin 'a' is already an option of plugin"):
        resolve([*RENAMED, ("a", Taken)])


def test_the_variable_of_an_earlier_name_is_not_taken_for_a_misspelling():
    assert misspelt_variables(merge(RENAMED), {"TOOLKIT_STANDING": "1"}) == []


# ------------------------------------------------------------------------------- numbers and names


class Numbers(Options):
    rates: List[float] = option([], "numbers")
    shares: Dict[str, float] = option({}, "numbers")
    bound: float = option(1.0, "a number", allow_infinite=True)


FLOATS = sorted(field.name for field in describe(CoreOptions) if field.type == "float")


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", ["inf", "nan", float("inf"), float("nan"), "1e999"])
def test_no_float_of_the_core_may_be_infinite(name, value):
    with pytest.raises(UsageError, match=f"Option '{name}' is .* \\(flag --"):
        resolve([], flags={name: value})


@pytest.mark.parametrize("name, value", [("rates", [1.0, float("nan")]), ("shares", "a=inf")])
def test_no_float_of_a_plugin_may_be_infinite_unless_it_is_declared_so(name, value):
    with pytest.raises(UsageError, match=f"Option '{name}' is .*: should be a finite number."):
        resolve([("numbers", Numbers)], flags={name: value})
    options = resolve([("numbers", Numbers)], flags={"bound": "inf"}).options
    assert getattr(options, "bound") == float("inf")  # noqa: B009 - the class is not CoreOptions


@pytest.mark.parametrize("text", ["learning_rate = inf", "learning_rate = -nan", "epochs = 1e999"])
def test_a_toml_file_may_not_have_infinite_values(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UsageError, match="(finite number|greater than 0).$"):
        resolve([], [("a.toml", read_values(str(tmp_path / "a.toml")))])


@pytest.mark.parametrize("text", ["Infinity", "NaN", "1e999"])
def test_a_json_file_may_not_have_infinite_values(tmp_path, text):
    (tmp_path / "a.json").write_text(f'{{"max_secs": {text}}}')
    with pytest.raises(UsageError, match="Option 'max_secs' is .* \\(a.json\\)"):
        resolve([], [("a.json", read_values(str(tmp_path / "a.json")))])


def test_a_saved_option_that_the_core_no_longer_has_is_left_out_at_its_default_alone():
    def read(value):
        return resolve([], [Layer("run/config.json", {"sync_batch_norm": value}, (), {})])

    assert "sync_batch_norm" not in read(False).origins
    with pytest.raises(UsageError, match=r"no option 'sync_batch_norm' \(run/config.json\)"):
        read(True)


@pytest.mark.parametrize("name", ["steps", "epochs", "learning_rate", "profile_steps"])
def test_true_is_no_number(name):
    value = [True] if name == "profile_steps" else True
    with pytest.raises(UsageError, match=f"Option '{name}' is .*True.*: should be a number."):
        resolve([], [("a.toml", {name: value})])


@pytest.mark.parametrize("text", ["1e3", "0x10", "２", "٣", "five", "1.5", "--3", "1 0", "-0x1"])
def test_a_text_that_is_no_whole_number_is_refused(text):
    with pytest.raises(UsageError, match="Option 'batch_size' is .*valid integer"):
        one("batch_size", text)


@pytest.mark.parametrize("text, value", [(" 7 ", 7), ("+7", 7), ("007", 7), ("1_000", 1000)])
def test_a_text_that_python_reads_as_a_whole_number_is_one(text, value):
    assert one("batch_size", text) == value


@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
@pytest.mark.parametrize("name", ["force", "drop", "map", "with", "json", "cache", "folder"])
def test_an_option_of_a_plugin_may_not_have_the_name_of_a_fixed_flag(name):
    declared = pydantic.create_model("Odd", __base__=Options, **{name: (float, option(1.0, "x"))})
    with pytest.raises(UsageError) as caught:
        merge([("odd", declared)])
    assert caught.value.message.startswith(f"Option '{name}' of plugin 'odd' has a name that")


def test_an_option_of_a_plugin_may_not_have_the_flag_that_switches_another_off():
    class Odd(Options):
        no_evaluate: bool = option(False, "the opposite")

    with pytest.raises(UsageError, match="'no_evaluate' of plugin 'odd' has the flag with which"):
        merge([("odd", Odd)])


@pytest.mark.parametrize("command", ["run", "resume", "doctor"])
def test_each_fixed_flag_of_a_command_with_options_is_reserved(command):
    from toolkit.cli.app import app

    params = app.get_command(click.Context(app), command)._own_params
    names = {param.name for param in params}
    names |= {flag[2:].replace("-", "_") for p in params for flag in p.opts if flag[:2] == "--"}
    assert names <= FIXED_FLAGS


# ----------------------------------------------------------------------------- idle options


class Conditional(Options):
    mode: Literal["plain", "soft", "hard"] = option("plain", "a mode")
    softness: float = option(1.0, "a factor", used_if={"mode": ("soft", "hard")})


def idle(layers=(), environment=None, **flags):
    return resolve([("conditional", Conditional)], layers, environment, flags).notes


def test_a_value_without_effect_is_noted_with_its_origin_and_the_reason():
    assert idle(softness="2") == ["softness (flag --softness) has no effect: mode is plain"]
    assert idle([("a.toml", {"clip_limit": 2, "clip": "none"})]) == [
        "clip_limit (a.toml) has no effect: clip is none"
    ]
    assert idle((), {"TOOLKIT_DECAY_STEPS": "5"}) == [
        "decay_steps (TOOLKIT_DECAY_STEPS) has no effect: schedule is constant"
    ]


def test_a_value_with_an_effect_is_not_noted():
    assert idle(softness="2", mode="soft") == []
    assert idle() == []
    assert idle(evaluate="no", eval_batch_size="5") == []  # of `toolkit evaluate` and `predict`


def test_a_value_without_effect_is_noted_once_not_again_by_a_resume():
    values = resolve([("conditional", Conditional)], flags={"softness": "2"})
    assert idle([saved(values)]) == []


def test_a_plugin_may_find_idle_options_itself():
    class Own(Options):
        left: int = option(0, "a number")

        def idle_options(self):
            return dict(super().idle_options(), left="the sun shines")

    notes = resolve([("own", Own)], flags={"left": "2", "clip": "none", "clip_limit": "3"}).notes
    assert sorted(notes) == [
        "clip_limit (flag --clip-limit) has no effect: clip is none",
        "left (flag --left) has no effect: the sun shines",
    ]


def test_a_condition_on_an_option_that_does_not_exist_is_refused():
    class Odd(Options):
        left: int = option(0, "a number", used_if={"clipp": "none"})

    with pytest.raises(UsageError, match="'left' is used depending on 'clipp', which is no option"):
        merge([("odd", Odd)])


def test_a_condition_on_a_flag_reads_as_on_or_off():
    notes = resolve([], flags={"evaluate": "no", "evaluate_steps": "5"}).notes
    assert notes == ["evaluate_steps (flag --evaluate-steps) has no effect: evaluate is off"]


def test_a_step_to_trace_is_not_negative():
    with pytest.raises(UsageError, match="Option 'profile_steps' is .*: steps should be 0 or more"):
        one("profile_steps", "3,-5")


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.toml", "batch-size = 3\nbatch_size = 4"),
        ("a.json", '{"steps": 3, "steps": 4}'),
        ("a.json", '{"batch-size": 3, "batch_size": 4}'),
    ],
)
def test_a_file_that_sets_an_option_twice_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=f"{name}: '(steps|batch_size)' is set twice: "):
        read_values(str(tmp_path / name))


# -------------------------------------------------------------------------------------- image sizes


@pytest.mark.parametrize(
    "text, value",
    [("64", 64), (" 64x48 ", "64x48"), ("64X48", "64x48"), ("64x64", 64), (32, 32), ("none", None)],
)
def test_an_image_size_is_a_side_or_width_x_height(text, value):
    assert one("image_size", text) == value


@pytest.mark.parametrize(
    "text", ["0", "4097", "64x", "x64", "64x0", "64x4097", "64x48x3", "a", "-1", "6.4", True, "٣"]
)
def test_another_image_size_is_refused(text):
    with pytest.raises(UsageError, match="should be 1 to 4096, or WIDTHxHEIGHT such as 64x48"):
        one("image_size", text)


def test_many_wrong_values_give_a_few_sentences():
    errors = [{"msg": "Input should be odd", "loc": ("x", i), "input": i} for i in range(100)]
    sentences = describe_errors(errors, {"x": "default"}).splitlines()
    assert sentences[0] == "Option 'x' is 0 (default): should be odd."
    assert len(sentences) == 9 and sentences[-1] == "92 more values are wrong."


def test_equal_sentences_on_wrong_values_are_one():
    errors = [{"msg": "Input should be odd", "loc": ("x", i), "input": 0} for i in range(100)]
    assert describe_errors(errors, {}) == "Option 'x' is 0 (?): should be odd."
