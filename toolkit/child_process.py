"""Further Python processes that run the modules of this one."""

from __future__ import annotations

import os
import sys

COMMAND_LINE = "from toolkit.cli import main; main()"


def python_code(statements: str = COMMAND_LINE) -> str:
    """Code for `python -c` that runs the statements with this process's modules.

    `python -m toolkit` would look for modules in the working directory first.
    """
    here = os.path.realpath(os.getcwd())
    paths = [path for path in sys.path if path and os.path.realpath(path) != here]
    paths.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return f"import sys; sys.path[:] = {paths!r}; {statements}"
