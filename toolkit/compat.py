"""The one import of TensorFlow: 1.15 as it is, 2.x through `tensorflow.compat.v1`.

Importing this module switches the process to graphs, sessions and resource variables, so nothing
that only lists, describes or parses may import it. Every difference between the two lines stands
here.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
import warnings

# Keras's `fit` takes DataFrames where pandas is there; graphs and sessions have no use for it. It
# would cost memory and a good part of the time of the import.
OPTIONAL = ("pandas",)
VERBOSE = os.environ.get("TOOLKIT_VERBOSE", "") not in ("", "0")


def _prepare_environment() -> None:
    """Set what TensorFlow reads once, while it is imported."""
    if not VERBOSE:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # With the package, `tf.keras` is the Keras whose layers work in a graph. Without it, on
    # TensorFlow before 2.16, the variable would break the import.
    if importlib.util.find_spec("tf_keras") is not None:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


@contextlib.contextmanager
def _held_back(stream):
    """Hold back what C++ writes to the file descriptor of `stream` (sys.stdout or sys.stderr), 1 or
    2; tell it on stderr only if the block fails.

    TensorFlow 2.x logs before it reads its log level, so no environment variable silences it.
    """
    descriptor = 1 if stream is sys.stdout else 2
    if VERBOSE and descriptor == 2:  # stdout is for results, whatever the user wants to see
        yield
        return
    stream.flush()
    with tempfile.TemporaryFile() as held:
        saved = os.dup(descriptor)
        os.dup2(held.fileno(), descriptor)
        try:
            yield
        except BaseException:
            os.dup2(saved, descriptor)
            held.seek(0)
            sys.stderr.write(held.read().decode("utf-8", "replace"))
            raise
        finally:
            os.dup2(saved, descriptor)
            os.close(saved)


@contextlib.contextmanager
def _imported_fast():
    """Leave out what TensorFlow imports only where it happens to be installed, and the garbage
    collector: what is made here stays, and need not be looked through again.
    """
    left_out = [name for name in OPTIONAL if name not in sys.modules]
    sys.modules.update(dict.fromkeys(left_out))  # None: an import of it fails
    gc.disable()
    try:
        yield
    finally:
        for name in left_out:
            del sys.modules[name]
        gc.enable()
        gc.freeze()


_prepare_environment()
with _held_back(sys.stderr), _imported_fast(), warnings.catch_warnings():
    if not VERBOSE:
        warnings.simplefilter("ignore")  # numpy's FutureWarnings in TensorFlow 1.15
    import tensorflow
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.INFO if VERBOSE else tf.logging.ERROR)
    tf.disable_v2_behavior()
    tf.enable_resource_variables()
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.client import timeline

__all__ = [
    "HAS_XLA",
    "VERSION_FAMILY",
    "ONEDNN",
    "VERSION",
    "chrome_trace",
    "compile_with_xla",
    "float_operations",
    "make_callable",
    "tf",
]

VERSION = tf.__version__
VERSION_FAMILY = "1.15" if VERSION.startswith("1.") else "2.x"
HAS_XLA = VERSION_FAMILY == "2.x"  # whether `compiled` can be had


def _has_onednn() -> bool:
    """Whether convolutions are oneDNN's: in 2.x, and in builds of 1.15 that were made with it."""
    if VERSION_FAMILY == "2.x":
        return True
    from tensorflow.python import pywrap_tensorflow

    return bool(pywrap_tensorflow.IsMklEnabled())


ONEDNN = _has_onednn()


def chrome_trace(step_stats) -> str:
    """The JSON of a Chrome trace (chrome://tracing) from a RunMetadata's step_stats."""
    return timeline.Timeline(step_stats).generate_chrome_trace_format()


def make_callable(session: tf.Session, fetches, feeds=(), inline: bool = False):
    """A function of the fed arrays that runs the fetches: the tensors' values in a list.

    fetches: tensors and operations. inline: all ops run in the thread that calls, where otherwise
    they are handed to TensorFlow's own threads.
    """
    options = config_pb2.CallableOptions()
    for fetch in fetches:
        (options.target if isinstance(fetch, tf.Operation) else options.fetch).append(fetch.name)
    options.feed.extend(feed.name for feed in feeds)
    if inline:
        options.run_options.inter_op_thread_pool = -1
    # The public Session.make_callable is the same without RunOptions.
    return session._make_callable_from_options(options)


def compile_with_xla(function, inputs):
    """What `function` of the tensors returns, as one op that XLA compiles when it first runs.

    Only where it HAS_XLA: 1.15 takes the op apart again, and its XLA made no step faster.
    """
    return tensorflow.function(function, autograph=False, jit_compile=True)(*inputs)


def float_operations(graph: tf.Graph) -> int:
    """Float operations of one run of all ops, by TensorFlow's own count and static shapes."""
    builder = tf.profiler.ProfileOptionBuilder
    counting = builder(builder.float_operation()).with_empty_output().build()
    with _held_back(sys.stdout):  # the profiler of 1.15 prints what it is doing
        return tf.profiler.profile(graph, options=counting).total_float_ops
