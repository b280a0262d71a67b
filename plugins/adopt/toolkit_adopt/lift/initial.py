"""A graph file: its definition, which of its variables are trained, and their initial values.

The values are those of a checkpoint, or what the graph's own initializers give, run once in a graph
of its own. Random initializers without a seed get one from the run's seed and their name.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Sequence

import numpy as np
from tensorflow.core.framework.variable_pb2 import VariableDef

from toolkit import DataError, UsageError, tf

from .nodes import STATELESS, extract
from .refs import to_resources


class MetaGraph:
    """A MetaGraphDef.

    Args:
        meta: the message.
        checkpoint: the prefix of a checkpoint's files; "" for none.

    Attributes:
        graph_def: its graph, whose variables are resources.
        trainable, local: of the variables that the graph calls trainable, and of its local ones,
            such as those of metrics: their VariableDefs by name.
    """

    def __init__(self, meta: Any, checkpoint: str = ""):
        self._meta, self._checkpoint = meta, checkpoint
        self.graph_def = to_resources(meta.graph_def)
        self.trainable = self._collection("trainable_variables")
        self.local = self._collection("local_variables")

    def _collection(self, key: str) -> Dict[str, Any]:
        found = self._meta.collection_def
        texts = found[key].bytes_list.value if key in found else ()
        variables = map(VariableDef.FromString, texts)
        return {variable.variable_name.partition(":")[0]: variable for variable in variables}

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
        known = {**self._collection("variables"), **self.local}
        missing = [name for name in names if name not in values]
        for name in missing:
            if name not in known:
                raise UsageError(
                    f"The variable '{name}' has no initial value: it is in no collection of "
                    "the graph, and in no checkpoint.",
                    hint="Put its checkpoint beside the graph, NAME.index beside NAME.meta, or set "
                    "--init-from to one that has all variables.",
                )
        if not missing:
            return values
        initializers = [known[name].initializer_name for name in missing]
        reads = {name: known[name].snapshot_name for name in missing}
        source = self._meta.graph_def
        nodes = extract(source, [*initializers, *reads.values()])
        for node in nodes:
            if node.op in STATELESS and not (node.attr["seed"].i or node.attr["seed2"].i):
                node.attr["seed"].i = seed_of(f"initializer/{node.name}")
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            definition = tf.GraphDef(node=nodes, library=source.library, versions=source.versions)
            tf.import_graph_def(definition, name="")
            session.run(initializers)
            values.update(session.run(reads))
        return values


def read_meta(path: str) -> MetaGraph:
    """Read a file .meta, and find the checkpoint beside it.

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
    prefix = os.path.splitext(path)[0]
    return MetaGraph(meta, prefix if os.path.isfile(prefix + ".index") else "")
