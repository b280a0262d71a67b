"""What a script sees besides its sessions, and what a resume shows it again; entropy of Python.

Patched while the script runs: checkpoints that it looks for (`latest_checkpoint`,
`get_checkpoint_state`), whether there are their files and those that code of the script's folders
asks for (`os.path.exists`), the name of a new temporary folder (`tempfile.mkdtemp`), and the time
that such code asks for (`time`, and a module `datetime` of its own).

Every seed that would come from the system comes from the run's: both global generators are seeded
at the start, and `random.seed()`, `random.Random()`, `numpy.random.seed()`, `default_rng()`
and `RandomState()` without a seed get the next of a series. So do `os.urandom` and what calls it,
such as `secrets`, `uuid4` and the seeds of gym, but for what the toolkit and other threads draw.
A seed that the script gives, perhaps of its process (`os.getpid()`, `id(x)`), is shown again.
Threads of the script have generators of their own behind the functions of both modules.
All is put back when the script has ended.
"""

from __future__ import annotations

import builtins
import datetime
import hashlib
import itertools
import os
import random
import sys
import tempfile
import threading
import time
import types
import weakref
from multiprocessing import process
from typing import Any, Callable, Sequence

import numpy as np
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

import toolkit
from toolkit import tf

from .patches import Patches
from .session import Sessions

_OTHERS = tuple(  # the folders of Python's own library, of the toolkit and of this plugin
    os.path.join(os.path.dirname(path), "") for path in (os.__file__, toolkit.__file__, __file__)
)
_CHECKPOINT_FILES = (".index", ".meta", ".ckpt", ".data-00000-of-00001")  # ends of names

See = Callable[[str, Callable[[], Any]], Any]  # name, how to get a JSON value -> that value


def is_own(path: str, folders: Sequence[str]) -> bool:
    """Whether a file is of the script's folders, and of no library that is installed there."""
    path = os.path.abspath(path)
    starts = tuple(os.path.join(folder, "") for folder in folders)
    if not path.startswith(starts) or path.startswith(_OTHERS):
        return False
    return not {"site-packages", "dist-packages"} & set(path.split(os.sep))


def observe_files(patches: Patches, see: See, folders: Callable[[], Sequence[str]]) -> None:
    """Patch what looks for checkpoints, what tells code of some folders whether there is a file,
    and what makes temporary folders.
    """

    def seen(name: str, convert: Callable[[Any], Any] = lambda value: value) -> Any:
        return lambda original, *args, **kwargs: see(
            name, lambda: convert(original(*args, **kwargs))
        )

    def state(original, *args, **kwargs):
        def read():
            found = original(*args, **kwargs)
            return found and found.SerializeToString().decode("latin-1")

        text = see("get_checkpoint_state", read)
        return text and CheckpointState.FromString(text.encode("latin-1"))

    def file_exists(original, *args, **kwargs):
        path, caller = [*args, *kwargs.values()][0], sys._getframe(2)
        name = os.path.basename(str(path))
        is_one = name == "checkpoint" or name.endswith(_CHECKPOINT_FILES)
        is_asked = is_one or is_own(caller.f_code.co_filename, folders())
        is_there = bool(original(path))
        if not is_asked or caller.f_globals.get("__name__") == "os":  # of os.makedirs
            return is_there
        found = see("file_exists", lambda: is_there)
        if original.__name__ != "isfile" and os.path.isdir(path):
            return True  # which is there to be made only once
        return found and (is_one or is_there)  # the script may have removed another since

    def make_folder(original, *args, **kwargs):
        path = see("mkdtemp", lambda: original(*args, **kwargs))
        os.makedirs(path, exist_ok=True)
        return path

    exists = seen("checkpoint_exists", bool)
    for owner, name in ((os.path, "exists"), (os.path, "isfile"), (tf.gfile, "Exists")):
        patches.wrap(owner, name, file_exists)
    patches.wrap(tempfile, "mkdtemp", make_folder)
    checkpoint_management = sys.modules[tf.train.latest_checkpoint.__module__]
    for module in (tf.train, checkpoint_management):
        patches.wrap(module, "latest_checkpoint", seen("latest_checkpoint"))
        patches.wrap(module, "checkpoint_exists", exists)
        patches.wrap(module, "get_checkpoint_state", state)
    patches.wrap(checkpoint_management, "checkpoint_exists_internal", exists)


def keep_folders(patches: Patches, folders: Callable[[], Sequence[str]]) -> None:
    """Let code of some folders make folders again that are still there."""

    def make(original, path, *args, **kwargs):
        try:
            original(path, *args, **kwargs)
        except FileExistsError:
            is_ours = is_own(sys._getframe(2).f_code.co_filename, folders())
            if not is_ours or not os.path.isdir(path):
                raise

    for name in ("mkdir", "makedirs"):
        patches.wrap(os, name, make)


def observe_clocks(patches: Patches, see: See, folders: Callable[[], Sequence[str]]) -> None:
    """Patch what tells the time to code of some folders."""
    read, base, local, day = time.time, datetime.datetime, time.localtime, datetime.date
    module = types.ModuleType("datetime")  # as code of the folder sees it, and no other

    def now(depth: int) -> float:
        """The time, as seen by the code so many calls above."""
        path = sys._getframe(depth + 1).f_code.co_filename
        return float(see("time", read)) if is_own(path, folders()) else read()

    class Datetime(datetime.datetime, metaclass=_StandsIn):
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

    class Date(datetime.date, metaclass=_StandsIn):
        def __new__(cls, *args, **kwargs):
            return day(*args, **kwargs)

        @classmethod
        def today(cls):
            return day.fromtimestamp(now(1))

    vars(module).update({**vars(datetime), "datetime": Datetime, "date": Date})

    def import_(original, name, globals=None, locals=None, fromlist=(), level=0):
        is_seen = name == "datetime" and not level
        is_seen = is_seen and is_own(str((globals or {}).get("__file__")), folders())
        return module if is_seen else original(name, globals, locals, fromlist, level)

    patches.wrap(builtins, "__import__", import_)
    patches.wrap(time, "time", lambda original: now(2))

    def fill_in(count: int, convert: Any) -> Any:  # of the arguments before the time
        return lambda original, *args: original(
            *args, *([convert(now(2))] if len(args) == count else [])
        )

    for name, count, convert in (
        *(("localtime", 0, float), ("gmtime", 0, float), ("ctime", 0, float)),
        *(("strftime", 1, local), ("asctime", 0, local)),
    ):
        patches.wrap(time, name, fill_in(count, convert))


class _StandsIn(type):
    """Lets an instance of a class be one of the class that stands in for it, as for scikit-learn,
    but not one of the subclasses that a script derives from that.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        if any(isinstance(base, _StandsIn) for base in cls.__bases__):
            return super().__instancecheck__(value)
        return isinstance(value, cls.__bases__)


def fix_entropy(
    patches: Patches, sessions: Sessions, seed: int, see: See, folders: Callable[[], Sequence[str]]
) -> None:
    """Seed the generators of Python and numpy with that of the run, and patch what seeds them.

    A seed that code of some folders gives, perhaps of its process, is seen.
    """
    numbers = itertools.count()
    patches.replace(process, "_process_counter", itertools.count(1))  # workers count from here

    def draw(count: int) -> bytes:
        worker = process.current_process()._identity  # (), or (2,) in the second worker
        text = " ".join(map(str, (seed, "entropy", *worker, next(numbers)))).encode()
        return hashlib.shake_256(text).digest(count)

    def next_seed() -> int:
        return int.from_bytes(draw(4), "little")

    def urandom(original: Any, count: int) -> bytes:
        is_main = threading.current_thread() is threading.main_thread()  # also of a worker
        return draw(count) if is_main and not sessions.is_inside else original(count)

    random.seed(next_seed())
    np.random.seed(next_seed())
    _draw_by_threads(patches, sessions, seed)

    def choose(value: Any, depth: int) -> Any:
        """The seed for a value that is given so many calls above."""
        if value is None:
            return next_seed()
        path = sys._getframe(depth + 1).f_code.co_filename
        is_seen = isinstance(value, (int, np.integer)) and is_own(path, folders())
        return see("seed", lambda: int(value)) if is_seen else value

    def seeded(original: Any, *args: Any, **kwargs: Any) -> Any:
        named = [kwargs.pop(name) for name in ("a", "seed") if name in kwargs]
        value, *more = [*named, *args] or [None]
        return original(choose(value, 2), *more, **kwargs)

    patches.wrap(os, "urandom", urandom)
    patches.wrap(random, "_urandom", urandom)
    for module, name in ((random, "seed"), (np.random, "seed"), (np.random, "default_rng")):
        patches.wrap(module, name, seeded)
    for module, cls in ((np.random, np.random.RandomState), (random, random.Random)):

        class Seeded(cls, metaclass=_StandsIn):  # type: ignore[misc,valid-type]
            def __init__(self, seed: Any = None):
                super().__init__(choose(seed, 1))

        for attribute in ("__name__", "__qualname__", "__module__"):
            setattr(Seeded, attribute, getattr(cls, attribute))
        patches.replace(module, cls.__name__, Seeded)


def _draw_by_threads(patches: Patches, sessions: Sessions, seed: int) -> None:
    """Let a thread that the script starts draw from its own generators: it is ahead by chance."""
    numbers = itertools.count()
    own: Any = weakref.WeakKeyDictionary()  # thread -> its generators
    shared = {random: vars(random)["_inst"], np.random: vars(np.random.mtrand)["_rand"]}

    def start(original: Any, thread: Any) -> None:
        if not sessions.is_inside:
            digest = hashlib.sha256(f"{seed} thread {next(numbers)}".encode()).digest()
            first = int.from_bytes(digest[:4], "little")
            own[thread] = {module: type(each)(first) for module, each in shared.items()}
        original(thread)

    def method(module: Any, name: str) -> Callable[..., Any]:
        def call(original: Any, *args: Any, **kwargs: Any) -> Any:
            found = own.get(threading.current_thread())
            return (getattr(found[module], name) if found else original)(*args, **kwargs)

        return call

    patches.wrap(threading.Thread, "start", start)
    for module, each in shared.items():
        for name in [n for n, x in vars(module).items() if getattr(x, "__self__", None) is each]:
            patches.wrap(module, name, method(module, name))


def digest_of_generators() -> str:
    """16 hex digits that identify the state of both global generators."""
    kind, keys, *rest = np.random.get_state()
    digest = hashlib.sha256(repr((random.getstate(), kind, rest)).encode("utf-8"))
    digest.update(np.asarray(keys).tobytes())
    return digest.hexdigest()[:16]
