"""Typed options: what the core and the plugins declare, and where each value comes from.

declaration: `option` and `Options`, with which options are declared.
core: `CoreOptions`, the options of every run.
resolution: `resolve`, which merges defaults, files, variables and flags.
text: the text of a value, and the description of an option.
"""

from .core import CoreOptions
from .declaration import (
    Options,
    alias_names,
    changeable_options,
    current_names,
    option,
    result_options,
)
from .resolution import (
    ENVIRONMENT_PREFIX,
    FLAGS,
    VARIABLES,
    EarlierName,
    Resolved,
    environment,
    flag_name,
    merge,
    misspelt_variables,
    preset_values,
    resolve,
    variable_name,
)
from .text import Field, describe, from_text, type_name

__all__ = [
    "ENVIRONMENT_PREFIX",
    "FLAGS",
    "VARIABLES",
    "CoreOptions",
    "EarlierName",
    "Field",
    "Options",
    "Resolved",
    "alias_names",
    "changeable_options",
    "current_names",
    "describe",
    "environment",
    "flag_name",
    "from_text",
    "merge",
    "misspelt_variables",
    "option",
    "preset_values",
    "resolve",
    "result_options",
    "type_name",
    "variable_name",
]
