"""What all stand-ins of layers share, as `tf.contrib.framework` has it: default arguments within a
block, collections of outputs, conditions that may be known beforehand, variables of models.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple, Union

from toolkit import tf

_KEYS = tf.GraphKeys
Scope = Dict[str, Dict[str, Any]]  # key of a function -> its default arguments

_scopes: List[Scope] = [{}]  # of the blocks around the present statement, the inmost last


def add_arg_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let blocks of `arg_scope` give a function default arguments (a decorator)."""
    key = getattr(function, "_key_op", str(function))

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**current_arg_scope().get(key, {}), **kwargs})

    scoped._key_op = key  # type: ignore[attr-defined]
    return scoped


@contextlib.contextmanager
def arg_scope(functions: Union[Scope, Iterable[Callable[..., Any]]], **kwargs: Any) -> Iterator:
    """Give decorated functions default arguments in the block, or again those of an earlier scope.

    They add to those of the blocks around. Yields the scope. Raises ValueError if a function is not
    decorated.
    """
    if isinstance(functions, dict):
        scope, functions = dict(functions), ()
    else:
        scope = dict(current_arg_scope())
    for function in functions:
        key = getattr(function, "_key_op", None)
        if key is None:
            raise ValueError(f"{function} is not decorated with @add_arg_scope.")
        scope[key] = {**scope.get(key, {}), **kwargs}
    _scopes.append(scope)
    try:
        yield scope
    finally:
        _scopes.pop()


def current_arg_scope() -> Scope:
    """The scope of the present block."""
    return _scopes[-1]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Add an output to collections, where `convert_collection_to_dict` knows it by an alias."""
    if collections:
        outputs.aliases = [*getattr(outputs, "aliases", []), alias.rstrip("/")]
        tf.get_default_graph().add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection: str) -> Any:
    """Alias -> output, for all of a collection in the order of their creation."""
    named = [
        (alias, output)
        for output in tf.get_collection(collection)
        for alias in getattr(output, "aliases", [output.op.name])
    ]
    return collections.OrderedDict(named)


def get_variable_collections(collections: Any, name: str) -> List[str]:
    """Those of a variable of a layer, of a list for all or a dictionary by names."""
    return list((collections.get(name) if isinstance(collections, dict) else collections) or [])


def n_positive_integers(n: int, value: Any) -> Tuple[int, ...]:
    """One number for each of n axes, of one for all or of one each."""
    return tuple(map(int, value)) if hasattr(value, "__len__") else (int(value),) * n


def constant_value(value: Any) -> Any:
    """A Python or NumPy value as it is; the value of a tensor if the graph says it, else None."""
    if isinstance(value, tf.Tensor):
        return tf.get_static_value(value)
    return None if hasattr(value, "initializer") else value  # a variable has one


def smart_cond(pred, true_fn=None, false_fn=None, name=None) -> Any:
    """One of two results: by Python where the condition is known, else by `tf.cond`."""
    value = constant_value(pred)
    if value is None:
        return tf.cond(pred, true_fn, false_fn, name=name)
    return true_fn() if value else false_fn()


@add_arg_scope
def variable(
    name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=True, **others
):
    """A variable by `tf.get_variable`, in GLOBAL_VARIABLES unless collections are given."""
    given, device = others.pop("collections", None), others.pop("device", None)
    keys = list(dict.fromkeys([_KEYS.GLOBAL_VARIABLES] if given is None else given))
    form = shape, dtype, initializer, regularizer, trainable, keys
    with tf.device(device or ""):
        return tf.get_variable(name, *form, **others)


@add_arg_scope
def model_variable(name, *args, collections=None, **kwargs):
    """A `variable` that is also in MODEL_VARIABLES and GLOBAL_VARIABLES."""
    collections = [*(collections or []), _KEYS.GLOBAL_VARIABLES, _KEYS.MODEL_VARIABLES]
    return variable(name, *args, collections=collections, **kwargs)


def get_variables(scope=None, suffix=None, collection=_KEYS.GLOBAL_VARIABLES) -> List[Any]:
    """The variables of a collection, of a scope and with an end of their names."""
    scope = getattr(scope, "name", scope)
    if suffix is not None:
        suffix = suffix if ":" in suffix else suffix + ":0"
        scope = (scope or "") + ".*" + suffix
    return tf.get_collection(collection, scope)


get_local_variables, get_model_variables, get_trainable_variables = (
    lambda scope=None, suffix=None, key=key: get_variables(scope, suffix, key)
    for key in (_KEYS.LOCAL_VARIABLES, _KEYS.MODEL_VARIABLES, _KEYS.TRAINABLE_VARIABLES)
)


def get_variables_by_name(given_name, scope=None) -> List[Any]:
    """`get_variables` whose last part of the name is given."""
    return get_variables(scope, f"/{given_name}:0|^{given_name}:0")


def get_unique_variable(var_op_name: str) -> Any:
    """The one variable of a name, such as 'conv1/weights'; raises ValueError if there is none."""
    for candidate in get_variables(var_op_name):
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"There is no variable {var_op_name!r} in the graph.")


def filter_variables(
    var_list: Iterable[Any], include_patterns=None, exclude_patterns=None, reg_search=True
) -> List[Any]:
    """Those whose name (with its ":0") one pattern includes and none excludes."""
    find = re.search if reg_search else re.match

    def matches(var: Any, patterns: Iterable[str]) -> bool:
        return any(find(pattern, var.name) for pattern in patterns)

    patterns = [""] if include_patterns is None else include_patterns
    kept = [var for var in var_list if matches(var, patterns)]
    return [var for var in kept if not matches(var, exclude_patterns or ())]


def get_variables_to_restore(include=None, exclude=None) -> List[Any]:
    """The global variables of some scopes, without those of others."""
    chosen = get_variables() if include is None else sum(map(get_variables, include), [])
    left_out = {id(each) for scope in exclude or () for each in get_variables(scope)}
    return [each for each in chosen if id(each) not in left_out]


def assign_from_checkpoint_fn(
    model_path, var_list, ignore_missing_vars=False, reshape_variables=False
) -> Any:
    """A function of a session that restores variables from a checkpoint; None if none is left."""
    is_named = isinstance(var_list, dict)
    named: Dict[str, Any] = var_list if is_named else {each.op.name: each for each in var_list}
    if ignore_missing_vars:
        reader = tf.train.NewCheckpointReader(model_path)
        named = {name: each for name, each in named.items() if reader.has_tensor(name)}
    if not named:
        return None
    saver = tf.train.Saver(named, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
