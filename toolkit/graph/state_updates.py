"""State updates: the ops by which a forward pass changes variables, as batch norm does."""

from __future__ import annotations

from typing import Any, List

from ..compat import tf

STATE_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def state_updates(operations) -> List[Any]:
    """Those of the operations that assign a variable: what a forward pass wants to be done."""
    return [o for o in operations if o.type in STATE_UPDATES]


def assign_like(update, value):
    """A state update like another one, of another value."""
    make = {
        "AssignVariableOp": tf.raw_ops.AssignVariableOp,
        "AssignAddVariableOp": tf.raw_ops.AssignAddVariableOp,
        "AssignSubVariableOp": tf.raw_ops.AssignSubVariableOp,
    }[update.type]
    return make(resource=update.inputs[0], value=value)
