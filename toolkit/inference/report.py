"""Evaluate a split and let the plugins write reports."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
from typing import Any, Dict, Optional

import numpy as np

from ..data.examples import Split
from ..errors import ToolkitError
from ..plugins import Plugins, Problem, describe_value
from ..storage.report_folder import open_report_folder
from ..storage.run_folder import RunFolder
from .evaluator import Evaluator
from .example_values import write_examples

PAGE = "page"  # the key of what plugins show on the page of a run, see docs/plugins/pages.md
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def report(
    plugins: Plugins,
    evaluator: Evaluator,
    folder: Optional[RunFolder],
    name: str,
    split: Split,
    step: int,
    other_data: str = "",
) -> Dict[str, Any]:
    """Evaluate a split of a name with the loaded checkpoint of a step, and write the plugins'
    reports.

    Args:
        folder: of the run; reports go to `reports/NAME-STEP` in it, if it can be written, those of
            test-time augmentation to `reports/NAME-STEP-tta`. None to keep none: in the folder of a
            run that another process trains, they would take the places of its own.
        other_data: the value of --data if it is not the run's own; such reports go to another
            folder.

    Returns:
        The result as JSON values: "split", "step", "examples", "metrics", "intervals" of those of
        them that have one, "intervals_omitted" with the reasons of others, "reports" if there are
        any, or else "reports_omitted" if they could not be written, "lines" and "details" if a
        scorer returned some, and what plugins add. For comparisons with other results: "directions"
        (name -> "min" or "max"), "depends_on" (name of a scorer's metric -> what its values depend
        on besides the model), and "examples_sha256", the hash of the split's content, unless
        examples have to be decoded for it.

    Raises:
        RetryError: the disk is full.
    """
    place = f"{name}-{step}"
    if other_data:
        place += "-" + hashlib.sha256(other_data.encode("utf-8")).hexdigest()[:6]
    if getattr(evaluator.run.options, "tta", False):
        place += "-tta"
    result: Dict[str, Any] = {"split": name, "step": step, "examples": len(split)}
    batch_size, has_hook = evaluator.run.options.eval_batch_size, plugins.has_hook("evaluated")
    with open_report_folder(folder, place) as reports:
        try:
            evaluation = evaluator.evaluate(split, batch_size, has_hook, reports.path)
            answers = plugins.call_hook(
                "evaluated",
                _check_answer,
                run=evaluator.run,
                split=name,
                step=step,
                metrics=evaluation.metrics,
                examples=evaluation.examples,
                folder=reports.path,
            )
        except ToolkitError as error:
            cause = error.__cause__
            if folder and isinstance(cause, OSError) and cause.errno in _NO_SPACE:
                raise folder.write_error(cause.strerror or str(cause)) from error
            raise
        details = dict(evaluation.details)
        page = {PAGE: details.pop(PAGE)} if PAGE in details else {}
        shown = {"lines": evaluation.lines, **page, "details": details}
        result.update(metrics=evaluation.metrics, **evaluation.intervals.as_json())
        result.update((key, value) for key, value in shown.items() if value or key == PAGE)
        result.update(directions={}, depends_on=dict(evaluation.depends_on))
        with contextlib.suppress(ToolkitError):  # an invalid one: a check of plugins reports it
            directions = evaluator.metric_directions()
            result["directions"] = {name: each for name, each in directions.items() if each}
        if all(isinstance(column.values, np.ndarray) for column in split.columns.values()):
            result["examples_sha256"] = split.sha256()
        for answer in answers:
            result.update(answer or {})
        if folder is not None:
            with folder.writing():
                write_examples(reports.path, evaluation.metrics, evaluation.values)
    if reports.place:
        result["reports"] = reports.place
    elif reports.omission:
        result["reports_omitted"] = reports.omission
    return result


def _check_answer(value: Any) -> Optional[Problem]:
    """What is wrong with a value of the hook `evaluated`."""
    hint = "Return a dict of JSON values by name, or None; write other results to 'folder'."
    if not isinstance(value, dict):
        return Problem(f"returned {describe_value(value)}, expected a dict or None", hint)
    for name, item in value.items():
        try:
            json.dumps(item)
        except (TypeError, ValueError):
            text = f"returned {describe_value(item)} for '{name}', expected a JSON value"
            return Problem(text, hint)
    return None
