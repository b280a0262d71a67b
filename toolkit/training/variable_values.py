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
    arrays: Dict[str, Any] = {"names": np.array([v.op.name for v in variables], dtype=str)}
    for number, (variable, value) in enumerate(zip(variables, session.run(variables))):
        if variable.dtype.base_dtype == tf.string:  # numpy would drop zeros at the end of a text
            proto = tf.AttrValue(tensor=tf.make_tensor_proto(value)).SerializeToString()
            value = np.frombuffer(proto, np.uint8)
        arrays[f"v{number}"] = value
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


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
            value, dtype = file[f"v{number}"], variable.dtype.base_dtype
            if dtype == tf.string:
                value = tf.make_ndarray(tf.AttrValue.FromString(value.tobytes()).tensor)
            else:
                value = value.view(dtype.as_numpy_dtype)  # a file has bfloat16 as plain bytes
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
