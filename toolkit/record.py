"""What the manifest tells of a run: once of the run, and anew of each session of it."""

from __future__ import annotations

import datetime
import platform
import sys
from typing import Any, Dict, Sequence

from . import __version__
from .compat import VERSION
from .inputs import Inputs, ink
from .plugins import Plugins


def of_run(plugins: Plugins, inputs: Inputs) -> Dict[str, Any]:
    """What stays: when the run began, its plugins and its data with their hashes."""
    now = datetime.datetime.now(datetime.timezone.utc)
    measured = ink(inputs.splits["train"])
    return {
        "created": now.isoformat(timespec="seconds"),
        "plugins": {
            p.name: {"kind": p.kind, "distribution": p.distribution, "sha256": p.sha256()}
            for p in plugins.all
        },
        "data": {
            "name": inputs.dataset.name,
            "sha256": inputs.dataset.sha256,
            "examples": {name: len(split) for name, split in inputs.splits.items()},
            "stored": dict(inputs.dataset.spec._asdict()),
            "spec": dict(inputs.spec._asdict()),
            "ink": dict(measured._asdict()) if measured else None,
        },
        "checkpoints": [],
    }


def of_session(argv: Sequence[str], hooks: Sequence[str], total_steps: int) -> Dict[str, Any]:
    """What a resume may change: arguments, hooks in their order, target, versions."""
    return {
        "status": "running",
        "argv": list(argv),
        "hooks": list(hooks),
        "total_steps": total_steps,
        "versions": versions(),
    }


def versions() -> Dict[str, str]:
    """The versions that a result depends on."""
    import numpy
    import pluggy

    return {
        "toolkit": __version__,
        "python": platform.python_version(),
        "tensorflow": VERSION,
        "numpy": numpy.__version__,
        "pluggy": pluggy.__version__,
        "platform": sys.platform,
    }
