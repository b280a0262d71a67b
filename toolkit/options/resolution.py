"""Resolution: from declarations and values to one typed object, with the origin of each value.

The values are layers, and of two values of an option the last one counts: the option's own default,
the plugin's default for a core option, the default preset, configuration files in their order,
`TOOLKIT_*` variables, flags. The values of a preset lie just below the layer that names it.
"""

from __future__ import annotations

import difflib
import functools
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

import pydantic

from ..errors import UsageError, suggest
from .core import CoreOptions
from .declaration import AUTO, Options
from .merging import RESERVED_VARIABLES, PluginOptions, merge
from .text import format_value, from_text
from .values import (
    FLAG,
    NOT_SET,
    PLUGIN,
    PRESET,
    VARIABLE,
    Config,
    Origin,
    Value,
    Values,
    enter,
    short_repr,
)

AnyOptions = TypeVar("AnyOptions", bound=Options)
ENVIRONMENT_PREFIX = "TOOLKIT_"


class Resolved(NamedTuple):
    """The options of a run, and where each value comes from."""

    options: CoreOptions
    origins: Dict[str, Origin]
    notes: List[str]  # a sentence for each choice that has no effect or is replaced
    # By each option of presets that is "auto": the plugin that chooses by the data.
    open_presets: Mapping[str, PluginOptions]
    # From the presets that count, by the option of presets, to the options with them.
    choose: Callable[[Mapping[str, Value]], Resolved]


def flag_name(name: str) -> str:
    """Return the flag of an option."""
    return "--" + name.replace("_", "-")


def variable_name(name: str) -> str:
    """Return the environment variable of an option."""
    return ENVIRONMENT_PREFIX + name.upper()


def resolve(
    classes: Iterable[PluginOptions],
    layers: Iterable[Sequence[Any]] = (),
    environment: Optional[Mapping[str, str]] = None,
    flags: Optional[Mapping[str, Any]] = None,
    choices: Optional[Mapping[str, Value]] = None,
) -> Resolved:
    """Merge all values into one typed, frozen object.

    `layers` are the configuration files, weakest first, each a `Config`, or its path and values. Of
    the environment `TOOLKIT_*` count. A flag's value is a text, a value or a `Value`. `choices`
    has, by the option of presets, the preset that counts where the option is "auto"; without one,
    the first preset of the class counts, and "auto" remains. Raises UsageError, with the value and
    its origin, for a wrong name or value.
    """
    classes, files = list(classes), [Config(*each) for each in layers]
    choose = functools.partial(resolve, classes, files, environment, flags)
    options, choices = merge(classes), choices or {}
    variables = {
        name: Value(text, Origin(VARIABLE, variable_name(name)))
        for name in options.model_fields
        for text in [(environment or {}).get(variable_name(name))]
        if text is not None
    }
    flag_values = {
        name: value if isinstance(value, Value) else Value(value, Origin(FLAG, flag_name(name)))
        for name, value in (flags or {}).items()
    }
    entered, chosen = [], {name for _, cls in classes for name in cls.core_defaults}
    for name, cls in classes:
        entered.append(_enter_all(options, cls.core_defaults, Origin(PLUGIN, name)))
        names = [cls.preset_option] if cls.presets and cls.preset_option not in chosen else []
        defaults = {each: cls.model_fields[each].default for each in names}
        entered.append(_enter_all(options, defaults, NOT_SET))
    entered += [
        *(enter(options, f.as_values(), f.folders, f.origins is not None) for f in files),
        enter(options, variables),
        enter(options, flag_values),
    ]
    for option, choice in choices.items():
        for layer in entered:
            if option in layer and layer[option].value == AUTO:
                layer[option] = choice
    below = _place_presets(options, classes, entered)
    merged: Values = {}
    notes: List[str] = []
    for place, layer in enumerate(entered):
        for preset, named_by in below.get(place, ()):
            for name in [n for n in preset if n in merged and merged[n].origin.is_choice]:
                (value, origin), before = preset[name], merged[name]
                texts = format_value(value), format_value(before.value)
                if value is not None and not _are_equal(options, name, value, before.value):
                    text = f"{name} is {texts[0]} by {origin} ({named_by}), no longer {texts[1]}"
                    notes.append(f"{text} ({before.origin})")
            merged.update(preset)
        merged.update(layer)
    notes += _drop_foreign_arguments(options, classes, merged)
    origins = {**dict.fromkeys(options.model_fields, NOT_SET)}
    origins.update((name, value.origin) for name, value in merged.items())
    try:
        values = options(**{name: each.value for name, each in merged.items()})
    except pydantic.ValidationError as error:
        raise UsageError(describe_errors(error.errors(), origins)) from None
    if values.best_metric and not values.evaluate and origins["best_metric"].is_choice:
        raise UsageError(
            f"best_metric ({origins['best_metric']}) needs evaluations: set evaluate, or "
            "best_metric to none."
        )
    notes += [
        f"{name} ({origins[name]}) has no effect: {reason}"
        for name, reason in values.idle_options().items()
        if origins[name].is_new
    ]
    open_presets = {
        cls.preset_option: (plugin, cls)
        for plugin, cls in classes
        if cls.presets and AUTO not in cls.presets and getattr(values, cls.preset_option) == AUTO
    }
    return Resolved(values, origins, notes, open_presets, choose)


def _enter_all(options: Type[CoreOptions], values: Mapping[str, Any], origin: Origin) -> Values:
    return enter(options, {name: Value(value, origin) for name, value in values.items()})


# ----------------------------------------------------------------------------------------- presets


def _place_presets(
    options: Type[CoreOptions],
    classes: Sequence[PluginOptions],
    layers: Sequence[Values],
) -> Dict[int, List[Tuple[Values, Origin]]]:
    """Return the presets that lie just below a layer, by its position, each with the origin of its
    name. Weaker layers, the first ones, lose what a saved run had from another preset of the class.
    """
    below: Dict[int, List[Tuple[Values, Origin]]] = {}
    for cls in (cls for _, cls in classes if cls.presets):
        place = max(n for n, layer in enumerate(layers) if cls.preset_option in layer)
        name, origin = layers[place][cls.preset_option]
        values = _enter_all(options, preset_values(cls, name), Origin(PRESET, str(name)))
        below.setdefault(place, []).append((values, origin))
        names = {name for preset in cls.presets.values() for name in preset}
        for layer in layers[:place]:
            for name in [n for n in layer if n in names and layer[n].origin.kind == PRESET]:
                del layer[name]
    return below


def preset_values(cls: Type[Options], name: Any = None) -> Mapping[str, Any]:
    """Return the values of a preset of a class, by default of its default one; of the first one if
    the data choose it, and {} if there is none of that name, which validation reports.
    """
    if cls.presets and name is None:
        name = cls.model_fields[cls.preset_option].default
    if cls.presets and name == AUTO and AUTO not in cls.presets:
        name = next(iter(cls.presets))
    return cls.presets.get(name, {}) if isinstance(name, str) else {}


def _drop_foreign_arguments(
    options: Type[CoreOptions], classes: Sequence[PluginOptions], merged: Values
) -> List[str]:
    """Drop the arguments that a plugin or a preset has for its optimizer where a person chose
    another one, with a note.
    """
    names = ("optimizer_args", "optimizer")
    arguments, chosen = (merged.get(name, Value(None, NOT_SET)) for name in names)
    if arguments.origin.kind not in (PLUGIN, PRESET) or not chosen.origin.is_choice:
        return []
    own = options.model_fields["optimizer"].default
    tables = [cls.core_defaults for _, cls in classes]
    if arguments.origin.kind == PRESET:
        tables += [cls.presets.get(arguments.origin.place, {}) for _, cls in classes]
    for table in tables:
        own = table.get("optimizer", own)
    # adamw has the arguments of adam.
    kinds = [
        value.lower().replace("-", "").replace("_", "") if isinstance(value, str) else ""
        for value in (chosen.value, own)
    ]
    if len({"adam" if kind == "adamw" else kind for kind in kinds}) == 1:
        return []
    merged["optimizer_args"] = Value({}, NOT_SET)
    choice = f"{format_value(chosen.value)} ({chosen.origin})"
    return [f"optimizer_args of {arguments.origin} are left out: optimizer is {choice}"]


# ------------------------------------------------------------------------------------------ errors


def resolve_class(cls: Type[AnyOptions], values: Mapping[str, Any], are_flags: bool) -> AnyOptions:
    """Return the typed options of one class that belongs to no run, from values or texts by name.
    Raises UsageError, which names flags if `are_flags`, for a wrong name or value.
    """
    for name in values:
        if name not in cls.model_fields:
            raise UsageError(f"There is no setting '{name}'.", hint=suggest(name, cls.model_fields))
    typed = {n: from_text(cls.model_fields[n].annotation, value) for n, value in values.items()}
    try:
        return cls(**typed)
    except pydantic.ValidationError as error:
        origins = {n: Origin(FLAG, flag_name(n)) if are_flags else "setting" for n in values}
        raise UsageError(describe_errors(error.errors(), origins)) from None


def _are_equal(options: Type[Options], name: str, value: Any, other: Any) -> bool:
    """Whether two values of an option, as they were set, are one value of it."""
    try:
        return bool(
            getattr(options(**{name: value}), name) == getattr(options(**{name: other}), name)
        )
    except pydantic.ValidationError:  # which is said later
        return bool(value == other)


def describe_errors(errors: Sequence[Mapping[str, Any]], origins: Mapping[str, Any]) -> str:
    """Return a sentence for each error of pydantic, a line each."""
    sentences: Dict[str, None] = {}
    for error in errors:
        text = error["msg"].replace("Value error, ", "", 1) or "The options do not fit together"
        if error["loc"]:
            name, value = str(error["loc"][0]), short_repr(error.get("input"))
            text = text.replace("Input should be", "should be")
            text = f"Option '{name}' is {value} ({origins.get(name, '?')}): {text}"
        sentences[text[0].upper() + text[1:] + "."] = None
    return "\n".join(sentences)


# --------------------------------------------------------------------------------------- variables


def misspelt_variables(options: Type[Options], environment: Mapping[str, str]) -> List[str]:
    """Return a sentence for each TOOLKIT_* variable that is no option but is close to one."""
    known = {*map(variable_name, options.model_fields), *map(variable_name, RESERVED_VARIABLES)}
    sentences = []
    for variable in sorted(set(environment) - known):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        close = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
        if close:
            sentences.append(f"{variable} is not used; did you mean {close[0]}?")
    return sentences
