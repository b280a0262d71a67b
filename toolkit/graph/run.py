"""`Run`: what a run tells its plugins, and what it offers them while the graph is built."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, Optional, Sequence

from ..compat import tf
from ..errors import ToolkitError
from . import randomness
from .step_builder import StepBuilder
from .step_strategy import PLAIN, PlainStep
from .updates import Update

MODES = ("train", "eval", "predict")
_POSITION = "position_in_split"  # the graph's collection that holds the tensor of `Run.position`


class Run:
    """What plugins may use of a run. There is one per graph, and it is read-only.

    Attributes:
        mode: "train", "eval" or "predict".
        options: the typed and resolved options of the core and of all plugins of the run.
        data: the `DataSpec` of the examples, or None before the input is built.
        folder: the path of the run's folder, or None.
        total_steps: the step at which training will stop, for schedules, or None.
        compiled: whether XLA compiles the graph, which then has numbers alone, in known shapes.
        splits: in mode "eval", a function from the name of a split of the run's own data to the
            `Split` after `filter` and `convert`, or to None; None where an evaluation has no other
            split than its own.
    """

    mode: str
    options: Any
    data: Any
    folder: Optional[str]
    total_steps: Optional[int]
    compiled: bool
    splits: Optional[Callable[[str], Any]]
    _builder: StepBuilder

    def __init__(
        self,
        mode: str,
        options: Any,
        data: Any = None,
        folder: Optional[str] = None,
        total_steps: Optional[int] = None,
        strategy: PlainStep = PLAIN,
        splits: Optional[Callable[[str], Any]] = None,
    ):
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}, expected one of {MODES}")
        self.__dict__.update(
            mode=mode,
            options=options,
            data=data,
            folder=folder,
            total_steps=total_steps,
            compiled=strategy.is_compiled,
            splits=splits,
            _builder=StepBuilder(options, total_steps, strategy),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a run is read-only: cannot set '{name}'")

    # -------------------------------------------------------------------------------------- steps

    @property
    def global_step(self) -> tf.Variable:
        """int64 scalar variable: the number of steps so far."""
        return self._builder.global_step

    @property
    def step_index(self) -> tf.Tensor:
        """int64 scalar tensor: the number of steps before the one that is being built.

        It is read before the global step advances. A read of `global_step` that nothing waits for
        may come before or after that.
        """
        return self._builder.step_index

    @property
    def position(self) -> tf.Tensor:
        """int64 scalar in mode "eval": how many examples of the split come before the batch.

        Random numbers of an evaluation that follow from an example's position, and not from its
        place in the batch, do not depend on the batch size.

        Raises:
            ToolkitError: in another mode.
        """
        if self.mode != "eval":
            raise ToolkitError(f"position was read in mode '{self.mode}'.")
        if not tf.get_collection(_POSITION):
            start = tf.placeholder_with_default(tf.zeros([], tf.int64), [], "position")
            tf.add_to_collection(_POSITION, start)
        return tf.get_collection(_POSITION)[0]

    @property
    def is_chief(self) -> bool:
        """True: a run has one process. Earlier plugins ask for it."""
        warnings.warn("run.is_chief is always True", DeprecationWarning, stacklevel=2)
        return True

    @property
    def steps_made(self) -> tf.Tensor:
        """The former name of `step_index`."""
        warnings.warn("run.steps_made is now run.step_index", DeprecationWarning, stacklevel=2)
        return self.step_index

    # --------------------------------------------------------------------------------- randomness

    def seed(self, name: str) -> int:
        """A seed in [0, 2**31), a function of the run's seed and `name`."""
        return randomness.seed_of(self.options.seed, name)

    def uniform(self, name: str, shape: Any, minval: float = 0.0, maxval: float = 1.0) -> tf.Tensor:
        """float32 of `shape` in [minval, maxval): a function of (seed, name, global step).

        In an evaluation these are therefore equal for all batches; see `position`.
        """
        return self._builder.strategy.uniform(shape, self._seed_pair(name), minval, maxval)

    def normal(self, name: str, shape: Any, mean: float = 0.0, stddev: float = 1.0) -> tf.Tensor:
        """float32 of `shape`, N(mean, stddev**2): a function of (seed, name, global step).

        In an evaluation these are therefore equal for all batches; see `position`.
        """
        return self._builder.strategy.normal(shape, self._seed_pair(name), mean, stddev)

    def dropout(self, x: tf.Tensor, rate: float, name: str) -> tf.Tensor:
        """Zero a share of a tensor in mode "train"; in other modes return it unchanged.

        Args:
            x: float32, any shape.
            rate: the share that is zeroed, in [0, 1); the rest is scaled by 1 / (1 - rate).
            name: which elements are zeroed is a function of (seed, name, global step).
        """
        if self.mode != "train" or rate == 0:
            return x
        return self._builder.strategy.dropout(x, rate, self._seed_pair(name))

    def initializer(self, kind: str, name: str, stddev: float = 0.05) -> randomness.Initializer:
        """A Keras-compatible initializer, a function of (seed, name, shape).

        Args:
            kind: "glorot_uniform", "he_normal", "lecun_normal", "normal" or "uniform".
            name: of the variable, or any other name that no other variable uses.
            stddev: of "normal", and the limit of "uniform".
        """
        return randomness.Initializer(kind, self.seed("initializer/" + name), stddev)

    def _seed_pair(self, name: str) -> tf.Tensor:
        return randomness.seed_pair(self.seed(name), self.step_index)

    # --------------------------------------------------------------------------------- optimizing

    def minimize(
        self,
        loss: tf.Tensor,
        variables: Optional[Sequence[Any]] = None,
        name: str = "",
        advance_step: bool = True,
        learning_rate: Optional[float] = None,
        updates: Optional[Sequence[Any]] = None,
        after: Optional[Callable[[], Any]] = None,
    ) -> tf.Operation:
        """Build one op that updates variables to lower a loss: `gradients`, then `apply`.

        The arguments are those of `gradients` and `apply`.
        """
        update = self.gradients(loss, variables, name, learning_rate, updates, after)
        return self.apply([update], advance_step)

    def gradients(
        self,
        loss: tf.Tensor,
        variables: Optional[Sequence[Any]] = None,
        name: str = "",
        learning_rate: Optional[float] = None,
        updates: Optional[Sequence[Any]] = None,
        after: Optional[Callable[[], Any]] = None,
    ) -> Update:
        """Compute the gradients of a loss, to be handed to `apply`.

        The core's options decide the optimizer, the learning-rate schedule, clipping,
        accumulation, weight decay and what happens to non-finite values.

        Args:
            loss: float32 scalar.
            variables: what to train; None for all trainable variables.
            name: of the optimizer, one per name; it prefixes the logged values learning_rate and
                gradient_norm.
            learning_rate: replaces the option's full rate.
            updates: state-update ops that run together with the update; None for those that
                `call` added (batch norm's), which are taken once.
            after: called when the update is built; returns an op that runs after it.

        Raises:
            ToolkitError: outside of mode "train", or where the loss depends on no variable.
        """
        if self.mode != "train":
            raise ToolkitError(f"minimize was called in mode '{self.mode}'.")
        if variables is None:
            variables = tf.trainable_variables()
        return self._builder.compute_update(loss, variables, name, learning_rate, updates, after)

    def apply(self, updates: Sequence[Update], advance_step: bool = True) -> tf.Operation:
        """Build one op that applies updates, each after the gradients of all are known.

        A value that is not finite, in any update of a step, leaves every variable as it was before
        the step.

        Args:
            updates: of `gradients`.
            advance_step: whether the global step advances at the end. False where more updates
                follow in this step; build these under `tf.control_dependencies` on the op.
        """
        return self._builder.apply(updates, advance_step)

    def log(self, name: str, value: tf.Tensor) -> None:
        """Log a scalar tensor on steps where metrics are due; it costs nothing on others."""
        self._builder.log(name, value)

    @property
    def logged(self) -> Dict[str, Any]:
        """Name -> scalar tensor of all that was logged so far."""
        return self._builder.logged


def step_builder_of(run: Run) -> StepBuilder:
    """The builder behind a run's calls, for the core."""
    return run._builder
