"""The `tf.ConfigProto` of a run, from its options; what fills the queues of a plugin."""

from __future__ import annotations

import weakref
from typing import List

from ..compat import float_operations, tf
from ..options import CoreOptions

# Below this many float operations a step, an op is done before a second thread has woken up.
SMALL_STEP = 2e8
_is_small: weakref.WeakKeyDictionary[tf.Graph, bool] = weakref.WeakKeyDictionary()

# TensorFlow creates one pool of intra-op threads per process, with the number that its first
# session asks for. That number; empty before the first session.
_process_threads: List[int] = []


def effective_threads(options: CoreOptions) -> int:
    """The number of intra-op threads that this process really has; 0: one per core.

    The order of sums in large ops depends on it, so another number gives other bits.
    """
    return _process_threads[0] if _process_threads else options.intra_op_threads


def session_config(options: CoreOptions) -> tf.ConfigProto:
    """Threads, GPU memory and placement log according to the options."""
    _process_threads[:] = [effective_threads(options)]
    config = tf.ConfigProto(
        intra_op_parallelism_threads=options.intra_op_threads,
        inter_op_parallelism_threads=options.inter_op_threads,
        log_device_placement=options.log_device_placement,
        allow_soft_placement=True,
    )
    config.gpu_options.allow_growth = options.gpu_memory_growth
    if options.gpu_memory_fraction is not None:
        config.gpu_options.per_process_gpu_memory_fraction = options.gpu_memory_fraction
    return config


def is_small_step(graph: tf.Graph) -> bool:
    """Whether the step that a graph makes is small: measured once, as that takes up to 0.3 s."""
    if graph not in _is_small:
        _is_small[graph] = float_operations(graph) < SMALL_STEP
    return _is_small[graph]


def choose_threads(options: CoreOptions, graph: tf.Graph) -> CoreOptions:
    """The options with `intra_op_threads` chosen: 1 for a small step, else unchanged.

    All sessions of a run take the number from here, whichever is the first.
    """
    if options.intra_op_threads or not is_small_step(graph):
        return options
    return options.model_copy(update={"intra_op_threads": 1})


def fill_queues(session: tf.Session) -> None:
    """Start the threads that fill a plugin's queues (`tf.train.batch`), unless they run already, as
    a monitored session does; what reads from one would else wait for ever. They end with the
    session.
    """
    coordinator = tf.train.Coordinator()  # without it, a thread prints how it ends
    for runner in session.graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
        runner.create_threads(session, coordinator, daemon=True, start=True)
