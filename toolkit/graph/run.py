"""`Run`: what a run tells its plugins, and what it offers them while the graph is built."""

from __future__ import annotations

import inspect
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np

from ..compat import tf
from ..errors import ToolkitError, suggest
from ..options import CoreOptions, Options
from ..options.groups import Group
from . import randomness
from .initial_values import InitialFit
from .networks import Function, KerasModel
from .optimizers.parts import Settings
from .optimizers.schedules import Schedule
from .replica import ALONE, Replica
from .step_builder import StepBuilder
from .step_strategy import PLAIN, PlainStep
from .updates import Update

MODES = ("train", "eval", "predict")
STATE = "state/"  # begins the names of the variables of `Run.state`, also in checkpoints


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
        replica: in mode "train", which one of `replica.count` replicas this is. With several,
            `options.batch_size` is the number of examples of this replica alone.
    """

    mode: str
    options: Any
    data: Any
    folder: Optional[str]
    total_steps: Optional[int]
    compiled: bool
    splits: Optional[Callable[[str], Any]]
    replica: Replica
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
        replica: Replica = ALONE,
    ):
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}, expected one of {MODES}")
        if isinstance(options, Options) and not isinstance(options, CoreOptions):
            raise ToolkitError(
                f"A run got the options {type(options).__name__}, without those of the core.",
                hint="Write toolkit.testing.make_run(plugin, mode, spec), which merges both.",
            )
        self.__dict__.update(
            mode=mode,
            options=options,
            data=data,
            folder=folder,
            total_steps=total_steps,
            compiled=strategy.is_compiled,
            splits=splits,
            replica=replica,
            _builder=StepBuilder(options, total_steps, strategy, replica),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a run is read-only: cannot set '{name}'")

    if not TYPE_CHECKING:  # where it would make every name known

        def __getattr__(self, name: str) -> None:
            names = [x for x in (*dir(type(self)), *vars(self)) if not x.startswith("_")]
            raise AttributeError(f"a run has no '{name}'. {suggest(name, names)}")

    def _check_mode(self, method: str) -> None:
        if self.mode != "train":
            raise ToolkitError(f"{method} was called in mode '{self.mode}'.")

    # -------------------------------------------------------------------------------------- steps

    @property
    def global_step(self) -> tf.Variable:
        """int64 scalar variable: the number of steps so far."""
        return tf.train.get_or_create_global_step()

    @property
    def step_index(self) -> tf.Tensor:
        """int64 scalar tensor: the number of steps before the one that is being built.

        It is read before the global step advances. A read of `global_step` that nothing waits for
        may come before or after that.
        """
        return self._builder.step_index

    @property
    def position(self) -> tf.Tensor:
        """int64 scalar in the modes "eval" and "predict": how many examples come before the batch.

        In an evaluation these are examples of the split, in a prediction of its inputs. What
        follows from an example's position, and not from its place in the batch, does not depend on
        the batch size.

        Raises:
            ToolkitError: in mode "train".
        """
        if self.mode == "train":
            raise ToolkitError(f"position was read in mode '{self.mode}'.")
        if self._builder.position is None:
            zero = tf.zeros([], tf.int64)
            self._builder.position = tf.placeholder_with_default(zero, [], "position")
        return self._builder.position

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run's folder; one of several processes does."""
        return self.replica.rank == 0

    @property
    def is_copy(self) -> bool:
        """Whether `toolkit verify` trains a copy of a run, to compare and then delete it."""
        return bool(os.environ.get("TOOLKIT_IS_COPY"))

    # --------------------------------------------------------------------------------- randomness

    def seed(self, name: str) -> int:
        """A seed in [0, 2**31), a function of the run's seed and `name`."""
        return randomness.seed_of(self.options.seed, name)

    def uniform(self, name: str, shape: Any, minval: float = 0.0, maxval: float = 1.0) -> tf.Tensor:
        """Draw float32 numbers of `shape` in [minval, maxval).

        In mode "train" they are a function of (seed, name, global step). In the modes "eval" and
        "predict", where the first size of `shape` is that of the batch and thus unknown while the
        graph is built, row i is a function of (seed, name, position of example i): it does not
        depend on the batch size. Other shapes get the same numbers in every batch.

        Inside a `tf.while_loop` of the plugin, each turn gets the same numbers: draw those of all
        turns at once before the loop.

        Several replicas draw the numbers that one process would draw for the whole batch, each
        those of its examples: see `Replica.draw`.

        Args:
            name: of the use.
            shape: a list or a tensor of sizes.
            minval: the lower bound.
            maxval: the upper bound.
        """
        return self._draw("uniform", name, shape, minval, maxval, maxval - minval)

    def normal(self, name: str, shape: Any, mean: float = 0.0, stddev: float = 1.0) -> tf.Tensor:
        """Draw float32 numbers of `shape` from N(mean, stddev**2).

        They repeat as those of `uniform` do: inside a `tf.while_loop` of the plugin, each turn gets
        the same numbers, so draw those of all turns at once before the loop.

        Args:
            name: of the use.
            shape: a list or a tensor of sizes.
            mean: the expected value.
            stddev: the standard deviation.
        """
        return self._draw("normal", name, shape, mean, stddev, stddev)

    def _draw(
        self, kind: str, name: str, shape: Any, first: float, second: float, scale: float
    ) -> tf.Tensor:
        """Draw from a distribution with two parameters; `scale` is its width, `first` its place."""
        sizes = None if self.mode == "train" else tf.zeros(shape).shape
        # Where the first size is that of a batch that is not trained on.
        if sizes is not None and (sizes.ndims is None or sizes.as_list()[:1] == [None]):
            draw = getattr(tf.random, f"stateless_{kind}")
            numbers = randomness.draw_by_position(draw, shape, self.position, self.seed(name))
            return numbers * scale + first
        seed_pair = randomness.seed_pair(self.seed(name), self.step_index)
        return self._builder.draw(kind, shape, seed_pair, first, second)

    def dropout(self, x: tf.Tensor, rate: float, name: str) -> tf.Tensor:
        """Zero a share of a tensor in mode "train"; in other modes return it unchanged.

        Args:
            x: float32, any shape.
            rate: the share that is zeroed, in [0, 1); the rest is scaled by 1 / (1 - rate).
            name: which elements are zeroed is a function of (seed, name, global step).
        """
        if self.mode != "train" or rate == 0:
            return x
        if not 0 <= rate < 1:
            raise ValueError(f"dropout rate is {rate}, expected a number in [0, 1)")
        numbers = self.uniform(name, tf.shape(x))
        return tf.where(numbers >= rate, x * (1 / (1 - rate)), tf.zeros_like(x))

    def initializer(self, kind: str, name: str, stddev: float = 0.05) -> randomness.Initializer:
        """A Keras-compatible initializer, a function of (seed, name, shape).

        Args:
            kind: "glorot_uniform", "he_normal", "lecun_normal", "normal" or "uniform".
            name: of the variable, or any other name that no other variable uses.
            stddev: of "normal", and the limit of "uniform".
        """
        return randomness.Initializer(kind, self.seed("initializer/" + name), stddev)

    # ----------------------------------------------------------------------------------- networks

    def function(
        self, fn: Callable[..., Any], *args: Any, inputs: Any = None, **kwargs: Any
    ) -> Function:
        """Create the variables of a function in `build`, to apply it with them in other hooks.

            net = run.function(network)                    # in `build`
            logits = net(features, run.mode == "train")    # in `call`

        The function may create variables by `tf.get_variable`, `tf.layers`, tf_slim, `tf.Variable`
        or Keras layers; their names are those that it gives them, within the variable scope in
        which `run.function` is called. Each call uses the same variables. Updates of batch norm run
        with the step's update, `net.losses()` has the losses of regularizers, and dropout is a
        function of (seed, step).

        Args:
            fn: `fn(features, ...)`.
            args: its further positional arguments, in `build` and in each call that leaves them
                out.
            inputs: what it is applied to in `build`: a tensor or a structure of tensors, or a tuple
                of several arguments, such as placeholders of their shapes that `build` makes for
                it; None for placeholders of the run's features, where those with the names of
                parameters of `fn` are arguments of their own.
            kwargs: further arguments by name. Without them, `training` (or `is_training`) is
                whether the mode is "train", whatever its default, and `run` is the run, in each
                call; in `build`, `labels` are placeholders, or None.

        Returns:
            A function with the parameters of `fn`. It has the attributes `variables` and
            `trainable_variables`.

        Raises:
            ToolkitError: an argument of `fn` is not known.
        """
        return Function(self, fn, args, kwargs, inputs)

    def keras(self, model: Any, inputs: Any = None) -> KerasModel:
        """Use a model of `tf.keras`, created in `build`, in other hooks.

            net = run.keras(tf.keras.Sequential([...]))    # in `build`
            logits = net(features)                         # in `call`

        Batch norm and dropout are active in the mode "train". Updates of batch norm run with the
        step's update, `net.losses()` has the losses of regularizers, and dropout is a function of
        (seed, step). What the model was compiled with has no effect.

        Args:
            model: a Sequential, functional or subclass model, or a layer.
            inputs: what a model without variables is applied to in `build`; None for placeholders
                of the run's features.

        Returns:
            A function `net(inputs, training=None)`. It has the attributes `model`, `variables` and
            `trainable_variables`.

        Raises:
            ToolkitError: it is no model of `tf.keras`, or was created outside of `build`.
        """
        return KerasModel(self, model, inputs)

    # ----------------------------------------------------------------------------------- replicas

    def mean_over_replicas(self, tensors: Sequence[tf.Tensor]) -> List[tf.Tensor]:
        """Average tensors over all replicas, for statistics of the whole batch.

        With one replica they are returned as they are. The gradients of losses need no such call:
        `minimize` averages them.

        Args:
            tensors: floats of any shapes, those of this replica's examples. A loss may depend on
                the averages.

        Returns:
            Their averages, weighted by the number of examples, equal on all replicas.
        """
        return self.replica.mean(tensors, is_differentiable=True)

    # --------------------------------------------------------------------------------- optimizing

    def minimize(
        self,
        loss: tf.Tensor,
        variables: Optional[Sequence[Any]] = None,
        name: str = "",
        advance_step: bool = True,
        **settings: Any,
    ) -> tf.Operation:
        """Build one op that updates variables to lower a loss: `gradients`, then `apply`.

        Args:
            loss: float32 scalar.
            variables: what to train; None for all trainable variables.
            name: of the optimizer, one per name.
            advance_step: that of `apply`.
            settings: further arguments of `gradients`.
        """
        known = inspect.signature(self.gradients).parameters
        for each in settings:
            if each not in known:
                raise TypeError(f"run.minimize has no argument '{each}'. {suggest(each, known)}")
        self._check_mode("minimize")
        return self.apply([self.gradients(loss, variables, name, **settings)], advance_step)

    def gradients(
        self,
        loss: tf.Tensor,
        variables: Optional[Sequence[Any]] = None,
        name: str = "",
        learning_rate: Any = None,
        after: Optional[Callable[[], Any]] = None,
        optimizer: Any = None,
        optimizer_args: Optional[Mapping[str, Any]] = None,
        schedule: Optional[Schedule] = None,
        groups: Sequence[Group] = (),
    ) -> Update:
        """Compute the gradients of a loss, to be handed to `apply`.

        The core's options decide clipping, accumulation and what happens to non-finite values; and,
        unless the arguments say otherwise, optimizer, learning rate, schedule and weight decay.

        The state updates of all forward passes since the last update, such as those of batch norm,
        run together with this one, behind the guard: what `call`, `Run.function` and `Run.keras`
        built, and what the hooks put into the collection `tf.GraphKeys.UPDATE_OPS`.

        Args:
            loss: float32 scalar.
            variables: what to train; None for all trainable variables.
            name: of the optimizer, one per name; it prefixes the logged values learning_rate and
                gradient_norm.
            learning_rate: replaces the option's full rate; a number or a float32 scalar tensor.
            after: called when the update is built; returns an op that runs after it, and after the
                state updates (of batch norm) of all that is applied together. A refused step
                undoes what it writes, too.
            optimizer: a name, as --optimizer takes it; or a function from the learning rate, a
                float32 scalar tensor, to an object of tf.train or tf.keras.optimizers, such as the
                class `tf.train.AdamOptimizer`; or an object, which has a rate of its own, so that
                learning rate and schedule have no effect. None for the option.
            optimizer_args: arguments of a named optimizer; None for the option's, or for none where
                `optimizer` is a name.
            schedule: "constant", "cosine", "step" or "exponential"; or a function
                (step, total_steps) -> factor on the full rate, where step is an int64 scalar
                tensor, the number of steps before this one, and total_steps may be None. A function
                replaces the warm-up, too. None for the option.
            groups: a `Group` for variables that have a rate or decay of their own, or are frozen;
                the first that fits a variable holds. The options --freeze and --group come before.

        Raises:
            ToolkitError: outside of mode "train", or where the loss depends on no variable.
            UsageError: the arguments contradict each other, a group fits no variable, all variables
                are frozen, or the optimizer does not work in a graph.
        """
        self._check_mode("gradients")
        variables = tf.trainable_variables() if variables is None else variables
        once = list({v.op.name: v for v in variables}.values())  # two networks may share some
        settings = Settings(optimizer, optimizer_args, learning_rate, schedule, list(groups))
        return self._builder.compute_update(loss, once, name, settings, after)

    def apply(self, updates: Sequence[Update], advance_step: bool = True) -> tf.Operation:
        """Build one op that applies updates, each after the gradients of all are known.

        A value that is not finite, in any update of a step, leaves every variable as it was before
        the step.

        Args:
            updates: of `gradients`.
            advance_step: whether the global step advances at the end. False where more updates
                follow in this step; build these under `tf.control_dependencies` on the op.

        Raises:
            ToolkitError: `updates` is no list of updates, or an empty one.
        """
        is_list = isinstance(updates, (list, tuple)) and bool(updates)
        if not is_list or not all(isinstance(each, Update) for each in updates):
            raise ToolkitError(
                "run.apply takes a list of one or more updates.",
                hint="run.apply([run.gradients(loss, variables)])",
            )
        return self._builder.apply(updates, advance_step)

    def adopt(self, op: tf.Operation, losses: Any = ()) -> tf.Operation:
        """Declare a train op that the plugin built itself, for example by a `tf.train` optimizer.

        The guard covers it: if a loss or a changed variable is not finite, all variables that the
        step writes get their old values back. The options of the optimizer, its schedule, clipping,
        accumulation and weight decay have no effect on it.

        The core finds such ops, and the variables that they write, without this call. Variables
        that a `tf.py_func` writes are not in the graph, so the guard does not cover them.

        Args:
            op: the train op.
            losses: float32 scalars that have to be finite, one or a list or dict of them; by
                default those of the hook `loss`.

        Returns:
            The op. The hook `optimize` returns it, alone or in a `tf.group`. Where it does not
            advance the global step, the core does.

        Raises:
            ToolkitError: outside of mode "train".
        """
        self._check_mode("adopt")
        losses = losses.values() if isinstance(losses, dict) else losses
        self._builder.own_losses += [losses] if tf.is_tensor(losses) else list(losses)
        return op

    # -------------------------------------------------------------------------------------- state

    def state(self, name: str, initial: Any) -> tf.Variable:
        """Create a variable for what a plugin carries from step to step, in the hook `build`.

        It is saved and restored with the model, and not trained. It may be changed only by
        `update_state`.

        Args:
            name: the variable is called `state/NAME`.
            initial: an array, a tensor, or a function without arguments that returns one.

        Raises:
            ToolkitError: another state has this name.
        """
        full_name = STATE + name
        if any(v.op.name == full_name for v in tf.global_variables()):
            raise ToolkitError(
                f"Two plugins, or one plugin twice, create the state '{name}'.",
                hint="Begin its name with that of the plugin.",
            )
        if not re.match(r"[A-Za-z0-9.][A-Za-z0-9_.\\/-]*$", name):
            raise ToolkitError(
                f"'{name}' is no name of a state.",
                hint="Use letters, digits and the characters _ . / -, a letter or digit first.",
            )
        if isinstance(initial, (float, list, np.ndarray)):
            initial = np.asarray(initial)
            initial = initial.astype(np.float32) if initial.dtype == np.float64 else initial
        with tf.init_scope(), tf.name_scope(None):
            return tf.Variable(initial, trainable=False, name=full_name, use_resource=True)

    def fit_initial_values(
        self,
        variables: Sequence[tf.Variable],
        function: Callable[[Any], Sequence[Any]],
        is_of_data: bool = False,
    ) -> None:
        """Compute the initial values of variables from the training data, in the hook `build`.

        It happens once, before the first step. If a checkpoint restores all the variables, or
        --init-from gives all of them weights, they keep those; the values of one function belong
        together. With several processes, the chief computes the values and sends them to the
        others. In other modes than "train" nothing is computed.

        Args:
            variables: that the hook has created.
            function: called as `function(split)` with the training `Split` after `filter` and
                `convert`. Returns an array for each of the variables, of its shape.
            is_of_data: the values are useless with other data: they are computed for a run with
                --init-from, too.
        """
        if self.mode == "train":
            self._builder.initial_fits.append(InitialFit(list(variables), function, is_of_data))

    @property
    def fitted_variables(self) -> List[List[tf.Variable]]:
        """The variables of each call of `fit_initial_values` so far; none in other modes than
        "train".
        """
        return [list(fit.variables) for fit in self._builder.initial_fits]

    def update_state(self, function: Callable[[], Any]) -> None:
        """Update state at the end of the training step, behind its guard.

        It may be called while the hooks `build`, `call`, `loss` and `optimize` run, by their
        wrappers too.

        Args:
            function: called once, when all updates of the step are built; returns an op. The op
                reads the variables after the step. It does not run in a step that the guard
                refuses, nor in one that only adds to the sums of `--accumulate`.

        Raises:
            ToolkitError: outside of mode "train".
        """
        self._check_mode("update_state")
        if not callable(function):
            raise ToolkitError(
                f"run.update_state got {function!r:.100}, expected a function.",
                hint="Write run.update_state(lambda: variable.assign(...)): the op is built behind "
                "the guard.",
            )
        self._builder.state_functions.append(function)

    def after_restore(self, function: Callable[[], Any]) -> None:
        """Change the model's variables after they are restored to evaluate or predict.

        An average of the weights can so take their place. The op runs before local variables are
        initialized. It may be called in the hook `build` and its wrappers.

        Args:
            function: called once, when the graph is built; returns an op.

        Raises:
            ToolkitError: in mode "train".
        """
        if self.mode == "train":
            raise ToolkitError("after_restore was called in mode 'train'.")
        self._builder.restore_functions.append(function)

    def change_gradients(self, function: Callable[..., Sequence[tf.Tensor]]) -> None:
        """Change the gradients of every update of the step that `minimize` or `gradients` builds.

        They are changed after clipping, right before the optimizer gets them, and behind the guard,
        which looks at the gradients of the loss; with `--accumulate`, their mean is changed. A step
        without such an update is refused. Call it before the updates are built: in a wrapper of
        `optimize` before its `yield`.

        Args:
            function: called as `function(gradients, variables, name=name)` with two lists and a
                name that is different for each update of the step, for random numbers. Returns
                finite gradients, one for each variable.

        Raises:
            ToolkitError: outside of mode "train", or too late.
        """
        self._check_mode("change_gradients")
        self._builder.change_gradients(function)

    def change_learning_rate(
        self, function: Callable[[Any, Any, Any], Any], is_sole: bool = False
    ) -> None:
        """Change the learning rate of every update of the step that `minimize` builds.

        An optimizer object, which has a rate of its own, is not changed, and a step without another
        rate is refused. Call it before the updates are built: in a wrapper of `optimize` before its
        `yield`.

        Args:
            function: called as `function(rate, full_rate, step)` with the rate of the schedule and
                that without it, float32 scalars, and the number of steps before this one, an int64
                scalar tensor. Returns the rate, a float32 scalar.
            is_sole: whether no other function may change the rate.

        Raises:
            ToolkitError: outside of mode "train", or too late.
            UsageError: another function changes the rate, and one of them is the sole one.
        """
        self._check_mode("change_learning_rate")
        self._builder.change_learning_rate(function, is_sole)

    # ------------------------------------------------------------------------------------ logging

    def log(self, name: str, value: tf.Tensor) -> None:
        """Log a scalar tensor: a record has its mean over the steps since the record before.

        It is computed in each step, so let it cost little next to the step. A value of the hooks
        `call` or `loss` is that of the step. One that reads a variable by itself, such as the norm
        of a weight, may be that before or after the update.

        Args:
            name: of the metric; of several tensors with one name the last counts.
            value: scalar tensor.
        """
        self._builder.log(name, value)

    def note(self, text: str) -> None:
        """Say something at the start of the run, such as which option has no effect on its data.

        Args:
            text: a sentence without a full stop.
        """
        self._builder.notes.append(text)

    @property
    def logged(self) -> Dict[str, Any]:
        """Name -> scalar tensor of all that was logged so far."""
        return dict(self._builder.logged)


def step_builder_of(run: Run) -> StepBuilder:
    """The builder behind a run's calls, for the core."""
    return run._builder
