"""Stand-ins for the modules of TensorFlow 1.x that an adopted script imports and 2.x lacks.

`install` makes `import tensorflow` give what TensorFlow 1.15 gave; it is called before a script
runs, and `uninstall` after it. On 2.x, as long as they are installed,

- `sys.modules["tensorflow"]` is a module of the names of `tensorflow.compat.v1`, of those modules
  of TensorFlow that are no part of it (`tensorflow.python`), and of the stand-ins;
- `tensorflow.compat.v1` has the stand-ins `contrib` and `estimator` as attributes;
- `tensorflow.keras` and `keras`, unless the script's folder has one, are the Keras of
  `tensorflow.compat.v1`, with sessions;
- `sys.modules` has the stand-ins of MODULES.

On 1.15 all of these exist and stay, but for a `keras` that is not installed; there `input_data`,
which would download files, is replaced, and `tf.estimator.inputs`, whose threads call the session.
On both, the constructor of monitored sessions is wrapped (`inputs.py`), and NumPy and SciPy get
back names that they had in the time of TensorFlow 1 (`libraries.py`). `uninstall` puts back each
former value.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Tuple

from tensorflow.python.framework import ops as tensorflow_ops

from toolkit import tf

# Module -> the modules of this folder whose public names it has, besides its submodules.
_LAYERS = ("initializers", "layers", "normalization", "optimizers", "summaries")
MODULES: Dict[str, Tuple[str, ...]] = {
    "tensorflow.contrib": (),
    "tensorflow.contrib.data": ("data_sets",),
    "tensorflow.contrib.framework": ("arg_scope", "variables"),
    "tensorflow.contrib.framework.python": (),
    "tensorflow.contrib.framework.python.ops": ("arg_scope", "variables"),
    "tensorflow.contrib.framework.python.ops.variables": ("variables",),
    "tensorflow.contrib.layers": _LAYERS,
    "tensorflow.contrib.layers.python": (),
    "tensorflow.contrib.layers.python.layers": _LAYERS,
    "tensorflow.contrib.layers.python.layers.initializers": ("initializers",),
    "tensorflow.contrib.layers.python.layers.layers": ("layers", "normalization"),
    "tensorflow.contrib.layers.python.layers.regularizers": ("initializers",),
    "tensorflow.contrib.layers.python.layers.utils": ("outputs",),
    "tensorflow.contrib.learn": (),
    "tensorflow.contrib.learn.datasets": ("mnist",),
    "tensorflow.contrib.learn.datasets.mnist": ("mnist",),
    "tensorflow.contrib.learn.python": (),
    "tensorflow.contrib.learn.python.learn": (),
    "tensorflow.contrib.learn.python.learn.datasets": (),
    "tensorflow.contrib.learn.python.learn.datasets.mnist": ("mnist",),
    "tensorflow.contrib.learn.preprocessing": ("vocabulary",),
    "tensorflow.contrib.legacy_seq2seq": ("legacy_sequences",),
    "tensorflow.contrib.losses": ("losses",),
    "tensorflow.contrib.rnn": ("rnn",),
    "tensorflow.contrib.seq2seq": ("sequences",),
    "tensorflow.contrib.slim": (*_LAYERS, "arg_scope", "variables"),
    "tensorflow.contrib.slim.learning": ("learning",),
    "tensorflow.contrib.slim.losses": ("losses",),
    "tensorflow.contrib.slim.model_analyzer": ("learning",),
    "tensorflow.contrib.slim.utils": ("outputs",),
    "tensorflow.contrib.training": ("hparams", "learning"),
    "tensorflow.estimator": ("estimator",),
    "tensorflow.estimator.inputs": ("inputs",),
    "tensorflow.examples": (),
    "tensorflow.examples.tutorials": (),
    "tensorflow.examples.tutorials.mnist": (),
    "tensorflow.examples.tutorials.mnist.input_data": ("mnist",),
}
_REAL = importlib.import_module("tensorflow")
INPUT_DATA = "tensorflow.examples.tutorials.mnist.input_data"

_restorers: List[Callable[[], None]] = []  # what `uninstall` calls, the last one first


class StandIn(types.ModuleType):
    """A module that says which of its names has no stand-in."""

    __path__: List[str] = []

    def __getattr__(self, name: str) -> Any:
        short = self.__name__.replace("tensorflow", "tf", 1)
        raise AttributeError(f"{short}.{name} has no stand-in on this TensorFlow")


class _TensorFlow(types.ModuleType):
    """`tensorflow` of an adopted script on 2.x."""

    def __init__(self, real: types.ModuleType):
        super().__init__("tensorflow", "compat.v1, with stand-ins for what 2.x lacks.")
        names = ("__path__", "__file__", "__spec__", "__loader__", "__package__", "__version__")
        vars(self).update({name: getattr(real, name) for name in names})
        self._real = real
        # What `type` says of the tensors of a graph.
        self.Tensor = getattr(tensorflow_ops, "SymbolicTensor", tf.Tensor)

    def __getattr__(self, name: str) -> Any:
        # `compat` of compat.v1 is another module than `tensorflow.compat`.
        owners = [self._real] if name == "compat" else [tf, self._real]
        for owner in owners if not name.startswith("__") else []:
            if hasattr(owner, name):
                return getattr(owner, name)
        raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")

    def __dir__(self) -> List[str]:
        return sorted({*vars(self), *dir(tf)})


def has_own_contrib() -> bool:
    """Whether this TensorFlow is 1.15, which has what the stand-ins stand for."""
    return hasattr(_REAL, "contrib")


def _keras_modules() -> Dict[str, types.ModuleType]:
    """The Keras of this TensorFlow's graphs under the names by which scripts import it.

    The `tensorflow.keras` and the `keras` of 2.x train eagerly, without a session.
    """
    if has_own_contrib():
        name = "tensorflow.python.keras.api._v1.keras"
        roots = [] if importlib.util.find_spec("keras") else ["keras"]
    else:
        name, roots = tf.keras.__name__, ["tensorflow.keras"]
        own = importlib.machinery.PathFinder.find_spec("keras", sys.path[:1])  # beside the script
        if own is None or own.loader is None:  # a folder without an __init__.py hides no module
            roots.append("keras")
    importlib.import_module(name)
    found = [each for each in sys.modules if each == name or each.startswith(name + ".")]
    return {root + each[len(name) :]: sys.modules[each] for root in roots for each in found}


def make_modules() -> Dict[str, types.ModuleType]:
    """What `sys.modules` has on this TensorFlow while the stand-ins are installed, by name.

    Their sources are imported; nothing is installed.
    """
    names = [INPUT_DATA] if has_own_contrib() else list(MODULES)
    made: Dict[str, types.ModuleType] = {name: StandIn(name) for name in names}
    for name, module in made.items():
        public: List[str] = []
        for source in MODULES[name]:
            origin = importlib.import_module(f"{__name__}.{source}")
            vars(module).update({each: getattr(origin, each) for each in origin.__all__})
            public += origin.__all__
        vars(module)["__all__"] = public
    made.update(_keras_modules())
    if not has_own_contrib():
        made["tensorflow"] = _TensorFlow(_REAL)
    for name, module in made.items():
        parent, _, last = name.rpartition(".")
        if parent in made:
            # A function hides a module of the same name, as in 1.15.
            vars(made[parent]).setdefault(last, module)
    return made


def _replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, or an item of sys.modules, until `uninstall`."""
    space = owner if isinstance(owner, dict) else vars(owner)
    missing = object()
    former = space.get(name, missing)
    write, delete = (
        (space.__setitem__, space.__delitem__)
        if isinstance(owner, dict)
        else (lambda key, new: setattr(owner, key, new), lambda key: delattr(owner, key))
    )
    write(name, value)
    _restorers.append(lambda: delete(name) if former is missing else write(name, former))


def install() -> None:
    """Let scripts import the stand-ins; nothing happens if they are installed."""
    if _restorers:
        return
    inputs = importlib.import_module(f"{__name__}.inputs")
    _restorers.append(inputs.wrap_monitored_sessions())
    for change in list(importlib.import_module(f"{__name__}.libraries").lacking()):
        _replace(*change)
    for name, module in make_modules().items():
        _replace(sys.modules, name, module)
    if not has_own_contrib():
        for name in ("contrib", "estimator"):
            _replace(tf, name, sys.modules[f"tensorflow.{name}"])
        return
    # A parent that is not yet imported will find the stand-in in sys.modules by itself.
    parent, _, last = INPUT_DATA.rpartition(".")
    if parent in sys.modules:
        _replace(sys.modules[parent], last, sys.modules[INPUT_DATA])
    for name in inputs.__all__:
        _replace(tf.estimator.inputs, name, getattr(inputs, name))


def uninstall() -> None:
    """Put back what `install` replaced."""
    while _restorers:
        _restorers.pop()()


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Within the block, scripts and modules import the stand-ins."""
    install()
    try:
        yield
    finally:
        uninstall()
