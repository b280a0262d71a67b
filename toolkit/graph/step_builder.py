"""What the graph of one step collects while it is built: the updates behind their guards, what is
logged, and the optimizers. The core begins and ends a step; plugins reach it through `Run`.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..compat import tf
from ..errors import ToolkitError, UsageError
from . import adoption
from .guard import GuardedUpdate, GuardValues, run_behind_guard
from .initial_values import InitialFit
from .network_list import NetworkList
from .optimizers.parts import RATE_OPTIONS, Settings, UpdateOptimizers, rates_to_log
from .optimizers.schedules import learning_rate
from .optimizers.selection import UserGroups
from .replica import ALONE, Replica
from .step_strategy import PlainStep
from .step_sums import add_scalars
from .updates import Update, compute_gradients, is_complete, updated_variable


class StepBuilder:
    """Builds the updates of a step.

    Args:
        options: the core's options.
        total_steps: the length of the run, for schedules; None if it is unknown.
        strategy: `PLAIN` or `XLA` of `step_strategy`.
        replica: that the graph is of.

    Attributes:
        strategy: as given.
        guard_values: what the guard looks at in the step, update by update.
        all_finite: bool scalar of a compiled step, False where it was refused; None if it never is.
        omitted_losses: how many losses of regularizers the step does not minimize.
        own_variables: the names of the variables that the plugin updates by ops of its own.
        update_counts: name -> how many updates of it the step has.
        notes: what a user may not expect of the model.
        networks: those of `Run.function` and `Run.keras`.
        model_variables: those that the hook `build` made.
        initial_fits: what computes initial values from the training data.
        summed: the names of the scalars that the step adds to its sums.
        parameters: the variables that exist before the first update: all of the model, no slots.
    """

    def __init__(
        self, options, total_steps: Optional[int], strategy: PlainStep, replica: Replica = ALONE
    ):
        self.strategy = strategy
        self._replica = replica
        self._draws_alike = False  # whether all replicas draw the same numbers
        self.guard_values: List[GuardValues] = []
        self.all_finite: Any = None
        self.omitted_losses = 0
        self.own_variables: List[str] = []
        self.update_counts: Dict[str, int] = {}
        self.notes: List[str] = []
        self.networks = NetworkList()
        self.model_variables: List[Any] = []
        self.initial_fits: List[InitialFit] = []
        self.summed: List[str] = []
        self.parameters: List[Any] = []
        self._options = options
        self._total_steps = total_steps
        self._counters: Dict[str, Any] = {}
        self._logged: Dict[str, Any] = {}
        self._rate_names: Set[str] = set()
        self._step_index: Any = None  # None between two steps
        self._start: Optional[Dict[str, Any]] = None
        self._state_updates: List[Any] = []
        self._earlier: List[GuardedUpdate] = []
        self._optimizers: Dict[str, UpdateOptimizers] = {}
        self._user_groups = UserGroups(options)
        self._trained: Dict[str, Set[str]] = {}  # name of an update -> names of its variables
        self._last: Optional[GuardedUpdate] = None  # the last guarded update of the step
        self._last_name = ""
        self._guarded_ops: Set[Any] = set()  # all ops of guarded updates
        self._own_ops: List[Tuple[Any, Any, Sequence[Any]]] = []  # op, losses, variables
        self._build_functions: List[Callable[[], Any]] = []  # state updates of the hook build
        self._state_functions: List[Callable[[], Any]] = []
        self._gradient_changes: List[Callable[..., Any]] = []
        self._rate_changes: List[Callable[..., Any]] = []
        self._sole_rate_changes: List[Callable[..., Any]] = []  # those that allow no other
        self._num_rates = 0  # learning rates of the step that the changes apply to
        self._num_gradients: Dict[str, int] = {}
        self._trains = False  # whether an update of the step has a variable that is not frozen
        self._last_frozen: Optional[str] = None  # the last update of which all are frozen
        self._restore_functions: List[Callable[[], Any]] = []

    # ----------------------------------------------------------------------------- for the core

    def begin_step(self) -> None:
        """Forget the step before, and read what the new one starts from."""
        self._start = self.strategy.read_start()
        self._step_index = self.strategy.read_index(self.global_step)
        self._state_updates, self._earlier, self._optimizers = [], [], {}
        self._user_groups.begin_step()
        self._trained, self.update_counts = {}, {}
        self.guard_values, self.all_finite = [], None
        self._last, self._guarded_ops, self._own_ops = None, set(), []
        self._state_functions, self.own_variables = [], []
        self.networks.begin_step()
        self._gradient_changes, self._rate_changes, self._sole_rate_changes = [], [], []
        self._num_gradients, self._num_rates = {}, 0
        self._trains, self._last_frozen = False, None

    def keep_state_updates(self, updates: Sequence[Any]) -> None:
        """Keep the state updates that `call` added until `compute_update` takes them.

        All variables of the model exist now, and none of its optimizers.
        """
        self._state_updates = list(updates)
        self.parameters = [v for v in tf.global_variables() if v is not self.global_step]

    def add_state_updates(self, updates: Sequence[Any]) -> None:
        """Add state updates of a network that a hook other than `call` applies."""
        self._state_updates += updates

    def add_scalars(self, train_op: tf.Operation, scalars: Dict[str, Any]) -> tf.Operation:
        """The train op of a step that also adds up its scalars, but not the learning rates.

        Args:
            train_op: of `finish`.
            scalars: name -> scalar tensor.
        """
        summed = {name: x for name, x in scalars.items() if name not in self._rate_names}
        self.summed = list(summed)
        # The policy "stop" fails the call of a step that was refused; XLA cannot.
        is_certain = self._options.on_nonfinite == "stop" and not self.strategy.is_compiled
        applied = None if self._last is None or is_certain else self._last.finite
        return add_scalars(train_op, list(summed.values()), applied)

    def end_step(self, logged: Dict[str, Any]) -> None:
        """Replace the logged tensors of the step by those that a session can fetch."""
        self._logged, self._step_index = dict(logged), None

    @property
    def counters(self) -> Dict[str, Any]:
        """Name -> int64 scalar variable of what the guard counts."""
        return dict(self._counters)

    def frozen_variables(self) -> Set[str]:
        """The names of the trainable variables that a group of an update of the step freezes."""
        return set().union(*[each.frozen for each in self._optimizers.values()])

    def schedules(self) -> List[str]:
        """The named schedules of learning rates that the updates of the step follow."""
        names = {each.schedule for each in self._optimizers.values()}
        return sorted(name for name in names if name)

    def has_decay(self) -> bool:
        """Whether a variable of the step has a weight decay."""
        return self._user_groups.has_decay

    def has_undecayed_adamw(self) -> bool:
        """Whether an update has the optimizer adamw with a weight decay that was set to 0."""
        return any(each.is_undecayed_adamw for each in self._optimizers.values())

    def has_idle_rate(self) -> bool:
        """Whether groups with rates of their own make the option learning_rate idle."""
        return any(each.has_idle_rate for each in self._optimizers.values())

    def unused_options(self) -> Set[str]:
        """The options of optimizers that no update of the step uses, if it has one."""
        updates = self._optimizers.values()
        used = set().union(*[each.used_options for each in updates])
        return set(RATE_OPTIONS - used) if updates else set()

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

    def uniform(self, shape, seed_pair, minval: float, maxval: float):
        """See `Run.uniform`."""
        return self._draw(self.strategy.uniform, shape, seed_pair, minval, maxval)

    def normal(self, shape, seed_pair, mean: float, stddev: float):
        """See `Run.normal`."""
        return self._draw(self.strategy.normal, shape, seed_pair, mean, stddev)

    def _draw(self, draw: Callable[..., Any], shape, seed_pair, *args):
        if self._draws_alike:
            return draw(shape, seed_pair, *args)
        return self._replica.draw(lambda sizes, pair: draw(sizes, pair, *args), shape, seed_pair)

    @contextlib.contextmanager
    def _draws_for_variables(self) -> Iterator[None]:
        """In the block, numbers are for variables, which are equal on all replicas."""
        before, self._draws_alike = self._draws_alike, True
        try:
            yield
        finally:
            self._draws_alike = before

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
        settings: Settings,
        state_updates: Optional[Sequence[Any]],
        after: Optional[Callable[[], Any]],
    ) -> Update:
        """See `Run.gradients`."""
        if state_updates is None:
            state_updates, self._state_updates = self._state_updates, []
            _check_not_waiting(state_updates)
        optimizers = self._update_optimizers(name, settings)
        selected = optimizers.select(variables)
        if variables and not selected:
            return self._frozen_update(name, loss, state_updates, optimizers)
        gradients, trained = compute_gradients(optimizers, loss, selected)
        updates, frozen = self._divide(state_updates, optimizers)
        updates, (loss, *gradients) = self._replica.mean_updates(updates, [loss, *gradients])
        self._trains = True
        if self._options.accumulate > 1:
            self._check_sums(name, {v.op.name for v in trained})
        squares = tf.add_n([self.strategy.squared_norm(g) for g in gradients])
        norm = tf.sqrt(tf.reshape(squares, []))
        parts = optimizers.parts(trained)
        prefix = name + "/" if name else ""
        for key, value in rates_to_log(parts).items():
            self.log(prefix + key, value)
            self._rate_names.add(prefix + key)
        self.log(prefix + "gradient_norm", norm)
        changes = self._bind_changes(name)
        return Update(name, loss, gradients, trained, updates, parts, norm, after, frozen, changes)

    def _frozen_update(
        self, name: str, loss, state_updates: Sequence[Any], optimizers: UpdateOptimizers
    ) -> Update:
        """An update whose variables are all frozen: the guard looks at its loss alone."""
        self._last_frozen = name
        updates, frozen = self._divide(state_updates, optimizers)
        updates, (loss,) = self._replica.mean_updates(updates, [loss])
        norm = tf.zeros([])
        self.log(f"{name}/gradient_norm" if name else "gradient_norm", norm)
        return Update(name, loss, [], [], updates, [], norm, None, frozen)

    def _check_trains(self) -> None:
        """Refuse a step in which all variables are frozen."""
        if self._last_frozen is not None and not self._trains:
            update = f"the update '{self._last_frozen}'" if self._last_frozen else "the update"
            raise UsageError(
                f"All variables that {update} trains are frozen, and no other update of the step "
                "trains any.",
                hint="Leave some to train; see --freeze and --group.",
            )

    def _bind_changes(self, name: str) -> List[Callable[..., Any]]:
        """The changes of gradients, with a name that no other update of the step has."""
        number = self._num_gradients.get(name, 0)
        self._num_gradients[name] = number + 1
        own_name = f"{name}/{number}" if number else name
        return [functools.partial(change, name=own_name) for change in self._gradient_changes]

    def apply(self, updates: Sequence[Update], advance_step: bool):
        """See `Run.apply`."""
        earlier_ops = set(tf.get_default_graph().get_operations())
        with self._draws_for_variables():
            guarded = self._apply(updates, advance_step)
        self._guarded_ops.update(set(tf.get_default_graph().get_operations()) - earlier_ops)
        return guarded

    def _apply(self, updates: Sequence[Update], advance_step: bool):
        # What an earlier update changes must not come after a rollback.
        with tf.control_dependencies([guarded.op for guarded in self._earlier]):
            guarded = self.strategy.apply(
                updates, self._options, self._earlier, not advance_step, self._start
            )
        self._last, self._last_name = guarded, updates[-1].name
        if guarded.skipped is not None:
            self._counters["skipped_steps"] = guarded.skipped
        self.guard_values += [GuardValues(u.name, u.loss, u.gradient_norm) for u in updates]
        for update in updates:
            self.update_counts[update.name] = self.update_counts.get(update.name, 0) + 1
        if not advance_step:
            self._earlier.append(guarded)
            return guarded.op
        self._check_trains()
        self._user_groups.check()
        self._earlier = []
        self.all_finite = guarded.all_finite
        with tf.control_dependencies([guarded.op, self.step_index]):
            one = 1 if guarded.all_finite is None else tf.cast(guarded.all_finite, tf.int64)
            return self.global_step.assign_add(one, read_value=False)

    def adopt(self, op, losses: Sequence[Any], variables: Sequence[Any]):
        """See `Run.adopt`."""
        self._own_ops.append((op, list(losses), list(variables)))
        return op

    def update_state(self, function: Callable[[], Any]) -> None:
        """See `Run.update_state`."""
        if not callable(function):
            raise ToolkitError(
                f"run.update_state got {function!r:.100}, expected a function.",
                hint="Write run.update_state(lambda: variable.assign(...)): the op is built behind "
                "the guard.",
            )
        is_in_step = self._step_index is not None
        (self._state_functions if is_in_step else self._build_functions).append(function)

    def change_gradients(self, function: Callable[..., Any]) -> None:
        """See `Run.change_gradients`."""
        self._check_before_updates("change_gradients")
        self._gradient_changes.append(function)

    def change_learning_rate(self, function: Callable[..., Any], is_sole: bool) -> None:
        """See `Run.change_learning_rate`."""
        self._check_before_updates("change_learning_rate")
        self._rate_changes.append(function)
        if is_sole:
            self._sole_rate_changes.append(function)
        if self._sole_rate_changes and len(self._rate_changes) > 1:
            names = " and ".join(map(_describe_function, self._rate_changes))
            raise UsageError(
                f"{names} both change the learning rate, and one of them allows no other.",
                hint="Leave out one of these extensions.",
            )

    def _check_before_updates(self, method: str) -> None:
        if self._optimizers:
            raise ToolkitError(
                f"run.{method} was called after the step's updates were built.",
                hint="Call it in a wrapper of 'optimize', before the 'yield'.",
            )

    def after_restore(self, function: Callable[[], Any]) -> None:
        """See `Run.after_restore`."""
        self._restore_functions.append(function)

    def build_after_restore(self):
        """One op of what `after_restore` got; None for nothing."""
        if not self._restore_functions:
            return None
        return tf.group(*[function() for function in self._restore_functions])

    def finish(self, train_op: tf.Operation, losses: Dict[str, Any]) -> tf.Operation:
        """Complete the step: guard the plugin's own updates, then update the state of extensions.

        Args:
            train_op: what the hook `optimize` returned.
            losses: of the hook `loss`, by name.

        Raises:
            UsageError: what changes gradients or rates has no effect.
            ToolkitError: an own update cannot be guarded.
        """
        self._check_changes()
        train_op = self._guard_own_updates(train_op, losses)
        functions = [*self._build_functions, *self._state_functions]
        if not functions:
            return train_op
        if self._last is None:
            raise ToolkitError(
                "run.update_state has no effect: the step updates no variable.",
                hint="Return what run.minimize returns from the hook 'optimize'.",
            )
        with tf.control_dependencies([train_op]):
            applied = None
            if self._options.accumulate > 1 and self.update_counts:
                applied = is_complete(self._last_name)
            with self._draws_for_variables():
                op = run_behind_guard(functions, self._last, applied)
        with tf.control_dependencies([op]):
            return tf.group(train_op)

    def _check_changes(self) -> None:
        """Refuse a change of gradients or rates that no update of the step took."""
        trains = self._trains and bool(self.update_counts)
        changes = [each for each in self._gradient_changes if not hasattr(each, "only_observes")]
        if changes and not trains:
            name = _describe_function(changes[0])
            raise UsageError(
                f"{name} has no effect: no update of the step passes it its gradients.",
                hint="Leave out the extension that calls run.change_gradients, or let the plugin "
                "update by run.minimize.",
            )
        if self._rate_changes and not (trains and self._num_rates):
            name = _describe_function(self._rate_changes[0])
            raise UsageError(
                f"{name} has no effect: no update of the step has a learning rate of the toolkit.",
                hint="Leave out the extension that calls run.change_learning_rate, or let the "
                "plugin pass run.minimize a name, or a function from the rate to the optimizer.",
            )

    def _guard_own_updates(self, train_op: tf.Operation, losses: Dict[str, Any]) -> tf.Operation:
        """The train op behind a guard of all variables that it writes."""
        declared = [variable for _, _, variables in self._own_ops for variable in variables]
        writes = adoption.find_writes(train_op, self._guarded_ops, declared)
        names = {v.op.name for v in writes.variables.values()}
        self.own_variables = sorted(names - {tf.GraphKeys.GLOBAL_STEP})
        if not self.own_variables:
            return train_op
        if self._replica.count > 1:
            raise UsageError(
                f"The plugin updates '{self.own_variables[0]}' by an op of its own, whose "
                "gradients cannot be averaged over several replicas.",
                hint="In a plugin of your own, return run.minimize(loss); or train with parameter "
                "servers, or in one process.",
            )
        if self.strategy.is_compiled:
            raise UsageError(
                f"The plugin updates '{self.own_variables[0]}' by an op of its own, which XLA "
                "would run before the guard.",
                hint="Set --xla off.",
            )
        if self._last is not None:
            adoption.check_order(writes, self._last.op)
        checked = [loss for _, own_losses, _ in self._own_ops for loss in own_losses]
        declaring_ops = [op for op, _, variables in self._own_ops if variables]
        calls = adoption.find_python_calls(declaring_ops, [*losses.values(), *checked])
        advances_step = tf.GraphKeys.GLOBAL_STEP in names
        if advances_step:
            adoption.order_step(writes, self.step_index)
        adopted = adoption.adopt(
            train_op,
            writes._replace(python_calls=calls),
            checked or list(losses.values()),
            self._options,
            self._last,
        )
        self.guard_values.append(adopted.values)
        self.log("update_norm", adopted.values.gradient_norm)
        if adopted.guarded.skipped is not None:
            self._counters["skipped_steps"] = adopted.guarded.skipped
        is_first = self._last is None
        self._last = adopted.guarded
        if advances_step or not is_first:
            return adopted.guarded.op
        with tf.control_dependencies([adopted.guarded.op, self.step_index]):
            return self.global_step.assign_add(1, read_value=False)

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

    def _divide(self, state_updates: Sequence[Any], optimizers: UpdateOptimizers):
        """The state updates of a pass that happen, and those of frozen variables."""
        if not optimizers.freezes:  # to find the names takes time
            return list(state_updates), []
        names = [updated_variable(op) for op in state_updates]
        self._user_groups.note([], names)
        pairs = [(op, optimizers.is_frozen(name)) for op, name in zip(state_updates, names)]
        return [op for op, frozen in pairs if not frozen], [op for op, frozen in pairs if frozen]

    def _update_optimizers(self, name: str, settings: Settings) -> UpdateOptimizers:
        """The optimizers of a name, the same for all updates of a step."""
        if name not in self._optimizers:
            self._optimizers[name] = UpdateOptimizers(
                name, settings, self._options, self._user_groups, self._present_rate(settings)
            )
            self._check_objects(name, settings.optimizer)
        self._optimizers[name].check_same(settings)
        return self._optimizers[name]

    def _present_rate(self, settings: Settings) -> Callable[[Any], Any]:
        """From a full rate, None for that of settings or options, to the rate of the step."""

        def rate(base):
            self._num_rates += 1
            base = settings.learning_rate if base is None else base
            full_rate = self._options.learning_rate if base is None else base
            value = learning_rate(
                self._options, self.step_index, self._total_steps, base, settings.schedule
            )
            for change in self._rate_changes:
                value = tf.cast(change(value, full_rate, self.step_index), tf.float32)
            return value

        return rate

    def _check_objects(self, name: str, optimizer: Any) -> None:
        """Refuse an optimizer object that updates of another name have already."""
        for other, optimizers in self._optimizers.items():
            is_same = optimizers.has_object and optimizers.settings.optimizer is optimizer
            if is_same and other != name:
                raise UsageError(
                    f"The updates '{other}' and '{name}' share one optimizer object, whose "
                    "counts would advance twice in a step.",
                    hint="Make one for each.",
                )


def _describe_function(function: Callable[..., Any]) -> str:
    """The name of a function that an extension registered, and its module."""
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"'{name.replace('.<locals>', '')}' of {getattr(function, '__module__', '?')}"


def _check_not_waiting(state_updates: Sequence[Any]) -> None:
    """Refuse to be built behind the state updates that an update makes itself, behind the guard.

    Raises:
        ToolkitError: they would be made twice in a step.
    """
    waiting = set(tf.no_op().control_inputs)
    for op in state_updates:
        if op in waiting:
            raise ToolkitError(
                f"run.minimize waits for '{op.name}', which it also runs itself.",
                hint="Remove tf.control_dependencies(update_ops) around it: the updates of batch "
                "norm are part of every step.",
            )
