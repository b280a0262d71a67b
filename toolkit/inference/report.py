"""Evaluate a split and let the plugins write reports."""

from __future__ import annotations

import errno
import hashlib
from typing import Any, Dict

from ..data.examples import Split
from ..errors import ToolkitError
from ..plugins import Plugins
from ..storage.report_folder import open_report_folder
from ..storage.run_folder import RunFolder
from .evaluator import Evaluator

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def report(
    plugins: Plugins,
    evaluator: Evaluator,
    folder: RunFolder,
    name: str,
    split: Split,
    step: int,
    other_data: str = "",
) -> Dict[str, Any]:
    """Evaluate a split with the loaded checkpoint and write the plugins' reports.

    Args:
        plugins: the run's plugins.
        evaluator: with the loaded checkpoint.
        folder: the run's folder; reports go to `reports/NAME-STEP` in it, if it can be written,
            those of test-time augmentation to `reports/NAME-STEP-tta`.
        name: of the split.
        split: its examples.
        step: of the checkpoint.
        other_data: the value of --data if it is not the run's own; such reports go to another
            folder.

    Returns:
        The result as JSON values: "split", "step", "examples", "metrics", "reports" if there are
        any, or else "reports_omitted" if they could not be written, "lines" and "details" if a
        scorer returned some, and what plugins add.

    Raises:
        RetryError: the disk is full.
    """
    place = f"{name}-{step}"
    if other_data:
        place += "-" + hashlib.sha256(other_data.encode("utf-8")).hexdigest()[:6]
    if getattr(evaluator.run.options, "tta", False):
        place += "-tta"
    with open_report_folder(folder, place) as reports:
        try:
            result = _evaluate(plugins, evaluator, name, split, step, reports.path)
        except ToolkitError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
                raise folder.write_error(cause.strerror or str(cause)) from error
            raise
    if reports.place:
        result["reports"] = reports.place
    elif reports.omission:
        result["reports_omitted"] = reports.omission
    return result


def _evaluate(
    plugins: Plugins, evaluator: Evaluator, name: str, split: Split, step: int, reports: str
) -> Dict[str, Any]:
    """Evaluate with reports into an existing folder, and call the hook `evaluated`."""
    batch_size = evaluator.run.options.eval_batch_size
    evaluation = evaluator.evaluate(split, batch_size, plugins.has_hook("evaluated"), reports)
    answers = plugins.call_hook(
        "evaluated",
        run=evaluator.run,
        split=name,
        step=step,
        metrics=evaluation.metrics,
        examples=evaluation.examples,
        folder=reports,
    )
    result = {"split": name, "step": step, "examples": len(split), "metrics": evaluation.metrics}
    if evaluation.lines:
        result["lines"] = evaluation.lines
    if evaluation.details:
        result["details"] = evaluation.details
    for answer in answers:
        result.update(answer or {})
    return result
