"""Resolution: from declarations and values to one typed object, with the origin of each value.

Precedence, weakest first: the option's own default, the plugin's default for a core option, the
preset, configuration files in their order, `TOOLKIT_*` variables, flags.
"""

from __future__ import annotations

import difflib
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Type

import pydantic

from ..errors import UsageError, suggest
from .core import CoreOptions
from .declaration import Options, alias_names
from .text import from_text

ENVIRONMENT_PREFIX = "TOOLKIT_"
# Variables that are no options of a run and are read elsewhere.
RESERVED_VARIABLES = ("CACHE", "MIRRORS", "PLUGIN", "RUN_DIR", "VERBOSE")

FLAGS, VARIABLES = "flags", "variables"

PluginOptions = Tuple[str, Type[Options]]  # the name of a plugin and its options class


class EarlierName(NamedTuple):
    """The use of an option's earlier name.

    Attributes:
        alias: the name that was used.
        name: the present name.
        layer: FLAGS, VARIABLES, or the path of a configuration file.
    """

    alias: str
    name: str
    layer: str


class Resolved(NamedTuple):
    """The options of a run, and where each value comes from, as `--print-config` shows it."""

    options: CoreOptions
    origins: Dict[str, str]
    earlier_names: List[EarlierName]


def flag_name(name: str) -> str:
    """Return the flag of an option."""
    return "--" + name.replace("_", "-")


def variable_name(name: str) -> str:
    """Return the environment variable of an option."""
    return ENVIRONMENT_PREFIX + name.upper()


def merge(classes: Iterable[PluginOptions]) -> Type[CoreOptions]:
    """Join the core's options and those of each plugin in one class.

    Raises UsageError where two of them declare an option of the same name.
    """
    owners = dict.fromkeys([*CoreOptions.model_fields, *alias_names(CoreOptions)], "the core")
    bases: List[Type[Options]] = [CoreOptions]
    for plugin, cls in classes:
        for name in [*cls.model_fields, *alias_names(cls)]:
            if name in owners:
                raise UsageError(
                    f"Option '{name}' of plugin '{plugin}' is already an option of {owners[name]}.",
                    hint="Rename it, or set core_defaults to change a core option's default.",
                )
            owners[name] = f"plugin '{plugin}'"
        bases.append(cls)
    if len(bases) == 1:
        return CoreOptions
    base = tuple(reversed(bases))
    merged = pydantic.create_model("RunOptions", __base__=base)
    assert issubclass(merged, CoreOptions)
    return merged


def resolve(
    classes: Iterable[PluginOptions],
    layers: Iterable[Tuple[str, Mapping[str, Any]]] = (),
    environment: Optional[Mapping[str, str]] = None,
    flags: Optional[Mapping[str, Any]] = None,
) -> Resolved:
    """Merge all values into one typed, frozen object.

    Args:
        classes: the name and the options class of each plugin.
        layers: the origin and the values of each configuration file, weakest first.
        environment: the variables of the process, of which `TOOLKIT_*` count.
        flags: values or texts by option name.

    Raises:
        UsageError: a name or value is wrong; the message has the value and its origin.
    """
    classes, layers, flags = list(classes), list(layers), flags or {}
    values = _Values(merge(classes))
    variables = values.read_variables(environment or {})
    for plugin, cls in classes:
        values.add(cls.core_defaults, _same_origin(f"plugin {plugin}"))
        preset = _preset(cls, [*(layer for _, layer in layers), variables, flags])
        values.add(cls.presets.get(preset, {}), _same_origin(f"preset {preset}"))
    for file, layer in layers:
        values.add(layer, _same_origin(file), file)
    values.add(variables, variable_name, VARIABLES)
    values.add(flags, lambda name: "flag " + flag_name(name), FLAGS)
    values.drop_unused_best()
    return Resolved(values.validate(), values.origins, values.earlier_names)


def _same_origin(origin: str) -> Callable[[str], str]:
    return lambda name: origin


class _Values:
    """The values of a run's options while they are collected, weakest layer first.

    Attributes:
        options: the merged options class.
        values: values by option name, without those that are at their default.
        origins: where the value of each option comes from.
        earlier_names: each use of an earlier name, other than by a plugin.
    """

    def __init__(self, options: Type[CoreOptions]):
        self.options = options
        self.values: Dict[str, Any] = {}
        self.origins = dict.fromkeys(options.model_fields, "default")
        self.earlier_names: List[EarlierName] = []
        self._aliases = alias_names(options)

    def read_variables(self, environment: Mapping[str, str]) -> Dict[str, str]:
        """Return the text of each option that has a variable in the environment."""
        names = {n: variable_name(n) for n in [*self.options.model_fields, *self._aliases]}
        return {name: environment[v] for name, v in names.items() if v in environment}

    def add(
        self, layer: Mapping[str, Any], origin: Callable[[str], str], reported_as: str = ""
    ) -> None:
        """Let the values of a layer replace those of weaker ones.

        Args:
            layer: values by option name; earlier names and names with dashes count.
            origin: the origin of a name's value, for messages and `--print-config`.
            reported_as: the layer of `EarlierName`; "" where earlier names are not reported.
        """
        # Epochs of a stronger layer replace the steps of a weaker one.
        if "epochs" in layer and "steps" not in layer and "steps" in self.values:
            del self.values["steps"]
            self.origins["steps"] = "default"
        spelling: Dict[str, str] = {}
        for key, value in layer.items():
            alias = key.replace("-", "_")
            name = self._aliases.get(alias, alias)
            if name in spelling and layer[spelling[name]] != value:
                raise UsageError(
                    f"Options '{spelling[name]}' ({origin(spelling[name])}) and '{key}' "
                    f"({origin(key)}) are two names of '{name}' and have different values."
                )
            spelling[name] = key
            self._set(name, value, origin(key))
            if name != alias and reported_as:
                self.earlier_names.append(EarlierName(alias, name, reported_as))

    def _set(self, name: str, value: Any, origin: str) -> None:
        fields = self.options.model_fields
        if name not in fields:
            raise UsageError(
                f"There is no option {_short_repr(name)} ({origin}).", hint=suggest(name, fields)
            )
        self.values[name] = from_text(fields[name].annotation, value)
        self.origins[name] = origin

    def drop_unused_best(self) -> None:
        """Drop a plugin's default for the best metric where nothing is evaluated."""
        if self.origins["best_metric"].startswith("plugin ") and not self._evaluates():
            self.values["best_metric"], self.origins["best_metric"] = None, "no evaluation"

    def _evaluates(self) -> bool:
        return self.validate(best_metric=None, early_stopping=0).evaluate

    def validate(self, **other: Any) -> CoreOptions:
        """Return the typed options; `other`: values to use instead. Raises UsageError."""
        try:
            return self.options(**dict(self.values, **other))
        except pydantic.ValidationError as error:
            sentences = [_describe_error(details, self.origins) for details in error.errors()]
            raise UsageError("\n".join(sentences)) from None


def preset_values(cls: Type[Options]) -> Mapping[str, Any]:
    """Return the values of the default preset of a class; {} for a class without presets."""
    return cls.presets.get(_preset(cls, []), {})


def _preset(cls: Type[Options], layers: List[Mapping[str, Any]]) -> Any:
    """Return the preset that the strongest layer names, or the default preset of the class."""
    if not cls.presets:
        return None
    presets = [cls.model_fields["preset"].default]
    presets += [layer["preset"] for layer in layers if "preset" in layer]
    return presets[-1] if isinstance(presets[-1], str) else None  # validation reports the rest


def _describe_error(error: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Return one sentence for an error of pydantic."""
    message = error["msg"]
    if message.startswith("Value error, "):
        message = message[len("Value error, ") :]
    if not error["loc"]:
        return message[0].upper() + message[1:] + "."
    name = str(error["loc"][0])
    message = message.replace("Input should be", "should be")
    value = _short_repr(error.get("input"))
    return f"Option '{name}' is {value} ({origins.get(name, '?')}): {message}."


def _short_repr(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, a list in a list in a list...
        return f"a large {type(value).__name__}"
    return text if len(text) <= 100 else text[:97] + "..."


def misspelt_variables(options: Type[Options], environment: Mapping[str, str]) -> List[str]:
    """Return a sentence for each TOOLKIT_* variable that is no option but is close to one."""
    names = [*options.model_fields, *alias_names(options)]
    known = {variable_name(name) for name in names}
    known |= {ENVIRONMENT_PREFIX + name for name in RESERVED_VARIABLES}
    sentences = []
    for variable in sorted(environment):
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known:
            close = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
            if close:
                sentences.append(f"{variable} is not used; did you mean {close[0]}?")
    return sentences


def environment() -> Mapping[str, str]:
    """Return the variables of the process; tests replace this function."""
    return os.environ
