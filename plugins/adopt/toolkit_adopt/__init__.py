"""Train untouched TensorFlow 1 scripts, and resume them exactly: `toolkit adopt SCRIPT`."""

import os

from toolkit import UsageError


def refuse_cluster() -> None:
    """Raise UsageError if TF_CONFIG, which a script may set itself, has a cluster."""
    if "cluster" in os.environ.get("TF_CONFIG", ""):  # "{}" is one process alone
        raise UsageError(
            "TF_CONFIG is set: the script would train in several processes, and a run is one.",
            hint="Unset it.",
        )
