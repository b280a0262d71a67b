"""Stand-ins for the modules of TensorFlow 1.x that an adopted script imports and 2.x lacks.

Within `installed`, `import tensorflow` gives what TensorFlow 1.15 gave. On 2.x,

- `sys.modules["tensorflow"]` is a module of the names of `tensorflow.compat.v1`, of those modules
  of TensorFlow that are no part of it (`tensorflow.python`), and of the stand-ins;
- `tensorflow.compat.v1` has the stand-ins `contrib` and `estimator` as attributes;
- `tensorflow.keras` and `keras`, unless the script's folder has one, are the Keras of
  `tensorflow.compat.v1`, with sessions, and its modules have their older names, too;
- `sys.modules` has the stand-ins of SOURCES and NAMES;
- variables have `initialized_value`, as in 1.15.

On 1.15 all of these exist and stay, but for a `keras` that is not installed; there `input_data`,
which would download files, is replaced, and `tf.estimator.inputs`, whose threads call the session.
On both, the constructor of monitored sessions is wrapped (`inputs.py`), and NumPy, SciPy and others
get back names that they had in the time of TensorFlow 1 (`libraries.py`). Each former value is put
back at the end.

What a function of a stand-in takes is what https://www.tensorflow.org/versions/r1.15/api_docs says
of the one that it stands for; its docstring says what it gives, and what differs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import operator
import sys
import types
from typing import Any, Dict, Iterator, List, Tuple

from tensorflow.python.framework import ops as tensorflow_ops
from tensorflow.python.ops.variables import Variable

from toolkit import tf

from ..patches import Patches

_LAYERS = "initializers layers normalization training"
SOURCES = {  # module -> the modules of this folder whose public names it has
    "contrib.crf": "crf",
    "contrib.data": "inputs",
    "contrib.estimator": "stopping",
    "contrib.framework": "scopes",
    "contrib.framework.python.ops": "scopes",
    "contrib.framework.python.ops.variables": "scopes",
    "contrib.image": "image",
    "contrib.layers": _LAYERS,
    "contrib.layers.python.layers": _LAYERS,
    "contrib.layers.python.layers.initializers": "initializers",
    "contrib.layers.python.layers.layers": "layers normalization",
    "contrib.layers.python.layers.regularizers": "initializers",
    "contrib.layers.python.layers.utils": "scopes",
    "contrib.learn.datasets": "mnist",
    "contrib.learn.datasets.mnist": "mnist",
    "contrib.learn.preprocessing": "vocabulary",
    "contrib.learn.python.learn.datasets.mnist": "mnist",
    "contrib.legacy_seq2seq": "legacy_sequences",
    "contrib.lookup": "lookup",
    "contrib.losses": "losses",
    "contrib.metrics": "metrics",
    "contrib.opt": "opt",
    "contrib.rnn": "cells",
    "contrib.seq2seq": "sequences",
    "contrib.slim": f"{_LAYERS} scopes",
    "contrib.slim.learning": "training learning",
    "contrib.slim.losses": "losses",
    "contrib.slim.metrics": "metrics",
    "contrib.slim.model_analyzer": "training",
    "contrib.slim.utils": "scopes",
    "contrib.tensorboard.plugins.projector": "projector",
    "contrib.tpu": "tpu",
    "contrib.tpu.python.tpu.tpu_config": "tpu",
    "contrib.tpu.python.tpu.tpu_estimator": "tpu",
    "contrib.tpu.python.tpu.tpu_optimizer": "tpu",
    "contrib.training": "training",
    "estimator": "estimator canned",
    "estimator.experimental": "stopping",
    "estimator.inputs": "inputs",
    "estimator.tpu": "tpu",
    "examples.tutorials.mnist.input_data": "mnist",
}
_STEPS = "assert_global_step create_global_step get_global_step get_or_create_global_step"
_CHECKPOINTS = "init_from_checkpoint list_variables load_checkpoint load_variable"
_AUDIO = "audio_spectrogram decode_wav encode_wav mfcc"
_LOSSES = "get_losses get_regularization_losses get_total_loss"
_TABLES = """HashTable IdTableWithHashBuckets KeyValueTensorInitializer MutableHashTable
    TextFileIdTableInitializer TextFileIndex TextFileInitializer TextFileStringTableInitializer
    index_table_from_file index_to_string_table_from_file"""
NAMES = (  # module, where in `tf` or in a module its names are today, the names, or all
    ("contrib.data", "data.experimental", ""),
    ("contrib.distributions", "distributions", ""),
    ("contrib.framework", "train", f"{_STEPS} {_CHECKPOINTS}"),
    ("contrib.framework", "", "nest"),
    ("contrib.framework.python.ops", "train", _STEPS),
    ("contrib.framework.python.ops.audio_ops", "tensorflow.python.ops.gen_audio_ops", _AUDIO),
    ("contrib.framework.python.ops.variables", "train", _STEPS),
    ("contrib.learn", ".estimator", "ModeKeys"),
    ("contrib.lookup", "tensorflow.python.ops.lookup_ops", _TABLES),
    ("contrib.losses", "losses", _LOSSES),
    ("contrib.metrics", "", "confusion_matrix"),
    ("contrib.rnn", "nn", "static_bidirectional_rnn static_rnn static_state_saving_rnn"),
    ("contrib.rnn", "nn.rnn_cell", ""),
    ("contrib.slim", "train", f"{_STEPS} {_CHECKPOINTS}"),
    ("contrib.slim.losses", "losses", _LOSSES),
    ("contrib.slim.metrics", "", "confusion_matrix"),
)
_OLD_KERAS = {  # module of Keras 2.2 -> the modules whose names it has
    "backend.tensorflow_backend": ".backend",
    "engine": ".layers .models",
    "engine.topology": ".layers .models",
    "engine.training": ".models",
    "utils.generic_utils": ".utils",
    "utils.np_utils": ".utils",
    **{
        f"layers.{name}": ".layers"
        for name in (
            *("advanced_activations", "convolutional", "core", "embeddings", "local", "merge"),
            *("noise", "normalization", "pooling", "recurrent", "wrappers"),
        )
    },
}
_REAL = importlib.import_module("tensorflow")
INPUT_DATA = "tensorflow.examples.tutorials.mnist.input_data"


class StandIn(types.ModuleType):
    """A module that says which of its names has no stand-in."""

    __path__: List[str] = []

    def __getattr__(self, name: str) -> Any:
        short = self.__name__.replace("tensorflow", "tf", 1)
        raise AttributeError(f"{short}.{name} has no stand-in on this TensorFlow; run on 1.15")


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
        name, roots = tf.keras.__name__, ["tensorflow.keras", "tensorflow.contrib.keras"]
        own = importlib.machinery.PathFinder.find_spec("keras", sys.path[:1])  # beside the script
        if own is None or own.loader is None:  # a folder without an __init__.py hides no module
            roots.append("keras")
    importlib.import_module(name)
    found = {
        each[len(name) :]: module
        for each, module in sys.modules.items()
        if each == name or each.startswith(name + ".")
    }
    made = {root + path: module for root in roots for path, module in found.items()}
    if "keras" in roots:
        for path, sources in _OLD_KERAS.items():
            made[f"keras.{path}"] = old = types.ModuleType(f"keras.{path}")
            for source in sources.split():
                vars(old).update({k: x for k, x in vars(found[source]).items() if k[0] != "_"})
    return made


def public_names(source: str) -> Dict[str, Any]:
    """The values that a module of this folder defines, by their names without an underscore."""
    module = importlib.import_module(f"{__name__}.{source}")
    return {
        name: value
        for name, value in vars(module).items()
        if name[0] != "_"
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", module.__name__) == module.__name__
    }


def make_stand_in(name: str) -> StandIn:
    """One of SOURCES or of NAMES, with the names that have a stand-in and no submodules."""
    made = StandIn(f"tensorflow.{name}")
    for source in SOURCES.get(name, "").split():
        vars(made).update(public_names(source))
    for module, place, names in NAMES:
        if module == name:
            if place.startswith((".", "tensorflow.")):
                owner = importlib.import_module(place, __name__)
            else:
                owner = operator.attrgetter(place)(tf) if place else tf
            chosen = names.split() or [each for each in dir(owner) if each[0] != "_"]
            vars(made).update({each: getattr(owner, each) for each in chosen})
    vars(made)["__all__"] = [each for each in vars(made) if each[0] != "_"]
    return made


def make_modules() -> Dict[str, types.ModuleType]:
    """What `sys.modules` has on this TensorFlow while the stand-ins are installed, by name.

    Their sources are imported; nothing is installed.
    """
    made: Dict[str, types.ModuleType] = {}
    if not has_own_contrib():
        made["tensorflow"] = _TensorFlow(_REAL)
        for name in {*SOURCES, *(module for module, *_ in NAMES)}:
            while name:  # and the packages that it is in
                made.setdefault(f"tensorflow.{name}", make_stand_in(name))
                name = name.rpartition(".")[0]
    made.setdefault(INPUT_DATA, make_stand_in(INPUT_DATA.partition(".")[2]))
    made.update(_keras_modules())
    for parent, last, module in _submodules(made):
        if isinstance(parent, (StandIn, _TensorFlow)):
            vars(parent)[last] = module
    return made


def _submodules(made: Dict[str, types.ModuleType]) -> Iterator[Tuple[types.ModuleType, str, Any]]:
    """(parent, last name, module) of each module that its parent does not have.

    A function hides a module of the same name, as in 1.15.
    """
    for name, module in made.items():
        parent, _, last = name.rpartition(".")
        if parent in made and last not in vars(made[parent]):
            yield made[parent], last, module


def _initialized_value(variable: Any) -> Any:
    """The value of a variable, and before it has one the value that it will be given."""
    is_known = tf.is_variable_initialized(variable)
    return tf.cond(is_known, variable.read_value, lambda: variable.initial_value)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Within the block, scripts import the stand-ins."""
    inputs = importlib.import_module(f"{__name__}.inputs")
    with Patches() as patches:
        inputs.wrap_monitored_sessions(patches)
        for change in list(importlib.import_module(f"{__name__}.libraries").lacking()):
            patches.replace(*change)
        made = make_modules()
        for name, module in made.items():
            patches.replace(sys.modules, name, module)
        for change in list(_submodules(made)):
            patches.replace(*change)
        if not has_own_contrib():
            for name in ("contrib", "estimator"):
                patches.replace(tf, name, sys.modules[f"tensorflow.{name}"])
            patches.replace(Variable, "initialized_value", _initialized_value)
        else:
            parent, _, last = INPUT_DATA.rpartition(".")
            patches.replace(importlib.import_module(parent), last, sys.modules[INPUT_DATA])
            # 1.15 itself imports `tensorflow.examples.tutorials.mnist.input_data as x` no more.
            tutorials = sys.modules["tensorflow.examples.tutorials"]
            patches.replace(importlib.import_module("tensorflow").examples, "tutorials", tutorials)
            for name in ("numpy_input_fn", "pandas_input_fn"):
                patches.replace(tf.estimator.inputs, name, getattr(inputs, name))
        yield
