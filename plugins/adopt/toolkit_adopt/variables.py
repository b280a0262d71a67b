"""The values of all variables of a session: read, and put back, without an op that is not there.

A variable is an op of the graph: `VarHandleOp`, or `VariableV2` of an older graph. It is read by an
op that its creation made, and written through its initializer, whose input is fed. So this works
on finalized graphs, too.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

import numpy as np

from toolkit import ToolkitError, tf

_HANDLES, _REFS = ("VarHandleOp",), ("VariableV2", "Variable")


class Place(NamedTuple):
    """Where a variable is read and written: a tensor, and an op whose second input is the value."""

    read: Any
    write: Optional[Any]


Run = Callable[..., List[Any]]  # targets, fetches, feeds -> values


def find_places(graph: Any) -> Dict[str, Place]:
    """The variables of a graph by name, in the order of creation."""
    places = {}
    for op in graph.get_operations():
        if op.type in _HANDLES:
            read = _first_user(op, "ReadVariableOp")
            if read is not None:
                places[op.name] = Place(read.outputs[0], _first_user(op, "AssignVariableOp"))
        elif op.type in _REFS:
            places[op.name] = Place(op.outputs[0], _first_user(op, "Assign"))
    return places


def _first_user(op: Any, kind: str) -> Any:
    """The oldest op of a kind that uses a variable: that of its creation, which waits for none."""
    users = [user for user in op.outputs[0].consumers() if user.type == kind]
    return min(users, key=lambda user: user._id) if users else None


def read_values(run: Run, places: Dict[str, Place]) -> Dict[str, np.ndarray]:
    """The values of the variables that are initialized, by name.

    Args:
        run: runs the session, unobserved.
        places: of `find_places`.
    """
    names = list(places)
    try:  # a call of nothing is an error
        values = run([], [places[name].read for name in names], {}) if names else []
    except tf.errors.FailedPreconditionError:  # some are not initialized
        names, values = [], []
        for name, place in places.items():
            try:
                values += run([], [place.read], {})
                names.append(name)
            except tf.errors.FailedPreconditionError:
                continue
    return dict(zip(names, map(np.asarray, values)))


def write_values(run: Run, places: Dict[str, Place], values: Dict[str, np.ndarray]) -> None:
    """Put values back, through the initializers of the variables.

    Raises:
        ToolkitError: the graph has no such variable, or no initializer for it.
    """
    missing = [name for name in values if name not in places or places[name].write is None]
    if missing:
        raise ToolkitError(
            f"The script no longer makes the variable '{missing[0]}', which the checkpoint has.",
            hint="A resume needs the script with which the run began.",
        )
    left = dict(values)
    while left:  # initial values may be shared: those are fed one after the other
        fed: Set[Any] = set()
        targets, feeds = [], {}
        for name in list(left):
            source = places[name].write.inputs[1]  # type: ignore[union-attr]
            if source.name not in fed:
                fed.add(source.name)
                targets.append(places[name].write)
                feeds[source] = left.pop(name)
        run(targets, [], feeds)
