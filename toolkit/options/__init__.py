"""Typed options: what the core and the plugins declare, and where each value comes from.

declaration: `option` and `Options`, with which options are declared.
core: `CoreOptions`, the options of every run.
augmentation: `AugmentationOptions`, which plugins inherit to change training images.
resolution: `resolve`, which merges defaults, files, variables and flags.
collection: the values while they are merged.
paths: paths in values, where they start, and where a moved run finds its files.
sampling: `SampleOptions`, which settings of samples inherit.
text: the text of a value, and the description of an option.
"""

from .augmentation import AUGMENTATION_GROUP, OFF, AugmentationOptions
from .collection import EarlierName, PresetChoice, is_choice, is_choice_of_data, preset_origin
from .core import CoreOptions
from .declaration import (
    AUTO,
    Options,
    alias_names,
    changeable_options,
    chooses_preset,
    conditions,
    current_names,
    option,
    result_options,
)
from .paths import (
    find_path,
    is_path_text,
    is_present,
    join_step,
    map_paths,
    map_reference,
    move_start,
    split_step,
)
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
    resolve_class,
    variable_name,
)
from .sampling import SampleOptions
from .text import Field, describe, format_value, from_text, type_name

__all__ = [
    "AUGMENTATION_GROUP",
    "AUTO",
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
    "PresetChoice",
    "Resolved",
    "SampleOptions",
    "alias_names",
    "changeable_options",
    "chooses_preset",
    "conditions",
    "current_names",
    "describe",
    "environment",
    "find_path",
    "flag_name",
    "format_value",
    "from_text",
    "is_choice",
    "is_choice_of_data",
    "is_path_text",
    "is_present",
    "join_step",
    "map_paths",
    "map_reference",
    "merge",
    "misspelt_variables",
    "move_start",
    "option",
    "preset_origin",
    "preset_values",
    "resolve",
    "resolve_class",
    "result_options",
    "split_step",
    "type_name",
    "variable_name",
]
