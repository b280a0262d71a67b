"""One step while it is built, from its gradients to its last op. `Run` calls it for plugins; the
core begins and ends a step.

    begin_step        read what the step starts from; a builder builds one step
    compute_update    the gradients of one loss, averaged over replicas, and their norm
    apply             the guard; behind it clipping, optimizers, decay, state updates; step + 1
    finish            guard the plugin's own updates; what extensions update behind the guard
    add_scalars       the sums of the losses and logged values, for the record of metrics
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set

from ..compat import tf
from ..errors import ToolkitError, UsageError
from . import adoption
from .guard import SKIPPED_STEPS, GuardedUpdate, GuardValues, guard_values, run_behind_guard
from .hook_values import RECORD_FIELDS
from .initial_values import InitialFit
from .networks import NetworkList
from .ops import state_updates, upstream, written_variables
from .optimizers.parts import RATE_OPTIONS, Settings, UpdateOptimizers, UserGroups
from .optimizers.schedules import learning_rate
from .replica import ALONE, Replica
from .step_strategy import PlainStep
from .step_sums import add_scalars
from .updates import Update, changes_in_step, copy_state_updates, create_counter, widen


class StepBuilder:
    """Builds the updates of a step, of a run of so many steps, None if that is unknown."""

    def __init__(
        self,
        options: Any,
        total_steps: Optional[int],
        strategy: PlainStep,
        replica: Replica = ALONE,
    ):
        self.strategy = strategy
        self._options, self._total_steps, self._replica = options, total_steps, replica
        self._user_groups = UserGroups(options)
        self.omitted_losses = 0  # of regularizers, that the step does not minimize
        self.logged: Dict[str, Any] = {}  # name -> scalar tensor of all that was logged so far
        self.position: Any = None  # the tensor of `Run.position`, once something read it
        self.notes: List[str] = []  # what a user may not expect of the model
        self.networks = NetworkList()
        self.model_variables: List[Any] = []  # that the hook `build` made: all but slots
        self.initial_fits: List[InitialFit] = []
        self.restore_functions: List[Callable[[], Any]] = []  # what `Run.after_restore` got
        self.summed: List[str] = []  # the names of the scalars that the step adds to its sums
        self._rate_names: Set[str] = set()
        self.state_functions: List[Callable[[], Any]] = []  # what `Run.update_state` got
        self._draws_alike = False  # whether all replicas draw the same numbers
        self._start: Optional[Dict[str, Any]] = None
        self._step_index: Any = None  # None but while the step is built
        self.guard_values: List[GuardValues] = []  # what the guard looks at, update by update
        self.all_finite: Any = None  # bool scalar of a compiled step, False where it was refused
        self.own_losses: List[Any] = []  # that `Run.adopt` got
        self.own_variables: List[str] = []  # that the plugin updates by ops of its own, by name
        self.update_counts: Dict[str, int] = {}  # name -> how many updates of it the step has
        self.state_updates: List[Any] = []  # of forward passes, until an update takes them
        self._network_updates: Set[Any] = set()  # state updates of `Run.function` and `Run.keras`
        self._num_collected = 0  # of TensorFlow's collection, before these passes
        self._optimizers: Dict[str, UpdateOptimizers] = {}  # by the names of updates
        self._trained: Dict[str, Set[str]] = {}  # name of an update -> names of its variables
        self._frozen_name: Optional[str] = None  # of the last update of which all are frozen
        self._earlier: List[GuardedUpdate] = []  # of the step, to be rolled back by a later one
        self._last: Optional[GuardedUpdate] = None
        self._guarded_ops: Set[Any] = set()  # all ops of guarded updates
        self._gradient_changes: List[Callable[..., Any]] = []
        self._rate_changes: List[Callable[..., Any]] = []
        self._has_sole_change = False  # whether a change of rates allows no other
        self._num_rates = 0  # learning rates of the step that the changes apply to
        self._num_gradients: Dict[str, int] = {}

    # ------------------------------------------------------------------------------------ the step

    def begin_step(self) -> None:
        """Read what the step starts from."""
        self._num_collected = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        self._start = self.strategy.read_start()
        self._step_index = self.strategy.read_index(tf.train.get_or_create_global_step())
        self.networks.begin_step()

    def add_network_updates(self, updates: Sequence[Any]) -> None:
        """Keep the state updates of a pass through a network of `Run.function` or `Run.keras`."""
        self.state_updates += updates
        self._network_updates.update(updates)

    def compute_update(
        self,
        loss: tf.Tensor,
        variables: Sequence[Any],
        name: str,
        settings: Settings,
        after: Optional[Callable[[], Any]],
    ) -> Update:
        """See `Run.gradients`."""
        # The state updates of all passes since the last update, each once.
        collected = tf.get_collection(tf.GraphKeys.UPDATE_OPS)[self._num_collected :]
        ops = state_updates(getattr(each, "op", each) for each in collected)
        moving, frozen = list(dict.fromkeys([*self.state_updates, *ops])), []
        self.state_updates, self._num_collected = [], self._num_collected + len(collected)
        here, context = tf.no_op(), self.step_index.op._get_control_flow_context()
        waiting = set(here.control_inputs)
        for op in [here, *moving]:  # those are made once more behind the guard
            if op._get_control_flow_context() not in (context, None):
                what = "run.minimize is called"
                if op is not here:
                    what = f"'{written_variables([op])[0]}' is updated"
                raise ToolkitError(
                    f"{what} in a tf.cond or tf.while_loop.",
                    hint="Only compute values in it; assign them, and call run.minimize, outside.",
                )
            if op in waiting:
                raise ToolkitError(
                    f"run.minimize waits for '{op.name}', which it also runs itself.",
                    hint="Remove tf.control_dependencies(update_ops) around it: the updates of "
                    "batch norm are part of every step.",
                )
        prefix = name + "/" if name else ""
        optimizers = self._optimizers_of(name, settings)
        selected = optimizers.select(variables)
        if optimizers.freezes:  # to find the names takes time
            names = written_variables(moving)
            self._user_groups.updated.update(names)
            stays = [optimizers.is_frozen(name) for name in names]
            frozen = [op for op, is_frozen in zip(moving, stays) if is_frozen]
            moving = [op for op, is_frozen in zip(moving, stays) if not is_frozen]
        if variables and not selected:  # all are frozen: the guard looks at the loss alone
            self._frozen_name = name
            moving, (loss,) = self._replica.mean_updates(moving, [loss])
            norm = tf.zeros([])
            self.log(prefix + "gradient_norm", norm)
            return Update(name, loss, [], [], moving, [], norm, None, frozen)
        pairs = optimizers.compute_gradients(loss, selected)
        trained = [variable for gradient, variable in pairs if gradient is not None]
        gradients = [tf.convert_to_tensor(g) for g, _ in pairs if g is not None]
        if not trained:
            raise ToolkitError(
                "The loss depends on none of the variables to be trained.",
                hint="Compute it from the variables of 'build' with TensorFlow's functions: values "
                "of numpy, integers and tf.stop_gradient have no gradient.",
            )
        self._note_trained(name, {v.op.name for v in trained})
        moving, (loss, *gradients) = self._replica.mean_updates(moving, [loss, *gradients])
        squares = tf.add_n([self.strategy.squared_norm(g) for g in widen(gradients)])
        norm = tf.sqrt(tf.reshape(squares, []))
        parts = optimizers.parts(trained)
        for part in parts:
            rate = part.optimizer.learning_rate
            if rate is not None:
                key = prefix + "learning_rate" + (part.group and f"/{part.group}")
                self.log(key, tf.convert_to_tensor(rate))
                self._rate_names.add(key)
        self.log(prefix + "gradient_norm", norm)
        # The changes of extensions, with a name that no other update of the step has.
        number = self._num_gradients.get(name, 0)
        self._num_gradients[name] = number + 1
        own_name = f"{name}/{number}" if number else name
        changes = [functools.partial(change, name=own_name) for change in self._gradient_changes]
        return Update(name, loss, gradients, trained, moving, parts, norm, after, frozen, changes)

    def apply(self, updates: Sequence[Update], advance_step: bool) -> tf.Operation:
        """See `Run.apply`."""
        graph = tf.get_default_graph()
        ops_before = set(graph.get_operations())
        # What an earlier update changes must not come after a rollback.
        waits = tf.control_dependencies([each.op for each in self._earlier])
        may_undo = self.strategy.rolls_back and not advance_step
        with self._draws_for_variables(), waits:
            guarded = self.strategy.guard(
                updates, self._options, self._earlier, may_undo, self._start
            )
        self._last = guarded
        self.guard_values += guard_values(updates)
        for update in updates:
            self.update_counts[update.name] = self.update_counts.get(update.name, 0) + 1
        if advance_step:
            if self._frozen_name is not None and not self._trained:
                subject = f"the update '{self._frozen_name}'" if self._frozen_name else "the update"
                raise UsageError(
                    f"All variables that {subject} trains are frozen, and no other update of the "
                    "step trains any.",
                    hint="Leave some to train; see --freeze and --group.",
                )
            self._user_groups.check()
            self._earlier, self.all_finite = [], guarded.all_finite
            op = self._advance_step(guarded)
        else:
            self._earlier.append(guarded)
            op = guarded.op
            with tf.control_dependencies([op]):
                self._start = self.strategy.read_start()
        self._guarded_ops.update(set(graph.get_operations()) - ops_before)
        if self.strategy.is_compiled:  # what it silences is no update of the plugin's own
            for update in updates:
                self._guarded_ops.update(update.state_updates, update.frozen_updates)
        return op

    def _advance_step(self, guarded: GuardedUpdate) -> tf.Operation:
        with tf.control_dependencies([guarded.op, self.step_index]):
            one = 1 if guarded.all_finite is None else tf.cast(guarded.all_finite, tf.int64)
            global_step = tf.train.get_or_create_global_step()
            return global_step.assign_add(one, read_value=False)

    def finish(self, train_op: tf.Operation, losses: Dict[str, Any]) -> tf.Operation:
        """Complete the step that the hook `optimize` returned: guard the plugin's own updates, then
        update the state of extensions. Raises UsageError if what changes gradients or rates has no
        effect, ToolkitError if an own update cannot be guarded.
        """
        self._check_changes()
        train_op = self._guard_own_updates(train_op, losses)
        if not self.state_functions:
            return train_op
        if self._last is None:
            raise ToolkitError(
                "run.update_state has no effect: the step updates no variable.",
                hint="Return what run.minimize returns from the hook 'optimize'.",
            )
        with tf.control_dependencies([train_op]):
            applied = None
            if self._options.accumulate > 1 and self.update_counts:
                counts = self.update_counts.items()
                applied = tf.reduce_any([changes_in_step(name, n) for name, n in counts])
            with self._draws_for_variables():
                op = run_behind_guard(self.state_functions, self._last, applied)
        with tf.control_dependencies([op]):
            return tf.group(train_op)

    def _guard_own_updates(self, train_op: tf.Operation, losses: Dict[str, Any]) -> tf.Operation:
        """The train op behind a guard of all variables that it writes."""
        if self._last is None:
            train_op = self._add_untaken_updates(train_op)
        writes = adoption.find_writes(train_op, self._guarded_ops)
        names = {v.op.name for v in writes.variables.values()}
        self.own_variables = sorted(names - {tf.GraphKeys.GLOBAL_STEP})
        if not self.own_variables:
            return train_op
        subject = f"The plugin updates '{self.own_variables[0]}' by an op of its own, "
        if self._replica.count > 1:
            raise UsageError(
                subject + "whose gradients cannot be averaged over several replicas.",
                hint="In a plugin of your own, return run.minimize(loss); or train with parameter "
                "servers, or in one process.",
            )
        if self.strategy.is_compiled:
            raise UsageError(
                subject + "which XLA would run before the guard.", hint="Set --xla off."
            )
        advances_step = tf.GraphKeys.GLOBAL_STEP in names or self._last is not None
        checked = self.own_losses or list(losses.values())
        guarded, values = adoption.adopt(
            train_op, writes, checked, self._options, self._last, self.step_index
        )
        self._last = guarded
        self.guard_values.append(values)
        self.log("update_norm", values.gradient_norm)
        return guarded.op if advances_step else self._advance_step(guarded)

    def _add_untaken_updates(self, train_op: tf.Operation) -> tf.Operation:
        """The train op with the state updates of networks that no update took. It leaves out what
        else assigns variables in `call`: a graph that a plugin imports there has its own train op.
        """
        before = upstream([train_op])
        untaken = [op for op in self.state_updates if op in self._network_updates - before]
        return tf.group(train_op, *copy_state_updates(untaken)) if untaken else train_op

    def add_scalars(self, train_op: tf.Operation, scalars: Dict[str, Any]) -> tf.Operation:
        """The train op of `finish` that also adds up scalars by name, but not learning rates."""
        summed = {name: x for name, x in scalars.items() if name not in self._rate_names}
        self.summed = list(summed)
        # The policy "stop" fails the call of a step that was refused; XLA cannot.
        is_certain = self._options.on_nonfinite == "stop" and not self.strategy.is_compiled
        applied = None if self._last is None or is_certain else self._last.finite
        return add_scalars(train_op, list(summed.values()), applied)

    def end_step(self, logged: Dict[str, Any]) -> None:
        """Replace the logged tensors of the step by those that a session can fetch."""
        self.logged, self._step_index = dict(logged), None

    # ------------------------------------------------------------------------ what an update needs

    @property
    def step_index(self) -> tf.Tensor:
        """int64 scalar tensor: the number of steps before the one that is being built."""
        if self._step_index is None:
            return tf.train.get_or_create_global_step().read_value()
        return self._step_index

    def draw(self, kind: str, shape: Any, seed_pair: Any, *args: float) -> tf.Tensor:
        """Draw "uniform" or "normal" numbers of this replica's examples; see `Run.uniform`."""
        draw = getattr(self.strategy, kind)
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

    def log(self, name: str, value: tf.Tensor) -> None:
        """See `Run.log`."""
        if value.shape.ndims not in (0, None):
            raise ToolkitError(f"'{name}' is logged but has the shape {value.shape}.")
        if name in RECORD_FIELDS:
            raise ToolkitError(
                f"'{name}' is logged, and each record has a field of this name.",
                hint="Give it another name.",
            )
        self.logged[name] = value

    def _optimizers_of(self, name: str, settings: Settings) -> UpdateOptimizers:
        """The optimizers of a name, the same for all updates of a step."""
        if name not in self._optimizers:
            for other, optimizers in self._optimizers.items():
                if optimizers.has_object and optimizers.settings.optimizer is settings.optimizer:
                    raise UsageError(
                        f"The updates '{other}' and '{name}' share one optimizer object, whose "
                        "counts would advance twice in a step.",
                        hint="Make one for each.",
                    )
            rate = functools.partial(self._present_rate, settings)
            self._optimizers[name] = UpdateOptimizers(
                name, settings, self._options, self._user_groups, rate
            )
        self._optimizers[name].check_same(settings)
        return self._optimizers[name]

    def _present_rate(self, settings: Settings, base: Any) -> tf.Tensor:
        """The rate of the step, from a full rate, None for that of settings or options."""
        self._num_rates += 1
        base = settings.learning_rate if base is None else base
        full_rate = self._options.learning_rate if base is None else base
        value = learning_rate(
            self._options, self.step_index, self._total_steps, base, settings.schedule
        )
        for change in self._rate_changes:
            value = tf.cast(change(value, full_rate, self.step_index), tf.float32)
        return value

    def _note_trained(self, name: str, variables: Set[str]) -> None:
        """Refuse an update whose gradients would be mixed with those of another in its sums."""
        for other, names in self._trained.items() if self._options.accumulate > 1 else ():
            overlap = sorted(names ^ variables if other == name else names & variables)
            if overlap:
                raise ToolkitError(
                    f"--accumulate would mix the gradients of the updates '{other}' and '{name}' "
                    f"at the variable '{overlap[0]}'.",
                    hint="Updates of one name train the same variables, those of two names train "
                    "different ones; or set --accumulate 1.",
                )
        self._trained[name] = variables

    # -------------------------------------------------------------- what plugins and extensions add

    def change_gradients(self, function: Callable[..., Any]) -> None:
        """See `Run.change_gradients`."""
        self._check_before_updates("change_gradients")
        self._gradient_changes.append(function)

    def change_learning_rate(self, function: Callable[..., Any], is_sole: bool) -> None:
        """See `Run.change_learning_rate`."""
        self._check_before_updates("change_learning_rate")
        self._rate_changes.append(function)
        self._has_sole_change |= is_sole
        if self._has_sole_change and len(self._rate_changes) > 1:
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

    def _check_changes(self) -> None:
        """Refuse a change of gradients or rates that no update of the step took."""
        trains = self._trained and self.update_counts
        changes = [each for each in self._gradient_changes if not hasattr(each, "only_observes")]
        if changes and not trains:
            raise UsageError(
                f"{_describe_function(changes[0])} has no effect: no update of the step passes it "
                "its gradients.",
                hint="Leave out the extension that calls run.change_gradients, or let the plugin "
                "update by run.minimize.",
            )
        if self._rate_changes and not (trains and self._num_rates):
            raise UsageError(
                f"{_describe_function(self._rate_changes[0])} has no effect: no update of the step "
                "has a learning rate of the toolkit.",
                hint="Leave out the extension that calls run.change_learning_rate, or let the "
                "plugin pass run.minimize a name, or a function from the rate to the optimizer.",
            )

    # ------------------------------------------------------------------------- facts for the core

    @property
    def counter(self) -> Optional[tf.Variable]:
        """int64 variable, the steps that the guard skipped; None where it counts none."""
        is_counted = self._last is not None and self._options.on_nonfinite == "skip"
        return create_counter(SKIPPED_STEPS) if is_counted else None

    def frozen_variables(self) -> Set[str]:
        """The names of the trainable variables that a group of an update of the step freezes."""
        return set().union(*[each.frozen for each in self._optimizers.values()])

    def has_decay(self) -> bool:
        """Whether a variable of the step has a weight decay."""
        return any(each.has_decay for each in self._optimizers.values())

    def unused_options(self) -> Set[str]:
        """The options of optimizers that no update of the step uses, if it has one."""
        used = [each.used_options for each in self._optimizers.values()]
        return set(RATE_OPTIONS).difference(*used) if used else set()


def _describe_function(function: Callable[..., Any]) -> str:
    """The name of a function that an extension registered, and its module."""
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"'{name.replace('.<locals>', '')}' of {getattr(function, '__module__', '?')}"
