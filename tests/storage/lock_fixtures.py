"""A process that has locked a run."""

from __future__ import annotations

import process_fixtures

LOCK = """
import signal, sys
from toolkit.storage.run_folder import RunFolder
RunFolder(sys.argv[1]).lock()
open(sys.argv[1] + ".locked", "w").close()
signal.pause()
"""


def lock_in_a_process(path):
    """Begin a process that locks the run at `path`, and return it when it has."""
    process = process_fixtures.start(path, statements=LOCK)
    process_fixtures.wait_for_file(path + ".locked", among=[process])
    return process
