"""`python -m toolkit`: the same as the command `toolkit`."""

import os
import sys

# Python looks for modules in the working directory first; a json.py there is not to be imported.
is_safe = getattr(sys.flags, "safe_path", False)  # python -P
try:
    here = os.path.realpath(os.getcwd())
    if not is_safe and sys.path and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
except FileNotFoundError:  # it was deleted, so there are no modules in it
    pass

from .cli import main  # noqa: E402

main()
