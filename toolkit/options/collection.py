"""The collection of a run's values, from the weakest source to the strongest."""

from __future__ import annotations

from typing import (
    Any,
    Callable,
    Container,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
)

import pydantic

from ..errors import UsageError, suggest
from .core import CoreOptions
from .declaration import AUTO, Options, alias_names
from .paths import find_path, is_path_text, map_paths
from .text import from_text

_DEFAULT_ORIGIN, _PLUGIN_ORIGIN, _PRESET_ORIGIN = "default", "plugin ", "preset "
_NO_EVALUATION = "no evaluation"
_MAX_SENTENCES = 8  # on wrong values

_AUTO_ORIGIN = "auto: "  # of the name of a preset that the data chose; the reason follows

_NO_CHOICES = (_DEFAULT_ORIGIN, _NO_EVALUATION, _PLUGIN_ORIGIN, _PRESET_ORIGIN, _AUTO_ORIGIN)

PluginOptions = Tuple[str, Type[Options]]  # the name of a plugin and its options class


def is_choice(origin: str) -> bool:
    """Whether a value with this first origin was set by a person; not if there is no origin."""
    return bool(origin) and not origin.startswith(_NO_CHOICES)


def is_choice_of_data(origin: str) -> bool:
    """Whether a value with this first origin is the name of a preset that the data chose."""
    return origin.startswith(_AUTO_ORIGIN)


def preset_origin(name: str) -> str:
    """Return the origin of values that a preset sets."""
    return f"{_PRESET_ORIGIN}{name}"


class PresetChoice(NamedTuple):
    """The preset that counts where the option of presets is "auto".

    Attributes:
        name: of the preset.
        origin: of the choice, as the run saves it.
        values: those that a run had from the preset, which may have others since; None for those
            that the preset has now.
    """

    name: str
    origin: str
    values: Optional[Mapping[str, Any]] = None

    @classmethod
    def by_data(cls, name: str, reason: str) -> PresetChoice:
        """Return the choice that the data make for a reason."""
        return cls(name, _AUTO_ORIGIN + reason)

    @property
    def reason(self) -> str:
        """Why the data chose the preset; "" if a person did."""
        return self.origin[len(_AUTO_ORIGIN) :] if is_choice_of_data(self.origin) else ""


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


class Source(NamedTuple):
    """The values that a user set in one place: a configuration file, the variables or the flags.

    Attributes:
        place: FLAGS, VARIABLES, or the path of the file.
        values: by name; earlier names and names with dashes count.
        origin: from a name to the origin of its value, as messages and `--print-config` show it.
        folders: at which relative paths in the values may start, the best first; () for the
            working directory.
        first_origins: of a file that a run saved, where the run had each value from; may be empty.
            None if a person wrote the values.
    """

    place: str
    values: Mapping[str, Any]
    origin: Callable[[str], str]
    folders: Sequence[str] = ()
    first_origins: Optional[Mapping[str, str]] = None

    @property
    def is_saved(self) -> bool:
        """Whether a run saved the values: those of all its options, whether set or not."""
        return self.first_origins is not None

    def first_origin(self, key: str) -> str:
        """Return where a value was first set, which may have been in an earlier run."""
        return (self.first_origins or {}).get(key, self.origin(key))


class Collection:
    """The values of a run's options while they are collected, weakest source first.

    Args:
        options: the merged options class.
        classes: the options classes of the plugins.
        choices: by the option of presets, which preset counts where its value is "auto". Without
            one, the first preset of the class counts, and the value remains.

    Attributes:
        values: values by option name, without those that are at their default.
        origins: where the value of each option comes from.
        first_origins: the same, but of a saved value where it was first set.
        earlier_names: each use of an earlier name, other than by a plugin.
        notes: a sentence for each choice that has no effect or is replaced.
    """

    def __init__(
        self,
        options: Type[CoreOptions],
        classes: Iterable[PluginOptions],
        choices: Optional[Mapping[str, PresetChoice]] = None,
    ):
        self.values: Dict[str, Any] = {}
        self.origins = dict.fromkeys(options.model_fields, _DEFAULT_ORIGIN)
        self.first_origins = dict(self.origins)
        self.earlier_names: List[EarlierName] = []
        self.notes: List[str] = []
        self._options = options
        self._classes = list(classes)
        self._preset_choices = dict(choices or {})
        self._presets = {cls.preset_option: cls.presets for _, cls in self._classes if cls.presets}
        self._aliases = alias_names(options)
        self._choices: Set[str] = set()  # options that a person set by name for this run

    # --------------------------------------------------------------------------------- add values

    @property
    def preset_options(self) -> List[str]:
        """The options that name a preset."""
        return list(self._presets)

    def add_defaults(self, preset_options: Container[str] = ()) -> None:
        """Add the plugins' defaults for options of the core, and the default presets.

        Args:
            preset_options: of these, a source names another preset.
        """
        for plugin, cls in self._classes:
            self._add_all(cls.core_defaults, _PLUGIN_ORIGIN + plugin)
            if cls.presets and cls.preset_option not in preset_options:
                default = cls.model_fields[cls.preset_option].default
                name, values = self._find_preset(cls.preset_option, default)
                self._add_all(values, preset_origin(name))

    def add_preset(self, source: Source, preset_option: str) -> None:
        """Let the values of the preset that a source names replace those of weaker sources."""
        name, values = self._find_preset(preset_option, source.values[preset_option])
        place = f"preset {name} ({source.origin(preset_option)})"
        for option, value in values.items():
            before = self.values.get(option)
            if self._is_choice(option) and not self._are_equal(option, before, value):
                self._note_preset(place, f"{option} is {value}", f"{before}", option)
        if "epochs" not in values and values.get("steps") is not None:
            self._note_steps(place, values["steps"])
        elif "epochs" in values and "steps" not in values and "steps" in self.values:
            self._replace_steps(place, values["epochs"])
        self._add_all(values, preset_origin(name))

    def add(self, source: Source, replaced: Iterable[str] = ()) -> None:
        """Let the values of a source replace those of weaker ones.

        Args:
            source: the values.
            replaced: options that name a preset, and of which a stronger source names another one:
                the values that a saved run had from its preset are left out.
        """
        values = self._with_present_names(source)
        self._check_length(source, values)
        # Epochs of a stronger source replace the steps of a weaker one.
        if "epochs" in values and "steps" not in values and "steps" in self.values:
            self._drop_steps()
        for name, key in values.items():
            if any(self._is_of_preset(source, name, key, option) for option in replaced):
                continue
            if not self._is_dropped_best(source, key):
                self._set(source, name, key)

    def name_presets(self) -> None:
        """Replace each "auto" by the name of the preset that was chosen for it."""
        for option, choice in self._preset_choices.items():
            default = self._options.model_fields[option].default
            if self.values.get(option, default) == AUTO:
                self._store(option, choice.name, choice.origin, choice.origin)
                self._choices.discard(option)

    def drop_unused_best(self) -> None:
        """Drop a plugin's default for the best metric where nothing is evaluated."""
        if self.first_origins["best_metric"].startswith(_PLUGIN_ORIGIN) and not self._evaluates():
            self._store("best_metric", None, _NO_EVALUATION, _NO_EVALUATION)

    def drop_foreign_arguments(self) -> None:
        """Drop a preset's arguments of its optimizer where another optimizer was chosen."""
        preset = self.first_origins["optimizer_args"]
        if not preset.startswith(_PRESET_ORIGIN) or not self._is_choice("optimizer"):
            return
        name, origin = self.values["optimizer"], self.origins["optimizer"]
        if _family(name) != _family(self._optimizer_of(preset[len(_PRESET_ORIGIN) :])):
            left_out = f"optimizer_args of {preset} are left out"
            self.notes.append(f"{left_out}: optimizer is {name} ({origin})")
            self._store("optimizer_args", {}, _DEFAULT_ORIGIN, _DEFAULT_ORIGIN)

    def _optimizer_of(self, preset: str) -> str:
        """Return the optimizer that a preset's arguments are for."""
        name = str(self._options.model_fields["optimizer"].default)
        for _, cls in self._classes:
            name = cls.core_defaults.get("optimizer", name)
        for option in self._presets:
            name = self._preset_values(option, preset).get("optimizer", name)
        return name

    def _drop_steps(self) -> None:
        """Let the epochs set the length of the run."""
        del self.values["steps"]
        self.origins["steps"] = self.first_origins["steps"] = _DEFAULT_ORIGIN

    def _add_all(self, values: Mapping[str, Any], origin: str) -> None:
        """Add values that a plugin declares."""
        for key, value in values.items():
            name = self._aliases.get(key, key)
            annotation = self._annotation(name, origin)
            self._store(name, from_text(annotation, value), origin, origin)
            self._choices.discard(name)

    def _with_present_names(self, source: Source) -> Dict[str, str]:
        """Return the key in a source of each present name. Records the use of earlier names."""
        keys: Dict[str, str] = {}
        for key, value in source.values.items():
            alias = key.replace("-", "_")
            name = self._aliases.get(alias, alias)
            if name in keys and source.values[keys[name]] != value:
                raise UsageError(
                    f"Options '{keys[name]}' ({source.origin(keys[name])}) and '{key}' "
                    f"({source.origin(key)}) are two names of '{name}' and have different values."
                )
            keys[name] = key
            if name != alias:
                self.earlier_names.append(EarlierName(alias, name, source.place))
        return keys

    def _check_length(self, source: Source, keys: Mapping[str, str]) -> None:
        """Refuse steps beside epochs in one place, where only the steps would count."""
        if source.is_saved or not {"steps", "epochs"} <= set(keys):
            return
        steps = from_text(
            self._options.model_fields["steps"].annotation, source.values[keys["steps"]]
        )
        if steps is not None:
            raise UsageError(
                f"Both steps ({source.origin(keys['steps'])}) and epochs "
                f"({source.origin(keys['epochs'])}) set the length of the run.",
                hint="Set one of them.",
            )

    def _set(self, source: Source, name: str, key: str) -> None:
        value, origin = source.values[key], source.origin(key)
        annotation = self._annotation(name, origin)
        try:
            value = from_text(annotation, value)
        except UsageError as error:
            message = f"Option '{name}' ({origin}): {error.message}"
            raise UsageError(message, hint=error.hint) from None
        value = self._find_paths(name, value, origin, source.folders)
        self._store(name, value, origin, source.first_origin(key))
        if source.is_saved:
            self._choices.discard(name)
        else:
            self._choices.add(name)

    def _store(self, name: str, value: Any, origin: str, first_origin: str) -> None:
        self.values[name] = value
        self.origins[name] = origin
        self.first_origins[name] = first_origin

    def _annotation(self, name: str, origin: str) -> Any:
        """Return the type of an option. Raises UsageError if there is no such option."""
        fields = self._options.model_fields
        if name not in fields:
            raise UsageError(
                f"There is no option {short_repr(name)} ({origin}).", hint=suggest(name, fields)
            )
        return fields[name].annotation

    def _find_paths(self, name: str, value: Any, origin: str, folders: Sequence[str]) -> Any:
        """Return a value with its paths as they start at the working directory, and the source of
        data that is a path.

        Args:
            folders: from which the paths of a file start; none for other values.
        """

        def find(path: str) -> str:
            if not is_path_text(path):
                raise UsageError(f"Option '{name}' ({origin}) is no text that can be a path.")
            return find_path(path, folders) if folders else path

        return map_paths(self._options, name, value, find)

    # -------------------------------------------------------------------------------------- presets

    def _find_preset(self, preset_option: str, name: Any) -> Tuple[Any, Dict[str, Any]]:
        """Return the name of the preset that counts for a value of the option of presets, and its
        values.
        """
        if name == AUTO and AUTO not in self._presets[preset_option]:
            choice = self._preset_choices.get(preset_option)
            if choice is not None and choice.values is not None:
                return choice.name, dict(choice.values)
            name = next(iter(self._presets[preset_option])) if choice is None else choice.name
        return name, self._preset_values(preset_option, name)

    def _preset_values(self, preset_option: str, name: Any) -> Dict[str, Any]:
        """Return the values of a preset by present names; {} if there is none of that name."""
        if not isinstance(name, str):  # validation reports it
            return {}
        values = self._presets[preset_option].get(name, {})
        return {self._aliases.get(n, n): v for n, v in values.items()}

    def _is_of_preset(self, source: Source, name: str, key: str, preset_option: str) -> bool:
        """Whether a saved run had a value from the preset that an option names."""
        if not source.is_saved:
            return False
        if source.first_origins:
            presets = self._presets[preset_option]
            names = {n for preset in presets for n in self._preset_values(preset_option, preset)}
            return name in names and source.first_origin(key).startswith(_PRESET_ORIGIN)
        # Saved without origins.
        values = self._preset_values(preset_option, source.values.get(preset_option))
        return name in values and values[name] == source.values[key]

    def _is_dropped_best(self, source: Source, key: str) -> bool:
        """Whether a saved run dropped its plugin's best metric, since nothing was evaluated."""
        return source.is_saved and source.first_origin(key) == _NO_EVALUATION

    def _note_preset(self, place: str, text: str, before: str, option: str) -> None:
        """Note that a preset replaces the value `before` of an option.

        Args:
            place: the preset and where it is named.
            text: what now counts.
        """
        self.notes.append(f"{text} by {place}, no longer {before} ({self.origins[option]})")

    def _note_steps(self, place: str, steps: Any) -> None:
        """Note that the steps of a preset count, and no longer the epochs that a person set."""
        if self.values.get("steps") is None and self._is_choice("epochs"):
            before = f"epochs {self.values['epochs']}"
            self._note_preset(place, f"steps is {steps}", before, "epochs")

    def _replace_steps(self, place: str, epochs: Any) -> None:
        """Let the epochs of a preset replace weaker steps, with a note if a person set them."""
        if self._is_choice("steps"):
            before = f"steps {self.values['steps']}"
            self._note_preset(place, f"epochs is {epochs}", before, "steps")
        self._drop_steps()

    def _are_equal(self, name: str, value: Any, other: Any) -> bool:
        """Whether two values of an option, such as 2e-3 as text and 0.002, are the same."""
        return str(value) == str(other) or self._typed(name, value) == self._typed(name, other)

    def _typed(self, name: str, value: Any) -> Any:
        """Return a value as its field has it; a value that is not valid as text."""
        try:
            return getattr(self._options(**{name: value}), name)
        except pydantic.ValidationError:
            return str(value)

    def _is_choice(self, name: str) -> bool:
        """Whether a person set the present value by name, for this run or for a saved one."""
        if name in self._choices:
            return True
        default = self._options.model_fields[name].default
        return is_choice(self.first_origins[name]) and self.values.get(name) != default

    # ------------------------------------------------------------------------------------- validate

    def validate(self, **other: Any) -> CoreOptions:
        """Return the typed options; `other`: values to use instead. Raises UsageError."""
        try:
            return self._options(**dict(self.values, **other))
        except pydantic.ValidationError as error:
            raise UsageError(describe_errors(error.errors(), self.origins)) from None

    def idle_choices(self, options: CoreOptions) -> List[str]:
        """Return a sentence for each value that a person set for this run and that is not used."""
        return [
            f"{name} ({self.origins[name]}) has no effect: {reason}"
            for name, reason in options.idle_options().items()
            if name in self._choices
        ]

    def _evaluates(self) -> bool:
        return self.validate(best_metric=None, early_stopping=0).evaluate


def _family(optimizer: Any) -> str:
    """Return the name of an optimizer as others with the same arguments have it."""
    name = str(optimizer).lower().replace("-", "").replace("_", "")
    return "adam" if name == "adamw" else name


def describe_errors(errors: Sequence[Mapping[str, Any]], origins: Mapping[str, str]) -> str:
    """Return a sentence for each error of pydantic, up to a number of different ones."""
    sentences = list(dict.fromkeys(describe_error(error, origins) for error in errors))
    if len(sentences) > _MAX_SENTENCES:
        rest = len(sentences) - _MAX_SENTENCES
        sentences[_MAX_SENTENCES:] = [f"{rest} more values are wrong."]
    return "\n".join(sentences)


def describe_error(error: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Return one sentence for an error of pydantic."""
    message = error["msg"]
    if message.startswith("Value error, "):
        message = message[len("Value error, ") :]
    if not error["loc"]:
        return message[0].upper() + message[1:] + "."
    name = str(error["loc"][0])
    message = message.replace("Input should be", "should be")
    value = short_repr(error.get("input"))
    return f"Option '{name}' is {value} ({origins.get(name, '?')}): {message}."


def short_repr(value: Any) -> str:
    """Return a value as text of at most 100 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, a list in a list in a list...
        return f"a large {type(value).__name__}"
    return text if len(text) <= 100 else text[:97] + "..."
