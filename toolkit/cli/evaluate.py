"""`toolkit evaluate`: metrics and reports of a trained model on a split."""

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
@checkpoint_option
@click.option("--split", default="test", metavar="train|validation|test", help="Default: test.")
@click.option("--data", default=None, metavar="DATA", help="Other data than the run's own.")
@json_option
@verbose_option
def evaluate(run_folder, checkpoint, split, data, as_json):
    """Measure a trained model on a split; its plugin writes reports into the run's folder."""
    from ..errors import DataError, UsageError, nearest
    from ..evaluation import Evaluator
    from ..inputs import open_inputs
    from ..reporting import report

    trained = open_trained(run_folder)
    chosen = choose_checkpoint(trained, checkpoint)
    options = trained.options.model_copy(update={"data": data}) if data else trained.options
    inputs = open_inputs(trained.plugins, options)
    if (inputs.spec.shape, inputs.spec.dtype) != (trained.spec.shape, trained.spec.dtype):
        raise DataError(
            "The data has examples {} {}, the model was trained on {} {}.".format(
                list(inputs.spec.shape),
                inputs.spec.dtype,
                list(trained.spec.shape),
                trained.spec.dtype,
            ),
            hint="Choose other data, or bring images to the size with --image-size when training.",
        )
    if inputs.spec.num_classes > trained.spec.num_classes > 0:
        raise DataError(
            "The data has {} classes, the model was trained on {}.".format(
                inputs.spec.num_classes, trained.spec.num_classes
            )
        )
    examples = inputs.prepared(split)
    if examples is None:
        raise UsageError(
            "{} has no split '{}'.".format(options.data, split), hint=nearest(split, inputs.splits)
        )
    evaluator = Evaluator(trained.plugins, options, trained.spec, folder=trained.folder.path)
    try:
        evaluator.load(chosen.path)
        result = report(
            trained.plugins, evaluator, trained.folder, split, examples, chosen.step, data or ""
        )
    finally:
        evaluator.close()
    result["run"] = str(trained.folder)
    result["data"] = options.data
    if as_json:
        return print_json(result)
    metrics = "  ".join("{} {:.4f}".format(n, v) for n, v in sorted(result["metrics"].items()))
    sys.stdout.write(
        "{:8}{}  ({} examples, step {})\n".format(split, metrics, len(examples), chosen.step)
    )
    if "reports" in result:
        sys.stdout.write("reports {}/{}\n".format(trained.folder, result["reports"]))
    return None
