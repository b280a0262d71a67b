"""`Run`: what a run tells its plugins, and what it offers them while the graph is built."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..compat import tf
from ..errors import ToolkitError
from . import optimizer, randomness

MODES = ("train", "eval", "predict")


class Judged(NamedTuple):
    """What decides whether an update is made; both float32 scalars."""

    name: str
    loss: Any
    gradient_norm: Any


class Run:
    """One per graph, read-only for plugins.

    mode: "train", "eval" or "predict". options: typed and resolved. data: the `DataSpec` of the
    examples, or None before the input is made. folder: the run's folder, or None. total_steps:
    where training will stop, for schedules. is_chief, task: this process's part in a cluster.
    compiled: whether XLA compiles the graph, which takes numbers alone, in shapes that are known.
    """

    def __init__(
        self,
        mode: str,
        options: Any,
        data: Any = None,
        folder: Optional[str] = None,
        total_steps: Optional[int] = None,
        task: Tuple[str, int] = ("worker", 0),
        is_chief: bool = True,
        compiled: bool = False,
    ):
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}, expected one of {MODES}")
        self._facts = {
            "mode": mode,
            "options": options,
            "data": data,
            "folder": folder,
            "total_steps": total_steps,
            "task": task,
            "is_chief": is_chief,
            "compiled": compiled,
        }
        self._logged: Dict[str, Any] = {}
        self._updates: List[Any] = []
        self._counters: Dict[str, Any] = {}
        self._applied: List[Any] = []  # the updates of the step that is being built
        self._optimizers: Dict[str, Tuple[Any, Any]] = {}
        self._judged: List[Judged] = []
        self._going: Any = None
        self._start: Optional[Dict[str, Any]] = None
        self._steps_made: Any = None  # of the step that is being built

    def __getattr__(self, name: str):
        facts = self.__dict__.get("_facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"a run has no '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"a run is read-only: cannot set '{name}'")
        object.__setattr__(self, name, value)

    # -------------------------------------------------------------------------------------- steps

    @property
    def global_step(self):
        """int64 scalar variable: how many steps were made."""
        return tf.train.get_or_create_global_step()

    @property
    def steps_made(self):
        """int64 scalar tensor: how many steps were made before the one that is being built.

        It is read before the global step advances, whatever else is done with it; a read of
        `global_step` that nothing waits for may come before or after that.
        """
        return self.global_step.read_value() if self._steps_made is None else self._steps_made

    # --------------------------------------------------------------------------------- randomness

    def seed(self, name: str) -> int:
        """A seed in [0, 2**31) that is a function of the run's seed and `name`."""
        return randomness.seed_of(self.options.seed, name)

    def uniform(self, name: str, shape, minval: float = 0.0, maxval: float = 1.0):
        """float32 of `shape` in [minval, maxval): a function of (seed, name, global step)."""
        return randomness.uniform(shape, self._pair(name), minval, maxval, self.compiled)

    def normal(self, name: str, shape, mean: float = 0.0, stddev: float = 1.0):
        """float32 of `shape`, N(mean, stddev**2): a function of (seed, name, global step)."""
        return randomness.normal(shape, self._pair(name), mean, stddev, self.compiled)

    def dropout(self, x, rate: float, name: str):
        """x with a share `rate` zeroed and the rest scaled by 1 / (1 - rate), in mode "train"
        alone.
        """
        if self.mode != "train" or rate == 0:
            return x
        return randomness.dropout(x, rate, self._pair(name), self.compiled)

    def initializer(self, kind: str, name: str, stddev: float = 0.05):
        """A Keras-compatible initializer, a function of (seed, name, shape); see `Initializer` for
        kinds.
        """
        return randomness.Initializer(kind, self.seed("initializer/" + name), stddev)

    def _pair(self, name: str):
        return randomness.counted(self.seed(name), self.steps_made)

    # --------------------------------------------------------------------------------- optimising

    def minimize(
        self,
        loss,
        variables: Optional[Sequence[Any]] = None,
        name: str = "",
        advance_step: bool = True,
        learning_rate: Optional[float] = None,
        updates: Optional[Sequence[Any]] = None,
        after: Optional[Callable[[], Any]] = None,
    ):
        """One op that updates `variables` (all trainable ones by default) to lower `loss` (float32
        scalar): `gradients`, then `apply`.
        """
        part = self.gradients(loss, variables, name, learning_rate, updates, after)
        return self.apply([part], advance_step)

    def gradients(
        self,
        loss,
        variables: Optional[Sequence[Any]] = None,
        name: str = "",
        learning_rate: Optional[float] = None,
        updates: Optional[Sequence[Any]] = None,
        after: Optional[Callable[[], Any]] = None,
    ) -> optimizer.Part:
        """The gradients of `loss` with respect to `variables`, to be handed to `apply`.

        Optimizer, learning-rate schedule, clipping, accumulation, weight decay and the policy for
        non-finite values are the core's options. name: one optimizer per name; it prefixes what
        is logged: gradient_norm, learning_rate. learning_rate: in place of the option's. updates:
        state-update ops that are to happen with it; None takes those that `call` added (batch
        norm's), once. after: called when the update is made, returns an op that runs behind it.
        """
        if self.mode != "train":
            raise ToolkitError(f"minimize was called in mode '{self.mode}'.")
        if variables is None:
            variables = tf.trainable_variables()
        if updates is None:
            updates, self._updates = self._updates, []
        chosen, rate = self._optimizer(name, learning_rate)
        part = optimizer.gradients(
            loss, list(variables), updates, chosen, rate, name, after, self.compiled
        )
        prefix = name + "/" if name else ""
        self.log(prefix + "learning_rate", rate)
        self.log(prefix + "gradient_norm", part.gradient_norm)
        return part

    def apply(self, parts: Sequence[optimizer.Part], advance_step: bool = True):
        """One op that applies all parts, each after the gradients of all are known.

        The global step advances last, unless `advance_step` is False: then more updates follow in
        this step, made under `tf.control_dependencies` on the op. A value that is not finite, in
        any of a step's updates, leaves every variable as it was before the step.
        """
        how = parts, self.options, self.steps_made, self._applied, not advance_step
        if self.compiled:
            made = optimizer.apply_compiled(*how, start=self._start)
        else:
            made = optimizer.apply(*how)
        if made.skipped is not None:
            self._counters["skipped_steps"] = made.skipped
        self._judged += [Judged(part.name, part.loss, part.gradient_norm) for part in parts]
        if not advance_step:
            self._applied.append(made)
            return made.op
        self._applied = []
        self._going = made.going
        with tf.control_dependencies([made.op, self.steps_made]):
            one = 1 if made.going is None else tf.cast(made.going, tf.int64)
            return self.global_step.assign_add(one, read_value=False)

    def _optimizer(self, name: str, base: Optional[float]):
        """The optimizer of a name and its learning rate, the same for all updates of a step."""
        if name not in self._optimizers:
            step, options = self.steps_made, self.options
            rate = optimizer.learning_rate(options, step, self.total_steps, base)
            made = optimizer.make_optimizer(options.optimizer, rate, options.optimizer_args)
            self._optimizers[name] = made, rate
        return self._optimizers[name]

    def log(self, name: str, value) -> None:
        """Log a scalar tensor on steps where metrics are due; it costs nothing on others."""
        if value.shape.ndims not in (0, None):
            raise ToolkitError(f"'{name}' is logged but has the shape {value.shape}.")
        self._logged[name] = value

    def begin_step(self, start: Optional[Dict[str, Any]] = None) -> None:
        """A step is going to be built; for the core.

        start: of a compiled step, `optimizer.values_now` from before it.
        """
        self._steps_made, self._start = self.global_step.read_value(), start
        self._updates, self._applied, self._optimizers = [], [], {}
        self._judged, self._going = [], None

    def hold(self, updates: Sequence[Any]) -> None:
        """Hold the state updates that `call` added until `minimize` runs them; for the core."""
        self._updates = list(updates)

    def end_step(self, logged: Dict[str, Any]) -> None:
        """Put what can be fetched of a step in the place of what was logged in it; for the core."""
        self._logged, self._steps_made = dict(logged), None

    @property
    def judged(self) -> List[Judged]:
        """What the guard looked at in the step, update by update."""
        return list(self._judged)

    @property
    def going(self):
        """bool scalar of a compiled step: False where it was refused; None where none ever is."""
        return self._going

    @property
    def counters(self) -> Dict[str, Any]:
        """Name -> int64 variable of what the guard counted."""
        return dict(self._counters)

    @property
    def logged(self) -> Dict[str, Any]:
        """Name -> scalar tensor of all that was logged so far."""
        return dict(self._logged)
