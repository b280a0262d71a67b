"""Refuse variables that are created after the saver was made: they would be trained, not saved."""

from __future__ import annotations

import contextlib
from typing import Iterator

from ...autopsy.op_traceback import plugin_lines
from ...compat import tf
from ...errors import ToolkitError


@contextlib.contextmanager
def refused_variables(place: str) -> Iterator[None]:
    """Refuse global variables that are created in the block.

    Args:
        place: which code of a plugin runs in the block, for the message.

    Raises:
        ToolkitError: names the variable and the line that created it.
    """
    known = {variable.op.name for variable in tf.global_variables()}
    yield
    for variable in tf.global_variables():
        if variable.op.name in known:
            continue
        lines = plugin_lines(variable.op)
        location = f" ({lines[-1].file}:{lines[-1].line})" if lines else ""
        raise ToolkitError(
            f"The variable '{variable.op.name}' was created in {place}{location}, too late to be "
            "saved.",
            hint="Create it in the hook 'build', or with run.state; an optimizer belongs in the "
            "hook 'optimize'.",
        )
