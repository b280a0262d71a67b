"""What contracts check: a plugin with its extensions, options and data, and runs of it."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, TypeVar

import numpy as np

from ..api import load_plugins
from ..data.examples import Split
from ..data.named_arrays import random_arrays
from ..errors import DataError, ToolkitError
from ..graph.build import TrainingGraph
from ..inference.evaluator import Evaluator
from ..inference.trained_model import Trained
from ..options import CoreOptions, Resolved, resolve
from ..plugin_data import open_from_plugin
from ..plugins import Plugins
from ..preset_choice import choose_presets
from ..run_data import RunData, open_run_data
from ..storage.run_folder import RunFolder
from .data import SYNTHETIC_DATA
from .runs import train
from .steps import Probe, TrainingSteps

BATCH_SIZE = 8
NUM_STEPS = 3  # in memory
# Of steps in memory. One whose loss is not finite does not end them, but is skipped.
STEP_OPTIONS = {"schedule": "constant", "warmup_steps": 0, "on_nonfinite": "skip"}
RUN_STEPS = 6  # of a run, which has no evaluations
LEFT_OUT = ("epochs", "best_metric", "early_stopping")  # options that contradict these
NUM_EXAMPLES = 8  # to predict for

Value = TypeVar("Value")


class Unavailable(Exception):
    """Something that a contract needs could not be prepared, as another contract reports."""


class Steps(NamedTuple):
    """What some steps in memory did.

    Attributes:
        graph: of the steps.
        initial: name -> value of each variable before the steps.
        last: name -> value after all `NUM_STEPS`.
        probe: what the hooks created; that of single steps alone, as what follows.
        losses: name -> its value in the first step.
        first: name -> value after the first step.
    """

    graph: TrainingGraph
    initial: Dict[str, np.ndarray]
    last: Dict[str, np.ndarray]
    probe: Probe
    losses: Dict[str, float] = {}
    first: Dict[str, np.ndarray] = {}


class Subject:
    """A plugin to be checked. What contracts need of it is prepared once, when it is first used.

    `close` it, or use it in a `with`.

    Args:
        plugin: a reference as on the command line, or an object with hooks.
        folder: an existing folder to write to.
        extensions: references or objects.
        options: values or texts by name; those of `LEFT_OUT` do not count. Without `data`, the
            examples are what the hook `data` returns, or else the first kind of synthetic data that
            the model accepts.
    """

    def __init__(self, plugin: Any, folder: Any, extensions: Iterable[Any] = (), **options: Any):
        self.plugin = plugin
        self.folder = str(folder)
        self.extensions = list(extensions)
        self.data_kind = ""
        self._values: Dict[str, Any] = {"batch_size": BATCH_SIZE}
        self._values.update((n, value) for n, value in options.items() if n not in LEFT_OUT)
        self._cache: Dict[str, Tuple[Any, Optional[BaseException]]] = {}

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened."""
        for value, _ in self._cache.values():
            if hasattr(value, "close"):
                value.close()
        self._cache.clear()

    def prepare(self, name: str, make: Callable[[], Value]) -> Value:
        """Return what `make` returned when it was first called under this name.

        Raises:
            Unavailable: it failed then; the caller of that time got the error itself.
        """
        if name not in self._cache:
            try:
                self._cache[name] = make(), None
            except Unavailable:
                raise
            except Exception as error:
                self._cache[name] = None, error
                raise
        value, failure = self._cache[name]
        if failure is not None:
            raise Unavailable(f"{name} failed, see above")
        return value

    # ------------------------------------------------------------------------- plugins and data

    @property
    def plugins(self) -> Plugins:
        """The loaded plugins."""
        return self.prepare("loading", lambda: load_plugins(self.plugin, self.extensions))

    @property
    def values(self) -> Dict[str, Any]:
        """Options by name, with the data."""
        return self.prepare("building a step", self._choose_data)

    @property
    def options(self) -> CoreOptions:
        """The resolved options."""
        return self.resolve()

    def resolve_without_data(self, **changes: Any) -> Resolved:
        """The options with their origins, with some other values, before the data choose presets.

        Unless `changes` has them, they may name other data than the subject's.
        """
        return resolve(self.plugins.options(), flags=dict(self._values, **changes))

    @property
    def run_data(self) -> RunData:
        """The examples."""
        return self.prepare("opening the data", lambda: self._open_data(self.values))

    def resolve(self, **changes: Any) -> CoreOptions:
        """The resolved options, with some other values."""
        resolved = self.resolve_without_data(**dict(self.values, **changes))
        return choose_presets(resolved, self.run_data).options

    def _open_data(self, values: Dict[str, Any]) -> RunData:
        return open_run_data(self.plugins, self.resolve_without_data(**values).options)

    def _choose_data(self) -> Dict[str, Any]:
        """The options with the data of the first kind with which a step can be built."""
        options = self.resolve_without_data().options
        if "data" in self._values or open_from_plugin(self.plugins, options) is not None:
            self._try_step(self._values)
            self.data_kind = str(self._values.get("data", "the plugin's own data"))
            return self._values
        errors: List[Exception] = []
        for kind, write in SYNTHETIC_DATA.items():
            values = dict(self._values, data=write(os.path.join(self.folder, kind)))
            try:
                self._try_step(values)
            except (ToolkitError, ValueError, TypeError) as error:
                errors.append(error)
                continue
            self.data_kind = f"synthetic {kind}"
            return values
        raise next((e for e in errors if not isinstance(e, DataError)), errors[0])

    def _try_step(self, values: Dict[str, Any]) -> None:
        """Build a step on examples, and raise what that raises."""
        run_data = self._open_data(values)
        resolved = self.resolve_without_data(**values)
        TrainingSteps(self.plugins, choose_presets(resolved, run_data).options, run_data).close()

    # ------------------------------------------------------------------------- steps in memory

    def open_steps(
        self,
        in_loop: bool = False,
        more: Iterable[Any] = (),
        split: Optional[Split] = None,
        **changes: Any,
    ) -> TrainingSteps:
        """Training in memory, with `STEP_OPTIONS`; the caller closes it.

        Args:
            in_loop: see `TrainingSteps`.
            more: further extensions.
            split: the examples; None for the split "train".
            changes: other values of options.
        """
        changes = dict(STEP_OPTIONS, **changes)
        plugins = load_plugins(self.plugin, [*self.extensions, *more]) if more else self.plugins
        return TrainingSteps(
            plugins, self.resolve(**changes), self.run_data, in_loop, split, self.folder
        )

    def steps(self) -> Steps:
        """What the first steps do, one by one."""

        def make() -> Steps:
            probe = Probe()
            with self.open_steps(more=[probe]) as steps:
                initial = steps.values()
                losses = steps.step_and_read(steps.graph.step.losses)
                first = steps.values()
                steps.step(NUM_STEPS - 1)
                return Steps(steps.graph, initial, steps.values(), probe, losses, first)

        return self.prepare("making steps", make)

    def loop_steps(self) -> Steps:
        """What the same steps do in one call, in a loop."""

        def make() -> Steps:
            with self.open_steps(in_loop=True) as steps:
                initial = steps.values()
                steps.step(NUM_STEPS)
                return Steps(steps.graph, initial, steps.values(), Probe())

        return self.prepare("making steps in a loop", make)

    # --------------------------------------------------------------------------------- whole runs

    def run(self, name: str, reader: str = "auto", pauses: bool = False) -> str:
        """The folder of a run of `RUN_STEPS` steps, without evaluation; it pauses half-way, and is
        resumed, if it is to.
        """

        def make() -> str:
            path = os.path.join(self.folder, name)
            self.train(path, reader=reader, pause_at=RUN_STEPS // 2 if pauses else None)
            if pauses:
                train(self.plugin, path, self.extensions)
            return path

        return self.prepare(f"the run '{name}'", make)

    def train(self, path: str, **more: Any) -> None:
        """Train `RUN_STEPS` steps in a folder.

        Args:
            path: of the folder.
            more: other options; also arguments of `testing.train`.
        """
        fixed = {"steps": RUN_STEPS, "evaluate": "no", "log_steps": 1, "xla": "off"}
        train(self.plugin, path, self.extensions, **dict(self.values, **dict(fixed, **more)))

    # ------------------------------------------------------------------------- the trained model

    @property
    def trained(self) -> Trained:
        """The run "resident" with its last checkpoint."""
        return self.prepare("opening a run", lambda: self._open_run(self.run("resident")))

    def _open_run(self, path: str, **changes: Any) -> Trained:
        folder = RunFolder(path)
        options = self.resolve(steps=RUN_STEPS, evaluate="no", xla="off", **changes)
        checkpoint = folder.checkpoints.find("last")
        return Trained(folder, self.plugins, options, checkpoint)

    def apply(self, path: str, **changes: Any) -> Tuple[Dict[str, np.ndarray], Dict[str, float]]:
        """The predictions for some examples, and the metrics, of the last checkpoint of a run.

        Args:
            path: of its folder.
            changes: other options than those of the subject.
        """
        trained = self._open_run(path, **changes)
        predictor = trained.evaluator("predict")
        evaluator = trained.evaluator("eval")
        try:
            for each in (predictor, evaluator):
                each.load(trained.checkpoint)
            predictions = predictor.predict(self._inputs(predictor, trained), NUM_EXAMPLES)
            return predictions, evaluator.evaluate(self.evaluation_split(), BATCH_SIZE).metrics
        finally:
            predictor.close()
            evaluator.close()

    def open_evaluator(self, mode: str) -> Evaluator:
        """A new evaluator with the weights of the run; the caller closes it."""
        evaluator = self.trained.evaluator(mode)
        evaluator.load(self.trained.checkpoint)
        return evaluator

    @property
    def evaluator(self) -> Evaluator:
        """An evaluator of mode "eval"."""
        return self.prepare("building an evaluation", lambda: self.open_evaluator("eval"))

    @property
    def predictor(self) -> Evaluator:
        """An evaluator of mode "predict"."""
        return self.prepare("building a prediction", lambda: self.open_evaluator("predict"))

    def evaluation_split(self) -> Split:
        """The split "test", or else "validation" or "train"."""
        splits = map(self.run_data.prepare_split, ("test", "validation", "train"))
        return next(split for split in splits if split is not None)

    def inputs(self) -> Any:
        """Some examples of the data by name, or random arrays if the hook `inputs` names others."""
        return self._inputs(self.predictor, self.trained)

    def _inputs(self, predictor: Evaluator, trained: Trained) -> Any:
        graph = predictor.graph
        if not graph.takes_examples:
            return random_arrays(graph.input_specs, NUM_EXAMPLES)
        examples = trained.example_inputs(NUM_EXAMPLES)
        assert examples is not None, "the data of the run cannot be opened again"
        return examples
