"""The options of a study's trials: what the command sets for all of them, and what varies."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type

from ..options import (
    FLAG,
    ORIGINS,
    CoreOptions,
    Layer,
    Origin,
    Resolved,
    Value,
    alias_names,
    find_path,
    map_paths,
    map_reference,
    merge,
    read_origins,
    resolve,
    variable_name,
)
from ..plugins import Plugins
from ..preset_choice import choose_by_data
from . import definition as study

VARIABLES = "variables"  # the place of a layer with the values of environment variables


class TrialOptions:
    """Resolves the options of trials.

    Args:
        plugins: the model and its extensions.
        layers, flags: as in `Definition`.
    """

    def __init__(self, plugins: Plugins, layers: Sequence[study.Layer], flags: Mapping[str, str]):
        self.plugins = plugins
        self.cls: Type[CoreOptions] = merge(plugins.options())
        self._layers = [_typed_layer(layer) for layer in layers if layer.place != VARIABLES]
        self._variables = variables_of(layers)
        self._flags = dict(flags)

    def resolve_for_data(self, values: Mapping[str, Any], length: Optional[int] = None) -> Resolved:
        """As `resolve`, with the presets that the data choose: these are opened if one is open."""
        return choose_by_data(self.plugins, self.resolve(values, length))

    def resolve(self, values: Mapping[str, Any], length: Optional[int] = None) -> Resolved:
        """Return the options of a configuration.

        Args:
            values: of the options that vary, by name: texts, or values as JSON has them.
            length: of the run in steps; None for the length that the flags or the plugin set.

        Raises:
            UsageError: a value is wrong, alone or beside the others.
        """
        flags: Dict[str, Any] = {
            **self._flags,
            **{n: Value(value, Origin(FLAG, f"--vary {n}")) for n, value in values.items()},
        }
        if length is not None:
            flags["steps"] = str(length)
        return resolve(self.plugins.options(), self._layers, self._variables, flags)


def _typed_layer(layer: study.Layer) -> Layer:
    values = dict(layer.values)
    origins = values.pop(ORIGINS, None)
    return Layer(layer.place, values, (), origins and read_origins(origins, layer.place))


def variables_of(layers: Sequence[study.Layer]) -> Dict[str, str]:
    """Return the environment variables that set options of all trials."""
    return {
        variable_name(name): text
        for layer in layers
        if layer.place == VARIABLES
        for name, text in layer.values.items()
    }


# ----------------------------------------------------------------------------- of the command


def absolute_reference(reference: str) -> str:
    """Return the reference of a plugin, a file by its absolute path."""
    return map_reference(reference, _absolute)


def file_layer(layer: Layer, options: Type[CoreOptions]) -> study.Layer:
    """Return the values of a configuration file with absolute paths."""
    values = {
        name: map_paths(
            options,
            alias_names(options).get(name, name),
            value,
            lambda path: _absolute(find_path(path, layer.folders)),
        )
        if alias_names(options).get(name, name) in options.model_fields
        else value
        for name, value in layer.values.items()
    }
    if layer.origins is not None:
        values[ORIGINS] = {name: origin.saved for name, origin in layer.origins.items()}
    return study.Layer(os.path.abspath(layer.file), values)


def variable_layers(
    environment: Mapping[str, str], options: Type[CoreOptions]
) -> List[study.Layer]:
    """Return a layer with the options that environment variables set; [] if none does."""
    names = [*options.model_fields, *alias_names(options)]
    texts = {n: environment[variable_name(n)] for n in names if variable_name(n) in environment}
    return [study.Layer(VARIABLES, absolute_texts(texts, options))] if texts else []


def absolute_texts(texts: Mapping[str, Any], options: Type[CoreOptions]) -> Dict[str, str]:
    """Return the texts of options by name, paths in them absolute."""
    names = alias_names(options)
    result = {}
    for name, text in texts.items():
        present = names.get(name, name)
        is_option = present in options.model_fields
        value = map_paths(options, present, text, _absolute) if is_option else text
        result[name] = str(value)
    return result


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
