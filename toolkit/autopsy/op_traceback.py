"""The lines of Python that created an op: a plugin's, without those of TensorFlow and the core."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import sys
from typing import List, Optional, Tuple

from ..compat import tf
from ..graph.replica_copy import original_name
from .finding import SourceLine

# Packages whose lines appear in a traceback beside a plugin's; the core is the first.
_LIBRARIES = (
    "toolkit",
    "click",
    "tensorflow",
    "tensorflow_core",
    "tensorflow_estimator",
    "keras",
    "tf_keras",
    "pluggy",
)

# The module that builds the graph of an autopsy: whoever calls it did not create an op.
_BUILDER = os.path.join(os.path.dirname(__file__), "examine.py")
# In the message of a TensorFlow error: the op that failed, and the lines of a Python function that
# it called.
_NODE = re.compile(r"\[\[(?:\{\{)?node ([^\s}]+)")
_PYTHON_CALL = re.compile(r"script_ops\.py\", line .*?(?=\n\s*\[\[|\Z)", re.DOTALL)
_PYTHON_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def find_failing_line(error: BaseException, graph: Optional[tf.Graph]) -> str:
    """`file:line` of the plugin's code that made a session call fail; "" if the error hides it, or
    nothing is known of the session's graph.

    It is the line of a `tf.py_func` that raised an exception, else the line that created the op.
    """
    text = str(getattr(error, "message", error)) if isinstance(error, tf.errors.OpError) else ""
    call = _PYTHON_CALL.search(text)
    lines = _PYTHON_LINE.findall(call.group()) if call else []
    own = []
    for file, number in lines:
        path = os.path.abspath(file)
        is_installed = {"site-packages", "dist-packages"} & set(path.split(os.sep))
        if not is_installed and not path.startswith(_library_folders()):
            own.append(f"{path}:{number}")
    if own or graph is None:
        return own[-1] if own else ""
    for name in _NODE.findall(text):
        with contextlib.suppress(KeyError, ValueError):  # an op within a function
            # Nothing of a plugin created the copy of a replica.
            op = graph.get_operation_by_name(original_name(name))
            own += [f"{line.file}:{line.line}" for line in plugin_lines(op)]
    return own[-1] if own else ""


def forward_op(op: tf.Operation) -> tf.Operation:
    """The op of the forward pass whose gradient this op belongs to, or the op itself."""
    while getattr(op, "_original_op", None) is not None:
        op = op._original_op
    return op


def plugin_lines(op: tf.Operation) -> List[SourceLine]:
    """The lines of plugins that created an op, the innermost last; [] where the core created it.

    No line of a plugin creates a gradient, unless it is a custom gradient. So the lines of the
    forward op are returned for it.
    """
    lines, forward = [], forward_op(op)
    for frame in op.traceback or ():  # an object, or a tuple that starts with the same values
        is_tuple = isinstance(frame, tuple)
        file, line, name = frame[:3] if is_tuple else (frame.filename, frame.lineno, frame.name)
        path = os.path.abspath(file)
        lines.append(SourceLine(path, int(line), name, linecache.getline(path, line).strip()))
    # What called the core, the module that builds the graph, or that of gradients, did not create
    # the op.
    folders = _library_folders()
    core = next((n for n, line in enumerate(lines) if line.file.startswith(folders[0])), 0)
    builder = os.path.abspath(_BUILDER) if forward is op else "gradients_util.py"
    places = [n + 1 for n, line in enumerate(lines) if line.file.endswith(builder)]
    start = max(places, default=core)
    own = [line for line in lines[start:] if not line.file.startswith(folders)]
    return own if own or forward is op else plugin_lines(forward)


def _library_folders() -> Tuple[str, ...]:
    modules = [sys.modules.get(name) for name in _LIBRARIES]
    files = [getattr(module, "__file__", None) for module in modules]
    return tuple(os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in files if file)
