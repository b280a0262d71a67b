"""Stand-ins for the modules of TensorFlow 1.x that an adopted script imports and 2.x lacks.

Within `installed`, `import tensorflow` gives what TensorFlow 1.15 gave. On 2.x,

- `sys.modules["tensorflow"]` is a module of the names of `tensorflow.compat.v1`, of those modules
  of TensorFlow that are no part of it (`tensorflow.python`), and of the stand-ins;
- `tensorflow.compat.v1` has the stand-ins `contrib` and `estimator` as attributes;
- `tensorflow.keras` and `keras`, unless the script's folder has one, are the Keras of
  `tensorflow.compat.v1`, with sessions, and its modules have their older names, too;
- `sys.modules` has the stand-ins of NAMES;
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

_STEPS = "assert_global_step create_global_step get_global_step get_or_create_global_step"
_CHECKPOINTS = "init_from_checkpoint list_variables load_checkpoint load_variable"
_AUDIO = "audio_spectrogram decode_wav encode_wav mfcc"
_SUMMARIES = """all_summary_ops=all_v2_summary_ops always_record_summaries audio create_file_writer
    flush generic histogram image initialize never_record_summaries scalar
    record_summaries_every_n_global_steps summary_writer_initializer_op"""
_HOOKS = "stop_if_no_decrease_hook stop_if_no_increase_hook"
_LOSSES = "get_losses get_regularization_losses get_total_loss"
_TABLES = """HashTable IdTableWithHashBuckets KeyValueTensorInitializer MutableHashTable
    TextFileIdTableInitializer TextFileIndex TextFileInitializer TextFileStringTableInitializer
    index_table_from_file index_to_string_table_from_file"""
_OPS, _LAYERS = "contrib.framework.python.ops", "contrib.layers.python.layers"
_ALL_LAYERS = f"contrib.layers {_LAYERS} contrib.slim"
_DECODERS = "contrib.seq2seq.python.ops"
_SEQUENCES = f"contrib.seq2seq {_DECODERS}.attention_wrapper {_DECODERS}.beam_search_decoder"
_TPU = "contrib.tpu.python.tpu.tpu_"
# Modules, where their names are today, and these, or all of them: .x is of this folder, a=b is the
# name b of today.
NAMES = (
    (_ALL_LAYERS, ".initializers .layers .normalization .training", ""),
    ("contrib.crf", ".crf", ""),
    ("contrib.data estimator.inputs", ".inputs", ""),
    ("contrib.data", "data.experimental", ""),
    ("contrib.distributions", "distributions", ""),
    ("contrib.eager", "", "GradientTape Variable enable_eager_execution executing_eagerly"),
    ("contrib.estimator estimator.experimental", ".estimator", _HOOKS),
    (f"contrib.framework contrib.slim contrib.slim.utils {_LAYERS}.utils", ".scopes", ""),
    (f"{_OPS} {_OPS}.variables", ".scopes", ""),
    (f"contrib.framework contrib.slim {_OPS} {_OPS}.variables", "train", _STEPS),
    ("contrib.framework contrib.slim", "train", _CHECKPOINTS),
    ("contrib.framework", "tensorflow.python.util", "nest"),
    (f"{_OPS}.audio_ops", "tensorflow.python.ops.gen_audio_ops", _AUDIO),
    (f"{_LAYERS}.initializers {_LAYERS}.regularizers", ".initializers", ""),
    (f"{_LAYERS}.layers", ".layers .normalization", ""),
    ("contrib.learn", ".estimator", "ModeKeys"),
    ("contrib.learn.datasets contrib.learn.datasets.mnist", ".mnist", ""),
    ("contrib.learn.python.learn.datasets.mnist", ".mnist", ""),
    ("contrib.learn.preprocessing", ".vocabulary", ""),
    ("contrib.legacy_seq2seq", ".legacy_sequences", ""),
    ("contrib.lookup", ".lookup", ""),
    ("contrib.lookup", "tensorflow.python.ops.lookup_ops", _TABLES),
    ("contrib.losses contrib.slim.losses", ".losses", ""),
    ("contrib.losses contrib.slim.losses", "losses", _LOSSES),
    ("contrib.metrics contrib.slim.metrics", ".metrics", ""),
    ("contrib.metrics contrib.slim.metrics", "", "confusion_matrix"),
    ("contrib.opt", ".opt", ""),
    ("contrib.rnn", ".cells nn.rnn_cell", ""),
    ("contrib.rnn", "nn", "static_bidirectional_rnn static_rnn static_state_saving_rnn"),
    (_SEQUENCES, ".decoders", ""),
    ("contrib.signal", "signal", ""),
    ("contrib.slim.initializers", ".initializers", ""),
    ("contrib.slim.learning", ".training .learning", ""),
    ("contrib.slim.model_analyzer contrib.training", ".training", ""),
    ("contrib.summary", "tensorflow.python.ops.summary_ops_v2", _SUMMARIES),
    ("contrib.tensorboard.plugins.projector", ".projector", ""),
    (f"contrib.tpu {_TPU}config {_TPU}estimator {_TPU}optimizer estimator.tpu", ".tpu", ""),
    ("estimator", ".estimator .canned", ""),
    ("examples.tutorials.mnist.input_data", ".mnist", ""),
    ("examples.tutorials.mnist.mnist", ".mnist_network", ""),
)
_OLD_KERAS = {  # module of Keras 2.2 -> the modules whose names it has
    "backend.tensorflow_backend": ".backend",
    "engine": ".layers .models",
    "engine.topology": ".layers .models",
    "engine.training": ".models",
    "utils.generic_utils": ".utils",
    "utils.np_utils": ".utils",
    "utils.vis_utils": ".utils",
    **{
        f"layers.{name}": ".layers"
        for name in (
            *("advanced_activations", "convolutional", "core", "embeddings", "local", "merge"),
            *("noise", "normalization", "pooling", "recurrent", "wrappers"),
        )
    },
}
_REAL = importlib.import_module("tensorflow")
# Of a package that 1.15 has without what these need.
TUTORIALS = tuple(f"tensorflow.examples.tutorials.mnist.{name}" for name in ("input_data", "mnist"))


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


def _loaded(name: str) -> Dict[str, types.ModuleType]:
    """A module and those below it that are loaded, by what comes after its name."""
    modules = sys.modules.items()
    return {k[len(name) :]: x for k, x in modules if k == name or k.startswith(name + ".")}


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
    found = _loaded(name)
    made = {root + path: module for root in roots for path, module in found.items()}
    if "keras" in roots:
        for path, sources in _OLD_KERAS.items():
            made[f"keras.{path}"] = old = types.ModuleType(f"keras.{path}")
            for source in sources.split():
                vars(old).update({k: x for k, x in vars(found[source]).items() if k[0] != "_"})
    return made


def _owner_of(place: str) -> Any:
    """What has the public names of a place of NAMES."""
    if place[:1] == ".":
        module = importlib.import_module(place, __name__)
        own = {k: x for k, x in vars(module).items() if not isinstance(x, types.ModuleType)}
        name = module.__name__
        made_there = {k: x for k, x in own.items() if getattr(x, "__module__", name) == name}
        return types.SimpleNamespace(**made_there)
    if place.startswith("tensorflow."):
        return importlib.import_module(place)
    return operator.attrgetter(place)(tf) if place else tf


def make_stand_in(name: str) -> StandIn:
    """One of NAMES, with the names that have a stand-in and no submodules."""
    made = StandIn(f"tensorflow.{name}")
    for modules, places, names in NAMES:
        for place in places.split(" ") if name in modules.split() else ():
            owner = _owner_of(place)
            chosen = names.split() or [each for each in dir(owner) if each[0] != "_"]
            pairs = [each.split("=") for each in chosen]
            vars(made).update({pair[0]: getattr(owner, pair[-1]) for pair in pairs})
    vars(made)["__all__"] = [each for each in vars(made) if each[0] != "_"]
    return made


def make_modules() -> Dict[str, types.ModuleType]:
    """What `sys.modules` has on this TensorFlow while the stand-ins are installed, by name.

    Their sources are imported; nothing is installed.
    """
    made: Dict[str, types.ModuleType] = {}
    if not has_own_contrib():
        made["tensorflow"] = _TensorFlow(_REAL)
        for name in " ".join(modules for modules, *_ in NAMES).split():
            while name:  # and the packages that it is in
                made.setdefault(f"tensorflow.{name}", make_stand_in(name))
                name = name.rpartition(".")[0]
        own = tf.nn.__name__.rpartition(".")[0]
        for path in _loaded(own):  # else `import tensorflow.nn` puts that of 2.x into `tensorflow`
            if path and not path.startswith(".compat"):
                made.setdefault("tensorflow" + path, operator.attrgetter(path[1:])(tf))
    for name in TUTORIALS:
        made.setdefault(name, make_stand_in(name.partition(".")[2]))
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
            for name in TUTORIALS:
                parent, _, last = name.rpartition(".")
                patches.replace(importlib.import_module(parent), last, sys.modules[name])
            # 1.15 itself imports `tensorflow.examples.tutorials.mnist.input_data as x` no more.
            tutorials = sys.modules["tensorflow.examples.tutorials"]
            patches.replace(importlib.import_module("tensorflow").examples, "tutorials", tutorials)
            for name in ("numpy_input_fn", "pandas_input_fn"):
                patches.replace(tf.estimator.inputs, name, getattr(inputs, name))
        yield
