"""The networks of a run, and the losses of regularizers that `build` created."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ..compat import tf
from .regularization import renew_regularization_losses


class NetworkList:
    """What `Run.function` and `Run.keras` created for a graph."""

    def __init__(self):
        self._networks: Dict[str, Any] = {}
        self._losses: List[Any] = []  # of TensorFlow's collection, after `build`
        self._renewed: Dict[str, Any] = {}  # name of one -> its copy in the present step

    def add(self, network: Any, name: str) -> str:
        """Add a network, and return its name, unique in the run."""
        unique, number = name, 0
        while unique in self._networks:
            number += 1
            unique = f"{name}_{number}"
        self._networks[unique] = network
        return unique

    def end_build(self) -> None:
        """Record the losses of regularizers that `build` added to TensorFlow's collection."""
        self._losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)

    def begin_step(self) -> None:
        """Compute these losses in the step that begins, and let the networks know of it."""
        self._renewed = renew_regularization_losses(self._losses)
        for network in self._networks.values():
            network.begin_step()

    def renewed(self, losses: Sequence[Any]) -> List[Any]:
        """Losses of regularizers as the present step computes them."""
        return [self._renewed.get(loss.name, loss) for loss in losses]
