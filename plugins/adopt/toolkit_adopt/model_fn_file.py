"""Write the plugin of an Estimator's function: a file of a few lines, to be edited."""

from __future__ import annotations

import os

from toolkit import UsageError

_TEXT = """\
# The model function `{function}` of {module} as a plugin of the toolkit. ModelFn takes params=,
# feature= (the name of the features in a dict), one_hot= and flat=.
from toolkit_adopt import standins
from toolkit_adopt.lift.model_fn import ModelFn

with standins.installed():  # where `import tensorflow` gives version 1
    from {module} import {function}

plugin = ModelFn({function})
"""


def write_plugin(reference: str) -> str:
    """Write the plugin of a model function into the working directory, unless its file is there.

    Args:
        reference: MODULE:FUNCTION, a module of the working directory.

    Returns:
        What `--plugin` takes.

    Raises:
        UsageError: there is no such module, or its plugin is of another function.
    """
    module, _, function = reference.partition(":")
    module = module[: -len(".py")] if module.endswith(".py") else module
    if not function.isidentifier() or not all(map(str.isidentifier, module.split("."))):
        raise UsageError(
            f"--model-fn {reference} names no function of a module of the working directory.",
            hint="Write --model-fn my_model:model_fn, in the folder of my_model.py.",
        )
    path = module.replace(".", os.sep)
    if not os.path.isfile(path + ".py"):
        raise UsageError(f"--model-fn {reference}: there is no file {path}.py.")
    name = module.rpartition(".")[2] + "_plugin"
    if os.path.exists(name + ".py"):
        with open(name + ".py", encoding="utf-8") as file:
            if f"ModelFn({function}" not in file.read():
                raise UsageError(
                    f"{name}.py is there, and is no plugin of {function}.",
                    hint=f"Rename it; it is trained by: toolkit run --plugin {name}:plugin",
                )
    else:
        with open(name + ".py", "w", encoding="utf-8") as file:
            file.write(_TEXT.format(module=module, function=function))
    return f"{name}:plugin"
