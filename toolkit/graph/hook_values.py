"""What the hooks of a model must return: one check per hook, for `Plugins.call_hook`. Each returns
what is wrong with a value, or None.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..compat import tf
from ..plugins import Problem, describe_value

_PAIR_HINT = "Return what a function of tf.metrics returns, such as tf.metrics.mean(values)."
_NUMPY_HINT = "Compute it from the hook's tensors with TensorFlow's functions, not with numpy's."


def _check_dict(value: Any, expected: str, hint: str) -> Optional[Problem]:
    text = f"returned {describe_value(value)}, expected a dict of {expected}"
    return None if isinstance(value, dict) else Problem(text, hint)


def check_outputs(value: Any) -> Optional[Problem]:
    """Of the hook `call`."""
    problem = _check_dict(value, "tensors", "Return {name: tensor}, with a name for each output.")
    for name, output in {} if problem else value.items():
        if isinstance(output, (np.ndarray, np.generic)):
            text = f"returned {describe_value(output)} for '{name}', expected a tensor"
            return Problem(text, _NUMPY_HINT)
    return problem


def check_loss(value: Any) -> Optional[Problem]:
    """Of the hook `loss`."""
    losses = value if isinstance(value, dict) else {"loss": value}
    for name, loss in losses.items():
        text = f"returned {describe_value(loss)} for '{name}', expected a scalar tensor"
        if isinstance(loss, (list, tuple)):
            return Problem(text, "Return one scalar, or a dict of scalars by name.")
        if not isinstance(loss, tf.Tensor):
            return Problem(text, _NUMPY_HINT)
        if loss.shape.ndims != 0:
            return Problem(text, "Take the mean over the batch with tf.reduce_mean.")
        if not loss.dtype.is_floating:
            return Problem(text + " of floats", "Convert it with tf.cast(loss, tf.float32).")
    return None


def check_training_loss(value: Any) -> Optional[Problem]:
    """Of the hook `loss` in training, which needs one or more."""
    if value == {}:
        return Problem("returned {}, expected a scalar tensor", "Return at least one scalar.")
    return check_loss(value)


def check_train_op(value: Any) -> Optional[Problem]:
    """Of the hook `optimize`."""
    if isinstance(value, tf.Operation):
        return None
    text = f"returned {describe_value(value)}, expected one tf.Operation"
    return Problem(text, "Return what run.minimize returns, or a tf.group.")


def check_predictions(value: Any) -> Optional[Problem]:
    """Of the hook `predict`."""
    hint = "Return {name: tensor}, with a name for each column of the predictions."
    if not isinstance(value, dict) or not value:
        return Problem(f"returned {describe_value(value)}, expected a dict of tensors", hint)
    for name, tensor in value.items():
        text = f"returned {describe_value(tensor)} for '{name}'"
        if _is_variable(tensor):  # its size is compared with each batch
            continue
        if not isinstance(tensor, tf.Tensor):
            return Problem(text + ", expected a tensor", _NUMPY_HINT)
        if tensor.shape.ndims is not None and tensor.shape.as_list()[:1] != [None]:
            hint = "Compute a value of each example; what is one number for a split is a metric."
            return Problem(text + ", expected one row for each example, [N, ...]", hint)
        if name == "label" and not tensor.dtype.is_integer:
            hint = "Take tf.argmax(..., output_type=tf.int32), or give it another name."
            return Problem(text + ", expected the predicted class as an integer", hint)
    return None


def check_metrics(value: Any) -> Optional[Problem]:
    """Of the hook `metrics`."""
    hint = "Return {name: tf.metrics.mean(values)}."
    problem = _check_dict(value, "pairs (value, update_op)", hint)
    result: Any
    for name, pair in {} if problem else value.items():
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        result, update = pair if is_pair else (None, None)
        # A session can run the update; `tf.metrics.mean_iou` returns an assignment to a variable.
        is_update = isinstance(getattr(update, "op", update), tf.Operation)
        if not (isinstance(result, tf.Tensor) or _is_variable(result)) or not is_update:
            text = f"returned {describe_value(pair)} for '{name}', expected a pair"
            return Problem(text + " (value, update_op)", _PAIR_HINT)
        if result.shape.ndims:
            text = f"returned {describe_value(result)} for '{name}', expected a scalar"
            return Problem(text, "Give each number of it a metric of its own.")
    return problem


def check_example_metrics(value: Any) -> Optional[Problem]:
    """Of the hook `example_metrics`."""
    hint = "Return {name: values}, with a bool or a number for each example."
    problem = _check_dict(value, "tensors", hint)
    for name, values in {} if problem else value.items():
        text = f"returned {describe_value(values)} for '{name}'"
        if isinstance(values, tuple):
            hint = "Return the values themselves; pairs of tf.metrics belong in 'metrics'."
            return Problem(text + ", expected a tensor", hint)
        if not isinstance(values, tf.Tensor):
            return Problem(text + ", expected a tensor", _NUMPY_HINT)
        if values.shape.ndims not in (None, 1) or values.shape.as_list()[:1] not in ([None], []):
            hint = "Return one value for each example; the toolkit takes the mean."
            return Problem(text + ", expected one value for each example, [N]", hint)
        if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
            text += ", expected bools or numbers"
            return Problem(text, "Compare, or convert with tf.cast(values, tf.float32).")
    return problem


def _is_variable(value: Any) -> bool:
    return hasattr(value, "read_value") and hasattr(value, "handle")


def check_inputs(value: Any) -> Optional[Problem]:
    """Of the hook `inputs`."""
    problem = Problem(
        f"returned {describe_value(value)}",
        "It returns a dict from a name to a pair (dtype, shape of one), or None.",
    )
    if not isinstance(value, dict) or not value:
        return problem
    try:
        for dtype, shape in value.values():
            tf.TensorSpec([None, *shape], tf.as_dtype(dtype))
    except (TypeError, ValueError):
        return problem
    return None
