"""`toolkit export`: write a trained model as a SavedModel."""

from __future__ import annotations

from typing import Optional

import click

from .. import cli_options as shared
from ..display.waits import waiting
from ..errors import UsageError
from .common import model_flags, print_result

OTHER_FORMATS = (".onnx", ".h5", ".hdf5", ".keras", ".pb", ".tflite")


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("folder", metavar="DIR")
@shared.checkpoint_option
@model_flags
def export(run_folder: str, folder: str, checkpoint: Optional[str], as_json: bool) -> None:
    """Write a trained model as a SavedModel in DIR, a new or empty folder.

    The SavedModel is loaded again, and its predictions are compared with the model's.
    """
    if folder.lower().endswith(OTHER_FORMATS):
        raise UsageError(
            f"{folder} would be a SavedModel, which is a folder, by the name of another format.",
            hint="Name a folder; converters of that format read it.",
        )
    path = shared.resolve_output(folder, is_folder=True)
    from ..api import open_trained

    with waiting(f"Exporting {run_folder}"), open_trained(
        run_folder, checkpoint, shared.warn
    ) as model:
        from ..inference.export import describe_input_hooks

        result = dict(model.export(path), folder=folder)
    lines = [
        f"{folder}  step {result['step']}, {result['signature']}: "
        f"{', '.join(result['inputs'])} -> {', '.join(result['outputs'])}; largest "
        f"difference {result['largest_difference']:.1g} on {result['checked_on']} examples"
    ]
    hooks = result["input_hooks"]
    lines += describe_input_hooks(hooks).splitlines() if hooks else []
    print_result(as_json, result, lines)
