"""Evaluate checkpoints of a run on a split, of its own data or of other data.

`evaluate` is behind `toolkit evaluate` and `toolkit.Trained.evaluate`; `OpenEvaluation` evaluates
many checkpoints with one graph.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Optional, Tuple

from ..data.examples import Split
from ..data.same_data import check_fit, summarize
from ..data_value import complete
from ..errors import DataError, UsageError, suggest
from ..options import CoreOptions
from ..run_data import RunData, open_other_data, open_run_data
from ..storage.commit_log import Checkpoint
from ..storage.run_folder import RunFolder
from .report import report
from .trained_model import TrainedModel


def evaluate(model: TrainedModel, **subject: Any) -> Dict[str, Any]:
    """Evaluate the checkpoint with which a run was opened, and write reports to its folder; the
    subject are arguments of `OpenEvaluation`. Returns what `report` returns, with "data", its name,
    and "run".
    """
    with contextlib.closing(OpenEvaluation(model, **subject)) as evaluation:
        result = evaluation.report(model.checkpoint, model.run_folder)
    return dict(result, data=evaluation.data_name, run=str(model.run_folder))


class OpenEvaluation:
    """The data and the graph of an evaluation. `close` it at the end.

    Args:
        model: of the run.
        split: its name; None for the default: "test", or `default_split` if the run's data has it.
            The attribute is "all" for data without splits of its own.
        data: to use in place of the run's own.
        tta: whether to use test-time augmentation; None for the run's own choice.
        log: called with notes on other data.

    Raises:
        DataError: the data does not fit the model, or is not that of the run.
        UsageError: there is no such split, or no test-time augmentation.
    """

    def __init__(
        self,
        model: TrainedModel,
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
        if run_data.spec.num_classes > model.data.num_classes > 0:
            raise DataError(
                f"The data has {run_data.spec.num_classes} classes, the model was trained on "
                f"{model.data.num_classes}."
            )
        is_whole = bool(data) and split is None and list(run_data.splits) == ["train"]
        has_default = data is None and bool(run_data.splits.get(default_split))
        if split is None:
            split = default_split if has_default else "test"
        examples = run_data.prepare_split("train" if is_whole else split)
        if examples is None:
            raise UsageError(
                f"{data or options.data} has no split '{split}'.",
                hint=suggest(split, run_data.splits),
            )
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
        evaluator, step, data = self._evaluator, checkpoint.step, self._data or ""
        evaluator.load(checkpoint.path)
        plugins, examples = self._model.plugins, self._examples
        return report(plugins, evaluator, folder, self.split, examples, step, data)

    def close(self) -> None:
        self._evaluator.close()


def _open_data(
    model: TrainedModel, data: Optional[str], log: Callable[[str], None]
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
