"""What the hooks of a model must return: one check per hook, for `Plugins.call_hook`. Each returns
what is wrong with a value, or None.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..compat import tf
from ..plugins import Problem, describe_value

_NUMPY_HINT = "Compute it from the hook's tensors with TensorFlow's functions, not with numpy's."

RECORD_FIELDS = ("step", "kind", "split")  # of each record of metrics.jsonl: no names of values
_OTHER_NAME = "a name that is no field of each record"


def _problem(value: Any, expected: str, hint: str, name: Optional[str] = None) -> Problem:
    """A value, in a dict that of a name, is not what was expected."""
    place = "" if name is None else f" for '{name}'"
    return Problem(f"returned {describe_value(value)}{place}, expected {expected}", hint)


def check_outputs(value: Any) -> Optional[Problem]:
    """Of the hook `call`."""
    if not isinstance(value, dict):
        hint = "Return {name: tensor}, with a name for each output."
        return _problem(value, "a dict of tensors", hint)
    for name, output in value.items():
        if isinstance(output, (np.ndarray, np.generic)):
            return _problem(output, "a tensor", _NUMPY_HINT, name)
    return None


def check_loss(value: Any) -> Optional[Problem]:
    """Of the hook `loss`."""
    for name, loss in value.items() if isinstance(value, dict) else [("loss", value)]:
        hint, expected = "", "a scalar tensor"
        if isinstance(loss, (list, tuple)):
            hint = "Return one scalar, or a dict of scalars by name."
        elif not isinstance(loss, tf.Tensor):
            hint = _NUMPY_HINT
        elif loss.shape.ndims != 0:
            hint = "Take the mean over the batch with tf.reduce_mean."
        elif not loss.dtype.is_floating:
            hint, expected = "Convert it with tf.cast(loss, tf.float32).", f"{expected} of floats"
        elif name in RECORD_FIELDS:
            hint, expected = "Give it another name.", _OTHER_NAME
        if hint:
            return _problem(loss, expected, hint, name)
    return None


def check_train_op(value: Any) -> Optional[Problem]:
    """Of the hook `optimize`."""
    if isinstance(value, tf.Operation):
        return None
    return _problem(value, "one tf.Operation", "Return what run.minimize returns, or a tf.group.")


def check_predictions(value: Any) -> Optional[Problem]:
    """Of the hook `predict`."""
    if not isinstance(value, dict) or not value:
        hint = "Return {name: tensor}, with a name for each column of the predictions."
        return _problem(value, "a dict of tensors", hint)
    for name, tensor in value.items():
        if _is_variable(tensor):  # its size is compared with each batch
            continue
        if not isinstance(tensor, tf.Tensor):
            return _problem(tensor, "a tensor", _NUMPY_HINT, name)
        if tensor.shape.ndims is not None and tensor.shape.as_list()[:1] != [None]:
            hint = "Compute a value of each example; what is one number for a split is a metric."
            return _problem(tensor, "one row for each example, [N, ...]", hint, name)
        if name == "label" and not tensor.dtype.is_integer:
            hint = "Take tf.argmax(..., output_type=tf.int32), or give it another name."
            return _problem(tensor, "the predicted class as an integer", hint, name)
    return None


def check_metrics(value: Any) -> Optional[Problem]:
    """Of the hook `metrics`."""
    if not isinstance(value, dict):
        hint = "Return {name: tf.metrics.mean(values)}."
        return _problem(value, "a dict of pairs (value, update_op)", hint)
    result: Any
    for name, pair in value.items():
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        result, update = pair if is_pair else (None, None)
        # A session can run the update; `tf.metrics.mean_iou` returns an assignment to a variable.
        is_update = isinstance(getattr(update, "op", update), tf.Operation)
        if not (isinstance(result, tf.Tensor) or _is_variable(result)) or not is_update:
            hint = "Return what a function of tf.metrics returns, such as tf.metrics.mean(values)."
            return _problem(pair, "a pair (value, update_op)", hint, name)
        if result.shape.ndims:
            return _problem(result, "a scalar", "Give each number of it a metric of its own.", name)
        if name in RECORD_FIELDS:
            return _problem(pair, _OTHER_NAME, "Give it another name.", name)
    return None


def check_example_metrics(value: Any) -> Optional[Problem]:
    """Of the hook `example_metrics`."""
    if not isinstance(value, dict):
        hint = "Return {name: values}, with a bool or a number for each example."
        return _problem(value, "a dict of tensors", hint)
    for name, values in value.items():
        if not isinstance(values, tf.Tensor):
            hint = "Return the values themselves; pairs of tf.metrics belong in 'metrics'."
            hint = hint if isinstance(values, tuple) else _NUMPY_HINT
            return _problem(values, "a tensor", hint, name)
        if values.shape.ndims not in (None, 1) or values.shape.as_list()[:1] not in ([None], []):
            hint = "Return one value for each example; the toolkit takes the mean."
            return _problem(values, "one value for each example, [N]", hint, name)
        if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
            hint = "Compare, or convert with tf.cast(values, tf.float32)."
            return _problem(values, "bools or numbers", hint, name)
        if name in RECORD_FIELDS:
            return _problem(values, _OTHER_NAME, "Give it another name.", name)
    return None


def _is_variable(value: Any) -> bool:
    return hasattr(value, "read_value") and hasattr(value, "handle")


def check_inputs(value: Any) -> Optional[Problem]:
    """Of the hook `inputs`."""
    try:
        if isinstance(value, dict) and value:
            for dtype, shape in value.values():
                tf.TensorSpec([None, *shape], tf.as_dtype(dtype))
            return None
    except (TypeError, ValueError):
        pass
    return Problem(
        f"returned {describe_value(value)}",
        "It returns a dict from a name to a pair (dtype, shape of one), or None.",
    )
