"""The one import of TensorFlow: 1.15 as it is, 2.x through `tensorflow.compat.v1`.

Importing this module switches the process to graphs, sessions and resource variables, so nothing
that only lists, describes or parses may import it. Every difference between the two lines stands
here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
import warnings

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
def _quiet_stderr():
    """Hold back what C++ writes to file descriptor 2; give it out only if the import fails.

    TensorFlow 2.x logs before it reads its log level, so no environment variable silences it.
    """
    if VERBOSE:
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        saved = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(saved, 2)
            held.seek(0)
            sys.stderr.write(held.read().decode("utf-8", "replace"))
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)


_prepare_environment()
with _quiet_stderr(), warnings.catch_warnings():
    if not VERBOSE:
        warnings.simplefilter("ignore")  # numpy's FutureWarnings in TensorFlow 1.15
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.INFO if VERBOSE else tf.logging.ERROR)
    tf.disable_v2_behavior()
    tf.enable_resource_variables()
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.client import timeline

__all__ = ["LINE", "VERSION", "chrome_trace", "inline_callable", "tf"]

VERSION = tf.__version__
LINE = "1.15" if VERSION.startswith("1.") else "2.x"


def chrome_trace(step_stats) -> str:
    """The JSON of a Chrome trace (chrome://tracing) from a RunMetadata's step_stats."""
    return timeline.Timeline(step_stats).generate_chrome_trace_format()


def inline_callable(session: tf.Session, op: tf.Operation):
    """A function that runs `op` with all its ops in the thread that calls it.

    `Session.make_callable` is the same with ops handed to TensorFlow's own threads. It takes no
    RunOptions on this path, hence the step below it.
    """
    options = config_pb2.CallableOptions()
    options.target.append(op.name)
    options.run_options.inter_op_thread_pool = -1
    return session._make_callable_from_options(options)
