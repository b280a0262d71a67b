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
    arrays: Dict[str, Any] = {}
    for number, value in enumerate(session.run(variables)):
        arrays.update(_encode(f"v{number}", np.asarray(value)))
    names = np.array([variable.op.name for variable in variables], dtype=str)
    buffer = io.BytesIO()
    np.savez(buffer, names=names, **arrays)
    return buffer.getvalue()


def _encode(name: str, value: np.ndarray) -> Dict[str, np.ndarray]:
    """Arrays of plain dtypes for a value of any dtype, texts and bfloat16 included."""
    shape = np.array(value.shape, np.int64)
    if value.dtype != object:
        return {name: np.frombuffer(value.tobytes(), np.uint8), f"{name}/shape": shape}
    texts = [bytes(text) for text in value.reshape(-1)]
    return {
        name: np.frombuffer(b"".join(texts), np.uint8),
        f"{name}/shape": shape,
        f"{name}/lengths": np.array([len(text) for text in texts], np.int64),
    }


def _decode(file: Any, name: str, dtype: Any) -> np.ndarray:
    """The inverse of `_encode`, for a variable of a dtype."""
    data, shape = file[name].tobytes(), file[f"{name}/shape"]
    if f"{name}/lengths" not in file:
        return np.frombuffer(data, dtype).reshape(shape)
    ends = np.cumsum(file[f"{name}/lengths"]).tolist()
    texts = [data[start:end] for start, end in zip([0, *ends], ends)]
    return np.array(texts, dtype=object).reshape(shape)


def assign(session: tf.Session, data: bytes) -> None:
    """Assign what `read` returned in another process. No op is added to the graph.

    Raises:
        ToolkitError: the graph has other variables.
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
            value = _decode(file, f"v{number}", variable.dtype.base_dtype.as_numpy_dtype)
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
