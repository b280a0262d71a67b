"""An extension that observes one step of a plugin while its graph is built."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Set

from ..compat import tf
from ..graph.run import step_builder_of
from ..hookspecs import hookimpl


class Probe:
    """Notes what the hooks of a plugin create and return, and changes nothing.

    Attributes:
        variables: the names of those that exist when `optimize` is called: the model's.
        trainable: the names of those of them that can be trained.
        frozen: the names of those of them that a group freezes.
        trained: name of an update -> the names of the variables that it trains.
        losses: what `loss` returned.
    """

    # A plugin that trains by an optimizer of its own passes it no gradients, and is no worse.
    only_observes = True

    def __init__(self) -> None:
        self.variables: Set[str] = set()
        self.trainable: List[str] = []
        self.frozen: Set[str] = set()
        self.trained: Dict[str, Set[str]] = {}
        self.losses: Any = None

    @hookimpl(wrapper=True)
    def loss(self) -> Iterator[None]:
        self.losses = yield
        return self.losses

    @hookimpl(wrapper=True)
    def optimize(self, run: Any) -> Iterator[None]:
        self.variables = {v.op.name for v in tf.global_variables()}
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
