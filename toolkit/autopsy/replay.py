"""A session that repeats one training step from the same state, as often as needed."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from ..compat import tf
from ..files import plain_path
from ..graph.build import build_training
from ..graph.run import Run
from ..graph.session_config import session_config
from ..plugins import Plugins
from .ops import enclosing_branches, is_in_loop, topological_order


class Replay:
    """The graph of one training step, and a session that runs it from the same state each time.

    Attributes:
        step: the global step before the repeated one.
        graph: the `TrainingGraph`.
        positions: tensor int64 [N], the batch's positions in the training split.
        ops: all ops of the graph in topological order.
        branches: op -> the branches of tf.cond that the op is in.
    """

    def __init__(
        self,
        plugins: Plugins,
        make_reader: Callable[[], Any],
        make_run: Callable[[Any], Run],
        checkpoint: Optional[str],
        step: int,
        assign_weights: Optional[Callable[[tf.Session], None]] = None,
    ):
        self.step = step
        self._checkpoint = checkpoint
        self._assign_weights = assign_weights
        tf_graph = tf.Graph()
        with tf_graph.as_default():
            self._reader = make_reader()
            run = make_run(self._reader)
            self.graph = build_training(plugins, run, self._reader, tf_graph)
            self.positions = self._reader.positions(tf.constant(step, tf.int64))
            self._initialize = tf.global_variables_initializer()
            # As in training: local variables may depend on the weights, so they come after them.
            self._initialize_locals = tf.group(
                tf.local_variables_initializer(), tf.tables_initializer()
            )
            self._saver = tf.train.Saver() if checkpoint else None
        self._session = tf.Session(graph=tf_graph, config=session_config(run.options))
        self._is_reader_ready = False
        self.ops = topological_order(tf_graph)
        self.branches = enclosing_branches(self.ops)

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: Any) -> None:
        self._session.close()

    def run(self, fetches: Any, feeds: Optional[Dict[tf.Tensor, Any]] = None) -> Any:
        """Run the step from its initial state, whatever earlier calls changed."""
        self._session.run(self._initialize)
        if self._assign_weights is not None:
            self._assign_weights(self._session)
        if self._saver is not None and self._checkpoint is not None:
            with plain_path(self._checkpoint) as path:
                self._saver.restore(self._session, path)
        self._session.run(self._initialize_locals)
        if not (self._is_reader_ready and self._reader.in_memory):
            self._reader.initialize(self._session, self.step)
            self._is_reader_ready = True
        return self._session.run(fetches, feeds)

    def try_run(self, fetches: Any, feeds: Optional[Dict[tf.Tensor, Any]] = None) -> Any:
        """As `run`, or None where an op fails: the guard's, or one in a branch not taken."""
        try:
            return self.run(fetches, feeds)
        except tf.errors.InvalidArgumentError:
            return None

    def make_fetchable(self, tensor: tf.Tensor) -> Optional[tf.Tensor]:
        """Return a tensor of the same value that a session can fetch; None inside a loop."""
        graph = tensor.graph
        if graph.is_fetchable(tensor.op):
            return tensor
        if is_in_loop(tensor.op):
            return None
        with graph.as_default(), tf.control_dependencies(None):
            return tf.identity(tensor)
