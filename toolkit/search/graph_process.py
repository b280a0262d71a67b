"""The process that checks configurations: it builds the graphs of a run, and may time its steps."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from typing import Any, Callable, List, Mapping, Tuple

from ..config import run_values
from ..display.console import Console
from ..errors import DivergedError, ToolkitError, UsageError
from ..options import CoreOptions, Resolved
from ..plugins import Plugins, describe_failure
from ..preset_choice import choose_by_data
from ..run_data import open_run_data
from ..storage.jsonl import JsonLines, read_json
from ..storage.run_folder import RunFolder
from ..training.trainer import Job, Trainer
from .definition import Definition
from .graphs import Answer
from .trial_options import budget_steps, load_plugins, resolve_trial

_SAMPLE_SECS = 0.05
_PROBE_STEPS = 10**9  # so that the time ends a probe
_MIN_SAMPLES = 4


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
                cpu_secs = _time_step(definition, values, place, probe_secs)
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
    plugins = load_plugins(definition)
    resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values))
    options = resolved.options
    per_step = options.batch_size * options.batches_per_step
    length = budget_steps(definition.budget, per_step)
    if length is not None:
        resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values, length))
    trainer = _open_trainer(plugins, resolved, folder, Console())
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


def _open_trainer(plugins: Plugins, resolved: Resolved, folder: str, console: Console) -> Trainer:
    """Return the trainer of a run that has not begun: its graphs are built, nothing is written."""
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
    data = open_run_data(plugins, resolved.options, origins=resolved.origins)
    if not data.splits.get("validation"):
        raise UsageError(
            "The data has no validation split, by which a search chooses.",
            hint="Set --validation-share.",
        )
    return len(data.splits["train"])


# ------------------------------------------------------------------------------------------- probe


def _time_step(
    definition: Definition, values: Mapping[str, Any], folder: str, probe_secs: float
) -> float:
    """Train for a while; return the CPU seconds of a step, 0 if it is too slow to be timed."""
    plugins = load_plugins(definition)
    resolved = choose_by_data(plugins, resolve_trial(plugins, definition, values, _PROBE_STEPS))
    options: CoreOptions = resolved.options.model_copy(
        update={
            "evaluate": False,
            "best_metric": None,
            "early_stopping": 0,
            "max_secs": probe_secs,
            "checkpoint_steps": None,
            "checkpoint_secs": 10 * probe_secs,
            "intra_op_threads": definition.threads or resolved.options.intra_op_threads,
            "inter_op_threads": definition.threads or resolved.options.inter_op_threads,
            "xla": "off",
        }
    )
    console = _Samples()
    place = os.path.join(folder, "probe")
    trainer = _open_trainer(plugins, resolved._replace(options=options), place, console)
    start = time.process_time()
    try:
        trainer.train()
    except DivergedError:  # so does a trial, if it is not much shorter
        if len(console.samples) < 2:
            return time.process_time() - start
    finally:
        console.stop()
        trainer.close()
    samples = console.samples
    late = [sample for sample in samples if sample[2] >= _warm_time(samples)]
    samples = late if len(late) >= _MIN_SAMPLES else samples
    if len(samples) < 2:
        return 0.0
    (first, start, _), (last, end, _) = samples[0], samples[-1]
    return (end - start) / (last - first)


def _warm_time(samples: List[Tuple[int, float, float]]) -> float:
    """Return the time after the first third of the samples' time, in which steps are slower."""
    if not samples:
        return 0.0
    first, last = samples[0][2], samples[-1][2]
    return first + (last - first) / 3


class _Samples(Console):
    """A silent console that samples the step and the processor time of the process."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: List[Tuple[int, float, float]] = []  # step, CPU seconds, seconds
        self._end = threading.Event()

    def start(self, total_steps: int, read_step: Callable[[], int]) -> None:
        threading.Thread(target=self._sample, args=(read_step,), daemon=True).start()

    def _sample(self, read_step: Callable[[], int]) -> None:
        while not self._end.wait(_SAMPLE_SECS):
            step = read_step()
            if step and (not self.samples or step > self.samples[-1][0]):
                self.samples.append((step, time.process_time(), time.monotonic()))

    def stop(self) -> None:
        self._end.set()

    def log(self, text: str) -> None:
        pass

    def show_metrics(self, record: Mapping[str, Any]) -> None:
        pass
