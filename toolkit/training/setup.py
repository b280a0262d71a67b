"""From options and data to the reader and the `Run` of a training, wherever its graph is built."""

from __future__ import annotations

import math
from typing import Any

from ..data.reader import Reader, ReaderOptions, make_reader
from ..errors import UsageError
from ..graph.run import Run
from ..graph.step_strategy import PLAIN, PlainStep
from ..options import Options
from ..run_data import RunData


def total_steps(options: Any, num_examples: int) -> int:
    """The step to stop at: --steps, or the number of batches in --epochs, rounded up."""
    if options.steps is not None:
        return options.steps
    return max(1, math.ceil(options.epochs * num_examples / examples_per_step(options)))


def examples_per_step(options: Any) -> int:
    """How many examples a step reads."""
    return options.batch_size * options.batches_per_step


def check_examples(options: Any, count: int) -> None:
    """Raise UsageError where a step of several batches takes more examples than there are."""
    if options.batches_per_step > 1 and examples_per_step(options) > count:
        raise UsageError(
            f"A step takes {options.batches_per_step} batches of {options.batch_size} = "
            f"{examples_per_step(options)} examples, but the split 'train' has {count}.",
            hint="Take a smaller --batch-size, or fewer batches per step.",
        )


def training_reader(options: Any, run_data: RunData) -> Reader:
    """The reader of the split "train", in the current graph."""
    reader_options = ReaderOptions(
        kind=options.reader,
        seed=Run("train", options).seed("shuffle"),
        shuffle_buffer=options.shuffle_buffer,
        resident_limit=options.resident_limit << 20,
    )
    split, batch_size = run_data.splits["train"], examples_per_step(options)
    return make_reader(split, batch_size, reader_options, run_data.hooks)


def training_run(
    options: Options, run_data: RunData, folder: str, reader: Any, strategy: PlainStep = PLAIN
) -> Run:
    """The `Run` in mode "train" that plugins are offered. folder: the run's path."""
    total = total_steps(options, reader.num_examples)
    return Run("train", options, run_data.spec, folder, total, strategy)
