"""The settings with which a run's plugin draws samples."""

from __future__ import annotations

import inspect
from typing import Type

from ..errors import ToolkitError
from ..options import SampleOptions
from ..plugins import Plugins

# The flags of `toolkit sample`, their names in code, and the arguments of `Trained.sample`.
SAMPLE_FLAGS = frozenset(
    ["run_folder", "count", "seed", "out", "output", "class", "class_", "label", "checkpoint"]
    + ["json", "as_json", "verbose", "trust", "help"]
)


def sample_options_class(plugins: Plugins) -> Type[SampleOptions]:
    """What the hook `sample_options` of the model plugin returns; without it, `SampleOptions`.
    Raises ToolkitError if the hook failed, or returned something else, or a setting has the name of
    a flag.
    """
    if not plugins.has_hook("sample_options"):
        return SampleOptions
    cls = plugins.call_hook("sample_options")
    if not (inspect.isclass(cls) and issubclass(cls, SampleOptions)):
        raise ToolkitError(
            f"Hook 'sample_options' of plugin '{plugins.model.name}' returned {cls!r}.",
            hint="It returns a class derived from toolkit.SampleOptions.",
        )
    for name in sorted(SAMPLE_FLAGS & set(cls.model_fields)):
        raise ToolkitError(
            f"Hook 'sample_options' of plugin '{plugins.model.name}' has the setting '{name}', a "
            "name that 'toolkit sample' uses.",
            hint="Rename it.",
        )
    return cls
