"""Evaluate checkpoints of a run on a split, of its own data or of other data.

`evaluate` is behind `toolkit evaluate` and `toolkit.Trained.evaluate`; `OpenEvaluation` evaluates
many checkpoints with one graph; `report` evaluates a split, and lets the plugins write reports.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

import numpy as np

from ..data.examples import Split
from ..data.same_data import check_fit, summarize
from ..data_value import complete
from ..errors import DataError, ToolkitError, UsageError, suggest
from ..options import CoreOptions
from ..plugins import Plugins, Problem, describe_value
from ..run_data import RunData, open_other_data, open_run_data
from ..storage.commit_log import Checkpoint
from ..storage.report_folder import open_report_folder
from ..storage.run_folder import RunFolder
from .evaluator import Evaluator
from .example_values import write_examples

if TYPE_CHECKING:
    from .trained_model import Trained

PAGE = "page"  # the key of what plugins show on the page of a run, see docs/plugins/pages.md
# What an evaluation says by itself; the plugins may add more.
_OF_CORE = (
    *("split", "step", "examples", "metrics", "intervals", "intervals_omitted", "directions"),
    *("depends_on", "examples_sha256", "reports", "reports_omitted", "checkpoint"),
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def evaluate(model: Trained, **subject: Any) -> Dict[str, Any]:
    """Evaluate the checkpoint with which a run was opened, and write reports to its folder; the
    subject are arguments of `OpenEvaluation`. Returns what `report` returns, with "data", its name,
    and "run".
    """
    with contextlib.closing(OpenEvaluation(model, **subject)) as evaluation:
        assert model.saved is not None  # it was opened with a checkpoint
        result = evaluation.report(model.saved, model.run_folder)
    return dict(result, data=evaluation.data_name, run=str(model.run_folder))


class OpenEvaluation:
    """The data and the graph of an evaluation. `close` it at the end.

    A split of None is "test", or `default_split` if the run's data has it; the attribute is "all"
    for data without splits of its own. `data` takes the place of the run's own. `tta`, test-time
    augmentation, is by default the run's choice. `log` is called with notes on other data.

    Raises DataError if the data does not fit the model, or is not that of the run; UsageError if
    there is no such split, or no test-time augmentation.
    """

    def __init__(
        self,
        model: Trained,
        split: Optional[str] = None,
        data: Optional[str] = None,
        tta: Optional[bool] = None,
        default_split: str = "test",
        log: Callable[[str], None] = lambda text: None,
    ):
        model.set_tta(tta)
        data = data and complete(data)
        self._model, self._data = model, data
        run_data, options, own_splits = _open_data(model, data, log)
        self.data_name = data or run_data.dataset.name
        check_fit(run_data.spec.flat, model.data, "The data")
        is_whole = bool(data) and split is None and list(run_data.splits) == ["train"]
        has_default = data is None and bool(run_data.splits.get(default_split))
        if split is None:
            split = default_split if has_default else "test"
        examples = run_data.prepare_split("train" if is_whole else split)
        if examples is None:
            raise UsageError(
                f"{self.data_name} has no split '{split}'.",
                hint=suggest(split, run_data.splits),
            )
        if options is not model.options and not is_whole:  # with the place of the run's own data
            log(f"{data} is the data of the run: its split '{split}' alone is evaluated")
        self._examples = examples
        self.split = "all" if is_whole else split
        self._evaluator = model.evaluator("eval", options=options, splits=own_splits)

    def identity(self) -> Dict[str, Any]:
        """What the metrics depend on besides the checkpoint: JSON values by name."""
        has_tta = bool(getattr(self._model.options, "tta", False))
        return {"split": self.split, "data": self.data_name, "tta": has_tta}

    def measure(self, checkpoint: Checkpoint) -> Dict[str, Any]:
        """Evaluate a checkpoint of the run, and write nothing to its folder."""
        result = self.report(checkpoint, None)
        return dict(result, tensors=checkpoint.tensors, **self.identity())

    def report(self, checkpoint: Checkpoint, folder: Optional[RunFolder]) -> Dict[str, Any]:
        """Evaluate a checkpoint of the run, and write reports to its folder, if one is given."""
        self._evaluator.load(checkpoint.path)
        subject = self.split, self._examples, checkpoint.step, self._data or ""
        return report(self._model.plugins, self._evaluator, folder, *subject)

    def close(self) -> None:
        self._evaluator.close()


def _open_data(
    model: Trained, data: Optional[str], log: Callable[[str], None]
) -> Tuple[RunData, CoreOptions, Callable[[str], Optional[Split]]]:
    """The data of the run, or the data that `data` names; the run's options, with the place of its
    own data; and the function from a name to a split of the run's own data, for scores.
    """
    if data is None:
        run_data = model.run_data()
        return run_data, model.options, run_data.prepare_split
    record, options = model.manifest["data"], model.options
    run_data = open_other_data(model.plugins, options, data, model.stored)
    hashes = summarize(run_data.dataset.sha256)
    if hashes == summarize(record["sha256"]):  # the run's data at another place
        moved = options.model_copy(update={"data": data})
        run_data = model.check_data(open_run_data(model.plugins, moved))
        return run_data, moved, run_data.prepare_split
    for note in run_data.dataset.notes:
        log(f"{data}: {note}")

    def own_split(name: str) -> Optional[Split]:  # few plugins need it
        try:
            return model.run_data().prepare_split(name)
        except DataError as error:
            raise DataError(
                error.message,
                hint="The scores need the data that the run was trained on, too. Put it back.",
            ) from error

    return run_data, options, own_split


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
    reports to `reports/NAME-STEP` in the run's folder, if it can be written. With a folder of None
    none are kept: where another process trains the run, they would take the places of its own.
    `other_data` is the value of --data if it is not the run's own. Raises RetryError on a full
    disk.

    The result has JSON values: "split", "step", "examples", "metrics", "intervals" of those of them
    that have one, "intervals_omitted" with the reasons of others, "reports" if there are any, or
    else "reports_omitted" if they could not be written, "lines" and "details" if a scorer returned
    some, and what plugins add. For comparisons with other results: "directions" (name -> "min" or
    "max"), "depends_on" (name of a scorer's metric -> what its values depend on besides the model),
    and "examples_sha256", the hash of the split's content, unless examples have to be decoded.
    """
    place = f"{name}-{step}"
    if other_data:
        place += "-" + hashlib.sha256(os.fsencode(other_data)).hexdigest()[:6]
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
        if name in _OF_CORE:
            text = f"returned '{name}', which the evaluation has itself"
            return Problem(text, "Give it another name; the hook 'metrics' adds metrics.")
        try:
            json.dumps(item)
        except (TypeError, ValueError):
            text = f"returned {describe_value(item)} for '{name}', expected a JSON value"
            return Problem(text, hint)
    return None
