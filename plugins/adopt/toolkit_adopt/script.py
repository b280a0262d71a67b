"""Run an untouched script as `__main__`, as `python SCRIPT ARGS` would in its working directory.

One that imports relatively to its package is run as `python -m PACKAGE.SCRIPT ARGS` would.
Set while it runs, and put back afterwards: `sys.argv`, `sys.path[0]`, the working directory,
`sys.stdin` and `input` (both refuse to wait for a person), `sys.stdout` and `sys.stderr` (which
have a `buffer` for bytes), a flag of absl that a script may define anew, an empty default graph,
and the stand-ins, by which `import tensorflow` gives version 1 (standins/__init__.py). What
`Observer` patches besides, its modules say.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import os
import runpy
import sys
from typing import Any, Callable, Dict, List, Mapping, Tuple

from absl import flags
from tensorflow.python.framework import ops

from toolkit import tf

from . import standins
from .calls import Calls, Kind
from .noise import fix_op_seeds, make_stateless, with_number
from .observations import fix_entropy, is_own, observe_clocks, observe_files
from .order import Order
from .patches import Patches
from .queues import Queues
from .session import Sessions


class Observer(Sessions):
    """Observes a script; a subclass answers its calls.

    The settings are those of a run: "script", its absolute path, "args", what follows it on the
    command line, "directory", where it works, "seed" and "threads".
    `as_written` leaves noise and order as the script has them, for a graph that is lifted.
    """

    def __init__(self, settings: Mapping[str, Any], as_written: bool = False):
        complete = (lambda graph: ()) if as_written else Order().complete
        self._own_folders = own_folders(settings)
        self._path: List[str] = sys.path  # as it is when the script begins
        self.calls = Calls(settings["script"], complete, self.folders)
        super().__init__(settings["threads"], self.calls.refusal)
        self.settings, self._as_written, self.number = settings, as_written, 0  # of the last call
        self.queues = Queues(self.calls, self.run_session)

    def install(self, patches: Patches) -> None:
        """Patch what the script calls."""
        seed = self.settings["seed"]

        def see(name: str, read: Callable[[], Any]) -> Any:
            if self.is_inside or not self.is_main():  # the journal is of the main thread
                return read()
            return self.unobserved(self.see, name, read)

        fix_entropy(patches, self, seed, see, self.folders)
        (fix_op_seeds if self._as_written else make_stateless)(patches, seed)
        self.calls.record_losses(patches)
        super().install(patches)
        observe_files(patches, see, self.folders)
        observe_clocks(patches, see, self.folders)
        self.queues.install(patches)

    def folders(self) -> List[str]:
        """The folders whose code is the script's, with those that it has put on `sys.path`."""
        put = [path for path in map(str, sys.path) if path not in self._path]
        more = [os.path.abspath(os.path.join(self.settings["directory"], path)) for path in put]
        return [*self._own_folders, *(path for path in more if path not in _whole())]

    def run_script(self) -> None:
        """Execute the script, observed. Whatever it raises comes out of here."""
        script = self.settings["script"]
        with Patches() as patches:
            self.install(patches)
            self._enter(patches)
            patches.callback(setattr, self, "has_ended", True)
            with open(script, "rb") as file:
                nodes = ast.parse(file.read(), script).body  # an import within `try` may fail
            if any(isinstance(node, ast.ImportFrom) and node.level for node in nodes):
                self._path[0], name = _place(script)
                sys.path[0] = self._path[0]
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")

    def _enter(self, patches: Patches) -> None:
        """Let the process be as at the beginning of the script."""

        def ask(*args: Any) -> str:
            raise self.refuse("asks for input, and a resume has nobody to answer")

        def forget_modules() -> None:
            for name in self.own_modules(set(sys.modules) - modules):
                del sys.modules[name]

        script, modules, stdin = self.settings["script"], set(sys.modules), io.TextIOBase()
        stdin.read = stdin.readline = ask  # type: ignore[method-assign]
        patches.replace(sys, "argv", [script, *self.settings["args"]])
        patches.replace(sys, "stdin", stdin)
        patches.replace(builtins, "input", ask)
        log_dir = flags.FLAGS["log_dir"]  # of absl, which many a script defines itself
        patches.replace(flags.FLAGS._flags(), "log_dir", log_dir)  # puts it back at the end
        patches.replace(log_dir, "allow_override", True)
        for name in ("stdout", "stderr"):
            raw: Any = _Bytes(getattr(sys, name))
            stream: Any = io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)
            stream.mode = raw.mode
            # Kept, as a script that wraps the buffer of one would close it.
            patches.replace(sys, name, patches.enter_context(contextlib.nullcontext(stream)))
        patches.callback(sys.path.__setitem__, slice(None), list(sys.path))
        patches.callback(forget_modules)
        sys.path.insert(0, os.path.dirname(script))
        self._path = list(sys.path)
        patches.callback(os.chdir, os.getcwd())
        os.chdir(self.settings["directory"])
        tf.reset_default_graph()
        patches.callback(tf.reset_default_graph)
        patches.callback(ops._default_graph_stack.reset)  # which has an InteractiveSession's graph
        patches.enter_context(standins.installed())

    def prepare(self, session, targets, fetches, feeds, run) -> Tuple[Kind, Callable[..., Any]]:
        """The kind of the next call, and `run`, which fills its queues and feeds what is hidden."""
        self.number += 1
        links = self.links
        kind = self.calls.find(session.graph, targets, fetches, feeds, links)
        fed = {**with_number(session.graph, feeds, self.number), **kind.closed}

        def run_filled(**changes: Any) -> Any:
            self.queues.fill(session, kind, fed)
            if links and "targets" not in changes:  # else what the links come from is run by itself
                fed.update(zip(links, self.run_session(session, [], list(links.values()), fed)))
            return run(feeds=fed, **changes)

        return kind, run_filled

    def own_modules(self, names: Any = None) -> Dict[str, str]:
        """The files of the script's imported modules by their names."""
        folders, found = self.folders(), {}
        for name in sorted({*(sys.modules if names is None else names)} - {"__main__"}):
            path = getattr(sys.modules.get(name), "__file__", None)
            # Python 3.7 has it as `sys.path` has its folder, perhaps from the working directory.
            path = path and os.path.join(self.settings["directory"], path)
            if path and is_own(path, folders):
                found[name] = path
        return found

    def see(self, name: str, read: Callable[[], Any]) -> Any:
        """The JSON value that the script sees besides, by a name; `read` gets it."""
        return read()


def _place(script: str) -> Tuple[str, str]:
    """The folder that has a script or its outermost package, and the script's name from there."""
    folder, name = os.path.split(os.path.splitext(script)[0])
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    return folder, name


def own_folders(settings: Mapping[str, Any]) -> List[str]:
    """The folders whose code is the script's: its own, or that of its outermost package, and the
    working directory, but for one that has everything.
    """
    folder, name = _place(settings["script"])
    own, directory = os.path.join(folder, *name.split(".")[:-1][:1]), settings["directory"]
    return [own] if directory in _whole() else [own, directory]


def _whole() -> Tuple[str, str]:
    """The folders that have everything."""
    return os.sep, os.path.expanduser("~")


class _Bytes(io.RawIOBase):
    """Writes bytes as the text that they encode; the stream behind it is never closed."""

    def __init__(self, stream: Any):
        super().__init__()
        self._stream, self.flush = stream, stream.flush  # type: ignore[method-assign]
        self.isatty, self.fileno = stream.isatty, stream.fileno  # type: ignore[method-assign]
        self.name, self.mode = getattr(stream, "name", "<stream>"), getattr(stream, "mode", "w")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode("utf-8", "replace"))
        return len(data)
