"""What the graph of one step collects while it is built: the updates behind their guards, what is
logged, and the optimizers. The core begins and ends a step; plugins reach it through `Run`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..compat import tf
from ..errors import ToolkitError
from .guard import GuardedUpdate, GuardValues
from .optimizer import learning_rate, make_optimizer
from .step_strategy import PlainStep
from .updates import Update, compute_gradients


class StepBuilder:
    """Builds the updates of a step.

    Args:
        options: the core's options.
        total_steps: the length of the run, for schedules; None if it is unknown.
        strategy: `PLAIN` or `XLA` of `step_strategy`.

    Attributes:
        strategy: as given.
        guard_values: what the guard looks at in the step, update by update.
        all_finite: bool scalar of a compiled step, False where it was refused; None if it never is.
        omitted_losses: how many losses of regularizers the step does not minimize.
        update_counts: name -> how many updates of it the step has.
    """

    def __init__(self, options, total_steps: Optional[int], strategy: PlainStep):
        self.strategy = strategy
        self.guard_values: List[GuardValues] = []
        self.all_finite: Any = None
        self.omitted_losses = 0
        self.update_counts: Dict[str, int] = {}
        self._options = options
        self._total_steps = total_steps
        self._counters: Dict[str, Any] = {}
        self._logged: Dict[str, Any] = {}
        self._step_index: Any = None  # None between two steps
        self._start: Optional[Dict[str, Any]] = None
        self._state_updates: List[Any] = []
        self._earlier: List[GuardedUpdate] = []
        self._optimizers: Dict[str, Tuple[Any, Any]] = {}
        self._trained: Dict[str, Set[str]] = {}  # name of an update -> names of its variables

    # ----------------------------------------------------------------------------- for the core

    def begin_step(self) -> None:
        """Forget the step before, and read what the new one starts from."""
        self._start = self.strategy.read_start()
        self._step_index = self.global_step.read_value()
        self._state_updates, self._earlier, self._optimizers = [], [], {}
        self._trained, self.update_counts = {}, {}
        self.guard_values, self.all_finite = [], None

    def keep_state_updates(self, updates: Sequence[Any]) -> None:
        """Keep the state updates that `call` added until `compute_update` takes them."""
        self._state_updates = list(updates)

    def end_step(self, logged: Dict[str, Any]) -> None:
        """Replace the logged tensors of the step by those that a session can fetch."""
        self._logged, self._step_index = dict(logged), None

    @property
    def counters(self) -> Dict[str, Any]:
        """Name -> int64 scalar variable of what the guard counts."""
        return dict(self._counters)

    # -------------------------------------------------------------------- behind the calls of Run

    @property
    def global_step(self):
        """int64 scalar variable: the number of steps so far."""
        return tf.train.get_or_create_global_step()

    @property
    def step_index(self):
        """int64 scalar tensor: the number of steps before the one that is being built."""
        return self.global_step.read_value() if self._step_index is None else self._step_index

    @property
    def logged(self) -> Dict[str, Any]:
        """Name -> scalar tensor of all that was logged so far."""
        return dict(self._logged)

    def log(self, name: str, value) -> None:
        """See `Run.log`."""
        if value.shape.ndims not in (0, None):
            raise ToolkitError(f"'{name}' is logged but has the shape {value.shape}.")
        self._logged[name] = value

    def compute_update(
        self,
        loss,
        variables: Sequence[Any],
        name: str,
        learning_rate: Optional[float],
        state_updates: Optional[Sequence[Any]],
        after: Optional[Callable[[], Any]],
    ) -> Update:
        """See `Run.gradients`."""
        if state_updates is None:
            state_updates, self._state_updates = self._state_updates, []
        optimizer, rate = self._optimizer(name, learning_rate)
        gradients, trained = compute_gradients(optimizer, loss, list(variables))
        if self._options.accumulate > 1:
            self._check_sums(name, {v.op.name for v in trained})
        norm = tf.sqrt(tf.add_n([self.strategy.squared_norm(g) for g in gradients]))
        prefix = name + "/" if name else ""
        self.log(prefix + "learning_rate", rate)
        self.log(prefix + "gradient_norm", norm)
        updates = list(state_updates)
        return Update(name, loss, gradients, trained, updates, optimizer, rate, norm, after)

    def apply(self, updates: Sequence[Update], advance_step: bool):
        """See `Run.apply`."""
        guarded = self.strategy.apply(
            updates, self._options, self._earlier, not advance_step, self._start
        )
        if guarded.skipped is not None:
            self._counters["skipped_steps"] = guarded.skipped
        self.guard_values += [GuardValues(u.name, u.loss, u.gradient_norm) for u in updates]
        for update in updates:
            self.update_counts[update.name] = self.update_counts.get(update.name, 0) + 1
        if not advance_step:
            self._earlier.append(guarded)
            return guarded.op
        self._earlier = []
        self.all_finite = guarded.all_finite
        with tf.control_dependencies([guarded.op, self.step_index]):
            one = 1 if guarded.all_finite is None else tf.cast(guarded.all_finite, tf.int64)
            return self.global_step.assign_add(one, read_value=False)

    def _check_sums(self, name: str, variables: Set[str]) -> None:
        """Refuse an update whose gradients would be mixed with those of another in its sums."""
        for other, names in self._trained.items():
            overlap = sorted(names ^ variables if other == name else names & variables)
            if overlap:
                raise ToolkitError(
                    f"--accumulate would mix the gradients of the updates '{other}' and '{name}' "
                    f"at the variable '{overlap[0]}'.",
                    hint="Updates of one name train the same variables, those of two names train "
                    "different ones; or set --accumulate 1.",
                )
        self._trained[name] = variables

    def _optimizer(self, name: str, base_rate: Optional[float]):
        """The optimizer of a name and its learning rate, the same for all updates of a step."""
        if name not in self._optimizers:
            options = self._options
            rate = learning_rate(options, self.step_index, self._total_steps, base_rate)
            optimizer = make_optimizer(options.optimizer, rate, options.optimizer_args)
            self._optimizers[name] = optimizer, rate
        return self._optimizers[name]
