"""The `tf.ConfigProto` of a run, from its options."""

from __future__ import annotations

from ..compat import float_operations, tf

# Below this many float operations a step, an op is done before a second thread has woken up.
SMALL_STEP = 2e8


def session_config(options) -> tf.ConfigProto:
    """Threads, GPU memory and placement log as the options say."""
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

    TensorFlow makes one pool of such threads for a process, with its first session, so all
    sessions of a run take them from here.
    """
    if options.intra_op_threads or float_operations(graph) >= SMALL_STEP:
        return options
    return options.model_copy(update={"intra_op_threads": 1})
