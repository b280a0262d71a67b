"""The processor time of a step: the process that checks configurations trains for a while."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, List, Mapping, Tuple

from ..display.console import Console
from ..errors import DivergedError
from ..options import CoreOptions
from ..preset_choice import choose_by_data
from .definition import Definition
from .graphs import open_trainer
from .trial_options import load_plugins, resolve_trial

_SAMPLE_SECS = 0.05
_PROBE_STEPS = 10**9  # so that the time ends a probe
_MIN_SAMPLES = 4


def time_step(
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
    trainer = open_trainer(plugins, resolved._replace(options=options), place, console)
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
