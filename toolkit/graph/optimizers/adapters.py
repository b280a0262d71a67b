"""One interface for the optimizers of tf.train and of Keras, as objects that a plugin made.

All variables of an optimizer are created before the first update, outside of any loop or condition,
and its update is one op. These hold in a single step, in a loop, and in a step that XLA compiles.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator, List, Sequence, Tuple

from ...compat import tf
from ...errors import UsageError

_CLASSES = "Take one of tf.train or tf.keras.optimizers (from toolkit import tf)."
_CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")  # arguments of Keras optimizers


class TrainOptimizer:
    """A `tf.train.Optimizer`, whose own variables have names in a scope with a slash at the end. It
    was made with the rate; None for what the object itself says.
    """

    def __init__(self, optimizer: Any, scope: str, rate: Any = None):
        self._optimizer = optimizer
        self._scope_name = scope
        # float32 scalar tensor; None if it is unknown.
        self.learning_rate = self._own_rate() if rate is None else rate

    def compute_gradients(self, loss, variables) -> List[Tuple[Any, Any]]:
        """Pairs of a gradient, None where the loss does not depend on it, and its variable."""
        pairs: List[Tuple[Any, Any]] = self._optimizer.compute_gradients(loss, variables)
        return pairs

    def create_variables(self, variables: Sequence[Any]) -> None:
        """Create what the optimizer stores for the variables, unless it exists."""
        with self._scope():
            # tf.train has no public way to create them before the first update.
            if variables:  # Nadam's asks the first for its dtype
                self._optimizer._create_slots(variables)

    def variables(self) -> List[Any]:
        """What the optimizer stores, for all its variables."""
        return list(self._optimizer.variables())

    def apply(self, pairs: Iterable[Tuple[Any, Any]]):
        """Build one op that updates variables, from pairs of a dense gradient and its variable."""
        return self._optimizer.apply_gradients(list(pairs))

    @contextlib.contextmanager
    def _scope(self) -> Iterator[None]:
        """The scope of the optimizer's variables, the same in a loop and outside."""
        with tf.init_scope(), tf.name_scope(self._scope_name):
            yield

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
        with self._scope():
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
    subject = _describe(optimizer)
    if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
        raise UsageError(
            f"{subject} is for several processes, and a run has one.",
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


def _describe(optimizer: Any) -> str:
    cls = type(optimizer)
    return f"The optimizer {cls.__module__.partition('.')[0]}.{cls.__qualname__}"
