"""Run an untouched script as `__main__`, as `python SCRIPT ARGS` would in its working directory.

Set while it runs, and put back afterwards: `sys.argv`, `sys.path[0]`, the working directory,
`sys.stdin` and `input` (both refuse to wait for a person), an empty default graph, and on
TensorFlow 2.x the module `tensorflow`, which is then `tensorflow.compat.v1` with the stand-ins for
what is gone from it.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import os
import runpy
import sys
import types
from typing import Any, Callable, Iterator, List, Sequence

from toolkit import tf

from .patches import Patches


@contextlib.contextmanager
def prepared(
    script: str, args: Sequence[str], folder: str, refuse: Callable[..., Exception]
) -> Iterator[None]:
    """Within the block, the process is as a script expects it.

    Args:
        script: its absolute path.
        args: what follows it on the command line.
        folder: the working directory.
        refuse: the error of what cannot be driven, from a clause.
    """

    def ask(*args: Any) -> str:
        raise refuse("asks for input, and a resume has nobody to answer")

    before = os.getcwd(), list(sys.path)
    modules = set(sys.modules)
    with Patches() as patches:
        patches.replace(sys, "argv", [script, *args])
        patches.replace(sys, "stdin", _NoInput(ask))
        patches.replace(builtins, "input", ask)
        os.chdir(folder)
        sys.path.insert(0, os.path.dirname(script))
        tf.reset_default_graph()
        try:
            with _as_version_1():
                yield
        finally:
            tf.reset_default_graph()
            os.chdir(before[0])
            sys.path[:] = before[1]
            for name in own_modules(script, set(sys.modules) - modules):
                del sys.modules[name]


def run(script: str) -> None:
    """Execute the script, within `prepared`. Whatever it raises comes out of here."""
    runpy.run_path(script, run_name="__main__")


def own_modules(script: str, names: Any = None) -> List[str]:
    """The imported modules whose files are in the folder of the script or below it."""
    folder = os.path.dirname(script) + os.sep
    found = []
    for name in sorted(sys.modules if names is None else names):
        path = getattr(sys.modules.get(name), "__file__", None) or ""
        if os.path.abspath(path).startswith(folder) and "site-packages" not in path:
            found.append(name)
    return [name for name in found if name != "__main__"]


class _NoInput(io.TextIOBase):
    """A stdin that nobody types into."""

    def __init__(self, ask: Callable[..., str]):
        super().__init__()
        self.read = self.readline = ask  # type: ignore[method-assign]


@contextlib.contextmanager
def _as_version_1() -> Iterator[None]:
    """Let `import tensorflow` give version 1, with the stand-ins if they are installed."""
    real = sys.modules["tensorflow"]
    name_space: Any = real
    if not hasattr(real, "Session"):
        name_space = _VersionOne(real)
        sys.modules["tensorflow"] = name_space
    standins: Any = importlib.import_module(f"{__package__}.standins")
    install = getattr(standins, "install", None)
    try:
        if install is not None:
            install(name_space)
        yield
    finally:
        if install is not None:
            standins.uninstall()
        sys.modules["tensorflow"] = real


class _VersionOne(types.ModuleType):
    """`tensorflow.compat.v1` under the name `tensorflow`, whose other modules stay importable."""

    def __init__(self, real: Any):
        super().__init__("tensorflow", tf.__doc__)
        self.__path__ = real.__path__
        self.__file__ = real.__file__
        self.__spec__ = real.__spec__
        self.__version__ = real.__version__
        self._real = real

    def __getattr__(self, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return getattr(tf, name)
        if name in ("python", "compat", "core"):
            return getattr(self._real, name)
        raise AttributeError(f"module 'tensorflow' has no attribute '{name}'")

    def __dir__(self) -> List[str]:
        return dir(tf)
