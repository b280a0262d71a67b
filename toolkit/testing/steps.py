"""Training steps in memory, without a run folder, and extensions that observe or disturb one."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Optional, Set

import numpy as np

from ..compat import tf
from ..data.examples import Split
from ..data.readers.batches import ReaderOptions
from ..data.readers.resident import ResidentReader
from ..graph import build
from ..graph.run import Run, step_builder_of
from ..graph.step_strategy import XLA
from ..hookspecs import hookimpl
from ..options import CoreOptions
from ..plugins import Plugins
from ..run_data import RunData
from ..training.setup import examples_per_step

GLOBAL_STEP = "global_step"  # the name of its variable
TOTAL_STEPS = 1000  # that a schedule sees
_COMPILED_STEPS = 2  # of a loop that is built for XLA


class TrainingSteps:
    """A graph of training, and a session with initial weights. `close` it, or use it in a `with`.

    Args:
        plugins: of the run.
        options: its resolved options.
        run_data: its data.
        in_loop: whether the step is the body of a loop, so that a call makes several.
        split: the examples to train on; None for the split "train".
        folder: `run.folder`, to which session hooks write.

    Attributes:
        graph: the `TrainingGraph`.
    """

    def __init__(
        self,
        plugins: Plugins,
        options: CoreOptions,
        run_data: RunData,
        in_loop: bool = False,
        split: Optional[Split] = None,
        folder: Optional[str] = None,
    ):
        with tf.Graph().as_default() as tf_graph:
            self._reader = _make_reader(options, run_data, split)
            run = Run("train", options, run_data.spec, folder, TOTAL_STEPS)
            self.graph = build.build_training(plugins, run, self._reader, tf_graph, in_loop)
            self._variables = {v.op.name: v for v in tf.global_variables()}
            self._initialize = [tf.global_variables_initializer(), tf.local_variables_initializer()]
            self._initialize.append(tf.tables_initializer())
        self._open_session: Optional[tf.Session] = None

    def __enter__(self) -> TrainingSteps:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        if self._open_session is not None:
            self._open_session.close()

    @property
    def _session(self) -> tf.Session:
        """The session, which is opened on first use."""
        if self._open_session is None:
            self._open_session = tf.Session(graph=self.graph.tf_graph)
            self._open_session.run(self._initialize)
            self._reader.initialize(self._open_session, 0)
        return self._open_session

    def values(self) -> Dict[str, np.ndarray]:
        """Name -> present value of each variable."""
        values: Dict[str, np.ndarray] = self._session.run(self._variables)
        return values

    def step(self, count: int = 1) -> None:
        """Make steps: in one call where the step is in a loop."""
        loop = self.graph.loop
        feed = None if loop is None else {loop.num_steps: count}
        for _ in range(count if loop is None else 1):
            self._session.run(self.graph.train_op, feed)

    def read(self, tensors: Any) -> Any:
        """Return the values of tensors, without a step."""
        return self._session.run(tensors) if tensors else []

    def step_and_read(self, tensors: Any) -> Any:
        """Make one step, and return the values of tensors within it."""
        return self._session.run([tensors, self.graph.train_op])[0]


def build_for_xla(
    plugins: Plugins, options: CoreOptions, run_data: RunData, specs: Any
) -> Dict[str, Any]:
    """Build the loop that XLA would compile, and return its variables by name.

    Args:
        specs: the `step_specs` of the same step in a loop that is not compiled.
    """
    with tf.Graph().as_default() as tf_graph:
        reader = _make_reader(options, run_data, None, pads_to_longest=True)
        run = Run("train", options, run_data.spec, None, TOTAL_STEPS, XLA)
        count = min(_COMPILED_STEPS, reader.max_chunk_steps)
        build.build_compiled(plugins, run, reader, tf_graph, specs, count)
        return {v.op.name: v for v in tf.global_variables()}


def _make_reader(
    options: CoreOptions,
    run_data: RunData,
    split: Optional[Split],
    pads_to_longest: bool = False,
) -> ResidentReader:
    """A reader in the default graph of a split, or else of the split "train"."""
    examples = split or run_data.prepare_split("train")
    assert examples is not None, "the training split is empty"
    seed = Run("train", options).seed("shuffle")
    count = examples_per_step(options)
    return ResidentReader(
        examples, count, ReaderOptions(seed=seed, pads_to_longest=pads_to_longest)
    )


# -------------------------------------------------------------------------------------- extensions


class Probe:
    """Notes what a plugin trains, and changes nothing.

    Attributes:
        trainable: the names of the model's variables that can be trained.
        frozen: the names of those of them that a group freezes.
        trained: name of an update -> the names of the variables that it trains.
    """

    # A plugin that trains by an optimizer of its own passes it no gradients, and is no worse.
    only_observes = True

    def __init__(self) -> None:
        self.trainable: List[str] = []
        self.frozen: Set[str] = set()
        self.trained: Dict[str, Set[str]] = {}

    @hookimpl(wrapper=True)
    def optimize(self, run: Any) -> Iterator[None]:
        self.trainable = [v.op.name for v in tf.trainable_variables()]
        run.change_gradients(self)
        op = yield
        self.frozen = step_builder_of(run).frozen_variables()
        return op

    def __call__(self, gradients: List[Any], variables: List[Any], name: str) -> List[Any]:
        """Note which variables an update trains, and return its gradients unchanged."""
        update = re.sub(r"/?\d+$", "", name)  # the updates of one name are numbered
        self.trained.setdefault(update, set()).update(v.op.name for v in variables)
        return gradients


class Intruder:
    """An extension that creates ops and a variable before the model does."""

    @hookimpl(wrapper=True)
    def build(self) -> Iterator[None]:
        tf.add_n([tf.constant(1.0), tf.random_uniform([])])
        tf.get_variable("intruder", [2, 3], initializer=tf.random_normal_initializer())
        model = yield
        return model


class Poison:
    """An extension that makes the loss of every step after the first ones NaN.

    Args:
        first: the number of the first such step.
    """

    def __init__(self, first: int):
        self._first = first

    @hookimpl(wrapper=True)
    def loss(self, run: Any) -> Iterator[None]:
        losses = yield
        is_finite = run.step_index < self._first
        factor = tf.where(is_finite, tf.constant(1.0), tf.constant(float("nan")))
        if isinstance(losses, dict):
            return {name: value * factor for name, value in losses.items()}
        return losses * factor
