"""Names of NumPy, SciPy, h5py, Matplotlib, Pillow, Python and TensorFlow's own modules that scripts
of TensorFlow 1's time use.

Those that have been removed since, such as `np.float`, the argument `newshape` of `np.reshape`,
`np.array` of rows of several lengths, `np.fromstring` of bytes, `scipy.misc.imsave`,
`h5py.Dataset.value`, `plt.cm.get_cmap`, `TSNE(n_iter=)`, `Image.ANTIALIAS`, `collections.Iterable`,
`time.clock` and `tensorflow.python.ops.control_flow_ops.cond`, are there while the stand-ins are
installed. Images are read and written by Pillow.
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import glob
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import time
import types
from typing import Any, Iterator, Tuple

import numpy as np
from PIL import Image
from tensorflow.python.framework import graph_util, ops, tensor_shape
from tensorflow.python.ops import array_ops, control_flow_ops
from tensorflow.python.util import nest

from toolkit import tf

_NUMPY = {
    **{kind.__name__: kind for kind in (bool, complex, float, int, object, str)},
    **dict.fromkeys(("Inf", "Infinity", "PINF", "infty"), np.inf),
    **dict.fromkeys(("NAN", "NaN"), np.nan),
    "NINF": -np.inf,
    "VisibleDeprecationWarning": UserWarning,
    "alltrue": np.all,
    "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype),
    "asscalar": lambda a: a.item(),
    "complex_": np.complex128,
    "cumproduct": np.cumprod,
    "float_": np.float64,
    "in1d": lambda ar1, ar2, **kwargs: np.isin(np.ravel(ar1), ar2, **kwargs),
    "mat": np.asmatrix,
    "product": np.prod,
    "round_": np.round,
    "sometrue": np.any,
    "string_": np.bytes_,
    "trapz": getattr(np, "trapezoid", None),
    "unicode": str,
    "unicode_": np.str_,
}
_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}  # of Pillow
_PILLOW = {"ANTIALIAS": "LANCZOS", "CUBIC": "BICUBIC", "LINEAR": "BILINEAR"}
_MOVED = {  # module -> where its names are today
    "scipy.sparse.linalg.eigen.arpack": "scipy.sparse.linalg",
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.externals.joblib": "joblib",
}

# Names of modules within TensorFlow that have moved, and are public.
_PUBLIC = ("Tensor", "case", "cond", "stack", "unstack", "while_loop")

_VERSION = tuple(map(int, np.__version__.split(".")[:2]))
_reshape, _fromstring = np.reshape, np.fromstring


def _of_uneven_rows(make: Any) -> Any:
    """`np.array` or `np.asarray`, which once made an array of objects of rows of several lengths,
    and copied where it had to without `copy`.
    """

    @functools.wraps(make)
    def made(*args, **kwargs) -> np.ndarray:
        if kwargs.get("copy") is False and _VERSION >= (2, 0):
            kwargs["copy"] = None
        try:
            return make(*args, **kwargs)
        except ValueError as error:
            has_dtype = len(args) > 1 or kwargs.get("dtype") is not None
            if has_dtype or "inhomogeneous" not in str(error):
                raise
            return make(*args, **{**kwargs, "dtype": np.object_})

    return made


def fromstring(string, dtype=float, count=-1, *, sep="", **kwargs) -> np.ndarray:
    """`np.fromstring`, which once read bytes, too."""
    if sep:
        return _fromstring(string, dtype, count, sep=sep, **kwargs)
    return np.frombuffer(string, dtype, count).copy()


def reshape(a, *args, newshape=None, **kwargs):
    """`np.reshape`, whose shape was once called `newshape`."""
    return _reshape(a, *([] if newshape is None else [newshape]), *args, **kwargs)


def bytescale(data, cmin=None, cmax=None, high=255, low=0) -> np.ndarray:
    """Values from their least to their largest as uint8 from `low` to `high`; uint8 as it is."""
    data = np.asarray(data)
    if data.dtype == np.uint8:
        return data
    cmin, cmax = (data.min() if cmin is None else cmin), (data.max() if cmax is None else cmax)
    scaled = (data - cmin) * (high - low) / float((cmax - cmin) or 1) + low
    return (np.clip(scaled, low, high) + 0.5).astype(np.uint8)


def toimage(arr, high=255, low=0, cmin=None, cmax=None, mode=None) -> Any:
    """A Pillow image of [H, W] or of [H, W, C]: C is the first axis of size 3, else of size 4."""
    if mode == "F" and np.ndim(arr) == 2:  # of floats as they are
        return Image.fromarray(np.asarray(arr, np.float32))
    data = bytescale(arr, cmin, cmax, high, low)
    if data.ndim == 3:
        axis = data.shape.index(3 if 3 in data.shape else 4)
        data = np.ascontiguousarray(np.moveaxis(data, axis, -1))  # [H, W, C]
    image = Image.fromarray(data)
    return image if mode is None else image.convert(mode)


def imsave(name, arr, format=None) -> None:
    """Write an array as an image."""
    toimage(arr).save(name, format)


def imread(name, flatten=False, mode=None) -> np.ndarray:
    """An image as uint8; as float32 of gray if `flatten`."""
    with Image.open(name) as file:
        if mode is None and file.mode in ("1", "P"):
            mode = "RGBA" if "transparency" in file.info else "RGB"
            mode = "L" if file.mode == "1" else mode
        image = file.convert(mode or file.mode)
        return np.array(image.convert("F") if flatten else image)


def imresize(arr, size, interp="bilinear", mode=None) -> np.ndarray:
    """An image in another size: a percentage (int), a factor (float) or (height, width)."""
    image = toimage(arr, mode=mode)
    if np.ndim(size):
        width, height = int(size[1]), int(size[0])
    else:
        factor = size / 100.0 if isinstance(size, (int, np.integer)) else size
        width, height = (int(each * factor) for each in image.size)
    return np.array(image.resize((width, height), _FILTERS[interp]))


def _colors(cm: Any) -> Any:
    """What `matplotlib.cm` once had; pyplot is not imported before it is used."""
    pyplot = "matplotlib.pyplot"
    old = {"get_cmap": lambda *args: importlib.import_module(pyplot).get_cmap(*args)}
    return {} if hasattr(cm, "get_cmap") else old


def _manifolds(manifold: Any) -> Any:
    """`TSNE` of scikit-learn, whose iterations were once called `n_iter`."""
    kind = manifold.TSNE

    def make(*args, n_iter=None, **kwargs) -> Any:
        return kind(*args, **kwargs, **({} if n_iter is None else {"max_iter": n_iter}))

    return {"TSNE": make} if "max_iter" in inspect.signature(kind).parameters else {}


_LATER: Any = {"matplotlib.cm": _colors, "sklearn.manifold": _manifolds}  # names of each module


class _Imports(importlib.abc.MetaPathFinder):
    """Gives the modules of _LATER their names when the script imports them, and says which module
    of `tf.contrib` has no stand-in.
    """

    @staticmethod
    def find_spec(name, path=None, target=None) -> Any:
        if name.startswith("tensorflow.contrib.") and not path:  # 1.15 has a folder
            message = f"{name} has no stand-in on this TensorFlow; run on 1.15"
            raise ModuleNotFoundError(message, name=name)
        found = importlib.machinery.PathFinder.find_spec(name, path) if name in _LATER else None
        if found is not None:
            execute: Any = found.loader.exec_module  # type: ignore[union-attr]

            def exec_module(module: Any) -> None:
                execute(module)
                vars(module).update(_LATER[name](module))

            found.loader.exec_module = exec_module  # type: ignore[union-attr,method-assign]
        return found


class _Moved(types.ModuleType):
    """One of _MOVED; what it stands for may not be installed, and is imported when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of those who look through all modules
            raise AttributeError(name)
        return getattr(importlib.import_module(_MOVED[self.__name__]), name)


def _is_there(name: str) -> bool:
    """Whether the library of a module has its file; the library is not imported for that."""
    top, _, rest = name.partition(".")
    spec = importlib.util.find_spec(top)
    folders = (spec.submodule_search_locations if spec else None) or []
    return any(glob.glob(os.path.join(each, *rest.split(".")) + "*") for each in folders)


def lacking() -> Iterator[Tuple[Any, str, Any]]:
    """(module or sys.modules, name, value) of each name that an installed version has removed."""
    if "newshape" not in inspect.signature(_reshape).parameters:
        yield np, "reshape", reshape
    if _VERSION >= (1, 24):
        yield np, "array", _of_uneven_rows(np.array)
        yield np, "asarray", _of_uneven_rows(np.asarray)
    if _VERSION >= (2, 3):
        yield np, "fromstring", fromstring
    scipy = importlib.import_module("scipy")
    try:
        misc = importlib.import_module("scipy.misc")
    except ImportError:
        misc = types.ModuleType("scipy.misc")
        yield sys.modules, "scipy.misc", misc
        yield scipy, "misc", misc
    yield from ((sys.modules, name, _Moved(name)) for name in _MOVED if not _is_there(name))
    yield sys, "meta_path", [_Imports, *sys.meta_path]
    for name in set(_LATER) & set(sys.modules):
        module: Any = sys.modules[name]
        yield from ((module, *pair) for pair in _LATER[name](module).items())
    public = {name: getattr(tf, name) for name in _PUBLIC}
    public["convert_variables_to_constants"] = tf.graph_util.convert_variables_to_constants
    former: Any = (
        (np, _NUMPY),
        (np.lib, {"pad": np.pad}),
        (importlib.import_module("h5py").Dataset, {"value": property(lambda self: self[()])}),
        (collections, {name: getattr(collections.abc, name) for name in collections.abc.__all__}),
        (Image, {name: getattr(Image, now) for name, now in _PILLOW.items()}),
        (time, {"clock": time.perf_counter}),
        *((each, public) for each in (array_ops, control_flow_ops, graph_util, ops)),
        (nest, {"is_sequence": getattr(nest, "is_nested", None)}),
        (tensor_shape, {"scalar": lambda: tf.TensorShape([])}),
        (misc, {each.__name__: each for each in (bytescale, toimage, imsave, imread, imresize)}),
    )
    for owner, names in former:
        yield from ((owner, name, x) for name, x in names.items() if name not in vars(owner))
