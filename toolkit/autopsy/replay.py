"""A session that repeats one training step from the same state, as often as needed."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

import numpy as np

from ..compat import dumped_tensors, tf
from ..files import plain_path
from ..graph.build import build_training
from ..graph.run import Run
from ..graph.session_config import session_config
from ..plugins import Plugins


class Replay:
    """The graph of one training step, and a session that runs it from the same state each time.

    Attributes:
        step: the global step before the repeated one.
        graph: the `TrainingGraph`.
        positions: tensor int64 [N], the batch's positions in the training split.
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
        config = session_config(run.options)
        # Each tensor is computed by the op that the plugin's line created, and by no fused one.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        self._session = tf.Session(graph=tf_graph, config=config)
        self._is_reader_ready = False

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: Any) -> None:
        self._session.close()

    @contextlib.contextmanager
    def run(
        self,
        fetches: Any,
        watched: Iterable[tf.Tensor],
        feeds: Optional[Dict[tf.Tensor, Any]] = None,
    ) -> Iterator[Tuple[Any, Iterable[Tuple[str, np.ndarray]]]]:
        """Run the step from its initial state, whatever earlier calls changed.

        Args:
            fetches: as of a session.
            watched: tensors anywhere in the step, in loops and branches too.
            feeds: as of a session.

        Yields:
            The fetched values, None where an op fails; and name and value of each watched tensor,
            as often as it was computed, in the order of time.
        """
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
        with dumped_tensors(self._session, fetches, watched, feeds) as result:
            yield result
