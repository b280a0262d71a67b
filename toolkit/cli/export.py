"""`toolkit export`: write a trained model as a SavedModel."""

from __future__ import annotations

import sys
from typing import Optional

import click

from ..cli_options import (
    checkpoint_option,
    json_option,
    optional_output,
    print_json,
    resolve_output,
    trust_option,
    verbose_option,
)


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("folder", metavar="DIR")
@checkpoint_option
@trust_option
@json_option
@verbose_option
def export(run_folder: str, folder: str, checkpoint: Optional[str], as_json: bool) -> None:
    """Write a trained model as a SavedModel in DIR, a new or empty folder.

    The SavedModel is loaded again, and its predictions are compared with the model's.
    """
    from ..inference.export import describe_input_hooks
    from ..inference.export import export as write
    from .common import open_with_warnings

    path = resolve_output(folder, is_folder=True)
    with open_with_warnings(run_folder, checkpoint) as model:
        result = dict(write(model.predictor, path, model.example_inputs), folder=folder)
        result["step"] = model.step
    if as_json:
        return print_json(result)
    with optional_output():
        sys.stdout.write(
            f"{folder}  step {result['step']}, {result['signature']}: "
            f"{', '.join(result['inputs'])} -> {', '.join(result['outputs'])}; largest "
            f"difference {result['largest_difference']:.1g} on {result['checked_on']} examples\n"
        )
        if result["input_hooks"]:
            sys.stdout.write(describe_input_hooks(result["input_hooks"]) + "\n")
    return None
