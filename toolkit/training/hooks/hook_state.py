"""What hooks keep in Python from step to step, saved beside the tensors of a checkpoint."""

from __future__ import annotations

import json
from typing import Any, Dict

import numpy as np

from ...errors import CheckpointError, ToolkitError
from ...files import atomic_write

ENDING = ".hooks.npz"
_INDEX = "index"

# Of each hook by its name: names -> JSON values or arrays.
States = Dict[str, Dict[str, Any]]


def save(path: str, states: States) -> None:
    """Write the states. path: of the checkpoint, less its endings.

    Raises OSError where it can't be written, ToolkitError where a hook keeps what can't be.
    """
    arrays: Dict[str, np.ndarray] = {}
    index: Dict[str, Any] = {}
    for hook, state in states.items():
        index[hook] = {}
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                if value.dtype.hasobject:
                    raise _no_state(hook, f"'{name}', which is an array of objects")
                arrays[f"array{len(arrays)}"] = value
                index[hook][name] = {"array": f"array{len(arrays) - 1}"}
                continue
            try:
                index[hook][name] = {"value": _plain(value)}
            except (TypeError, RecursionError) as error:
                raise _no_state(hook, f"'{name}', which holds {error}") from error
    text = np.frombuffer(json.dumps(index).encode("utf-8"), np.uint8)
    with atomic_write(path + ENDING, durable=True) as file:
        np.savez(file, **dict(arrays, **{_INDEX: text}))


def _plain(value: Any) -> Any:
    """The value of types that JSON gives back as they are; tuples become lists, numpy's scalars
    Python's. Python's JSON has numbers that are not finite. TypeError where there is no such value.
    """
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a dictionary with keys that are no text")
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"a {type(value).__name__}")


def _no_state(hook: str, what: str) -> ToolkitError:
    return ToolkitError(
        f"Session hook '{hook}' keeps {what}.",
        hint="Its method 'state' returns JSON values, and arrays of numbers or text.",
    )


def load(path: str) -> States:
    """What `save` wrote, or {} where no hook had anything to keep."""
    try:
        with np.load(path + ENDING, allow_pickle=False) as arrays:
            index = json.loads(arrays[_INDEX].tobytes().decode("utf-8"))
            return {
                hook: {
                    name: arrays[found["array"]] if "array" in found else found["value"]
                    for name, found in state.items()
                }
                for hook, state in index.items()
            }
    except FileNotFoundError:
        return {}
    except Exception as error:  # numpy raises what the damage makes it stumble over
        raise CheckpointError(f"{path + ENDING}: not readable: {error}") from None
