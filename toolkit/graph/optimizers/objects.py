"""Optimizers: those that `--optimizer` names, with their typed arguments, and objects that a plugin
made, of tf.train or of Keras, with one interface.

All variables of an optimizer are created before the first update, outside of any loop or condition,
and its update is one op. These hold in a single step, in a loop, and in a step that XLA compiles.
"""

from __future__ import annotations

import inspect
from typing import Any, Iterable, List, Mapping, Sequence, Tuple

from ...compat import tf
from ...errors import UsageError, suggest

# Parameters of constructors that are set otherwise; the last, and those that end with "_name",
# change the names of variables.
_RESERVED = (
    *("self", "learning_rate", "name", "use_locking", "global_step"),
    "use_own_namescope_for_non_slot_vars",
)
_OTHER_NAMES = {"nesterov": "Set --optimizer momentum --optimizer-args use_nesterov=true."}
_OTHER_OPTIONS = ("weight_decay", "learning_rate")  # of the core
ADAMW = "adamw"
ADAMW_DECAY = 0.01  # of Loshchilov and Hutter 2019, unless --weight-decay is set
# Of centered RMSProp: the mean square less the square of the mean may be below 0 by rounding, by up
# to a millionth of the squared gradient.
CENTERED_EPSILON = 1e-5
_CLASSES = "Take one of tf.train or tf.keras.optimizers (from toolkit import tf)."
_CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")  # arguments of Keras optimizers


def optimizer_names() -> List[str]:
    """What `--optimizer` takes: the classes of tf.train, lower case, without 'Optimizer'; and
    adamw, which is adam with weight decay.
    """
    classes = [name[: -len("Optimizer")] for name in dir(tf.train) if name.endswith("Optimizer")]
    return sorted([ADAMW, *(name.lower() for name in classes if name not in ("", "SyncReplicas"))])


def default_weight_decay(name: str) -> float:
    """The weight decay of a named optimizer where none is set."""
    return ADAMW_DECAY if _short_name(name) == ADAMW else 0.0


def make_optimizer(name: str, rate, arguments: Mapping[str, Any]) -> tf.train.Optimizer:
    """Make a tf.train optimizer with a learning rate, a float32 scalar tensor. The name is one of
    `optimizer_names`, or "sgd"; case, hyphens and underscores do not count. The arguments of its
    constructor are numbers or booleans. Raises UsageError for an unknown name or argument, or
    a value that the optimizer refuses.
    """
    short_name = _short_name(name)
    if short_name not in optimizer_names():
        raise UsageError(
            f"There is no optimizer '{name}' in tf.train.",
            hint=_OTHER_NAMES.get(short_name) or suggest(short_name, optimizer_names() + ["sgd"]),
        )
    short_name = "adam" if short_name == ADAMW else short_name
    classes = {n.lower(): getattr(tf.train, n) for n in dir(tf.train) if n.endswith("Optimizer")}
    cls = classes[short_name + "optimizer"]
    parameters = inspect.signature(cls.__init__).parameters
    names = [n for n in parameters if n not in _RESERVED and not n.endswith("_name")]
    values = {}
    for each, value in arguments.items():
        if each not in names:
            option = each.replace("-", "_")
            is_option = option in _OTHER_OPTIONS
            hint = f"Set --{option.replace('_', '-')} {value}." if is_option else ""
            raise UsageError(
                f"Optimizer '{name}' has no argument '{each}'.", hint=hint or suggest(each, names)
            )
        values[each] = _typed_argument(name, parameters[each], value)
    if short_name == "momentum":
        values.setdefault("momentum", 0.9)
    if values.get("centered"):
        values.setdefault("epsilon", CENTERED_EPSILON)
    if not values.get("epsilon", 1) > 0:
        raise UsageError(
            f"Optimizer '{name}' divides by zero with epsilon={values['epsilon']:g}.",
            hint="Set a positive epsilon.",
        )
    if "global_step" in parameters:
        values["global_step"] = tf.train.get_or_create_global_step()
    try:
        return cls(learning_rate=rate, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Optimizer '{name}' refuses its arguments: {error}.") from error


def _short_name(name: str) -> str:
    short_name = name.lower().replace("-", "").replace("_", "")
    return {"sgd": "gradientdescent"}.get(short_name, short_name)


def _typed_argument(optimizer: str, parameter: inspect.Parameter, value: Any) -> Any:
    """An argument with the type of the optimizer's default. Raises UsageError."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(parameter.default, bool):
        value = bool(value) if is_number and value in (0, 1) else value
        fault = "" if isinstance(value, bool) else "should be true or false"
    else:
        fault = "" if is_number else "should be a number"
    if fault:
        raise UsageError(
            f"Argument '{parameter.name}' of optimizer '{optimizer}' is {value!r}, but {fault}.",
            hint="Set it with --optimizer-args.",
        )
    return value


# ------------------------------------------------------------------------------------------ objects


class TrainOptimizer:
    """A `tf.train.Optimizer`, whose own variables have names in a scope with a slash at the end. It
    was made with the rate; None for what the object itself says.
    """

    def __init__(self, optimizer: Any, scope: str, rate: Any = None):
        self._optimizer, self._scope = optimizer, scope
        # float32 scalar tensor; None if it is unknown.
        self.learning_rate = self._own_rate() if rate is None else rate

    def compute_gradients(self, loss, variables) -> List[Tuple[Any, Any]]:
        """Pairs of a gradient, None where the loss does not depend on it, and its variable."""
        pairs: List[Tuple[Any, Any]] = self._optimizer.compute_gradients(loss, variables)
        return pairs

    def create_variables(self, variables: Sequence[Any]) -> None:
        """Create what the optimizer stores for the variables, unless it exists."""
        with tf.init_scope(), tf.name_scope(self._scope):  # the same in a loop and outside
            # tf.train has no public way to create them before the first update.
            if variables:  # Nadam's asks the first for its dtype
                self._optimizer._create_slots(variables)

    def variables(self) -> List[Any]:
        """What the optimizer stores, for all its variables."""
        return list(self._optimizer.variables())

    def apply(self, pairs: Iterable[Tuple[Any, Any]]):
        """Build one op that updates variables, from pairs of a dense gradient and its variable."""
        return self._optimizer.apply_gradients(list(pairs))

    def _own_rate(self) -> Any:
        # Each class of tf.train has one of these; a class of somebody else need not.
        for name in ("_learning_rate", "_lr"):
            rate = getattr(self._optimizer, name, None)
            rate = rate() if callable(rate) else rate
            if rate is not None:
                return tf.cast(rate, tf.float32)
        return None


class KerasOptimizer(TrainOptimizer):
    """An optimizer of Keras as it was up to TensorFlow 2.10: `tf.keras.optimizers` here, and
    `tf.keras.optimizers.legacy` elsewhere. Those since do not work in graphs.
    """

    def compute_gradients(self, loss, variables) -> List[Tuple[Any, Any]]:
        return list(zip(tf.gradients(loss, variables, gate_gradients=True), variables))

    def create_variables(self, variables: Sequence[Any]) -> None:
        with tf.init_scope(), tf.name_scope(self._scope):  # the same in a loop and outside
            assert self._optimizer.iterations is not None  # the first access creates it
            self._optimizer._create_hypers()
            if variables:  # Nadam's asks the first for its dtype
                self._optimizer._create_slots(variables)

    def variables(self) -> List[Any]:
        return list(self._optimizer.weights)

    def apply(self, pairs: Iterable[Tuple[Any, Any]]):
        # The rate follows a count that the update advances.
        with tf.control_dependencies([self.learning_rate]):
            return self._optimizer.apply_gradients(list(pairs))

    def _own_rate(self) -> Any:
        self.create_variables([])
        return self._optimizer._decayed_lr(tf.float32)


def is_optimizer(value: Any) -> bool:
    """Whether a value is an optimizer object, of tf.train or of any Keras."""
    return hasattr(value, "apply_gradients") and not isinstance(value, type)


def adapt(optimizer: Any, scope: str, rate: Any = None) -> TrainOptimizer:
    """Give an optimizer object of tf.train or Keras the interface of `TrainOptimizer`, whose
    arguments these are. Raises UsageError if it is none, or does what does not work here.
    """
    cls = type(optimizer)
    subject = f"The optimizer {cls.__module__.partition('.')[0]}.{cls.__qualname__}"
    if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
        raise UsageError(
            f"{subject} waits for other processes, and a run averages gradients itself.",
            hint="Pass the optimizer that it wraps.",
        )
    if isinstance(optimizer, tf.train.Optimizer):
        return TrainOptimizer(optimizer, scope, rate)
    if not isinstance(optimizer, tf.keras.optimizers.Optimizer):
        raise UsageError(f"{subject} is no optimizer that works in a graph.", _CLASSES)
    for name in _CLIPPING:
        if getattr(optimizer, name, None) is not None:
            raise UsageError(
                f"{subject} sets {name}, but gradients are clipped before it.",
                hint="Leave it out, and set --clip and --clip-limit.",
            )
    return KerasOptimizer(optimizer, f"{scope}{optimizer._name}/", rate)
