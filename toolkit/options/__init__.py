"""Typed options: what the core and the plugins declare, and where each value comes from.

declaration: `option` and `Options`, with which options are declared.
core: `CoreOptions`, the options of every run.
augmentation: `AugmentationOptions`, which plugins inherit to change training images.
values: `Origin`, `Value`, and the values of one place, which are entered at the door.
merging: one class with the options of the core and the plugins.
resolution: `resolve`, which merges defaults, files, variables and flags.
paths: paths in values, where they start, and where a moved run finds its files.
sampling: `SampleOptions`, which settings of samples inherit.
text: the text of a value, and the description of an option.
"""

from .augmentation import AUGMENTATION_GROUP, OFF, AugmentationOptions
from .core import CoreOptions
from .declaration import (
    AUTO,
    Options,
    changeable_options,
    chooses_preset,
    option,
    result_options,
)
from .merging import FIXED_FLAGS, FOLDER, ORIGINS, merge
from .paths import (
    find_path,
    is_path_text,
    join_step,
    map_paths,
    map_reference,
    move_start,
    split_step,
)
from .resolution import (
    ENVIRONMENT_PREFIX,
    Resolved,
    environment,
    flag_name,
    misspelt_variables,
    preset_values,
    resolve,
    resolve_class,
    variable_name,
)
from .sampling import SampleOptions
from .text import Field, describe, format_value
from .values import DATA, FLAG, NOT_SET, OPTION, PRESET, Config, Origin, Value, read_origins

__all__ = [
    "AUGMENTATION_GROUP",
    "AUTO",
    "DATA",
    "ENVIRONMENT_PREFIX",
    "FIXED_FLAGS",
    "FLAG",
    "FOLDER",
    "NOT_SET",
    "OFF",
    "OPTION",
    "ORIGINS",
    "PRESET",
    "AugmentationOptions",
    "Config",
    "CoreOptions",
    "Field",
    "Options",
    "Origin",
    "Resolved",
    "SampleOptions",
    "Value",
    "changeable_options",
    "chooses_preset",
    "describe",
    "environment",
    "find_path",
    "flag_name",
    "format_value",
    "is_path_text",
    "join_step",
    "map_paths",
    "map_reference",
    "merge",
    "misspelt_variables",
    "move_start",
    "option",
    "preset_values",
    "read_origins",
    "resolve",
    "resolve_class",
    "result_options",
    "split_step",
    "variable_name",
]
