"""The session in which a step is made over and over, always from its beginning."""

from __future__ import annotations

from typing import Optional

from ..compat import tf
from ..graph.build import build_training
from ..graph.session_config import session_config
from .ops import conditions, in_loop, in_order


class Replay:
    """A session in which a step can be made over and over, always from its beginning."""

    def __init__(self, plugins, make_reader, make_run, checkpoint: Optional[str], step: int):
        self.step = step
        self._checkpoint = checkpoint
        graph = tf.Graph()
        with graph.as_default():
            self.reader = make_reader()
            run = make_run(self.reader)
            self.built = build_training(plugins, run, self.reader, graph)
            self.positions = self.reader.positions(run.global_step.read_value())
            self._initialize = tf.global_variables_initializer()
            # As in training: what follows from the weights is computed behind their restoring.
            self._derive = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
            self._saver = tf.train.Saver() if checkpoint else None
        self._session = tf.Session(graph=graph, config=session_config(run.options))
        self._filled = False
        self.ordered = in_order(graph)
        self.conditions = conditions(self.ordered)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def run(self, fetches, feeds=None):
        """Values of the step; nothing that an earlier run changed reaches this one."""
        self._session.run(self._initialize)
        if self._saver is not None:
            self._saver.restore(self._session, self._checkpoint)
        self._session.run(self._derive)
        if not (self._filled and self.reader.in_memory):
            self.reader.initialize(self._session, self.step)
            self._filled = True
        return self._session.run(fetches, feeds)

    def tried(self, fetches, feeds=None):
        """The same, or None where an op fails: the guard's, or one of a branch not taken."""
        try:
            return self.run(fetches, feeds)
        except tf.errors.InvalidArgumentError:
            return None

    def handed_out(self, tensor):
        """A tensor that can be fetched and has the value of `tensor`; None within a loop."""
        graph = tensor.graph
        if graph.is_fetchable(tensor.op):
            return tensor
        if in_loop(tensor.op):
            return None
        with graph.as_default(), tf.control_dependencies(None):
            return tf.identity(tensor)
