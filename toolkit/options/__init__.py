"""Typed options: what the core and the plugins declare, and where each value comes from.

declaration: `option` and `Options`, with which options are declared.
core: `CoreOptions`, the options of every run.
augmentation: `AugmentationOptions`, which plugins inherit to change training images.
resolution: `resolve`, which merges defaults, files, variables and flags.
collection: the values while they are merged.
paths: paths in values, where they start, and where a moved run finds its files.
text: the text of a value, and the description of an option.
"""

from .augmentation import AUGMENTATION_GROUP, OFF, AugmentationOptions
from .collection import EarlierName, is_choice
from .core import CoreOptions
from .declaration import (
    Options,
    alias_names,
    changeable_options,
    conditions,
    current_names,
    option,
    result_options,
)
from .paths import find_path, is_path_text, map_paths, map_reference, move_start
from .resolution import (
    ENVIRONMENT_PREFIX,
    FIXED_FLAGS,
    FLAGS,
    FOLDER,
    ORIGINS,
    VARIABLES,
    Layer,
    Resolved,
    environment,
    flag_name,
    merge,
    misspelt_variables,
    preset_values,
    resolve,
    variable_name,
)
from .text import Field, describe, format_value, from_text, type_name

__all__ = [
    "AUGMENTATION_GROUP",
    "ENVIRONMENT_PREFIX",
    "FIXED_FLAGS",
    "FLAGS",
    "FOLDER",
    "OFF",
    "ORIGINS",
    "VARIABLES",
    "AugmentationOptions",
    "CoreOptions",
    "EarlierName",
    "Field",
    "Layer",
    "Options",
    "Resolved",
    "alias_names",
    "changeable_options",
    "conditions",
    "current_names",
    "describe",
    "environment",
    "find_path",
    "flag_name",
    "format_value",
    "from_text",
    "is_choice",
    "is_path_text",
    "map_paths",
    "map_reference",
    "merge",
    "misspelt_variables",
    "move_start",
    "option",
    "preset_values",
    "resolve",
    "result_options",
    "type_name",
    "variable_name",
]
