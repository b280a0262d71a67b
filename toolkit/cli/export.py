"""`toolkit export`: write a trained model as a SavedModel."""

from __future__ import annotations

import sys

import click

from .common import (
    checkpoint_option,
    choose_checkpoint,
    json_option,
    open_trained,
    print_json,
    verbose_option,
)


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("folder", metavar="DIR")
@checkpoint_option
@json_option
@verbose_option
def export(run_folder, folder, checkpoint, as_json):
    """Write a trained model as a SavedModel, load it again and compare its predictions."""
    import numpy as np

    from ..evaluation import Evaluator
    from ..export import export as write

    trained = open_trained(run_folder)
    chosen = choose_checkpoint(trained, checkpoint)
    shape = [8] + list(trained.spec.shape)
    random = np.random.RandomState(0)
    if trained.spec.dtype == "uint8":
        features = random.randint(0, 256, shape).astype(np.uint8)
    else:
        features = random.standard_normal(shape).astype(np.float32)
    evaluator = Evaluator(
        trained.plugins, trained.options, trained.spec, "predict", trained.folder.path
    )
    try:
        evaluator.load(chosen.path)
        result = write(evaluator, folder, features)
    finally:
        evaluator.close()
    result["step"] = chosen.step
    if as_json:
        return print_json(result)
    sys.stdout.write(
        "{}  step {}, {}: features -> {}; largest difference {:.1g} on {} examples\n".format(
            folder,
            chosen.step,
            result["signature"],
            ", ".join(result["outputs"]),
            result["largest_difference"],
            result["checked_on"],
        )
    )
    return None
