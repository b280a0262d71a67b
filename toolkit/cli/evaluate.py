"""`toolkit evaluate`: metrics and reports of a trained model on a split."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, NamedTuple, Optional

import click

from ..cli_options import checkpoint_option, json_option, print_json, trust_option, verbose_option
from .common import open_with_warnings, set_tta, tta_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@checkpoint_option
@click.option(
    "--split",
    default=None,
    metavar="train|validation|test",
    help="Split; default: test, or all of --data if it has no splits of its own.",
)
@click.option(
    "--data",
    default=None,
    metavar="DATA",
    help="Data to use instead of the run's own; its classes are matched by name.",
)
@tta_option
@trust_option
@json_option
@verbose_option
def evaluate(
    run_folder: str,
    checkpoint: Optional[str],
    split: Optional[str],
    data: Optional[str],
    tta: Optional[bool],
    as_json: bool,
) -> None:
    """Evaluate a trained model on a split of the data.

    The plugin may write reports into the run's folder.
    """
    with open_with_warnings(run_folder, checkpoint) as trained:
        set_tta(trained, tta)
        result = _measure(trained, split, data)
        result["run"] = str(trained.run_folder)
    if as_json:
        print_json(result)
    else:
        _print(result, trained.step)


def _measure(trained: Any, split: Optional[str], data: Optional[str]) -> Dict[str, Any]:
    """Evaluate an open run on a split, of other data if `data` names some."""
    from ..errors import UsageError, suggest
    from ..inference.report import report

    run_data, options, own_splits = _open_data(trained, data)
    _check_fit(run_data.spec, trained.data)
    is_whole = bool(data) and split is None and list(run_data.splits) == ["train"]
    split = "test" if split is None else split
    examples = run_data.prepare_split("train" if is_whole else split)
    if examples is None:
        raise UsageError(
            f"{data or options.data} has no split '{split}'.",
            hint=f"{suggest(split, run_data.splits)} Name one with --split.",
        )
    evaluator = trained.evaluator("eval", options=options, splits=own_splits)
    try:
        evaluator.load(trained.checkpoint.path)
        result = report(
            trained.plugins,
            evaluator,
            trained.run_folder,
            "all" if is_whole else split,
            examples,
            trained.step,
            data or "",
        )
    finally:
        evaluator.close()
    return dict(result, data=data or run_data.dataset.name)


class _OpenData(NamedTuple):
    """What is evaluated, and the run's own data, which scores compare it with."""

    run_data: Any  # the `RunData` to evaluate
    options: Any  # of the run, with the place of its own data
    own_splits: Callable[[str], Any]  # the name of a split -> the `Split` of the run's own data


def _open_data(trained: Any, data: Optional[str]) -> _OpenData:
    """Open the data of the run, or the data that `data` names; notes on it go to stderr."""
    from ..data.files.hash_list import summarize
    from ..data.spec import DataSpec
    from ..run_data import open_other_data, open_run_data

    if data is None:
        run_data = trained.run_data()
        return _OpenData(run_data, trained.options, run_data.prepare_split)
    record, options = trained.manifest["data"], trained.options
    run_data = open_other_data(trained.plugins, options, data, DataSpec.from_json(record["stored"]))
    hashes = summarize(run_data.dataset.sha256)
    if hashes == summarize(record["sha256"]):  # the run's data at another place
        moved = options.model_copy(update={"data": data})
        run_data = trained.check_data(open_run_data(trained.plugins, moved))
        return _OpenData(run_data, moved, run_data.prepare_split)
    for note in run_data.dataset.notes:
        sys.stderr.write(f"{data}: {note}\n")
    return _OpenData(run_data, options, lambda name: _own_split(trained, name))


def _own_split(trained: Any, name: str) -> Any:
    """A split of the run's own data, which is opened on first use: few plugins need it."""
    from ..errors import DataError

    try:
        return trained.split(name)
    except DataError as error:
        raise DataError(
            error.message,
            hint="The scores need the data that the run was trained on, too. Put it back.",
        ) from error


def _print(result: Dict[str, Any], step: int) -> None:
    from .common import print_details

    metrics = "  ".join(f"{name} {value:.4f}" for name, value in sorted(result["metrics"].items()))
    sys.stdout.write(
        f"{result['split']:7} {metrics}  ({result['examples']} examples, step {step})\n"
    )
    print_details(result.get("lines", ()))
    if "reports" in result:
        sys.stdout.write(f"reports {result['run']}/{result['reports']}\n")
    if "reports_omitted" in result:
        sys.stderr.write(f"warning: no report is kept: {result['reports_omitted']}\n")


def _check_fit(spec: Any, expected: Any) -> None:
    """Raise DataError if the model cannot be fed the data.

    Args:
        spec: the `DataSpec` of the data.
        expected: the `DataSpec` that the model was trained on.
    """
    from ..data.same_data import check_fit
    from ..errors import DataError

    check_fit(spec.flat, expected, "The data")
    if spec.num_classes > expected.num_classes > 0:
        raise DataError(
            f"The data has {spec.num_classes} classes, the model was trained on "
            f"{expected.num_classes}."
        )
