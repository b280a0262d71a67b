"""The optimizers that `--optimizer` names, and their typed arguments."""

from __future__ import annotations

import inspect
from typing import Any, List, Mapping

from ...compat import tf
from ...errors import UsageError, suggest

# Parameters of constructors that are set otherwise; the last, and those that end with "_name",
# change the names of variables.
_RESERVED = (
    *("self", "learning_rate", "name", "use_locking", "global_step"),
    "use_own_namescope_for_non_slot_vars",
)
_OTHER_NAMES = {"nesterov": "Set --optimizer momentum --optimizer-args use_nesterov=true."}
_OTHER_OPTIONS = ("weight_decay", "learning_rate")  # of the core
ADAMW = "adamw"
ADAMW_DECAY = 0.01  # of Loshchilov and Hutter 2019, unless --weight-decay is set


def optimizer_names() -> List[str]:
    """What `--optimizer` takes: the classes of tf.train, lower case, without 'Optimizer'; and
    adamw, which is adam with weight decay.
    """
    classes = [name[: -len("Optimizer")] for name in dir(tf.train) if name.endswith("Optimizer")]
    return sorted([ADAMW, *(name.lower() for name in classes if name not in ("", "SyncReplicas"))])


def default_weight_decay(name: str) -> float:
    """The weight decay of a named optimizer where none is set."""
    return ADAMW_DECAY if _short_name(name) == ADAMW else 0.0


def make_optimizer(name: str, rate, arguments: Mapping[str, Any]) -> tf.train.Optimizer:
    """Make a tf.train optimizer with a learning rate, a float32 scalar tensor. The name is one of
    `optimizer_names`, or "sgd"; case, hyphens and underscores do not count. The arguments of its
    constructor are numbers or booleans. Raises UsageError for an unknown name or argument, or
    a value that the optimizer refuses.
    """
    short_name = _short_name(name)
    if short_name not in optimizer_names():
        raise UsageError(
            f"There is no optimizer '{name}' in tf.train.",
            hint=_OTHER_NAMES.get(short_name) or suggest(short_name, optimizer_names() + ["sgd"]),
        )
    short_name = "adam" if short_name == ADAMW else short_name
    classes = {n.lower(): getattr(tf.train, n) for n in dir(tf.train) if n.endswith("Optimizer")}
    cls = classes[short_name + "optimizer"]
    parameters = inspect.signature(cls.__init__).parameters
    names = [n for n in parameters if n not in _RESERVED and not n.endswith("_name")]
    values = {}
    for each, value in arguments.items():
        if each not in names:
            option = each.replace("-", "_")
            is_option = option in _OTHER_OPTIONS
            hint = f"Set --{option.replace('_', '-')} {value}." if is_option else ""
            raise UsageError(
                f"Optimizer '{name}' has no argument '{each}'.", hint=hint or suggest(each, names)
            )
        values[each] = _typed_argument(name, parameters[each], value)
    if short_name == "momentum":
        values.setdefault("momentum", 0.9)
    if "global_step" in parameters:
        values["global_step"] = tf.train.get_or_create_global_step()
    try:
        return cls(learning_rate=rate, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Optimizer '{name}' refuses its arguments: {error}.") from error


def _short_name(name: str) -> str:
    short_name = name.lower().replace("-", "").replace("_", "")
    return {"sgd": "gradientdescent"}.get(short_name, short_name)


def _typed_argument(optimizer: str, parameter: inspect.Parameter, value: Any) -> Any:
    """An argument with the type of the optimizer's default. Raises UsageError."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(parameter.default, bool):
        value = bool(value) if is_number and value in (0, 1) else value
        fault = "" if isinstance(value, bool) else "should be true or false"
    else:
        fault = "" if is_number else "should be a number"
    if fault:
        raise UsageError(
            f"Argument '{parameter.name}' of optimizer '{optimizer}' is {value!r}, but {fault}.",
            hint="Set it with --optimizer-args.",
        )
    return value
