"""`toolkit evaluate`: metrics and reports of a trained model on a split."""

from __future__ import annotations

import sys

import click

from .common import checkpoint_option, json_option, opened, print_json, print_lines, verbose_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@checkpoint_option
@click.option("--split", default="test", metavar="train|validation|test", help="Default: test.")
@click.option("--data", default=None, metavar="DATA", help="Other data than the run's own.")
@json_option
@verbose_option
def evaluate(run_folder, checkpoint, split, data, as_json):
    """Measure a trained model on a split; its plugin writes reports into the run's folder."""
    from ..errors import UsageError, suggest
    from ..inference.report import report
    from ..run_data import open_run_data

    trained = opened(run_folder, checkpoint)
    options = trained.options.model_copy(update={"data": data}) if data else trained.options
    run_data = open_run_data(trained.plugins, options)
    _check_fit(run_data.spec, trained.data)
    examples = run_data.prepare_split(split)
    if examples is None:
        raise UsageError(
            f"{options.data} has no split '{split}'.", hint=suggest(split, run_data.splits)
        )
    evaluator = trained.evaluator("eval", options=options, splits=run_data.prepare_split)
    try:
        evaluator.load(trained.checkpoint.path)
        result = report(
            trained.plugins,
            evaluator,
            trained.run_folder,
            split,
            examples,
            trained.step,
            data or "",
        )
    finally:
        evaluator.close()
    result["run"] = str(trained.run_folder)
    result["data"] = options.data
    if as_json:
        return print_json(result)
    metrics = "  ".join(f"{n} {v:.4f}" for n, v in sorted(result["metrics"].items()))
    sys.stdout.write(f"{split:7} {metrics}  ({len(examples)} examples, step {trained.step})\n")
    print_lines(result.get("lines", ()))
    if "reports" in result:
        sys.stdout.write(f"reports {trained.run_folder}/{result['reports']}\n")
    return None


def _check_fit(found, expected) -> None:
    """Refuse data that the model cannot be fed. found, expected: `DataSpec`s."""
    from ..errors import DataError

    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise DataError(
            f"The data has examples {list(found.shape)} {found.dtype}, the model was "
            f"trained on {list(expected.shape)} {expected.dtype}.",
            hint="Choose other data, or bring images to the size with --image-size when training.",
        )
    if found.num_classes > expected.num_classes > 0:
        raise DataError(
            f"The data has {found.num_classes} classes, the model was trained on "
            f"{expected.num_classes}."
        )
