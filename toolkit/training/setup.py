"""What a training run is set up with: its job, its length, its reader and its `Run`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..compat import tf
from ..data.readers.batches import ReaderOptions
from ..data.readers.reader import Reader, is_resident, make_reader
from ..data.spec import DataSpec
from ..errors import UsageError
from ..graph.build import build_training
from ..graph.model_size import count_parameters, list_model_variables
from ..graph.replica import ALONE, Replica
from ..graph.run import Run
from ..graph.step_strategy import PLAIN, PlainStep
from ..options import (
    NOT_SET,
    ORIGINS,
    CoreOptions,
    Origin,
    Resolved,
    join_step,
    read_origins,
    split_step,
)
from ..plugins import Plugins
from ..preset_choice import choose_presets, update_config
from ..run_data import RunData, open_run_data
from ..storage.entries import Parent
from ..storage.run_folder import RunFolder

MAX_TOTAL_STEPS = 2**63 - 1  # what the global step can count
TIMED_RECORD_STEPS = 100  # at most from one record to the next of a run with --max-secs
FEW_EXAMPLES = 1000  # an evaluation of so many takes no time that matters


class Job(NamedTuple):
    """What to train."""

    plugins: Plugins
    resolved: Resolved  # the options, of which the data have to choose presets that are open
    folder: RunFolder
    config: Dict[str, Any]  # the contents of config.json
    argv: Sequence[str]  # the command, for the commit log
    pause_at: Optional[int] = None  # the step at which to pause, as if interrupted
    allow_other_data: bool = False  # in a resume

    @property
    def options(self) -> CoreOptions:
        """Those of the core and the plugins."""
        return self.resolved.options

    @property
    def origins(self) -> Dict[str, Origin]:
        """Where the values of the options come from, as config.json has it."""
        return read_origins(self.config.get(ORIGINS))


def open_job(job: Job, parent: Optional[Parent] = None) -> Tuple[Job, RunData]:
    """The job as it is trained, and its data, which decide the presets that were still open. The
    parent has the weights with which the run begins, or began. Raises ToolkitError if the data
    cannot be used, or options do not fit them.
    """
    folder, origins = job.folder, job.origins
    # The spec of the data with which the run began, if it does not begin now.
    recorded = None if folder.is_new else DataSpec.from_json(folder.state()["data"]["spec"])
    run_data = open_run_data(job.plugins, job.options, recorded, is_training=True, origins=origins)
    # The step of the run that init_from names, so that another run begins with the same weights.
    init_from = job.config.get("init_from")
    if init_from and parent is not None and parent.head:
        path, step = split_step(init_from)
        config = dict(job.config, init_from=join_step(path, step or parent.step))
        job = job._replace(config=config)
    if job.resolved.open_presets:
        now = choose_presets(job.resolved, run_data)
        job = job._replace(config=update_config(job.config, job.resolved, now), resolved=now)
    check_options(job.options, run_data, origins)
    return job, run_data


def total_steps(options: CoreOptions, num_examples: int) -> int:
    """The step to stop at: --steps, or the number of batches in --epochs, rounded up."""
    if options.steps is not None:
        return options.steps
    epochs = Fraction(str(options.epochs))  # as it is written: 1.1 is less than its float
    total = math.ceil(epochs * num_examples / examples_per_step(options))
    return min(max(1, total), MAX_TOTAL_STEPS)


def examples_per_step(options: CoreOptions) -> int:
    """How many examples a step reads."""
    return options.batch_size * options.batches_per_step


def record_steps(options: CoreOptions, total: int, run_data: RunData) -> int:
    """Training metrics are recorded at multiples of this number of steps.

    By default that is an epoch, but at least a fiftieth and at most a tenth of the run. It follows
    from options and data alone, so that a run that was killed records what one records that was
    not; a resume with another length, `total` in steps, records at other steps.
    """
    if options.log_steps is not None:
        return options.log_steps
    epoch = len(run_data.splits["train"]) // examples_per_step(options)
    steps = min(max(epoch, math.ceil(total / 50)), math.ceil(total / 10))
    # A run that ends by the clock may make few of its steps.
    return max(1, steps if options.max_secs is None else min(steps, TIMED_RECORD_STEPS))


def evaluation_steps(options: CoreOptions, total: int, run_data: RunData) -> int:
    """The validation split is evaluated at multiples of this number of steps.

    By default that is a tenth of the run, which has `total` steps. Where the split is large,
    training reads ten times as many examples from one evaluation to the next, so that these take a
    few percent of the time.
    """
    steps = options.evaluate_steps or options.checkpoint_steps
    if steps is not None:
        return steps
    num_costly = max(0, len(run_data.splits["validation"]) - FEW_EXAMPLES)
    return max(1, math.ceil(total / 10), 10 * num_costly // examples_per_step(options))


def evaluates(options: CoreOptions, run_data: RunData) -> bool:
    """Whether the validation split is evaluated during training."""
    return options.evaluate and bool(run_data.splits.get("validation"))


def check_options(options: CoreOptions, run_data: RunData, origins: Mapping[str, Origin]) -> None:
    """Refuse options that do not fit the data: raises UsageError. Where `origins` says that no
    person chose it, a best metric has no effect on data without a validation split.
    """
    count = len(run_data.splits["train"])
    if options.batches_per_step > 1 and examples_per_step(options) > count:
        most = count // options.batches_per_step
        smaller = f"Set --batch-size {most} or less, or take" if most else "Take"
        raise UsageError(
            f"A step takes {options.batches_per_step} batches of {options.batch_size} = "
            f"{examples_per_step(options)} examples, but the split 'train' has {count}.",
            hint=f"{smaller} fewer batches per step.",
        )
    is_chosen = origins.get("best_metric", NOT_SET).is_choice
    if options.best_metric and is_chosen and not evaluates(options, run_data):
        raise UsageError(
            "There is no validation split to choose the best checkpoint by.",
            hint="Set a larger --validation-share (equal examples stay in one split, and each "
            "class keeps some to train on), or --best-metric none.",
        )


def _training_reader(
    options: CoreOptions, run_data: RunData, pads_to_longest: bool, replica: Replica
) -> Reader:
    """The reader of the split "train", in the current graph: of a replica's part of each batch."""
    split, batch_size = run_data.splits["train"], examples_per_step(options)
    part = None
    if replica.count > 1:
        rows = np.arange(batch_size).reshape(-1, replica.batch_size)
        part = rows[:, replica.start : replica.start + replica.num_examples].reshape(-1)
    reader_options = ReaderOptions(
        kind=options.reader,
        seed=Run("train", options).seed("shuffle"),
        shuffle_buffer=options.shuffle_buffer,
        resident_limit=options.resident_limit << 20,
        pads_to_longest=pads_to_longest,
        part=part,
        by_number=replica.is_asynchronous,
    )
    # Where examples are in memory, the reader of each graph shares those that the hooks returned.
    prepared = run_data.prepare_split("train") if is_resident(split, reader_options) else None
    if prepared is not None:
        return make_reader(prepared, batch_size, reader_options._replace(kind="resident"))
    return make_reader(split, batch_size, reader_options, run_data.hooks)


def begin_graph(
    options: CoreOptions,
    run_data: RunData,
    folder: str,
    replica: Replica = ALONE,
    strategy: PlainStep = PLAIN,
    pads_to_longest: bool = False,
) -> Tuple[tf.Graph, Reader, Run]:
    """A new graph of training with the reader of a replica's examples, and its `Run`, in a folder,
    its path. The options of a replica have the number of its examples as `batch_size`.
    """
    tf_graph = tf.Graph()
    with tf_graph.as_default(), tf.device(strategy.input_device):
        reader = _training_reader(options, run_data, pads_to_longest, replica)
    total = total_steps(options, reader.num_examples)
    if replica.count > 1:
        options = options.model_copy(update={"batch_size": replica.num_examples})
    run = Run("train", options, run_data.spec, folder, total, strategy, replica=replica)
    return tf_graph, reader, run


def summarize_model(plugins: Plugins, resolved: Resolved) -> Dict[str, Any]:
    """The variables of the model that a run would train, and its sizes, in JSON values. It builds
    the graph of training, without a session.
    """
    run_data = open_run_data(plugins, resolved.options)
    options = choose_presets(resolved, run_data).options
    tf_graph, reader, run = begin_graph(options, run_data, "")
    build_training(plugins, run, reader, tf_graph)
    variables = list_model_variables(run, tf_graph)
    scopes: Dict[str, List[Dict[str, Any]]] = {}  # such as each network of several
    for variable in variables:
        scopes.setdefault(variable["name"].partition("/")[0], []).append(variable)
    return {
        "variables": variables,
        "scopes": {name: count_parameters(members) for name, members in scopes.items()},
        "model": count_parameters(variables),
    }
