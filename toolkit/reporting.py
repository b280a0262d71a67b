"""Evaluate a split in full and let the plugins write their reports of it."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict

from .evaluation import Evaluator
from .folder import RunFolder
from .plugins import Plugins


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
    get a folder of their own.
    """
    evaluation = evaluator.evaluate(
        split, evaluator.run.options.eval_batch_size, keep_examples=True
    )
    place = os.path.join("reports", "{}-{}".format(name, step))
    if other_data:
        place += "-" + hashlib.sha256(other_data.encode("utf-8")).hexdigest()[:6]
    answers = plugins.ask(
        "evaluated",
        run=evaluator.run,
        split=name,
        step=step,
        metrics=evaluation.metrics,
        examples=evaluation.examples,
        folder=folder.subfolder(place),
    )
    result = {"split": name, "step": step, "examples": len(split), "metrics": evaluation.metrics}
    if os.listdir(folder.file(place)):
        result["reports"] = place
    else:
        os.removedirs(folder.file(place))
    for answer in answers:
        result.update(answer or {})
    return result
