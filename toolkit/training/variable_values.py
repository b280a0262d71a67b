"""The values of all variables of a session: as bytes for another process, and as hashes."""

from __future__ import annotations

import hashlib
import io
from typing import Any, Dict, List

import numpy as np

from ..compat import tf
from ..errors import ToolkitError


def read(session: tf.Session) -> bytes:
    """The values of all variables of the session's graph."""
    variables = _variables(session)
    names = np.array([variable.op.name for variable in variables], dtype=str)
    arrays: Dict[str, Any] = {"names": names}
    for number, value in enumerate(session.run(variables)):
        arrays[f"v{number}"] = _encode(value)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _encode(value: Any) -> np.ndarray:
    """An array that a file can hold: texts get a last byte, since numpy drops zeros at the end."""
    array = np.asarray(value, object if isinstance(value, bytes) else None)
    if array.dtype != object:
        return array
    texts = [bytes(text) + b"." for text in array.reshape(-1)]
    return np.array(texts, np.bytes_).reshape(array.shape)


def _decode(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The inverse of `_encode`; a file has bfloat16 as plain bytes."""
    if array.dtype.kind != "S":
        return array if array.dtype == dtype else array.view(dtype)
    values = np.empty(array.shape, object)
    values.reshape(-1)[:] = [text[:-1] for text in array.reshape(-1).tolist()]
    return values


def assign(session: tf.Session, data: bytes) -> None:
    """Assign what `read` returned in another process. No op is added to the graph. Raises
    ToolkitError if it has other variables.
    """
    variables = {variable.op.name: variable for variable in _variables(session)}
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        names = file["names"].tolist()
        missing = sorted(set(names) ^ set(variables))
        if missing:
            raise ToolkitError(
                f"The graphs of two processes differ: one has no variable '{missing[0]}'.",
                hint="Let the hooks of the plugin build the same graph in each process.",
            )
        for number, name in enumerate(names):  # one by one: two may share one initial value
            variable = variables[name]
            value = _decode(file[f"v{number}"], variable.dtype.base_dtype.as_numpy_dtype)
            session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def hashes(session: tf.Session) -> Dict[str, str]:
    """Name of a variable -> a hash of its value."""
    variables = _variables(session)
    texts = {}
    for variable, value in zip(variables, map(np.asarray, session.run(variables))):
        data = value.tobytes() if value.dtype != object else repr(value.tolist()).encode()
        texts[variable.op.name] = hashlib.sha256(data).hexdigest()[:16]
    return texts


def _variables(session: tf.Session) -> List[Any]:
    with session.graph.as_default():
        return list(tf.global_variables())
