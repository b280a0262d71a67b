"""The values of all variables of a session: read, and put back, without an op that is not there.

A variable is an op of the graph: `VarHandleOp`, or `VariableV2` of an older graph. It is read by an
op that its creation made, and written through its initializer, whose input is fed. So this works
on finalized graphs, too.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from toolkit import ToolkitError, tf

# The tensor that reads a variable, and the op that writes its second input into it, if there is one
Places = Dict[str, Tuple[Any, Any]]
Run = Callable[..., List[Any]]  # session, targets, fetches, feeds -> values, unobserved


def find_places(graph: Any) -> Places:
    """The variables of a graph by name, in the order of creation."""
    places: Places = {}
    for op in graph.get_operations():
        if op.type == "VarHandleOp":
            read = _first_user(op, "ReadVariableOp")
            if read is not None:
                places[op.name] = read.outputs[0], _first_user(op, "AssignVariableOp")
        elif op.type in ("VariableV2", "Variable"):
            places[op.name] = op.outputs[0], _first_user(op, "Assign")
    return places


def _first_user(op: Any, kind: str) -> Any:
    """The oldest op of a kind that uses a variable: that of its creation, which waits for none."""
    users = [user for user in op.outputs[0].consumers() if user.type == kind]
    return min(users, key=lambda user: user._id, default=None)


def read_values(run: Run, session: Any) -> Dict[str, np.ndarray]:
    """The values of the variables that are initialized, by name."""
    places = find_places(session.graph)
    reads = [read for read, _ in places.values()]
    with contextlib.suppress(tf.errors.FailedPreconditionError):  # some are not initialized
        return dict(zip(places, map(np.asarray, run(session, [], reads, {}) if reads else [])))
    values = {}
    for name, (read, _) in places.items():
        with contextlib.suppress(tf.errors.FailedPreconditionError):
            values[name] = np.asarray(run(session, [], [read], {})[0])
    return values


def write_values(run: Run, session: Any, values: Dict[str, np.ndarray]) -> None:
    """Put values back, through the initializers of the variables.

    Raises ToolkitError if the graph has no such variable, or no initializer for it.
    """
    places = find_places(session.graph)
    writes: Any = collections.defaultdict(list)  # by the tensor that is fed, which some may share
    for name, value in values.items():
        _, write = places.get(name, (None, None))
        if write is None:
            raise ToolkitError(
                f"The script no longer makes the variable '{name}', which the checkpoint has.",
                hint="A resume needs the script with which the run began.",
            )
        writes[write.inputs[1].name].append((write, value))
    for batch in itertools.zip_longest(*writes.values()):
        pairs = [pair for pair in batch if pair is not None]
        feeds = {write.inputs[1]: value for write, value in pairs}
        run(session, [write for write, _ in pairs], [], feeds)
