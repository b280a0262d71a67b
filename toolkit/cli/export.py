"""`toolkit export`: write a trained model as a SavedModel."""

from __future__ import annotations

import sys

import click

from .common import checkpoint_option, json_option, opened, print_json, verbose_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("folder", metavar="DIR")
@checkpoint_option
@json_option
@verbose_option
def export(run_folder, folder, checkpoint, as_json):
    """Write a trained model as a SavedModel, load it again and compare its predictions."""
    from ..inference.export import export as write

    with opened(run_folder, checkpoint) as trained:
        result = write(trained.predictor, folder)
    result["step"] = trained.step
    if as_json:
        return print_json(result)
    sys.stdout.write(
        f"{folder}  step {result['step']}, {result['signature']}: "
        f"{', '.join(result['inputs'])} -> {', '.join(result['outputs'])}; largest "
        f"difference {result['largest_difference']:.1g} on {result['checked_on']} examples\n"
    )
    return None
