"""Further Python processes that run the modules of this one."""

from __future__ import annotations

import os
import sys

COMMAND_LINE = "from toolkit.cli import main; main()"


def python_code(statements: str = COMMAND_LINE) -> str:
    """Code for `python -c` that runs the statements with this process's modules.

    Python itself puts the working directory first, which counts only where the user names it, too.
    """
    paths = [path for path in sys.path if path]  # "": by a `python -c`; see also __main__.py
    paths.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return f"import sys; sys.path[:] = {paths!r}; {statements}"
