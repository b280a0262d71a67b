"""Whether configurations can be trained: a process builds their graphs, but trains none.

`check_graphs` starts the process, whose code begins at `main`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ..config import run_values
from ..display.waits import waiting
from ..errors import InterruptedRun, RetryError, ToolkitError, UsageError
from ..options import Resolved
from ..plugins import Plugins, describe_failure
from ..preset_choice import choose_by_data
from ..storage.jsonl import JsonLines
from ..storage.manifest import read_json
from ..storage.run_folder import RunFolder
from .children import Children
from .definition import Definition
from .trial_options import budget_steps, load_plugins, resolve_trial, trial_environment

_STATEMENTS = "import sys; from toolkit.search.graphs import main; main(sys.argv[1])"


class Answer(NamedTuple):
    """What a check found of one configuration.

    Attributes:
        error: why it cannot be trained, a sentence; "" if it can.
        hint: the way out, a sentence.
        exit_code: of a run of it.
        metrics: the names of the metrics of the validation split.
        directions: "min" or "max" by the name of a metric that declares it.
        best_metric: --best-metric, "" for none.
        interval: --evaluate-steps or --checkpoint-steps; None if neither is set.
        num_examples: of the training split.
        examples_per_step: how many a step reads.
        cpu_secs_per_step: as a probe timed it, else 0.
    """

    error: str = ""
    hint: str = ""
    exit_code: int = 0
    metrics: Sequence[str] = ()
    directions: Mapping[str, str] = {}
    best_metric: str = ""
    interval: Optional[int] = None
    num_examples: int = 0
    examples_per_step: int = 1
    cpu_secs_per_step: float = 0.0


def check_graphs(
    definition: Definition, values: Sequence[Mapping[str, Any]], probe_secs: float = 0.0
) -> List[Answer]:
    """Build the graphs of configurations in a process of their own.

    Args:
        definition: of the study; it may lack what follows from the answers.
        values: of the options that vary, of each configuration.
        probe_secs: how long to train each one, to time its steps; 0: not at all.

    Returns:
        The answer for each configuration, in order.

    Raises:
        InterruptedRun: a signal ended the check.
        RetryError: the process died.
    """
    count = len(values)
    environment = trial_environment(definition, os.environ)
    with tempfile.TemporaryDirectory(prefix="toolkit-search-") as folder:
        answers, log_path = (os.path.join(folder, name) for name in ("answers.jsonl", "log"))
        with open(os.path.join(folder, "question.json"), "w", encoding="utf-8") as file:
            json.dump([definition.as_json(), list(values), probe_secs], file)
        wait = waiting(f"Checking {count} configuration{'s' * (count != 1)}")
        with wait, open(log_path, "ab") as log:
            code = Children().run([folder], log.fileno(), environment, statements=_STATEMENTS)
        found = [Answer(**each) for each in JsonLines(answers).read()]
        if code or len(found) != count:
            raise _process_error(code, log_path)
        return found


def _process_error(code: int, log: str) -> ToolkitError:
    if code in (130, 143):
        return InterruptedRun("The check was interrupted.", signum=code - 128)
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    sys.stderr.write(text)
    lines = text.strip().splitlines()
    return RetryError(
        f"The process that checks ended with exit code {code}: "
        f"{lines[-1] if lines else 'without a message'}",
        hint="Its messages are above.",
    )


# ----------------------------------------------------------------------------------- the process


def main(folder: str) -> None:
    """Answer the question in a folder."""
    question = read_json(os.path.join(folder, "question.json"))
    definition, probe_secs = Definition.from_json(question[0]), question[2]
    answers = JsonLines(os.path.join(folder, "answers.jsonl"))
    for values in question[1]:
        place = os.path.join(folder, "run")
        try:
            answer = _build(definition, values, place)
            if probe_secs:
                from .timing import time_step

                cpu_secs = time_step(definition, values, place, probe_secs)
                answer = answer._replace(cpu_secs_per_step=cpu_secs)
        except ToolkitError as error:
            answer = Answer(error.message, error.hint, error.exit_code)
        except Exception as error:  # of a plugin, where the core does not translate it
            failure = describe_failure(error)
            answer = Answer(f"It cannot be built: {failure.text}.", failure.hint, 1)
        shutil.rmtree(place, ignore_errors=True)
        answers.append_line(json.dumps(answer._asdict()))


def _build(definition: Definition, values: Mapping[str, Any], folder: str) -> Answer:
    """Build the graphs of one configuration, like a run that has not begun; nothing is written."""
    from ..display.console import Console  # imports TensorFlow

    plugins = load_plugins(definition)
    resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values))
    options = resolved.options
    per_step = options.batch_size * options.batches_per_step
    length = budget_steps(definition.budget, per_step)
    if length is not None:
        resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values, length))
    trainer = open_trainer(plugins, resolved, folder, Console())
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


def open_trainer(plugins: Plugins, resolved: Resolved, folder: str, console: Any) -> Any:
    """Return the trainer of a run that has not begun: its graphs are built, nothing is written."""
    from ..training.trainer import Job, Trainer

    references = [each.reference for each in plugins.extensions]
    model, origins = plugins.model.reference, resolved.origins
    config = run_values(model, references, resolved.options, folder, origins)
    run_folder = RunFolder(folder, is_new=True)
    return Trainer(Job(plugins, resolved.options, run_folder, config, ["toolkit search"]), console)


def _count_examples(plugins: Plugins, resolved: Resolved) -> int:
    """Return the number of training examples.

    Raises:
        UsageError: there is no validation split by which to choose.
    """
    from ..run_data import open_run_data

    data = open_run_data(plugins, resolved.options, origins=resolved.origins)
    if not data.splits.get("validation"):
        raise UsageError(
            "The data has no validation split, by which a search chooses.",
            hint="Set --validation-share.",
        )
    return len(data.splits["train"])
