"""Whether a script would train in several processes; imports no TensorFlow."""

from __future__ import annotations

import os

from toolkit import UsageError


def refuse_cluster() -> None:
    """Raise UsageError if TF_CONFIG, which a script may set itself, has a cluster."""
    if "cluster" in os.environ.get("TF_CONFIG", ""):  # "{}" is one process alone
        raise UsageError(
            "TF_CONFIG is set: the script would train in several processes, and a run is one.",
            hint="Unset it.",
        )
