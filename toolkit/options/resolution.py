"""Resolution: from declarations and values to one typed object, with the origin of each value.

Precedence, weakest first: the option's own default, the plugin's default for a core option, the
default preset, configuration files in their order, `TOOLKIT_*` variables, flags. The values of a
preset that is set by name count as set in the same place, but the other values of that place are
stronger.
"""

from __future__ import annotations

import difflib
import functools
import os
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
from .collection import (
    Collection,
    EarlierName,
    PluginOptions,
    PresetChoice,
    Source,
    describe_errors,
)
from .core import CoreOptions
from .declaration import AUTO, Options, alias_names, chooses_preset, conditions
from .text import from_text

AnyOptions = TypeVar("AnyOptions", bound=Options)
ENVIRONMENT_PREFIX = "TOOLKIT_"
# Variables that are no options of a run and are read elsewhere.
RESERVED_VARIABLES = (
    *("CACHE", "MIRRORS", "PLUGIN", "RUN_DIR", "VERBOSE"),
    *("CLUSTER", "TASK", "CHANNEL_PORT", "JOIN_SECS", "PEER_SECS"),
)
# The flags and arguments of the commands that have a flag for each option, and the names of these
# in the code of the commands.
FIXED_FLAGS = frozenset(
    ["plugin", "with", "extensions", "config", "run_dir", "force", "json", "as_json", "verbose"]
    + ["set", "sets", "print_config", "pause_at", "help", "map"]
    + ["allow", "trust", "run_folder", "from", "from_step", "resume", "is_resume"]
    + ["cluster", "task", "channel_port", "join_secs", "peer_secs"]
)
# Entries of a saved configuration beside plugins and options.
FOLDER, ORIGINS = "folder", "origins"

FLAGS, VARIABLES = "flags", "variables"


class Layer(NamedTuple):
    """The values of one configuration file.

    Attributes:
        file: its path, for messages.
        values: by option name.
        folders: at which relative paths in the values may start, the best first; () for the
            working directory.
        first_origins: of a file that a run saved, where the run had each value from; may be empty.
            None if a person wrote the file.
    """

    file: str
    values: Mapping[str, Any]
    folders: Sequence[str] = ()
    first_origins: Optional[Mapping[str, str]] = None

    def origin(self, name: str) -> str:
        """Return the origin of a value, for messages and `--print-config`."""
        first = (self.first_origins or {}).get(name, "")
        return f"{self.file}: {first}" if first else self.file


class Resolved(NamedTuple):
    """The options of a run, and where each value comes from.

    Attributes:
        options: the typed values.
        origins: of the values, as `--print-config` shows them.
        earlier_names: each use of an earlier name, other than by a plugin.
        first_origins: of the values, as the run saves them: as `origins`, but of a value in a saved
            configuration it is where that run had it from.
        notes: a sentence for each choice that has no effect or is replaced.
        open_presets: the options of presets whose value is "auto", each with the name and the
            options class of the plugin that chooses by the data.
        choose: from which preset counts for each of these options to the options of the run.
    """

    options: CoreOptions
    origins: Dict[str, str]
    earlier_names: List[EarlierName]
    first_origins: Dict[str, str]
    notes: List[str]
    open_presets: Mapping[str, PluginOptions]
    choose: Callable[[Mapping[str, PresetChoice]], Resolved]


def flag_name(name: str) -> str:
    """Return the flag of an option."""
    return "--" + name.replace("_", "-")


def variable_name(name: str) -> str:
    """Return the environment variable of an option."""
    return ENVIRONMENT_PREFIX + name.upper()


def merge(classes: Iterable[PluginOptions]) -> Type[CoreOptions]:
    """Join the core's options and those of each plugin in one class.

    Raises UsageError where a plugin's option has a name that means something else already.
    """
    return _merge(tuple(classes))


@functools.lru_cache(maxsize=8)  # to create a class takes long
def _merge(classes: Tuple[PluginOptions, ...]) -> Type[CoreOptions]:
    owners = dict.fromkeys(CoreOptions.model_fields, "the core")
    bases: List[Type[Options]] = [CoreOptions]
    for plugin, cls in classes:
        for name in [*cls.model_fields, *alias_names(cls)]:
            _check_name(plugin, name, owners)
            owners[name] = f"plugin '{plugin}'"
        bases.append(cls)
    if len(bases) == 1:
        return CoreOptions
    base = tuple(reversed(bases))
    merged = pydantic.create_model("RunOptions", __base__=base)
    assert issubclass(merged, CoreOptions)
    _check_conditions(merged)
    return merged


def _check_name(plugin: str, name: str, owners: Mapping[str, str]) -> None:
    """Refuse an option of a plugin whose name, or whose flag, is in use."""
    subject = f"Option '{name}' of plugin '{plugin}'"
    if name in FIXED_FLAGS or name.upper() in RESERVED_VARIABLES or name in (FOLDER, ORIGINS):
        raise UsageError(
            f"{subject} has a name that the toolkit uses for a flag, a variable or an entry of "
            "config.json.",
            hint="Rename it.",
        )
    if name in owners:
        raise UsageError(
            f"{subject} is already an option of {owners[name]}.",
            hint="Rename it, or set core_defaults to change a core option's default.",
        )
    for other in (name[len("no_") :] if name.startswith("no_") else "", "no_" + name):
        if other in owners:
            raise UsageError(
                f"{subject} has the flag with which option '{other}' of {owners[other]} is "
                "switched off or on.",
                hint="Rename it.",
            )


def _check_conditions(options: Type[Options]) -> None:
    """Refuse an option that is used depending on one that does not exist."""
    fields = options.model_fields
    for name, others in conditions(options).items():
        for other in others:
            if other not in fields:
                raise UsageError(
                    f"Option '{name}' is used depending on '{other}', which is no option.",
                    hint=suggest(other, fields),
                )


def resolve(
    classes: Iterable[PluginOptions],
    layers: Iterable[Sequence[Any]] = (),
    environment: Optional[Mapping[str, str]] = None,
    flags: Optional[Mapping[str, Any]] = None,
    flag_origins: Optional[Mapping[str, str]] = None,
    choices: Optional[Mapping[str, PresetChoice]] = None,
) -> Resolved:
    """Merge all values into one typed, frozen object.

    Args:
        classes: the name and the options class of each plugin.
        layers: for each configuration file a `Layer`, or its path and values; weakest first.
        environment: the variables of the process, of which `TOOLKIT_*` count.
        flags: values or texts by option name.
        flag_origins: the origins of those values in `flags` that are not from the flag of their
            name.
        choices: by the option of presets, which preset counts where its value is "auto".

    Raises:
        UsageError: a name or value is wrong; the message has the value and its origin.
    """
    classes, layers = list(classes), list(layers)
    choose = functools.partial(resolve, classes, layers, environment, flags, flag_origins)
    options = merge(classes)
    variables = _read_variables(options, environment or {})
    origins = flag_origins or {}
    sources = [_file_source(Layer(*layer)) for layer in layers]
    sources.append(Source(VARIABLES, variables, variable_name))
    sources.append(Source(FLAGS, flags or {}, lambda n: origins.get(n) or "flag " + flag_name(n)))
    collection = Collection(options, classes, choices)
    _collect(collection, sources)
    collection.name_presets()
    collection.drop_unused_best()
    collection.drop_foreign_arguments()
    values = collection.validate()
    notes = collection.notes + collection.idle_choices(values)
    origins, first_origins = collection.origins, collection.first_origins
    open_presets = _open_presets(classes, values)
    return Resolved(
        values, origins, collection.earlier_names, first_origins, notes, open_presets, choose
    )


def _open_presets(
    classes: Sequence[PluginOptions], values: CoreOptions
) -> Mapping[str, PluginOptions]:
    """Return the options of presets that leave the choice to the data; see `Resolved`."""
    return {
        cls.preset_option: (plugin, cls)
        for plugin, cls in classes
        if chooses_preset(cls) and getattr(values, cls.preset_option) == AUTO
    }


def resolve_class(cls: Type[AnyOptions], values: Mapping[str, Any], are_flags: bool) -> AnyOptions:
    """Return the typed options of one class that belongs to no run.

    Args:
        cls: the class.
        values: values or texts by option name.
        are_flags: whether messages name flags.

    Raises:
        UsageError: a name or value is wrong.
    """
    origins = {name: f"flag {flag_name(name)}" if are_flags else "setting" for name in values}
    for name in values:
        if name not in cls.model_fields:
            raise UsageError(f"There is no setting '{name}'.", hint=suggest(name, cls.model_fields))
    typed = {n: from_text(cls.model_fields[n].annotation, value) for n, value in values.items()}
    try:
        return cls(**typed)
    except pydantic.ValidationError as error:
        raise UsageError(describe_errors(error.errors(), origins)) from None


def _collect(collection: Collection, sources: Sequence[Source]) -> None:
    """Add the values of all sources. Of several presets, that of the strongest source counts."""
    strongest = {
        option: position
        for position, source in enumerate(sources)
        for option in collection.preset_options
        if option in source.values
    }
    collection.add_defaults(strongest)
    for position, source in enumerate(sources):
        for option, place in strongest.items():
            if place == position:
                collection.add_preset(source, option)
        collection.add(source, [name for name, place in strongest.items() if position < place])


def _file_source(layer: Layer) -> Source:
    return Source(layer.file, layer.values, layer.origin, layer.folders, layer.first_origins)


def _read_variables(options: Type[Options], environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the text of each option that has a variable in the environment."""
    names = {n: variable_name(n) for n in [*options.model_fields, *alias_names(options)]}
    return {name: environment[v] for name, v in names.items() if v in environment}


def preset_values(cls: Type[Options]) -> Mapping[str, Any]:
    """Return the values of the default preset of a class, of the first one if the data choose it;
    {} for a class without presets.
    """
    if not cls.presets:
        return {}
    name = cls.model_fields[cls.preset_option].default
    if name == AUTO and chooses_preset(cls):
        name = next(iter(cls.presets))
    return cls.presets.get(name, {})


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
