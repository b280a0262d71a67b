"""What hooks remember in Python from step to step, saved beside the tensors of a checkpoint."""

from __future__ import annotations

import json
from typing import Any, Dict

import numpy as np

from ...errors import CheckpointError, ToolkitError
from ...files import atomic_write

ENDING = ".hooks.npz"
_INDEX = "index"

# Name of a hook -> name -> JSON value or array.
States = Dict[str, Dict[str, Any]]


def save(path: str, states: States) -> None:
    """Write the states of the hooks beside a checkpoint, whose path is without its endings. Raises
    OSError if the file cannot be written, ToolkitError if a hook remembers what cannot be saved.
    """
    arrays: Dict[str, Any] = {}
    index: Dict[str, Any] = {hook: {} for hook in states}
    for hook, state in states.items():
        _check_names(hook, state)
        for name, value in state.items():
            try:
                if isinstance(value, np.ndarray):
                    if value.dtype.hasobject:
                        raise TypeError("an array of objects")
                    index[hook][name] = {"array": f"array{len(arrays)}"}
                    arrays[f"array{len(arrays)}"] = value
                else:
                    index[hook][name] = {"value": _to_json(value)}
            except (TypeError, RecursionError) as error:
                raise ToolkitError(
                    f"Session hook '{hook}' keeps '{name}', which holds {error}.",
                    hint="Its method 'state' returns JSON values, and arrays of numbers or text.",
                ) from error
    arrays[_INDEX] = np.frombuffer(json.dumps(index).encode("utf-8"), np.uint8)
    with atomic_write(path + ENDING) as file:  # the commit syncs it, as all files of its step
        np.savez(file, **arrays)


def _check_names(hook: str, state: Any) -> None:
    """Raise ToolkitError if what a hook returned as its state is no dict whose keys are names."""
    fault = f"a {type(state).__name__}"
    if isinstance(state, dict):
        fault = next((f"the key {key!r}" for key in state if not isinstance(key, str)), "")
    if fault:
        raise ToolkitError(
            f"Session hook '{hook}' returned {fault} from 'state'.",
            hint="It returns a dict whose keys are names.",
        )


def _to_json(value: Any) -> Any:
    """The value in types that JSON reads back unchanged: tuples become lists, numpy's scalars
    Python's. Python's JSON has numbers that are not finite.
    """
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a dictionary with keys that are not text")
        return {key: _to_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"a {type(value).__name__}")


def load(path: str) -> States:
    """Read the states of the hooks; {} where no hook had any."""
    try:
        with np.load(path + ENDING, allow_pickle=False) as arrays:
            index = json.loads(arrays[_INDEX].tobytes().decode("utf-8"))
            return {
                hook: {
                    name: arrays[entry["array"]] if "array" in entry else entry["value"]
                    for name, entry in state.items()
                }
                for hook, state in index.items()
            }
    except FileNotFoundError:
        return {}
    except Exception as error:  # numpy raises many kinds for a damaged file
        raise CheckpointError(f"{path + ENDING}: not readable: {error}") from None
