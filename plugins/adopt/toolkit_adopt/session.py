"""Observe the sessions of a script: each call passes through a function of ours.

Patched while the script runs, on the base class of all sessions, so that `Session`,
`InteractiveSession`, `MonitoredTrainingSession`, `Supervisor`, `.eval()` and `Operation.run()` are
the same: `__init__` (threads of the process, numbers of the sessions), `_do_run` (one call, with
flat fetches and arrays as feeds), `make_callable`, `partial_run_setup`, `close`. What would call a
session from a thread or by a clock is refused or counts calls in place of seconds: the services of
a Supervisor, timers of session hooks (queues.py has queue runners). Ops of the script's own are
refused.
Checkpoints that the script looks for (`latest_checkpoint`, `get_checkpoint_state`, `os.path.exists`
of their files) are observations, so that a resume finds what the run found; so is the name of a new
temporary folder (`tempfile.mkdtemp`), and the time that code of the script's folder asks for
(`time`, and a module `datetime` of its own). Functions of `tf.data` are called one after the other.
A variable is true, as one that is no resource. All is put back when the script has ended.
"""

from __future__ import annotations

import builtins
import datetime
import os
import sys
import tempfile
import threading
import time
import types
from typing import Any, Callable, Dict, List

import tensorflow
from tensorflow.python.client import session as sessions
from tensorflow.python.data.experimental.ops import batching, interleave_ops
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.framework import load_library, ops
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.training import basic_session_run_hooks, server_lib, supervisor
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

from toolkit import tf

from .patches import Patches

_IS_VERSION_1 = hasattr(tensorflow, "Session")  # whose feeds are by tensor, not by reference

_CHECKPOINT_FILES = (".index", ".meta", ".ckpt", ".data-00000-of-00001")  # ends of names

# session, targets, fetches, feeds (tensor -> array), run -> values of the fetches
Answer = Callable[[Any, List[Any], List[Any], Dict[Any, Any], Callable[..., Any]], List[Any]]
Observe = Callable[[str, Callable[[], Any]], Any]  # name, how to get a JSON value -> that value


class Sessions:
    """The sessions of a script.

    Args:
        answer: called for each call of the main thread, but for those that it makes itself.
        before_close: called with number and session before one is closed.
        observe: called for what the script sees besides.
        refuse: the error of what cannot be driven, from a clause.
        threads: of TensorFlow's pools; 0: one for each core.
    """

    def __init__(
        self,
        answer: Answer,
        observe: Observe,
        before_close: Callable[[int, Any], None],
        refuse: Callable[..., Exception],
        threads: int,
    ):
        self._answer, self._observe, self._refuse = answer, observe, refuse
        self._before_close, self._threads = before_close, threads
        self._is_inside = False
        self._open: Dict[int, Any] = {}
        self._count = 0
        self._main, self._process = threading.get_ident(), os.getpid()
        self._do_run = sessions.BaseSession._do_run
        self.failure: Any = None  # what happened in another thread
        self.after: Callable[[], None] = lambda: None  # called after each call of the script

    def open(self) -> Dict[int, Any]:
        """The open sessions by number, in the order in which they were made."""
        return dict(self._open)

    def run(self, session: Any, targets: Any, fetches: Any, feeds: Any) -> List[Any]:
        """Run a session, unobserved."""
        before, self._is_inside = self._is_inside, True
        try:
            return self._call(session, targets, fetches, feeds)
        finally:
            self._is_inside = before

    def unobserved(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that has sessions of its own."""
        before, self._is_inside = self._is_inside, True
        try:
            return function(*args)
        finally:
            self._is_inside = before

    def _call(self, session, targets, fetches, feeds, options=None, metadata=None):
        if not _IS_VERSION_1:
            feeds = {tensor.ref(): value for tensor, value in feeds.items()}
        return self._do_run(session, None, list(targets), list(fetches), feeds, options, metadata)

    def install(self, patches: Patches, folder: str) -> None:
        """Patch the classes.

        Args:
            patches: puts them back.
            folder: of the script.
        """
        base = sessions.BaseSession

        def init(original, session, target="", graph=None, config=None):
            if not self._is_inside:
                config = self._configure(config)
                self._open[self._count] = session
                self._count += 1
            return original(session, target, graph, config)

        def close(original, session):
            for number, each in list(self._open.items()):
                if each is session and threading.get_ident() == self._main:
                    self._before_close(number, session)
                    del self._open[number]
            return original(session)

        def do_run(original, session, handle, targets, fetches, feeds, options, metadata):
            if self._is_inside:
                return original(session, handle, targets, fetches, feeds, options, metadata)
            if threading.get_ident() != self._main:
                self.failure = self._refuse("calls a session from a thread of its own")
                raise self.failure
            if not _IS_VERSION_1:
                feeds = {reference.deref(): value for reference, value in feeds.items()}
            feeds = {read: value for fed, value in feeds.items() for read in _reads_of(fed)}
            fetches = list(map(_value_of, fetches))

            def run(targets=targets, fetches=fetches, feeds=feeds):
                return self._call(session, targets, fetches, feeds, options, metadata)

            self._is_inside = True
            try:
                values = self._answer(session, targets, fetches, feeds, run)
            finally:
                self._is_inside = False
            self.after()
            return values

        def make_callable(original, session, fetches, feed_list=None, accept_options=False):
            if self._is_inside:
                return original(session, fetches, feed_list, accept_options)
            feed_list = feed_list or []
            return lambda *values, **_: session.run(fetches, dict(zip(feed_list, values)))

        def from_options(original, session, options):
            if self._is_inside:
                return original(session, options)
            fetches, targets = list(options.fetch), list(options.target)

            def call(*values, **_):
                feeds = dict(zip(options.feed, values))
                return session.run(fetches + targets, feeds)[: len(fetches)]

            return call

        def partial_run(original, session, *args, **kwargs):
            raise self._refuse("calls partial_run")

        patches.wrap(base, "__init__", init)
        patches.wrap(base, "close", close)
        patches.wrap(base, "_do_run", do_run)
        patches.wrap(base, "make_callable", make_callable)
        patches.wrap(base, "_make_callable_from_options", from_options)
        patches.wrap(base, "partial_run_setup", partial_run)
        variable = resource_variable_ops.BaseResourceVariable
        patches.replace(variable, "__bool__", lambda self: True)
        self._refuse_threads(patches)
        _order_data(patches)
        self._observe_checkpoints(patches)
        self._observe_clocks(patches, os.path.join(folder, ""))

    def _configure(self, config: Any) -> Any:
        config = tf.ConfigProto() if config is None else config
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = self._threads
        config.allow_soft_placement = True
        return config

    def _refuse_threads(self, patches: Patches) -> None:
        def no_services(original, *args, **kwargs):
            return []

        def timer(original, self_, every_secs=None, every_steps=None):
            if every_secs is not None:
                every_secs, every_steps = None, max(1, int(every_secs))
            return original(self_, every_secs, every_steps)

        def server(original, *args, **kwargs):
            raise self._refuse("trains in several processes (tf.train.Server)")

        def load_op_library(original, path, *args, **kwargs):
            if not os.path.abspath(path).startswith(os.path.dirname(tensorflow.__file__)):
                raise self._refuse(f"loads ops of its own from {path}, whose state no resume knows")
            return original(path, *args, **kwargs)

        def eager(original, *args, **kwargs):
            raise self._refuse("trains eagerly, without a graph and a session")

        for module in (tensorflow, tf, load_library):
            patches.wrap(module, "load_op_library", load_op_library)
        for name in ("enable_eager_execution", "enable_v2_behavior"):
            for module in (tf, ops):
                patches.wrap(module, name, eager)
        patches.wrap(supervisor.Supervisor, "start_standard_services", no_services)
        patches.wrap(basic_session_run_hooks.SecondOrStepTimer, "__init__", timer)
        patches.wrap(server_lib.Server, "__init__", server)

    def _observe_checkpoints(self, patches: Patches) -> None:
        def latest(original, *args, **kwargs):
            return self._see("latest_checkpoint", lambda: original(*args, **kwargs))

        def exists(original, *args, **kwargs):
            return self._see("checkpoint_exists", lambda: bool(original(*args, **kwargs)))

        def state(original, *args, **kwargs):
            def read():
                found = original(*args, **kwargs)
                return found and found.SerializeToString().decode("latin-1")

            text = self._see("get_checkpoint_state", read)
            return text and CheckpointState.FromString(text.encode("latin-1"))

        def file_exists(original, path):
            name = os.path.basename(str(path))
            is_one = name == "checkpoint" or name.endswith(_CHECKPOINT_FILES)
            if not is_one or sys._getframe(2).f_globals.get("__name__") == "os":  # of os.makedirs
                return original(path)
            found = self._see("file_exists", lambda: bool(original(path)))
            return found or os.path.isdir(path)  # a folder is there to be made only once

        for owner, name in ((os.path, "exists"), (os.path, "isfile"), (tf.gfile, "Exists")):
            patches.wrap(owner, name, file_exists)

        def make_folder(original, *args, **kwargs):
            path = self._see("mkdtemp", lambda: original(*args, **kwargs))
            os.makedirs(path, exist_ok=True)
            return path

        patches.wrap(tempfile, "mkdtemp", make_folder)
        checkpoint_management = sys.modules[tf.train.latest_checkpoint.__module__]
        for module in (tf.train, checkpoint_management):
            patches.wrap(module, "latest_checkpoint", latest)
            patches.wrap(module, "checkpoint_exists", exists)
            patches.wrap(module, "get_checkpoint_state", state)
        patches.wrap(checkpoint_management, "checkpoint_exists_internal", exists)

    def _observe_clocks(self, patches: Patches, folder: str) -> None:
        read, base = time.time, datetime.datetime
        module = types.ModuleType("datetime")

        def now(depth: int) -> float:
            """The time, as seen by the code so many calls above."""
            is_own = sys._getframe(depth + 1).f_code.co_filename.startswith(folder)
            return float(self._see("time", read)) if is_own else read()

        class Datetime(datetime.datetime, metaclass=_Datetimes):
            def __new__(cls, *args, **kwargs):
                return base(*args, **kwargs)

            @classmethod
            def now(cls, tz=None):
                return base.fromtimestamp(now(1), tz)

            @classmethod
            def utcnow(cls):
                return base.fromtimestamp(now(1), datetime.timezone.utc).replace(tzinfo=None)

            @classmethod
            def today(cls):
                return base.fromtimestamp(now(1))

        vars(module).update({**vars(datetime), "datetime": Datetime})

        def import_(original, name, globals=None, *args, **kwargs):
            is_own = str((globals or {}).get("__file__")).startswith(folder)
            level = [*args[2:3], kwargs.get("level", 0)][0]  # args: locals, fromlist, level
            is_seen = is_own and name == "datetime" and not level
            return module if is_seen else original(name, globals, *args, **kwargs)

        patches.wrap(builtins, "__import__", import_)
        patches.wrap(time, "time", lambda original: now(2))
        for name in ("localtime", "gmtime", "ctime"):
            patches.wrap(time, name, lambda original, *args: original(*(args or [now(2)])))
        local = time.localtime
        for name, count in (("strftime", 1), ("asctime", 0)):

            def formatted(original, *args, count=count):
                return original(*args, *([] if len(args) > count else [local(now(2))]))

            patches.wrap(time, name, formatted)

    def _see(self, name: str, read: Callable[[], Any]) -> Any:
        is_other = os.getpid() != self._process or threading.get_ident() != self._main
        if self._is_inside or is_other:  # the journal is that of the main thread
            return read()
        self._is_inside = True
        try:
            return self._observe(name, read)
        finally:
            self._is_inside = False


class _Datetimes(type):
    """Lets every `datetime` be an instance of the class that stands in for it."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__bases__)


def _reads_of(tensor: Any) -> List[Any]:
    """For a read of a variable, or its handle, all its reads, the oldest first; else the tensor."""
    if tensor.op.type not in ("VarHandleOp", "ReadVariableOp"):
        return [tensor]
    handle = tensor if tensor.op.type == "VarHandleOp" else tensor.op.inputs[0]
    reads = [user for user in handle.consumers() if user.type == "ReadVariableOp"]
    return [read.outputs[0] for read in sorted(reads, key=lambda read: read._id)] or [tensor]


def _value_of(fetched: Any) -> Any:
    """What is fetched for a tensor: a read for the handle of a variable, which is named `w:0`."""
    return _reads_of(fetched)[0] if fetched.op.type == "VarHandleOp" else fetched


def _order_data(patches: Patches) -> None:
    """Let `tf.data` call a function once at a time: random ops in it would draw in no order."""

    def map_in_order(original, dataset, map_func, *args, num_parallel_calls=None, **kwargs):
        return original(dataset, map_func, **kwargs)  # args: how many calls, and in which order

    def interleave(original, dataset, *args, num_parallel_calls=None, **kwargs):
        return original(dataset, *args[:3], **kwargs)

    def map_and_batch(original, map_func, batch_size, *args, drop_remainder=False, **kwargs):
        is_dropped = args[1] if len(args) > 1 else drop_remainder
        return lambda dataset: dataset.map(map_func).batch(batch_size, is_dropped)

    def parallel_interleave(original, map_func, cycle_length, block_length=1, *args, **kwargs):
        return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)

    for cls in (dataset_ops.DatasetV1, dataset_ops.DatasetV2):
        patches.wrap(cls, "map", map_in_order)
        patches.wrap(cls, "map_with_legacy_function", map_in_order)
        patches.wrap(cls, "interleave", interleave)
    for module in (tf.data.experimental, batching, interleave_ops):
        patches.wrap(module, "map_and_batch", map_and_batch)
        patches.wrap(module, "parallel_interleave", parallel_interleave)
