"""Provenance: what is recorded once per run and again per session."""

from __future__ import annotations

import datetime
import platform
import sys
from typing import Any, Dict, Sequence

from .. import __version__
from ..compat import VERSION
from ..data.files.hash_list import summarize
from ..data.files.parallel import count_cores
from ..options import ORIGINS
from ..plugins import Plugins
from ..run_data import RunData, measure_brightness


def run_facts(plugins: Plugins, run_data: RunData) -> Dict[str, Any]:
    """What is recorded once: when the run began, its plugins and its data with their hashes."""
    now = datetime.datetime.now(datetime.timezone.utc)
    brightness = measure_brightness(run_data.splits["train"])
    return {
        "created": now.isoformat(timespec="seconds"),
        "plugins": {
            p.name: {"kind": p.kind, "distribution": p.distribution, "sha256": p.sha256()}
            for p in plugins.all
        },
        "data": {
            "name": run_data.dataset.name,
            "sha256": summarize(run_data.dataset.sha256),
            "examples": {name: len(split) for name, split in run_data.splits.items()},
            "partition": run_data.dataset.partition(),
            "stored": dict(run_data.dataset.spec._asdict()),
            "spec": dict(run_data.spec._asdict()),
            "ink": dict(brightness._asdict()) if brightness else None,
        },
    }


def session_facts(argv: Sequence[str], hooks: Sequence[str], total_steps: int) -> Dict[str, Any]:
    """What a resume may change: the command, the hooks in their order, the last step, versions."""
    return {
        "status": "running",
        "argv": list(argv),
        "hooks": list(hooks),
        "total_steps": total_steps,
        "versions": versions(),
    }


def reproducibility_facts(
    plugins: Plugins, run_data: RunData, config: Dict[str, Any]
) -> Dict[str, Any]:
    """What the bits of a session depend on, for its entry in the commit log."""
    return {
        "versions": versions(),
        "machine": machine(),
        "plugins": {p.name: p.sha256() for p in plugins.all},
        "data": summarize(run_data.dataset.sha256),
        "partition": run_data.dataset.partition(),
        "options": {name: value for name, value in config.items() if name != ORIGINS},
    }


def machine() -> Dict[str, Any]:
    """What the order of sums may depend on: the processor, and the number of cores."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
        cpu = names[0] if names else cpu
    except OSError:
        pass
    return {"processor": cpu, "cores": count_cores()}


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
