"""The process that checks configurations: it builds the graphs of a run, but trains none."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any, Mapping

from ..config import run_values
from ..display.console import Console
from ..errors import ToolkitError, UsageError
from ..options import Resolved
from ..plugins import Plugins, describe_failure
from ..preset_choice import choose_by_data
from ..run_data import open_run_data
from ..storage.run_folder import RunFolder
from ..training.trainer import Job, Trainer
from .definition import Definition
from .graphs import Answer
from .trial_options import budget_steps, load_plugins, naming_values, resolve_trial


def main() -> None:
    """Answer the question on stdin: write answers and a fault to stdout, and nothing else."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)  # plugins may print
        definition, values = json.load(sys.stdin)
        definition, fault = Definition.from_json(definition), None
        answers = []
        try:
            for each in values:
                with naming_values(each):
                    answers.append(_check(definition, each, sys.argv[1])._asdict())
        except ToolkitError as error:
            fault = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
        json.dump([answers, fault], output)


def _check(definition: Definition, values: Mapping[str, Any], folder: str) -> Answer:
    try:
        return _build(definition, values, folder)
    except ToolkitError:
        raise
    except Exception as error:  # of a plugin, where the core does not translate it
        failure = describe_failure(error)
        raise ToolkitError(f"It cannot be built: {failure.text}.", hint=failure.hint) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build(definition: Definition, values: Mapping[str, Any], folder: str) -> Answer:
    """Build the graphs of one configuration, like a run that has not begun; nothing is written."""
    plugins = load_plugins(definition)
    resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values))
    options = resolved.options
    per_step = options.batch_size * options.batches_per_step
    length = budget_steps(definition.budget, per_step)
    if length is not None:
        resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values, length))
    references = [each.reference for each in plugins.extensions]
    model, origins = plugins.model.reference, resolved.origins
    config = run_values(model, references, resolved.options, folder, origins)
    run_folder = RunFolder(folder, is_new=True)
    job = Job(plugins, resolved.options, run_folder, config, ["toolkit search"])
    trainer = Trainer(job, Console())
    try:
        directions = trainer.evaluator.metric_directions()
        return Answer(
            metrics=list(directions),
            directions={name: d for name, d in directions.items() if d},
            best_metric=options.best_metric or "",
            interval=options.evaluate_steps or options.checkpoint_steps,
            num_examples=_count_examples(plugins, resolved),
            examples_per_step=per_step,
        )
    finally:
        trainer.close()


def _count_examples(plugins: Plugins, resolved: Resolved) -> int:
    """Return the number of training examples.

    Raises:
        UsageError: there is no validation split by which to choose.
    """
    data = open_run_data(plugins, resolved.options, origins=resolved.origins)
    if not data.splits.get("validation"):
        raise UsageError(
            "The data has no validation split, by which a search chooses.",
            hint="Set --validation-share.",
        )
    return len(data.splits["train"])
