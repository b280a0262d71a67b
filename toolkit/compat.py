"""The only import of TensorFlow: hides the differences between 1.15 and 2.x from other modules.

No other module asks for TensorFlow's version. The differences are:

- 2.x is used through `tensorflow.compat.v1`, which 1.15 has too: graphs, sessions and resource
  variables are switched on in both.
- 2.x logs before it reads its log level, so its output is captured during the import.
- 2.x has Keras 3, which works in no graph, unless it is told to take the package `tf_keras`.
- 1.15 makes numpy raise FutureWarnings, which are ignored during the import.
- 1.15 cannot compile steps with XLA (`HAS_XLA`).
- 1.15 has oneDNN's convolutions only in some builds (`ONEDNN`).
- 1.15 prints while it counts float operations, which is captured.

Importing this module changes the state of the process and takes seconds. Code that only lists,
describes or parses must not import it.
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import re
import sys
import tempfile
import threading
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, TextIO, Tuple

from .denormals import can_flush, flushing
from .display.waits import waiting
from .errors import is_verbose

# Keras imports pandas if it is installed, for DataFrames in `fit`. Graphs do not need it, and it
# would cost memory and a large part of the import's time.
UNUSED_MODULES = ("pandas",)
VERBOSE = is_verbose()


@contextlib.contextmanager
def _capture_output(stream: Optional[TextIO]) -> Iterator[None]:
    """Capture what C++ code writes to `stream`, sys.stdout or sys.stderr, through its file
    descriptor; if the block raises an Exception (not if Ctrl-C ends it), write it to stderr.
    Nothing is captured if the stream or the descriptor is closed, or no file can be written.
    """
    descriptor = 1 if stream is sys.stdout else 2
    is_log = VERBOSE and descriptor == 2  # stdout is for results, even if the output is verbose
    original: Optional[int] = None
    with contextlib.suppress(OSError):  # there is no place for a file, or no such descriptor
        if not (is_log or getattr(stream, "closed", stream is None)):
            temporary, original = tempfile.TemporaryFile(), os.dup(descriptor)  # noqa: SIM115
    if stream is None or original is None:
        yield
        return
    stream.flush()
    with temporary as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield
        except Exception:
            os.dup2(original, descriptor)
            file.seek(0)
            sys.stderr.write(file.read().decode("utf-8", "replace"))
            raise
        finally:
            os.dup2(original, descriptor)
            os.close(original)


@contextlib.contextmanager
def _fast_import() -> Iterator[None]:
    """Speed up an import: block UNUSED_MODULES, and pause the garbage collector.

    The objects of the import live as long as the process, so the collector never looks at them.
    """
    names = [name for name in UNUSED_MODULES if name not in sys.modules]
    blocked: Dict[str, Any] = dict.fromkeys(names)
    sys.modules.update(blocked)  # None: importing it fails
    gc.disable()
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        gc.enable()
        gc.freeze()


# TensorFlow reads these variables once, during its import.
if not VERBOSE:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
_loading = waiting("Loading TensorFlow", is_logged=False)
with _loading, _capture_output(sys.stderr), _fast_import(), warnings.catch_warnings():
    if not VERBOSE:
        warnings.simplefilter("ignore")
    import tensorflow
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.INFO if VERBOSE else tf.logging.ERROR)
    tf.disable_v2_behavior()
    tf.enable_resource_variables()
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph
    from tensorflow.python.client import timeline

if not VERBOSE:  # gradients of embeddings: no caller of the toolkit can do anything about it
    warnings.filterwarnings("ignore", message="Converting sparse IndexedSlices")
    # Models that `Run.function` takes as they are.
    warnings.filterwarnings(
        "ignore", message=r"`(tf\.layers|tf\.nn\.rnn_cell|layer)\.\S+` is deprecated"
    )

__all__ = ["tf"]  # what is imported here for all other modules

VERSION = tf.__version__
VERSION_FAMILY = "1.15" if VERSION.startswith("1.") else "2.x"
HAS_XLA = VERSION_FAMILY == "2.x"  # whether `compile_with_xla` works


# Whether convolutions are oneDNN's: always in 2.x, in 1.15 if it was built with it.
if HAS_XLA:
    ONEDNN = True
else:
    from tensorflow.python import pywrap_tensorflow

    ONEDNN = bool(pywrap_tensorflow.IsMklEnabled())


def count_gpus() -> int:
    """How many GPUs this process can use. None is initialized by that."""
    return len(tf.config.experimental.list_physical_devices("GPU"))


def chrome_trace(step_stats: Any) -> str:
    """The JSON of a Chrome trace (chrome://tracing) from a RunMetadata's step_stats."""
    return timeline.Timeline(step_stats).generate_chrome_trace_format()


def make_callable(
    session: tf.Session,
    fetches: Iterable[Any],
    feeds: Iterable[tf.Tensor] = (),
    inline: bool = False,
) -> Callable[..., List[Any]]:
    """Prepare a call of the session, which then costs less than `session.run`: a function of the
    arrays to feed, in the order of `feeds`, that returns the values of the fetched tensors.

    Operations may be fetched, too. With `inline`, all ops run in the calling thread instead of
    TensorFlow's thread pool, if that can give the same bits.
    """
    options = config_pb2.CallableOptions()
    for fetch in fetches:
        (options.target if isinstance(fetch, tf.Operation) else options.fetch).append(fetch.name)
    options.feed.extend(feed.name for feed in feeds)
    inline = inline and can_flush()
    if inline:
        options.run_options.inter_op_thread_pool = -1
    # The public Session.make_callable does the same, without RunOptions.
    call = session._make_callable_from_options(options)
    return flushing(call) if inline else call


@contextlib.contextmanager
def dumped_tensors(
    session: tf.Session, fetches: Any, tensors: Iterable[tf.Tensor], feeds: Any = None
) -> Iterator[Tuple[Any, List[Tuple[str, Callable[[], Any]]]]]:
    """Run a session whose executor writes tensors to a temporary folder, which the block reads.

    The tensors may be anywhere in the graph, in loops and branches too. The block gets the fetched
    values, None if an op refused its arguments; and of each of the tensors its name and a function
    that reads its array, as often as it was computed, in the order of time.
    """
    from tensorflow.python.debug.lib import debug_data  # takes long

    options, values = tf.RunOptions(), None
    with tempfile.TemporaryDirectory() as folder:
        for tensor in tensors:
            options.debug_options.debug_tensor_watch_opts.add(
                node_name=tensor.op.name,
                output_slot=tensor.value_index,
                debug_ops=["DebugIdentity"],
                debug_urls=[f"file://{folder}"],
                tolerate_debug_op_creation_failures=True,
            )
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            values = session.run(fetches, feeds, options)
        data = []
        if os.listdir(folder):
            data = debug_data.DebugDumpDir(folder, validate=False).dumped_tensor_data
        yield values, [(f"{x.node_name}:{x.output_slot}", x.get_tensor) for x in data]


def compile_with_xla(function: Callable[..., Any], inputs: Iterable[tf.Tensor]) -> Any:
    """What `function(*inputs)` returns, computed by one op that XLA compiles when it first runs.

    It needs HAS_XLA: 1.15 splits the op up again, and its XLA made no step faster.
    """
    return tensorflow.function(function, autograph=False, jit_compile=True)(*inputs)


def variable_scope_store() -> Any:
    """Where the default graph counts how often a variable scope was opened, in its attribute
    `variable_scopes_count`: name -> int. Names without a number of their own depend on it.
    """
    tf.get_variable_scope()  # creates the store
    return tf.get_collection_ref(("__varscope",))[0]


_counting = threading.Lock()  # what is captured is of all threads, each of which would put it back


def float_operations(graph: tf.Graph) -> int:
    """The float operations of one run of all ops, by TensorFlow's profiler and static shapes."""
    builder = tf.profiler.ProfileOptionBuilder
    options = builder(builder.float_operation()).with_empty_output().build()
    # Python and C++ say on stderr which ops have no static shape.
    quiet = contextlib.redirect_stderr(io.StringIO())
    with _counting, _capture_output(sys.stdout), _capture_output(sys.stderr), quiet:
        return tf.profiler.profile(graph, options=options).total_float_ops


class GraphUnderConstructionError(RuntimeError):
    """A session was asked to run a graph that is still being built."""


@contextlib.contextmanager
def under_construction(graph: tf.Graph) -> Iterator[None]:
    """Let no session run a graph in the block, which builds it: GraphUnderConstructionError.

    Within a loop such a call may wait for ever: what it fetches waits for the loop to start. Graphs
    of its own may be run in the block.
    """

    # A session takes this lock of its graph before each run. The attribute of the graph hides the
    # method of its class, so that no other graph is concerned.
    if graph._session_run_lock is _refuse_session:  # in a block around this one
        yield
        return
    graph._session_run_lock = _refuse_session
    try:
        yield
    finally:
        del graph._session_run_lock


def _refuse_session() -> None:
    raise GraphUnderConstructionError("The graph is still being built; no session can run it")


_NO_NEWS = ("Restoring parameters from",)  # begin records that say what a caller asked for


class _LogHandler(logging.Handler):
    """Passes each record of a log on as text, but those that are no news."""

    def __init__(self, write: Callable[[str], None]):
        super().__init__(logging.INFO)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not text.startswith(_NO_NEWS):
            self._write(text)


@contextlib.contextmanager
def capture_log(write: Callable[[str], None]) -> Iterator[None]:
    """Call `write` with each text that is logged at level INFO or above through TensorFlow in the
    block. With `-v`, TensorFlow itself shows its log.
    """
    if VERBOSE:
        yield
        return
    logger = logging.getLogger("tensorflow")
    before = logger.level, logger.handlers, logger.propagate
    logger.setLevel(logging.INFO)
    logger.handlers, logger.propagate = [_LogHandler(write)], False
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.handlers, logger.propagate = before[1:]


_NOISE = (
    "From /job:",
    "Graph exec",
    "Detected",
    'File "',
    "Node:",
    "[[",
)  # begin lines that inform nobody
_NODE = re.compile(r"\{\{[^}]*\}\}\s*")  # the decoration of a node
# Around the errors of a call in which several devices failed.
_LIST = re.compile(r"^\s*(\d+ root error\(s\) found\.$|\(\d+\) [A-Za-z_ ]+: )", re.MULTILINE)
_TEMPORARY = re.compile(r"\S*\.tempstate\S*\s*")  # a file that the user will never see


OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # a key in checkpoints that Keras or tf.train wrote


def object_graph_names(graph: bytes) -> Dict[str, str]:
    """The key of each variable in a checkpoint of objects -> the variable's name in its model, by
    what the checkpoint has under OBJECT_GRAPH. Raises ValueError if that cannot be parsed.
    """
    try:
        nodes = TrackableObjectGraph.FromString(graph).nodes
    except Exception as error:  # protobuf's own class, which differs between versions
        raise ValueError(f"its object graph cannot be parsed: {error}") from None
    attributes = [attribute for node in nodes for attribute in node.attributes]
    return {each.checkpoint_key: each.full_name for each in attributes if each.full_name}


def summarize_tf_error(message: str) -> str:
    """The one informative line of a TensorFlow error, without a full stop at its end.

    It is the first that is neither part of a stack nor about a node.
    """
    text = _LIST.sub("", _NODE.sub("", _TEMPORARY.sub("", message)))
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    informative = [line for line in lines if not line.startswith(_NOISE)]
    return (informative or lines or ["?"])[0].rstrip(".")
