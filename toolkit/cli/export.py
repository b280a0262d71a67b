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
        "{}  step {}, {}: {} -> {}; largest difference {:.1g} on {} examples\n".format(
            folder,
            result["step"],
            result["signature"],
            ", ".join(result["inputs"]),
            ", ".join(result["outputs"]),
            result["largest_difference"],
            result["checked_on"],
        )
    )
    return None
