"""Which lines of Python made an op: a plugin's, not those of TensorFlow and the core around it."""

from __future__ import annotations

import linecache
import os
import sys
from typing import List, Tuple

from . import replay
from .finding import Place

# What stands between the line of a plugin and an op that it makes.
_BETWEEN = (
    "toolkit",
    "tensorflow",
    "tensorflow_core",
    "tensorflow_estimator",
    "keras",
    "tf_keras",
    "pluggy",
)


def forward_op(op):
    """The op of the forward pass that this one is in the gradient of, or itself."""
    while getattr(op, "_original_op", None) is not None:
        op = op._original_op
    return op


def stack(op) -> List[Place]:
    """The lines that are neither TensorFlow's nor the core's, the innermost last.

    A gradient is made by no line of a plugin, other than a custom one, so those of the forward op
    count.
    """
    frames, forward = _frames(op), forward_op(op)
    if forward is op:
        return _own(frames, _path(replay.__file__))
    return _own(frames, "gradients_util.py") or stack(forward)


def _own(frames: List[Place], behind: str) -> List[Place]:
    """The plugins' frames behind the last one of a file whose path ends so."""
    last = [number for number, frame in enumerate(frames) if frame.file.endswith(behind)][-1:]
    roots = _roots()
    return [f for f in frames[last[0] + 1 if last else 0 :] if not f.file.startswith(roots)]


def _frames(op) -> List[Place]:
    """How an op came to be made, the innermost line last."""
    return [_as_place(frame) for frame in op.traceback]


def _as_place(frame) -> Place:
    """From TensorFlow's frame, which is an object, or a tuple that begins with the same."""
    if isinstance(frame, tuple):
        file, line, function = frame[:3]
    else:
        file, line, function = frame.filename, frame.lineno, frame.name
    return Place(_path(file), int(line), function, linecache.getline(file, line).strip())


def _roots() -> Tuple[str, ...]:
    """The folders of the core and of what stands between it and a plugin's line."""
    modules = [sys.modules.get(name) for name in _BETWEEN]
    files = [getattr(module, "__file__", None) for module in modules]
    return tuple(os.path.join(os.path.dirname(_path(file)), "") for file in files if file)


def _path(file: str) -> str:
    return os.path.abspath(file)
