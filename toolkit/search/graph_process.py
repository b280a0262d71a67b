"""The process that checks configurations: it builds the graphs of a run, but trains none."""

from __future__ import annotations

import shutil
import threading
import time
from typing import Any, Callable, List, Mapping, Tuple

from ..config import run_values
from ..display.console import Console
from ..errors import DivergedError, ToolkitError, UsageError
from ..options import CoreOptions, Resolved
from ..plugins import Plugins, choose, describe_failure
from ..run_data import open_run_data
from ..storage.jsonl import read_json
from ..storage.run_folder import RunFolder
from ..training.trainer import Job, Trainer
from .graph_check import BUILD, PROBE, Answer, Request, budget_steps, write_answer
from .resolution import TrialOptions

_SAMPLE_SECS = 0.05
_PROBE_STEPS = 10**9  # so that the time ends a probe
_MIN_SAMPLES = 4


def main(place: str) -> None:
    """Answer a request.

    Args:
        place: the path of its files, without their endings.
    """
    request = Request.from_json(read_json(place + ".json"))
    for reference in [request.plugin, *request.extensions]:
        choose(reference)  # the command that asks has checked whether they are trusted
    for position, values in enumerate(request.values):
        is_timed = request.task == PROBE and position == 0
        each = request if is_timed else request._replace(task=BUILD, probe_secs=0.0)
        write_answer(place + ".jsonl", _answer(each, values, place + "-run"))


def _answer(request: Request, values: Mapping[str, Any], folder: str) -> Answer:
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    try:
        plugins = Plugins.load(request.plugin, request.extensions)
        answer = _check(request, plugins, values, folder)
        return answer._replace(start_secs=time.monotonic() - start - request.probe_secs)
    except ToolkitError as error:
        return Answer(error.message, error.hint, error.exit_code)
    except Exception as error:  # of a plugin, where the core does not translate it
        return Answer(f"It cannot be built: {describe_failure(error)}.", "", 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check(request: Request, plugins: Plugins, values: Mapping[str, Any], folder: str) -> Answer:
    trial_options = TrialOptions(plugins, request.layers, request.flags)
    resolved = trial_options.resolve_for_data(values)
    options = resolved.options
    per_step = options.batch_size * options.batches_per_step
    length = budget_steps(request.budget, per_step)
    if length is not None:
        resolved = trial_options.resolve_for_data(values, length)
    trainer = _open_trainer(plugins, resolved, folder + "/run", Console())
    try:
        directions = trainer.evaluator.metric_directions()
        answer = Answer(
            metrics=list(directions),
            directions={name: d for name, d in directions.items() if d},
            best_metric=options.best_metric or "",
            interval=options.evaluate_steps or options.checkpoint_steps,
            num_examples=_count_examples(plugins, resolved),
            examples_per_step=per_step,
            total_steps=trainer.total_steps,
        )
    finally:
        trainer.close()
    if request.task == PROBE:
        cpu_secs, secs = _time_steps(request, trial_options, values, folder + "/probe")
        answer = answer._replace(cpu_secs_per_step=cpu_secs, secs_per_step=secs)
    return answer


def _open_trainer(plugins: Plugins, resolved: Resolved, path: str, console: Console) -> Trainer:
    """Return the trainer of a run that has not begun: its graphs are built, nothing is written."""
    model, others = plugins.model.reference, [each.reference for each in plugins.extensions]
    config = run_values(model, others, resolved.options, path, resolved.first_origins)
    job = Job(plugins, resolved.options, RunFolder(path, is_new=True), config, ["toolkit search"])
    return Trainer(job, console)


def _count_examples(plugins: Plugins, resolved: Resolved) -> int:
    """Return the number of training examples.

    Raises:
        UsageError: there is no validation split by which to choose.
    """
    data = open_run_data(plugins, resolved.options, origins=resolved.first_origins)
    if not data.splits.get("validation"):
        raise UsageError(
            "The data has no validation split, by which a search chooses.",
            hint="Set --validation-share.",
        )
    return len(data.splits["train"])


# ------------------------------------------------------------------------------------------- probe


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


def _time_steps(
    request: Request, trial_options: TrialOptions, values: Mapping[str, Any], path: str
) -> Tuple[float, float]:
    """Train for a while; return the CPU seconds and the seconds of a step; zeros if it is too slow
    to be timed.
    """
    resolved = trial_options.resolve_for_data(values, _PROBE_STEPS)
    options: CoreOptions = resolved.options.model_copy(
        update={
            "evaluate": False,
            "best_metric": None,
            "early_stopping": 0,
            "max_secs": request.probe_secs,
            "checkpoint_steps": None,
            "checkpoint_secs": 10 * request.probe_secs,
            "intra_op_threads": request.threads or resolved.options.intra_op_threads,
            "inter_op_threads": request.threads or resolved.options.inter_op_threads,
            "xla": "off",
        }
    )
    console = _Samples()
    trainer = _open_trainer(
        trial_options.plugins, resolved._replace(options=options), path, console
    )
    cpu_start, start = time.process_time(), time.monotonic()
    try:
        trainer.train()
    except DivergedError:  # so does a trial, if it is not much shorter
        if len(console.samples) < 2:
            return time.process_time() - cpu_start, time.monotonic() - start
    finally:
        console.stop()
        trainer.close()
    samples = console.samples
    late = [sample for sample in samples if sample[2] >= _warm_time(samples)]
    samples = late if len(late) >= _MIN_SAMPLES else samples
    if len(samples) < 2:
        return 0.0, 0.0
    (first, cpu_start, start), (last, cpu_end, end) = samples[0], samples[-1]
    return (cpu_end - cpu_start) / (last - first), (end - start) / (last - first)


def _warm_time(samples: List[Tuple[int, float, float]]) -> float:
    """Return the time after the first third of the samples' time, in which steps are slower."""
    if not samples:
        return 0.0
    first, last = samples[0][2], samples[-1][2]
    return first + (last - first) / 3
