"""Copy the graph of one replica into that of another, so that one session trains both.

Each replica is built in a graph of its own, by the same hooks with the same names. The copy has
names, shared resources and a device of its own. The collective ops of all replicas join each other
by their keys.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Optional

from ..compat import tf
from .build import TrainingGraph
from .guard import disarm

CPU, GPU = "CPU", "GPU"


# How the names of a copy's ops begin; TensorFlow adds a number where a plugin has such a scope.
_PREFIX = re.compile(r"replica_\d+(_\d+)?/")


def original_name(name: str) -> str:
    """The name of an op in the graph of its replica, from that in the graph with the copies."""
    return _PREFIX.sub("", name, 1) if _PREFIX.match(name) else name


class ReplicaDevice(NamedTuple):
    """Where a replica is computed."""

    kind: str  # CPU or GPU
    number: int

    @property
    def name(self) -> str:
        """Its name in a line for the user, and after "/device:"."""
        return f"{self.kind}:{self.number}"

    def place(self, device: str) -> str:
        """The device of an op, from that in its replica's own graph, "" if nothing says it."""
        # What a GPU's replica has on the processor is there for all of them.
        is_elsewhere = tf.DeviceSpec.from_string(device).device_type not in (None, self.kind)
        return device if is_elsewhere and self.kind == GPU else f"/device:{self.name}"


class ReplicaCopy:
    """A replica in the training graph of another, the target, on a device of its own. The graph of
    the replica stays in use: its Python functions are called from the copy.
    """

    def __init__(self, graph: tf.Graph, target: TrainingGraph, device: ReplicaDevice):
        self.graph, self.device = graph, device
        self._target = target.tf_graph
        self._frame_name = b""  # of the loop of steps
        shared = {}  # tensors of the target, for those of these names in the replica
        if target.loop is not None:
            # One loop for all replicas: collective ops join in one turn of one loop.
            switch = target.train_op.inputs[0].op
            merge, condition = switch.inputs[0].op, switch.inputs[1]
            self._frame_name = merge.inputs[0].op.get_attr("frame_name")
            shared = {x.name: x for x in (target.loop.num_steps, condition)}
        with self._target.as_default():
            name = f"replica_{device.number}"
            self._prefix = self._target.unique_name(name, mark_as_used=False)
            tf.import_graph_def(self._graph_def(), shared, name=self._prefix)

    def element(self, element: Any) -> Any:
        """The copy of a tensor or an op of the replica; of a variable, its value."""
        own = self.graph.as_graph_element(element)
        return self._target.as_graph_element(f"{self._prefix}/{own.name}")

    def _graph_def(self) -> tf.GraphDef:
        graph_def = self.graph.as_graph_def()
        disarm(graph_def)
        for node in graph_def.node:  # a device, and resources and loops of its own
            node.device = self.device.place(node.device)
            for name in ("shared_name", "frame_name"):
                value = node.attr[name].s if name in node.attr else b""
                if value and value != self._frame_name:
                    node.attr[name].s = f"{self._prefix}/".encode() + value
        common = {f.signature.name for f in self._target.as_graph_def().library.function}
        for function in graph_def.library.function:
            if function.signature.name not in common:
                for node in function.node_def:
                    node.device = self.device.place(node.device) if node.device else ""
        return graph_def


class ReplicaSession:
    """A session of the common graph that runs what belongs to `graph`, that of a replica."""

    def __init__(self, session: tf.Session, copy: ReplicaCopy):
        self.graph = copy.graph
        self._session, self._copy = session, copy

    def run(self, fetches: Any, feed_dict: Optional[Any] = None) -> Any:
        """As that of a session."""
        element = self._copy.element
        feeds = {element(key): value for key, value in (feed_dict or {}).items()}
        return self._session.run(tf.nest.map_structure(element, fetches), feeds)
