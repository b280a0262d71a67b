"""A graph file: its definition, which of its variables are trained, and their initial values.

The values are those of a checkpoint, or what the graph's own initializers give, run once in a graph
of its own. Random initializers without a seed get one from the run's seed and their name.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from toolkit import DataError, UsageError, tf

from .fragment import with_resources
from .nodes import STATELESS

_COLLECTIONS = ("variables", "trainable_variables", "local_variables")


class MetaGraph:
    """A MetaGraphDef.

    Args:
        meta: the message.
        checkpoint: the prefix of a checkpoint's files; "" for none.

    Attributes:
        graph_def: its graph, whose variables are resources.
    """

    def __init__(self, meta: Any, checkpoint: str = ""):
        self._meta, self._checkpoint = meta, checkpoint
        self.graph_def = with_resources(meta.graph_def)
        self._known: Any = None

    @property
    def trainable(self) -> List[str]:
        """The names of the variables that the graph calls trainable."""
        return self._names[0]

    @property
    def local(self) -> List[str]:
        """The names of its local variables, such as those of metrics."""
        return self._names[1]

    @property
    def _names(self) -> Tuple[List[str], List[str]]:
        if self._known is None:
            with self._imported():
                lists = tf.trainable_variables(), tf.local_variables()
                self._known = tuple([v.op.name for v in each] for each in lists)
        return self._known

    def initial_values(self, names: Sequence[str], seed_of: Any) -> Dict[str, np.ndarray]:
        """The value of each variable by name.

        Args:
            names: of variables.
            seed_of: from the name of an initializer to a seed in [0, 2**31).

        Raises:
            UsageError: neither the checkpoint nor the graph gives one.
        """
        values: Dict[str, np.ndarray] = {}
        if self._checkpoint:
            reader = tf.train.load_checkpoint(self._checkpoint)
            values = {name: reader.get_tensor(name) for name in names if reader.has_tensor(name)}
        missing = [name for name in names if name not in values]
        if not missing:
            return values
        with self._imported(seed_of) as graph, tf.Session(graph=graph) as session:
            known = {v.op.name: v for v in tf.global_variables() + tf.local_variables()}
            without = [name for name in missing if name not in known]
            if without:
                raise UsageError(
                    f"The variable '{without[0]}' has no initial value: it is in no collection of "
                    "the graph, and in no checkpoint.",
                    hint="Set --checkpoint, or save the graph behind the whole script.",
                )
            session.run([known[name].initializer for name in missing])
            values.update(session.run({name: known[name] for name in missing}))
        return values

    def _imported(self, seed_of: Any = None) -> Any:
        """A graph with what TensorFlow knows of this one, as the default graph of a block."""
        meta = type(self._meta)()
        meta.CopyFrom(self._meta)
        for key in list(meta.collection_def):
            if key not in _COLLECTIONS:
                del meta.collection_def[key]
        meta.ClearField("saver_def")
        del meta.graph_def.node[:]
        meta.graph_def.node.extend(_known_nodes(self._meta.graph_def))
        for node in meta.graph_def.node:
            if node.op not in STATELESS or seed_of is None:
                continue
            if not (node.attr["seed"].i or node.attr["seed2"].i):
                node.attr["seed"].i = seed_of(f"initializer/{node.name}")
        graph = tf.Graph()
        with graph.as_default():
            tf.train.import_meta_graph(meta, clear_devices=True)
        return graph.as_default()


def _known_nodes(graph_def: Any) -> List[Any]:
    """The nodes whose ops, and those of all that they need, this TensorFlow has."""
    functions = {f.signature.name for f in graph_def.library.function}
    lost = {
        node.name
        for node in graph_def.node
        if not hasattr(tf.raw_ops, node.op) and node.op not in functions
    }
    count = -1
    while count < len(lost):
        count = len(lost)
        for node in graph_def.node:
            if any(text.lstrip("^").split(":")[0] in lost for text in node.input):
                lost.add(node.name)
    return [node for node in graph_def.node if node.name not in lost]


def read_meta(path: str, checkpoint: str = "") -> MetaGraph:
    """Read a file .meta.

    Args:
        path: of the file.
        checkpoint: the prefix of a checkpoint's files; "" for none.

    Raises:
        UsageError: there is no such file.
        DataError: it holds no graph.
    """
    try:
        with open(path, "rb") as file:
            meta = tf.MetaGraphDef.FromString(file.read())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", hint="Set --meta to a file .meta.") from None
    except Exception:  # protobuf's own class, which differs between versions
        meta = tf.MetaGraphDef()
    if not meta.graph_def.node:
        raise DataError(f"{path} holds no graph.", hint="tf.train.Saver writes files .meta.")
    if checkpoint and not os.path.isfile(checkpoint + ".index"):
        raise UsageError(f"There is no checkpoint '{checkpoint}' (no file {checkpoint}.index).")
    return MetaGraph(meta, checkpoint)
