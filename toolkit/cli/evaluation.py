"""A trained run that is open to evaluate its checkpoints on a split, with one graph for all."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, NamedTuple, Optional


class Subject(NamedTuple):
    """What is evaluated besides the checkpoint.

    Attributes:
        split: its name; None for the default.
        data: the data to use in place of the run's own; None for that.
        tta: whether to use test-time augmentation; None for the run's own choice.
        default_split: "test", or another name to prefer to it if the run's data has such a split.
    """

    split: Optional[str] = None
    data: Optional[str] = None
    tta: Optional[bool] = None
    default_split: str = "test"


class OpenEvaluation:
    """The data and the graph of an evaluation. `close` it at the end.

    Args:
        trained: the run, from `open_trained` or `open_begun`.
        subject: what to evaluate.

    Attributes:
        split: the name of the split; "all" for data without splits of its own.
    """

    def __init__(self, trained: Any, subject: Subject):
        from ..errors import UsageError, suggest
        from .common import set_tta

        set_tta(trained, subject.tta)
        data = subject.data
        self._trained, self._data = trained, data
        run_data, options, own_splits = _open_data(trained, data)
        self._data_name = data or run_data.dataset.name
        _check_fit(run_data.spec, trained.data)
        is_whole = bool(data) and subject.split is None and list(run_data.splits) == ["train"]
        has_default = data is None and bool(run_data.splits.get(subject.default_split))
        default = subject.default_split if has_default else "test"
        split = default if subject.split is None else subject.split
        self._examples = run_data.prepare_split("train" if is_whole else split)
        if self._examples is None:
            raise UsageError(
                f"{data or options.data} has no split '{split}'.",
                hint=f"{suggest(split, run_data.splits)} Name one with --split.",
            )
        self.split = "all" if is_whole else split
        self._evaluator = trained.evaluator("eval", options=options, splits=own_splits)

    def identity(self) -> Dict[str, Any]:
        """What the metrics depend on besides the checkpoint: JSON values by name."""
        has_tta = bool(getattr(self._trained.options, "tta", False))
        return {"split": self.split, "data": self._data_name, "tta": has_tta}

    def report(self) -> Dict[str, Any]:
        """Evaluate the checkpoint with which the run was opened, and write reports to the run."""
        from ..inference.report import report

        trained = self._trained
        self._evaluator.load(trained.checkpoint.path)
        result = report(
            trained.plugins,
            self._evaluator,
            trained.run_folder,
            self.split,
            self._examples,
            trained.step,
            self._data or "",
        )
        return dict(result, data=self._data_name)

    def measure(self, checkpoint: Any) -> Dict[str, Any]:
        """Evaluate a checkpoint of the run, and write nothing to its folder."""
        from ..inference.report import measure

        self._evaluator.load(checkpoint.path)
        result = measure(
            self._trained.plugins, self._evaluator, self.split, self._examples, checkpoint.step
        )
        return dict(result, tensors=checkpoint.tensors, **self.identity())

    def close(self) -> None:
        self._evaluator.close()


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
