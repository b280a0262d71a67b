"""Typed options: what the core and the plugins declare, and where each value comes from.

declaration: `option` and `Options`, with which options are declared, and `SampleOptions`, which
    settings of samples inherit.
core: `CoreOptions`, the options of every run.
augmentation: `AugmentationOptions`, which plugins inherit to change training images.
values: `Origin`, `Value`, and the values of one place, which are entered at the door.
merging: one class with the options of the core and the plugins.
resolution: `resolve`, which merges defaults, files, variables and flags.
paths: paths in values, where they start, and where a moved run finds its files.
text: the text of a value, and the description of an option.
"""

from .augmentation import OFF, AugmentationOptions
from .core import CoreOptions
from .declaration import (
    AUTO,
    Options,
    SampleOptions,
    changeable_options,
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
    flag_name,
    misspelt_variables,
    preset_values,
    resolve,
    resolve_class,
    variable_name,
)
from .text import Field, describe, format_value
from .values import DATA, FLAG, NOT_SET, OPTION, PRESET, Config, Origin, Value, read_origins
