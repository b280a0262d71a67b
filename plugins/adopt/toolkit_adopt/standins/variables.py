"""Variables of models, collections and checkpoints, as `tf.contrib.framework` has them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional

from toolkit import tf

from .arg_scope import add_arg_scope

__all__ = [
    "add_model_variable",
    "assert_global_step",
    "assign_from_checkpoint_fn",
    "create_global_step",
    "filter_variables",
    "get_global_step",
    "get_local_variables",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "init_from_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "local_variable",
    "model_variable",
    "nest",
    "variable",
]

KEYS = tf.GraphKeys

assert_global_step = tf.train.assert_global_step
create_global_step = tf.train.create_global_step
get_global_step = tf.train.get_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
init_from_checkpoint = tf.train.init_from_checkpoint
list_variables = tf.train.list_variables
load_checkpoint = tf.train.load_checkpoint
load_variable = tf.train.load_variable
nest = tf.nest


@add_arg_scope
def variable(
    name,
    shape=None,
    dtype=None,
    initializer=None,
    regularizer=None,
    trainable=True,
    collections=None,
    caching_device=None,
    device=None,
    partitioner=None,
    custom_getter=None,
    use_resource=None,
):
    """A variable by `tf.get_variable`, in GLOBAL_VARIABLES unless collections are given."""
    collections = list(
        dict.fromkeys([KEYS.GLOBAL_VARIABLES] if collections is None else collections)
    )
    with tf.device(device or ""):
        return tf.get_variable(
            name,
            shape,
            dtype,
            initializer,
            regularizer,
            trainable,
            collections,
            caching_device,
            partitioner,
            custom_getter=custom_getter,
            use_resource=use_resource,
        )


@add_arg_scope
def model_variable(name, *args, collections=None, **kwargs):
    """A `variable` that is also in MODEL_VARIABLES and GLOBAL_VARIABLES."""
    collections = [*(collections or []), KEYS.GLOBAL_VARIABLES, KEYS.MODEL_VARIABLES]
    return variable(name, *args, collections=collections, **kwargs)


def local_variable(initial_value, validate_shape=True, name=None, use_resource=None):
    """A variable of LOCAL_VARIABLES, which no Saver saves."""
    return tf.Variable(
        initial_value,
        trainable=False,
        collections=[KEYS.LOCAL_VARIABLES],
        validate_shape=validate_shape,
        use_resource=use_resource,
        name=name,
    )


def add_model_variable(var) -> None:
    """Add a variable to MODEL_VARIABLES, once."""
    if not any(var is other for other in tf.get_collection(KEYS.MODEL_VARIABLES)):
        tf.add_to_collection(KEYS.MODEL_VARIABLES, var)


def get_variables(scope=None, suffix=None, collection=KEYS.GLOBAL_VARIABLES) -> List[Any]:
    """The variables of a collection.

    Args:
        scope: the beginning of their names, or a variable scope; None for all.
        suffix: the end of their names, without ":0"; None for all.
        collection: its key.
    """
    scope = getattr(scope, "name", scope)
    if suffix is not None:
        suffix = suffix if ":" in suffix else suffix + ":0"
        scope = (scope or "") + ".*" + suffix
    return tf.get_collection(collection, scope)


def get_model_variables(scope=None, suffix=None) -> List[Any]:
    """`get_variables` of MODEL_VARIABLES."""
    return get_variables(scope, suffix, KEYS.MODEL_VARIABLES)


def get_local_variables(scope=None, suffix=None) -> List[Any]:
    """`get_variables` of LOCAL_VARIABLES."""
    return get_variables(scope, suffix, KEYS.LOCAL_VARIABLES)


def get_trainable_variables(scope=None, suffix=None) -> List[Any]:
    """`get_variables` of TRAINABLE_VARIABLES."""
    return get_variables(scope, suffix, KEYS.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix, scope=None) -> List[Any]:
    """`get_variables` whose names end with a suffix."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name, scope=None) -> List[Any]:
    """`get_variables` whose last part of the name is given."""
    suffix = f"/{given_name}:0|^{given_name}:0"
    return get_variables(scope, suffix)


def get_unique_variable(var_op_name: str) -> Any:
    """The one variable of a name, such as 'conv1/weights'.

    Raises:
        ValueError: there is none.
    """
    for candidate in get_variables(var_op_name):
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"There is no variable {var_op_name!r} in the graph.")


def filter_variables(
    var_list: Iterable[Any], include_patterns=None, exclude_patterns=None, reg_search=True
) -> List[Any]:
    """Those of some variables whose name one pattern includes and none excludes.

    Args:
        var_list: the variables.
        include_patterns: regular expressions; None for all.
        exclude_patterns: regular expressions.
        reg_search: whether a pattern may be found anywhere in a name, not only at its beginning.
    """
    import re

    find = re.search if reg_search else re.match

    def matches(var: Any, patterns: Iterable[str]) -> bool:
        return any(find(pattern, var.op.name) for pattern in patterns)

    kept = [var for var in var_list if not include_patterns or matches(var, include_patterns)]
    return [var for var in kept if not matches(var, exclude_patterns or ())]


def get_variables_to_restore(include=None, exclude=None) -> List[Any]:
    """The global variables of some scopes, without those of others.

    Args:
        include: the beginnings of their names; None for all.
        exclude: the beginnings of the names that are left out.
    """
    chosen = get_variables() if include is None else sum(map(get_variables, include), [])
    left_out = {id(each) for scope in exclude or () for each in get_variables(scope)}
    return [each for each in chosen if id(each) not in left_out]


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Optional[Callable[[Any], None]]:
    """A function of a session that restores variables from a checkpoint.

    Args:
        model_path: of the checkpoint.
        var_list: variables, or a dictionary from their names in the checkpoint.
        ignore_missing_vars: whether to leave out those that the checkpoint lacks.
        reshape_variables: whether shapes may differ.

    Returns:
        None if no variable is left.
    """
    if not isinstance(var_list, dict):
        var_list = {each.op.name: each for each in var_list}
    named: Dict[str, Any] = var_list
    if ignore_missing_vars:
        reader = tf.train.NewCheckpointReader(model_path)
        named = {name: each for name, each in named.items() if reader.has_tensor(name)}
    if not named:
        return None
    saver = tf.train.Saver(named, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
