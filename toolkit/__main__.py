"""`python -m toolkit`: the same as the command `toolkit`."""

import os
import sys

# Python looks for modules in the working directory first; a json.py there is not to be imported.
is_safe = getattr(sys.flags, "safe_path", False)  # python -P
if not is_safe and sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):
    del sys.path[0]

from .cli import main  # noqa: E402

main()
