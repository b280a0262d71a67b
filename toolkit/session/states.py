"""What hooks keep in Python from step to step, saved beside the tensors of a checkpoint."""

from __future__ import annotations

import json
from typing import Any, Dict

import numpy as np

from ..errors import CheckpointError
from ..files import finite, written_whole

ENDING = ".hooks.npz"
_INDEX = "index"

# Of each hook by its name: names -> JSON values or arrays.
States = Dict[str, Dict[str, Any]]


def save(path: str, states: States) -> None:
    """Write the states. path: of the checkpoint, less its endings. OSError where it can't be."""
    arrays: Dict[str, np.ndarray] = {}
    index: Dict[str, Any] = {}
    for hook, state in states.items():
        index[hook] = {}
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                arrays["array{}".format(len(arrays))] = value
                index[hook][name] = {"array": "array{}".format(len(arrays) - 1)}
            else:
                index[hook][name] = {"value": finite(value)}
    text = np.frombuffer(json.dumps(index).encode("utf-8"), np.uint8)
    with written_whole(path + ENDING, durable=True) as file:
        np.savez(file, **dict(arrays, **{_INDEX: text}))


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
        raise CheckpointError("{}: not readable: {}".format(path + ENDING, error)) from None
