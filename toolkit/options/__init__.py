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
    Resolved,
    environment,
    merge,
    misspelt_variables,
    preset_values,
    resolve,
)
from .text import Field, describe, from_text, type_name

__all__ = [
    "ENVIRONMENT_PREFIX",
    "CoreOptions",
    "Field",
    "Options",
    "Resolved",
    "alias_names",
    "current_names",
    "describe",
    "environment",
    "from_text",
    "merge",
    "misspelt_variables",
    "option",
    "preset_values",
    "resolve",
    "result_options",
    "changeable_options",
    "type_name",
]
