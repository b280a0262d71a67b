"""Train image classifiers and GANs on TensorFlow's graph runtime, through plugins.

The names listed here are the public ones; a plugin needs no others. Importing this package imports
no TensorFlow: `tf` and what needs it are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the public names for type checkers, which cannot follow `__getattr__`
    from typing import Any, List

    from .api import open_data as open_data
    from .api import open_trained as open_trained
    from .api import train as train
    from .authoring import LazyModules as LazyModules
    from .authoring import check_features as check_features
    from .authoring import check_image_size as check_image_size
    from .authoring import check_value_range as check_value_range
    from .compat import tf as tf
    from .data.column import Column as Column
    from .data.decoded import Decoded as Decoded
    from .data.examples import Dataset as Dataset
    from .data.examples import Split as Split
    from .data.files.cache import cache_folder as cache_folder
    from .data.normalization import normalize as normalize
    from .data.readers.pipeline import read_dataset as read_dataset
    from .data.spec import DataSpec as DataSpec
    from .display.grid import save_grid as save_grid
    from .display.waits import waiting as waiting
    from .errors import CheckFailed as CheckFailed
    from .errors import CheckpointError as CheckpointError
    from .errors import DataError as DataError
    from .errors import DivergedError as DivergedError
    from .errors import InterruptedRun as InterruptedRun
    from .errors import RetryError as RetryError
    from .errors import ToolkitError as ToolkitError
    from .errors import UsageError as UsageError
    from .files import atomic_write as atomic_write
    from .graph.run import Run as Run
    from .hookspecs import hookimpl as hookimpl
    from .inference.sampling import SampleRequest as SampleRequest
    from .inference.scorer import Scorer as Scorer
    from .inference.scorer import ScoreResult as ScoreResult
    from .inference.trained_model import Trained as Trained
    from .options import AugmentationOptions as AugmentationOptions
    from .options import Options as Options
    from .options import SampleOptions as SampleOptions
    from .options import option as option
    from .options.groups import Group as Group
    from .options.groups import OptimizerArguments as OptimizerArguments
    from .run_cache import cached_run as cached_run
    from .run_cache import data_options as data_options
    from .training.driven import DrivenRun as DrivenRun
    from .training.hooks.base import Every as Every
    from .training.hooks.base import SessionHook as SessionHook
    from .training.hooks.sample_grids import SampleGrids as SampleGrids

__version__ = "0.2.0"

_NAMES = {  # module: the public names that it defines
    "api": ["open_data", "open_trained", "train"],
    "authoring": ["LazyModules", "check_features", "check_image_size", "check_value_range"],
    "compat": ["tf"],
    "data.column": ["Column"],
    "data.decoded": ["Decoded"],
    "data.examples": ["Dataset", "Split"],
    "data.files.cache": ["cache_folder"],
    "data.normalization": ["normalize"],
    "data.readers.pipeline": ["read_dataset"],
    "data.spec": ["DataSpec"],
    "display.grid": ["save_grid"],
    "display.waits": ["waiting"],
    "errors": [
        "CheckFailed",
        "CheckpointError",
        "DataError",
        "DivergedError",
        "InterruptedRun",
        "RetryError",
        "ToolkitError",
        "UsageError",
    ],
    "files": ["atomic_write"],
    "graph.run": ["Run"],
    "hookspecs": ["hookimpl"],
    "inference.sampling": ["SampleRequest"],
    "inference.scorer": ["ScoreResult", "Scorer"],
    "inference.trained_model": ["Trained"],
    "options": ["AugmentationOptions", "Options", "SampleOptions", "option"],
    "options.groups": ["Group", "OptimizerArguments"],
    "run_cache": ["cached_run", "data_options"],
    "training.driven": ["DrivenRun"],
    "training.hooks.base": ["Every", "SessionHook"],
    "training.hooks.sample_grids": ["SampleGrids"],
}
_HOME = {name: f"toolkit.{module}" for module, names in _NAMES.items() for name in names}
_MODULES = ("augmentation", "cli_options", "convolutions", "statistics")  # public modules

__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'toolkit' has no attribute '{name}'")


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
