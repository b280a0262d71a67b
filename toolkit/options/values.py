"""Values of options, each with its origin, and how the values of one place are read."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Type

from ..errors import UsageError, suggest
from .declaration import Options
from .paths import find_path, is_path_text, map_paths
from .text import from_text

# Kinds of origins, the weakest first.
DEFAULT, PLUGIN, PRESET, DATA = "default", "plugin", "preset", "data"
FILE, VARIABLE, FLAG, OPTION = "file", "variable", "flag", "option"  # of a person; the last in code
_CHOICES = (FILE, VARIABLE, FLAG, OPTION)


class Origin(NamedTuple):
    """Where a value comes from."""

    kind: str  # DEFAULT, PLUGIN, PRESET, DATA, FILE, VARIABLE, FLAG or OPTION
    # The name of the plugin, preset, variable or option, the path of the file, the flag with its
    # dashes; of DATA, the reason why the data chose the value.
    place: str = ""
    # The path of the configuration of a run that had the value from there; "" for this run.
    saved_in: str = ""

    def __str__(self) -> str:
        """The origin as messages and `--print-config` show it."""
        text = self.place if self.kind in (FILE, VARIABLE) else f"{self.kind} {self.place}".strip()
        return f"{self.saved_in}: {text}" if self.saved_in else text

    @property
    def is_choice(self) -> bool:
        """Whether a person set the value."""
        return self.kind in _CHOICES

    @property
    def is_new(self) -> bool:
        """Whether a person set the value for this run, not for one that saved it."""
        return self.is_choice and not self.saved_in

    @property
    def saved(self) -> str:
        """The origin as config.json has it: the kind, a space and the place."""
        return f"{self.kind} {self.place}".strip()


NOT_SET = Origin(DEFAULT)


def read_origins(saved: Any, file: str = "") -> Dict[str, Origin]:
    """Return the origins that a run saved in config.json, by the name of the option, without what
    is none. `file` is its path, where the values count as saved by another run.
    """
    origins = {}
    for name, text in saved.items() if isinstance(saved, dict) else ():
        kind, _, place = text.partition(" ") if isinstance(text, str) else ("", "", "")
        is_kind = kind in (*_CHOICES, DEFAULT, PLUGIN, PRESET, DATA)
        if is_kind and text.isprintable() and len(text) < 1000:
            origins[name] = Origin(kind, place, file)
    return origins


class Value(NamedTuple):
    """A value of an option, and where it comes from."""

    value: Any
    origin: Origin


Values = Dict[str, Value]  # by the name of the option


class Config(NamedTuple):
    """The contents of a configuration file, or of one that a run saved."""

    file: str  # its path, for messages
    values: Dict[str, Any]  # of options by name, as the file has them
    # At which relative paths in the values may start, the best first; () for the working directory.
    folders: Sequence[str] = ()
    # Of a file that a run saved, where the run had each value from; None if a person wrote it.
    origins: Optional[Mapping[str, Origin]] = None
    # References, empty for none; a path in them starts at the working directory.
    plugin: str = ""
    extensions: Sequence[str] = ()

    @property
    def references(self) -> List[str]:
        """The references of all plugins, that of the model first."""
        return [self.plugin, *self.extensions]

    def as_values(self) -> Values:
        """Return the values with their origins, which a run may have saved."""
        here, origins = Origin(FILE, self.file), self.origins or {}
        return {name: Value(value, origins.get(name, here)) for name, value in self.values.items()}


def enter(
    options: Type[Options],
    values: Mapping[str, Value],
    folders: Sequence[str] = (),
    is_saved: bool = False,
) -> Values:
    """Read the values of one place, by the names of options: names, which may have dashes, types of
    texts, the length of the run, and paths.

    Relative paths may start at each of the folders, the best first; () for the working directory.
    If a run saved the values, these are all of its options. Raises UsageError if there is no such
    option, or two values contradict one another.
    """
    entered: Values = {}
    fields = options.model_fields
    for key, (value, place) in values.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UsageError(
                f"There is no option {short_repr(name)} ({place}).", hint=suggest(name, fields)
            )
        if name in entered:
            text = f"Option '{name}' is set with a dash and with an underscore ({place})."
            raise UsageError(text, hint="Set it once.")
        try:
            value = from_text(fields[name].annotation, value)
        except UsageError as error:
            message = f"Option '{name}' ({place}): {error.message}"
            raise UsageError(message, hint=error.hint) from None

        def find(path: str, name: str = name, place: Origin = place) -> str:
            if not is_path_text(path):
                raise UsageError(f"Option '{name}' ({place}) is no text that can be a path.")
            return find_path(path, folders) if folders else path

        value = map_paths(options, name, value, find)
        entered[name] = Value(value, place)
    if "epochs" in entered and not is_saved:  # they set the length in place of any weaker steps
        steps = entered.setdefault("steps", Value(None, NOT_SET))
        if steps.value is not None and steps.origin.is_choice:
            raise UsageError(
                f"Both steps ({steps.origin}) and epochs ({entered['epochs'].origin}) set the "
                "length of the run.",
                hint="Set one of them.",
            )
    return entered


def short_repr(value: Any) -> str:
    """Return a value as text of at most 100 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, a list in a list in a list...
        return f"a large {type(value).__name__}"
    return text if len(text) <= 100 else text[:97] + "..."
