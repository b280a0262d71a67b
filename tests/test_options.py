"""Options: text to types, limits, precedence with the origin of each value."""

from __future__ import annotations

from typing import Dict, List, Optional

import click
import pydantic
import pytest
from graph_fixtures import make_plugin
from linear_fixtures import Linear, LinearOptions
from typing_extensions import Annotated, Literal

from toolkit import Options, UsageError, config, option
from toolkit.inference.sample_options import SAMPLE_FLAGS
from toolkit.options import (
    FIXED_FLAGS,
    Config,
    CoreOptions,
    Origin,
    changeable_options,
    describe,
    merge,
    read_origins,
    resolve,
    result_options,
)
from toolkit.plugins import Plugins

# Numbers that count nothing.
PURE_NUMBERS = (
    "channels validation_share test_share folds fold split_seed epochs learning_rate decay_rate "
    "clip_limit weight_decay seed gpu_memory_fraction"
)


class Many(Options):
    sizes: List[int] = option([64], "sizes", unit="units", min_length=1)
    rates: Dict[str, float] = option({}, "rates")
    floats: List[float] = option([], "numbers")
    limit: Optional[float] = option(None, "limit", unit="seconds")
    kind: Literal["a", "b"] = option("a", "kind")
    flag: bool = option(False, "flag")
    places: Optional[Annotated[List[int], pydantic.Field(max_length=3)]] = option(None, "places")


def one(name, text):
    """What an option of the core or of `Many` becomes."""
    return getattr(resolved_of(Many, **{name: text}).options, name)


def resolved_of(*classes, layers=(), environment=None, **flags):
    """The options of classes, each of which is a plugin by its name in small letters."""
    plugins = [(cls.__name__.lower(), cls) for cls in classes]
    return resolve(plugins, layers, environment, flags)


def refuse(*arguments, **more):
    """The error of `resolve`."""
    with pytest.raises(UsageError) as caught:
        resolve(*arguments, **more)
    return caught.value


# ---------------------------------------------------------------------------- every option there is


@pytest.mark.parametrize("field", describe(CoreOptions), ids=lambda field: field.name)
def test_each_option_has_a_valid_default_help_a_group_and_a_unit_where_it_counts(field):
    assert one(field.name, field.default) == field.default
    assert field.help and "\n" not in field.help and not field.help.endswith(".")
    assert field.help[0].islower() or field.help.startswith("TensorBoard")
    assert field.group and "[" not in field.type  # what Annotated adds is not shown
    if field.type in ("int", "float", "1|3"):
        assert bool(field.unit) == (field.name not in PURE_NUMBERS.split())


# ----------------------------------------------------------------------------------- text and types


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("sizes", "128, 64,", [128, 64]),
        ("label_column", "left, right", ["left", "right"]),
        ("profile_steps", "", []),
        ("places", "1,2", [1, 2]),
        ("rates", "a=1, b=0.5", {"a": 1.0, "b": 0.5}),
        *(("limit", text, None) for text in ("none", "None", " NONE ", "")),
        ("limit", "2.5", 2.5),
        ("steps_per_call", "auto", None),
        *(("flag", text, True) for text in ("true", "1")),
        *(("flag", text, False) for text in ("no", "off")),
        *(("batch_size", text, 7) for text in (" 7 ", "007")),
        ("image_size", "64", 64),
        ("image_size", " 64x48 ", "64x48"),
        ("image_size", "64X48", "64x48"),
        ("image_size", "64x64", 64),
        ("image_size", "none", None),
    ],
)
def test_a_text_becomes_a_value(name, text, value):
    assert one(name, text) == value


def test_arguments_of_the_optimizer_are_numbers_booleans_or_text():
    text = "momentum=0.5,use_nesterov=true,centered=NO,accum_name=sums,batches=3"
    values = one("optimizer_args", text)
    expected = {"momentum": 0.5, "use_nesterov": True, "centered": False, "accum_name": "sums"}
    assert values == dict(expected, batches=3.0)
    from_json = one("optimizer_args", dict(values, batches=3))
    assert from_json == values and isinstance(from_json["batches"], float)
    assert isinstance(from_json["use_nesterov"], bool)


BETWEEN = "nothing between two commas"
WHOLE = "valid integer"
SIZE = "should be 1 to 4096, or WIDTHxHEIGHT such as 64x48"
ARGUMENT = "should be numbers, true, false or text"
UNKNOWN = "There is no option '{}' ({}). Did you mean '{}'?"


@pytest.mark.parametrize(
    "message, name, values",
    [
        ("Option 'sizes' is []", "sizes", [""]),
        ("Option 'batch_size' is '0' (flag --batch-size): should be", "batch_size", ["0"]),
        ("Option 'steps' is ", "steps", [2**63]),
        (BETWEEN, "sizes", ["1,,2", ",1", "1, ,2"]),
        *((text, "rates", [text]) for text in ("a=1,a=2", "a=1,,b=2", ",a=1")),
        ("'beta1' is not of the form name=value", "optimizer_args", ["beta1"]),
        (ARGUMENT, "optimizer_args", [{"a": v} for v in (None, [1], 10**400, {"b": 1})]),
        ("Option 'kind' is 'c' (flag --kind): should be 'a' or 'b'", "kind", ["c"]),
        ("should be a finite number.", "floats", [[1.0, float("nan"), float("nan")]]),
        ("should be a finite number.", "rates", ["a=inf"]),
        ("should be a finite number", "learning_rate", ["inf", float("inf"), "1e999"]),
        (WHOLE, "batch_size", ["1e3", "0x10", "２", "٣", "five", "1.5", "--3", "-0x1", "1 0", ""]),
        (SIZE, "image_size", ["0", "4097", "64x", "x64", "64x0", "64x4097", "64x48x3"]),
        (SIZE, "image_size", ["a", "-1", "6.4", "٣", True]),
        ("'preset' is 'quick' (flag --preset): should be 'slow' or 'fast'", "preset", ["quick"]),
    ],
)
def test_a_value_of_another_type_or_beyond_a_limit_gets_one_sentence(message, name, values):
    for value in values:
        error = refuse([("many", Many), ("recipes", Recipes)], flags={name: value})
        assert message in error.message, value
        assert "\n" not in error.message


def test_one_error_reports_all_wrong_values():
    message = refuse([], [("a.toml", {"keep_checkpoints": 0, "seed": -1})]).message
    assert [line.split(":")[0] for line in message.split("\n")] == [
        "Option 'keep_checkpoints' is 0 (a.toml)",
        "Option 'seed' is -1 (a.toml)",
    ]


# --------------------------------------------------------------------------------------- precedence


def test_an_option_of_a_plugin_has_its_variable_and_its_flag():
    classes = Plugins(make_plugin(Linear)).options()
    assert resolve(classes, [], {"TOOLKIT_GAIN": "3"}).options.gain == 3.0
    assert resolve(classes, [], {}, {"gain": "2"}).origins["gain"] == ("flag", "--gain", "")


class Odd(Options):
    core_defaults = {"batchsize": 3}


@pytest.mark.parametrize(
    "given, message",
    [
        ({"classes": [("odd", Odd)]}, UNKNOWN.format("batchsize", "plugin odd", "batch_size")),
        ({"layers": [("a", {"stepps": 1})]}, UNKNOWN.format("stepps", "a", "steps")),
        ({"flags": {"stepps": "1"}}, UNKNOWN.format("stepps", "flag --stepps", "steps")),
        (
            {"layers": [("a", {"learning-rate": 0.1, "learning_rate": 0.2})]},
            "Option 'learning_rate' is set with a dash and with an underscore (a).",
        ),
        (
            {"layers": [("a", {"early_stopping": 3})]},
            "Early stopping needs a metric: set best_metric.",
        ),
        (
            {"layers": [("a", {"best_metric": "loss", "evaluate": False})]},
            "best_metric (a) needs evaluations: set evaluate, or best_metric to none.",
        ),
        (
            {"flags": {"steps": "7", "epochs": "2"}},
            "Both steps (flag --steps) and epochs (flag --epochs) set the length of the run.",
        ),
    ],
)
def test_what_contradicts_or_is_unknown_is_refused_with_its_origin(given, message):
    error = refuse(**dict({"classes": []}, **given))
    assert f"{error.message} {error.hint}".startswith(message)


@pytest.mark.parametrize(
    "layers, more, length",
    [
        ([("a.toml", {"steps": 100})], {"flags": {"epochs": "2"}}, (None, 2.0)),
        ([("a.toml", {"steps": 100}), ("b.toml", {"epochs": 2})], {}, (None, 2.0)),
        ([("a.toml", {"steps": 100})], {"environment": {"TOOLKIT_EPOCHS": "2"}}, (None, 2.0)),
        ([("a.toml", {"epochs": 2})], {"flags": {"steps": "7"}}, (7, 2.0)),
        # A saved run has both.
        ([Config("r/config.json", {"steps": 7, "epochs": 2.0}, (), {})], {}, (7, 2.0)),
        ([], {"flags": {"steps": " NONE ", "epochs": "2"}}, (None, 2.0)),
        ([], {"flags": {"steps": None, "epochs": "2"}}, (None, 2.0)),
    ],
)
def test_the_strongest_layer_sets_the_length(layers, more, length):
    resolved = resolve([], layers, **more)
    assert (resolved.options.steps, resolved.options.epochs) == length
    if layers and length[0] is None:
        assert str(resolved.origins["steps"]) == "default"


# ---------------------------------------------------------------------------- variables and merging


@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
@pytest.mark.parametrize(
    "name, message",
    [
        ("steps", "is already an option of the core."),
        ("gain", "is already an option of plugin 'linear'."),
        ("no_evaluate", "has the flag by which 'evaluate' of the core is set."),
        *((n, "has a name that") for n in ("force", "with", "json", "cache", "folder", "ctx")),
    ],
)
def test_an_option_of_a_plugin_may_not_have_a_name_that_is_taken(name, message):
    second = pydantic.create_model("Odd", __base__=Options, **{name: (bool, option(True, "x"))})
    with pytest.raises(UsageError, match=f"^Option '{name}' of plugin 'second' {message}"):
        merge([("linear", LinearOptions), ("second", second)])


@pytest.mark.parametrize(
    "words", ["run", "resume", "search", "plugins check", "plugins show", "sample"]
)
def test_each_fixed_flag_of_a_command_with_options_is_reserved(words):
    from toolkit.cli.app import app

    command = app
    for word in words.split():
        command = command.get_command(click.Context(command), word)
    names = {param.name for param in command.own_params}
    flags = {flag for param in command.own_params for flag in param.opts if flag[:2] == "--"}
    names |= {flag[2:].replace("-", "_") for flag in flags}
    assert names <= (SAMPLE_FLAGS if words == "sample" else FIXED_FLAGS)


# ------------------------------------------------------------------------------------ reading files


@pytest.mark.parametrize("name, text", [("a.toml", "steps = 3"), ("a.json", '{"steps": 3}')])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path, name, text):
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert config.read(str(tmp_path / name)).values == {"steps": 3}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.toml", b"steps = = 3", "a.toml: not valid TOML: "),
        ("a.json", b"{", "a.json: not valid JSON: "),
        ("a.json", b"[1]", "a.json: expected names with values, found a list."),
        ("none.toml", None, "none.toml: No such file or directory."),
    ],
)
def test_a_file_that_is_no_flat_mapping_is_an_error(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_bytes(text)
    with pytest.raises(UsageError, match=message):
        config.read(str(tmp_path / name))


# ------------------------------------------------------------------------------------------ presets


class Recipes(Options):
    """Two recipes that set an option of the core and one of the plugin."""

    presets = {"slow": {"learning_rate": 0.1, "gain": 2.0}, "fast": {"learning_rate": 0.9}}

    preset: Literal["slow", "fast"] = option("slow", "which recipe")
    gain: float = option(1.0, "a factor")


FILE = [("a.toml", {"preset": "fast"})]
SLOW = {"TOOLKIT_PRESET": "slow"}
NOTE = "learning_rate is 0.9 by preset fast (flag --preset), no longer 0.5 (a.toml)"


@pytest.mark.parametrize(
    "layers, more, rate, gain, notes",
    [
        ([], {}, 0.1, 2.0, []),  # the default preset
        ([], {"preset": "fast"}, 0.9, 1.0, []),
        (FILE, {}, 0.9, 1.0, []),
        (FILE, {"environment": SLOW}, 0.1, 2.0, []),
        (FILE, {"environment": SLOW, "preset": "fast"}, 0.9, 1.0, []),
        # A value of a weaker layer, ...
        ([("a.toml", {"learning_rate": 0.5})], {"preset": "fast"}, 0.9, 1.0, [NOTE]),
        ([("a.toml", {"gain": 7})], {"preset": "fast"}, 0.9, 7.0, []),
        ([("a.toml", {"learning_rate": 0.9})], {"preset": "fast"}, 0.9, 1.0, []),
        ([], {"environment": {"TOOLKIT_LEARNING_RATE": "9e-1"}, "preset": "fast"}, 0.9, 1.0, []),
        # ... of the same one, and of a stronger one.
        ([("a.toml", {"learning_rate": 0.5, "preset": "slow"})], {}, 0.5, 2.0, []),
        ([], {"learning_rate": "0.5", "preset": "slow"}, 0.5, 2.0, []),
        (FILE + [("b.toml", {"learning_rate": 0.5})], {}, 0.5, 1.0, []),
    ],
)
def test_a_preset_replaces_values_of_weaker_layers_and_a_note_says_which(
    layers, more, rate, gain, notes
):
    resolved = resolved_of(Recipes, layers=layers, **more)
    assert (resolved.options.learning_rate, resolved.options.gain) == (rate, gain)
    assert resolved.notes == notes
    if rate != 0.5:
        assert str(resolved.origins["learning_rate"]) == f"preset {resolved.options.preset}"


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
        ({"preset": "clipped", "optimizer": "adam"}, {}),
    ],
)
def test_arguments_of_a_preset_are_for_its_own_optimizer(flags, arguments):
    resolved = resolved_of(Momenta, **flags)
    assert resolved.options.optimizer_args == arguments
    left_out = (
        f"optimizer_args of preset {resolved.options.preset} are left out: "
        f"optimizer is {flags.get('optimizer')} (flag --optimizer)"
    )
    assert resolved.notes == ([] if arguments else [left_out])
    assert resolved_of(Momenta, layers=[saved(resolved)]).options == resolved.options


def test_arguments_of_a_plugin_are_for_its_own_optimizer():
    class Defaults(Options):
        core_defaults = {"optimizer_args": {"beta1": 0.5}}

    for optimizer, arguments in (("adamw", {"beta1": 0.5}), ("sgd", {})):
        assert resolved_of(Defaults, optimizer=optimizer).options.optimizer_args == arguments


class Styles(Options):
    """Presets that an option of another name chooses."""

    presets = {"thin": {"width": 1}, "thick": {"width": 9}}
    preset_option = "style"

    style: Literal["thin", "thick"] = option("thin", "which style")
    width: int = option(5, "of a line")


def test_two_classes_have_presets_of_their_own():
    resolved = resolved_of(Recipes, Styles, style="thick")
    assert (resolved.options.width, resolved.options.gain) == (9, 2.0)
    origins = (str(resolved.origins[name]) for name in ("width", "gain"))
    assert [*origins] == ["preset thick", "preset slow"]


def saved(resolved):
    """A layer with the configuration that a run with these options saves."""
    values = resolved.options.model_dump(mode="json")
    texts = {name: origin.saved for name, origin in resolved.origins.items()}
    return Config("r/config.json", values, (), read_origins(texts, "r/config.json"))


def test_an_origin_is_read_as_it_was_saved_and_what_is_none_is_left_out():
    saved_origins = {"a": "file my runs/a.toml", "b": "default", "c": "flag --c"}
    assert read_origins({**saved_origins, "d": "rumour", "e": 3, "f": "flag \n"}) == {
        "a": Origin("file", "my runs/a.toml"),
        "b": Origin("default"),
        "c": Origin("flag", "--c"),
    }
    assert str(read_origins(saved_origins, "r/config.json")["a"]) == "r/config.json: my runs/a.toml"
    assert {n: each.saved for n, each in read_origins(saved_origins).items()} == saved_origins
    assert [read_origins(saved_origins)[name].is_choice for name in "abc"] == [True, False, True]


def test_a_preset_takes_the_place_of_that_of_a_saved_run_and_a_note_names_lost_choices():
    first = resolved_of(Recipes, log_steps="7", learning_rate="0.3")
    again = resolved_of(Recipes, layers=[saved(first)], preset="fast")
    assert (again.options.learning_rate, again.options.gain) == (0.9, 1.0)
    assert again.options.log_steps == 7
    assert again.origins["log_steps"].saved == "flag --log-steps"
    assert again.notes == [
        "learning_rate is 0.9 by preset fast (flag --preset), "
        "no longer 0.3 (r/config.json: flag --learning-rate)"
    ]


def test_a_saved_run_without_a_new_preset_has_its_values_and_their_first_origins():
    first = resolved_of(Recipes, preset="fast", gain="3")
    again = resolved_of(Recipes, layers=[saved(first)])
    assert again.options.model_dump() == first.options.model_dump()
    assert saved(again) == saved(first)


# -------------------------------------------------------------------------- what a plugin declares


def test_a_plugin_may_choose_the_preset_of_its_options():
    class FastByDefault(Recipes):
        core_defaults = {"preset": "fast"}

    assert resolved_of(FastByDefault).options.learning_rate == 0.9


class Ranked(Options):
    core_defaults = {"best_metric": "min:distance"}


def test_a_plugins_best_metric_counts_only_with_evaluations():
    without = resolved_of(Ranked, evaluate="no")
    assert resolved_of(Ranked, evaluate="yes").options.best_metric == "min:distance"
    assert not without.options.evaluate and without.notes == []
    with pytest.raises(UsageError, match="^best_metric .flag --best-metric. needs evaluations"):
        resolved_of(Ranked, evaluate="no", best_metric="min:distance")


def test_a_plugins_best_metric_is_back_where_a_resume_evaluates_again():
    without, none = resolved_of(Ranked, evaluate="no"), resolved_of(Ranked, best_metric="none")
    again = resolved_of(Ranked, layers=[saved(without)], evaluate="yes")
    assert again.options.best_metric == "min:distance"
    assert again.origins["best_metric"].saved == "plugin ranked"
    assert resolved_of(Ranked, layers=[saved(none)]).options.best_metric is None


class Traced(Options):
    plain: int = option(1, "an option that says nothing more")
    trace: bool = option(False, "an option without effect", affects_result=False)
    scored: int = option(1, "an option that a resume may change", resume_may_change=True)


def test_a_limit_that_is_none_is_refused():
    with pytest.raises(TypeError, match="option has no limit 'lte'. Did you mean 'lt'?"):
        option(1, "a number", lte=3)


def test_an_option_affects_the_result_unless_its_declaration_says_otherwise():
    assert result_options(Traced) == {"plain", "scored"}
    assert changeable_options(Traced) == {"trace", "scored"}
    merged = merge([("traced", Traced)])
    assert changeable_options(merged) == changeable_options(CoreOptions) | {"trace", "scored"}


def test_of_the_core_all_but_reports_checkpoints_and_the_machine_affects_the_result():
    groups = {field.name: field.group for field in describe(CoreOptions)}
    reports = {n for n, group in groups.items() if group in ("Reports", "Checkpoints", "Machine")}
    without_effect = reports - {"seed"} | {"max_secs"}
    assert set(CoreOptions.model_fields) - result_options(CoreOptions) == without_effect
    length = {name for name, group in groups.items() if group in ("Length", "Evaluation")}
    assert changeable_options(CoreOptions) == without_effect | length


# ----------------------------------------------------------------------------- idle options


class Conditional(Options):
    mode: Literal["plain", "soft", "hard"] = option("plain", "a mode")
    softness: float = option(1.0, "a factor", used_if={"mode": ("soft", "hard")})
    left: int = option(0, "a number")

    def idle_options(self):
        return dict(super().idle_options(), left="the sun shines")


@pytest.mark.parametrize(
    "flags, reasons",
    [
        ({}, {}),
        ({"softness": "2"}, {"softness": "mode is plain"}),
        ({"softness": "2", "mode": "soft"}, {}),
        ({"evaluate": "no", "eval_batch_size": "5"}, {}),  # `evaluate` and `predict` use it
        ({"decay_steps": "5"}, {"decay_steps": "schedule is constant"}),
        ({"evaluate": "no", "evaluate_steps": "5"}, {"evaluate_steps": "evaluate is off"}),
        # One that the plugin finds itself.
        ({"left": "2", "softness": "2"}, {"left": "the sun shines", "softness": "mode is plain"}),
    ],
)
def test_a_value_without_effect_is_noted_once_with_its_origin_and_the_reason(flags, reasons):
    resolved = resolved_of(Conditional, **flags)
    assert sorted(resolved.notes) == [
        f"{name} (flag --{name.replace('_', '-')}) has no effect: {reason}"
        for name, reason in reasons.items()
    ]
    assert resolved_of(Conditional, layers=[saved(resolved)]).notes == []  # a resume
