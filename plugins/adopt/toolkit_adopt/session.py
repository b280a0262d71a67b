"""Observe the sessions of a script: each call passes through a function of ours.

Patched while the script runs, on the base class of all sessions, so that `Session`,
`InteractiveSession`, `MonitoredTrainingSession`, `Supervisor`, `.eval()` and `Operation.run()` are
the same: `__init__` (threads of the process, numbers of the sessions), `_do_run` (one call, with
flat fetches and arrays as feeds), `make_callable`, `close`. What would call a session from a thread
or by a clock is refused or counts calls in place of seconds: services of a Supervisor, timers of
session hooks (queues.py has queue runners). Functions of `tf.data`, and data of
Keras, are called one after the other, when an element is asked for. A variable is true, as one that
is no resource. observations.py has what a script sees besides. All
is put back when the script has ended.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterator, List

import tensorflow
from tensorflow.python.client import session as sessions
from tensorflow.python.data.experimental.ops import batching, interleave_ops
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.framework import load_library, ops
from tensorflow.python.keras.utils import data_utils
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.training import basic_session_run_hooks, server_lib, supervisor

from toolkit import ToolkitError, tf

from .patches import Patches

_IS_VERSION_1 = hasattr(tensorflow, "Session")  # whose feeds are by tensor, not by reference
_WAKING = signal.SIGURG  # which does nothing to a process without a handler
_EAGER = "trains eagerly, without a graph and a session"
_REFUSED = (
    (sessions.BaseSession, "partial_run_setup", "calls partial_run"),
    (server_lib.Server, "__init__", "trains in several processes (tf.train.Server)"),
    (supervisor.Supervisor, "loop", "calls a function by a clock (Supervisor.loop)"),
    (supervisor.Supervisor, "Loop", "calls a function by a clock (Supervisor.Loop)"),
    *((tf, name, _EAGER) for name in ("enable_eager_execution", "enable_v2_behavior")),
    (ops, "enable_eager_execution", _EAGER),
)


class Sessions:
    """The sessions of a script; a subclass answers its calls."""

    def __init__(self, threads: int, refuse: Callable[..., Exception]):
        # Threads of TensorFlow's pools, 0: one for each core; the error of what cannot be driven,
        # from a clause.
        self._threads, self._num_sessions, self.refuse = threads, 0, refuse
        self.is_inside = False  # whether it is the toolkit that makes the calls now
        self.open: Dict[Any, int] = {}  # sessions with their numbers, the oldest first
        # The tensors that the call feeds to others, by these, as Keras does with a data set.
        self.links: Dict[Any, Any] = {}
        self.main_thread, self._process = threading.get_ident(), os.getpid()
        self._do_run = sessions.BaseSession._do_run
        self.is_over = False  # whether what follows is no longer of the run
        self.failure: Any = None  # why the script cannot be driven, whatever it made of the error
        self.has_ended = False  # whether the script has

    def answer(self, session, targets, fetches, feeds, run) -> List[Any]:
        """The values of the fetches of a call: tensors, with `feeds`: tensor -> array.

        `run` makes it, with other `targets`, `fetches` and `feeds` where it is given those.
        """
        raise NotImplementedError

    def close(self, session: Any) -> None:
        """Called before a session is closed."""

    def wake(self) -> None:
        """Interrupt the main thread, which may wait for the one in which this is called."""

        def send() -> None:
            # More than once: an exception in a destructor is lost, and the script may catch it.
            while not self.has_ended:
                signal.pthread_kill(self.main_thread, _WAKING)
                time.sleep(0.5)

        if os.getpid() == self._process:
            threading.Thread(target=send, daemon=True).start()

    def run_session(self, session: Any, targets: Any, fetches: Any, feeds: Any) -> List[Any]:
        """Run a session, unobserved."""
        return self.unobserved(self._call, session, targets, fetches, feeds)

    def unobserved(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that has sessions of its own."""
        before, self.is_inside = self.is_inside, True
        try:
            return function(*args)
        finally:
            self.is_inside = before

    def _call(self, session, targets, fetches, feeds, options=None, metadata=None):
        if not _IS_VERSION_1:
            feeds = {tensor.ref(): value for tensor, value in feeds.items()}
        return self._do_run(session, None, list(targets), list(fetches), feeds, options, metadata)

    def is_main(self) -> bool:
        """Whether this is the main thread, and no process that was forked from it."""
        return threading.get_ident() == self.main_thread and os.getpid() == self._process

    def install(self, patches: Patches) -> None:
        """Patch the classes."""
        base = sessions.BaseSession

        def stop(signum, frame):
            if not self.has_ended:
                raise KeyboardInterrupt

        patches.callback(signal.signal, _WAKING, signal.signal(_WAKING, stop))

        def init(original, session, target="", graph=None, config=None):
            if not self.is_inside:
                config = tf.ConfigProto() if config is None else config
                config.intra_op_parallelism_threads = self._threads
                config.inter_op_parallelism_threads = self._threads
                config.allow_soft_placement = True
                self.open[session] = self._num_sessions
                self._num_sessions += 1
            return original(session, target, graph, config)

        def close(original, session):
            # After an exception, a session closes in a thread for which the main one waits.
            is_awaited = threading.current_thread().name == "SessionCloseThread"
            if session in self.open and (is_awaited or self.is_main()):
                self.close(session)
                del self.open[session]
            return original(session)

        def do_run(original, session, handle, targets, fetches, feeds, options, metadata):
            is_main = self.is_main()
            if self.is_inside and is_main:
                return original(session, handle, targets, fetches, feeds, options, metadata)
            if not is_main:
                self.failure = self.refuse("calls a session from a thread or a process of its own")
                self.wake()
                raise self.failure
            if not _IS_VERSION_1:
                feeds = {reference.deref(): value for reference, value in feeds.items()}
            feeds = {read: value for fed, value in feeds.items() for read in _reads_of(fed)}
            # A read for the handle of a variable, which is named `w:0`.
            fetches = [_reads_of(x)[0] if x.op.type == "VarHandleOp" else x for x in fetches]

            def run(targets=targets, fetches=fetches, feeds=feeds):
                return self._call(session, targets, fetches, feeds, options, metadata)

            try:
                return self.unobserved(self.answer, session, targets, fetches, feeds, run)
            except ToolkitError as error:  # the script may catch it
                if not self.is_over:
                    self.is_over, self.failure = True, error
                raise

        def make_callable(original, session, fetches, feed_list=None, accept_options=False):
            if self.is_inside:
                return original(session, fetches, feed_list, accept_options)
            return lambda *values, **_: session.run(fetches, dict(zip(feed_list or [], values)))

        def from_options(original, session, options):
            if self.is_inside:
                return original(session, options)
            fetches = [*options.fetch, *options.target]
            call = make_callable(original, session, fetches, options.feed)
            find = session.graph.get_tensor_by_name
            pairs = [(x.to_tensor, x.from_tensor) for x in options.tensor_connection]
            links = {find(fed): find(source) for fed, source in pairs}

            def linked(*values, **_):
                self.links = links
                try:
                    return call(*values)[: len(options.fetch)]
                finally:
                    self.links = {}

            return linked

        patches.wrap(base, "__init__", init)
        patches.wrap(base, "close", close)
        patches.wrap(base, "_do_run", do_run)
        patches.wrap(base, "make_callable", make_callable)
        patches.wrap(base, "_make_callable_from_options", from_options)

        def init_variable(original, self, *args, validate_shape=True, shape=None, **kwargs):
            if not validate_shape and shape is None:  # then it may be assigned values of any shape
                shape = tf.TensorShape(None)
            original(self, *args, validate_shape=validate_shape, shape=shape, **kwargs)

        patches.wrap(resource_variable_ops.ResourceVariable, "__init__", init_variable)
        variable = resource_variable_ops.BaseResourceVariable
        patches.replace(variable, "__bool__", lambda self: True)
        for name in ("add", "sub", "mul", "truediv", "pow"):  # then `x += 1` is `x = x + 1`
            patches.replace(variable, f"__i{name}__", getattr(variable, f"__{name}__"))
        _order_data(patches)
        for keras in (data_utils, tf.keras.utils):  # which on 2.x is another Keras
            _draw_in_turn(patches, keras)

        def timer(original, self_, every_secs=None, every_steps=None):
            if every_secs is not None:
                every_secs, every_steps = None, max(1, int(every_secs))
            return original(self_, every_secs, every_steps)

        def load_op_library(original, path, *args, **kwargs):
            if not os.path.abspath(path).startswith(os.path.dirname(tensorflow.__file__)):
                what = f"loads ops of its own from {path}, whose state no resume knows"
                raise self.refuse(what)
            return original(path, *args, **kwargs)

        for owner, name, what in _REFUSED:

            def refuse(original, *args, what=what, **kwargs):
                raise self.refuse(what)

            patches.wrap(owner, name, refuse)
        # The toolkit has switched to version 1, with resource variables: the first would end these.
        for name in ("disable_v2_behavior", "disable_resource_variables"):
            patches.wrap(tf, name, lambda *_, **__: None)
        for module in (tensorflow, tf, load_library):
            patches.wrap(module, "load_op_library", load_op_library)
        patches.wrap(supervisor.Supervisor, "start_standard_services", lambda *_, **__: [])
        patches.wrap(basic_session_run_hooks.SecondOrStepTimer, "__init__", timer)


def _reads_of(tensor: Any) -> List[Any]:
    """For a read of a variable, or its handle, all its reads, the oldest first; else the tensor."""
    if tensor.op.type not in ("VarHandleOp", "ReadVariableOp"):
        return [tensor]
    handle = tensor if tensor.op.type == "VarHandleOp" else tensor.op.inputs[0]
    reads = [user for user in handle.consumers() if user.type == "ReadVariableOp"]
    return [read.outputs[0] for read in sorted(reads, key=lambda read: read._id)] or [tensor]


def _draw_in_turn(patches: Patches, keras: Any) -> None:
    """Let data of Keras have no threads, which draw ahead, by chance how far."""

    def batches_of(self: Any) -> Iterator[Any]:  # of a Sequence, epoch after epoch
        order = list(range(len(self.sequence)))
        while True:
            if self.shuffle:
                random.shuffle(order)
            yield from map(self.sequence.__getitem__, order)
            self.sequence.on_epoch_end()

    patches.replace(keras.OrderedEnqueuer, "get", batches_of)
    patches.replace(keras.GeneratorEnqueuer, "get", lambda self: iter(self.sequence))
    for enqueuer in (keras.OrderedEnqueuer, keras.GeneratorEnqueuer):
        patches.replace(enqueuer, "is_running", lambda self: True)
        for name in ("start", "stop"):
            patches.replace(enqueuer, name, lambda self, *args, **kwargs: None)


def _order_data(patches: Patches) -> None:
    """Let `tf.data` call a function once at a time: random ops in it would draw in no order."""

    def one_by_one(count):  # of the arguments before how many calls are made, and in which order
        return lambda original, dataset, *args, num_parallel_calls=None, **kwargs: original(
            dataset, *args[:count], **kwargs
        )

    def map_and_batch(original, map_func, batch_size, *args, drop_remainder=False, **kwargs):
        is_dropped = args[1] if len(args) > 1 else drop_remainder
        return lambda dataset: dataset.map(map_func).batch(batch_size, is_dropped)

    def parallel_interleave(original, map_func, cycle_length, block_length=1, *args, **kwargs):
        return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)

    for cls in (dataset_ops.DatasetV1, dataset_ops.DatasetV2):
        for name, count in (("map", 1), ("map_with_legacy_function", 1), ("interleave", 3)):
            patches.wrap(cls, name, one_by_one(count))
        # It would call a function that draws from Python's generators ahead, by chance how far.
        patches.wrap(cls, "prefetch", lambda original, dataset, *args, **kwargs: dataset)
    for module in (tf.data.experimental, batching, interleave_ops):
        patches.wrap(module, "map_and_batch", map_and_batch)
        patches.wrap(module, "parallel_interleave", parallel_interleave)
