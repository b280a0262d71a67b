"""The records of the journal give back what was written."""

import io
import types

import numpy as np
import pytest
from toolkit_adopt.journal import Recorder

from toolkit import ToolkitError, tf

KIND = types.SimpleNamespace(text="run: a", title="run", feeds=[])
NAMES = ["float32", "float16", "bfloat16", "bool", "uint8", "uint32", "uint64", "int64"]


def replay(*values):
    """What is read of a call that returned values."""
    parts = []
    Recorder(parts.append, 10**9).write(1, KIND, [], values)
    return Recorder(None, 10**9).read(io.BytesIO(b"".join(parts)), 1, KIND, [])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0), (3, 2)], ids=str)
@pytest.mark.parametrize("name", [*NAMES, "complex64", "complex128", "string"])
def test_arrays_are_read_as_they_were_written(name, shape):
    values = [b"%d\0" % i if name == "string" else i for i in range(np.prod(shape, dtype=int))]
    array = np.array(values, tf.as_dtype(name).as_numpy_dtype).reshape(shape)
    first, second = replay(array if shape else array[()], np.float32(3))
    assert second == 3 and (not shape or first.flags.writeable)
    found = first if isinstance(first, (np.ndarray, np.generic)) else np.array(first, object)
    assert (found.dtype, found.shape) == (array.dtype, shape)
    assert found.tolist() == array.tolist()


def test_a_journal_of_another_version_is_refused():
    data = b'{"t":"run: a","k":0,"v":[]}\n'
    file = io.BytesIO(len(data).to_bytes(4, "little") + data)
    with pytest.raises(ToolkitError, match="journal is of another version of the toolkit"):
        Recorder(None, 10**9).read(file, 1, KIND, [])
