"""The `tf.ConfigProto` of a run, from its options."""

from __future__ import annotations

from typing import List

from ..compat import float_operations, tf

# Below this many float operations a step, an op is done before a second thread has woken up.
SMALL_STEP = 2e8


# TensorFlow makes one pool of threads within ops for a process, as its first session asks for it.
_pool: List[int] = []


def threads_in_use(options) -> int:
    """How many threads an op really has in this process (0: as many as cores). The order of sums
    in large ops depends on it, so another number gives other bits.
    """
    return _pool[0] if _pool else options.intra_op_threads


def session_config(options) -> tf.ConfigProto:
    """Threads, GPU memory and placement log as the options say."""
    _pool[:] = [threads_in_use(options)]
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


def with_threads(options, graph: tf.Graph):
    """The options with `intra_op_threads` settled: 1 for a small step, else as they are.

    All sessions of a run take them from here, whichever is the first.
    """
    if options.intra_op_threads or float_operations(graph) >= SMALL_STEP:
        return options
    return options.model_copy(update={"intra_op_threads": 1})
