"""Evaluate a split in full and let the plugins write their reports of it."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict

from ..plugins import Plugins
from ..storage.run_folder import RunFolder
from .evaluator import Evaluator


def report(
    plugins: Plugins,
    evaluator: Evaluator,
    folder: RunFolder,
    name: str,
    split,
    step: int,
    other_data: str = "",
) -> Dict[str, Any]:
    """Evaluate a split with the loaded checkpoint of `step`, and return what there is to print.

    name: of the split. other_data: the value of --data where it is not the run's own; its reports
    get a folder of their own. The result has "lines" and "details" where scorers gave some.
    """
    place = os.path.join("reports", f"{name}-{step}")
    if other_data:
        place += "-" + hashlib.sha256(other_data.encode("utf-8")).hexdigest()[:6]
    reports = folder.make_subfolder(place)
    try:
        result = _evaluated(plugins, evaluator, name, split, step, reports)
        if os.listdir(reports):
            result["reports"] = place
    finally:
        if not os.listdir(reports):
            os.removedirs(reports)
    return result


def _evaluated(plugins, evaluator, name: str, split, step: int, reports: str) -> Dict[str, Any]:
    """Evaluate with reports into an existing folder, and tell the plugins."""
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
    for key, value in (("lines", evaluation.lines), ("details", evaluation.details)):
        if value:
            result[key] = value
    for answer in answers:
        result.update(answer or {})
    return result
