"""What a run's folder tells of how it came about: once of the run, and anew of each session."""

from __future__ import annotations

import datetime
import multiprocessing
import platform
import sys
from typing import Any, Dict, List, Sequence

from .. import __version__
from ..compat import VERSION
from ..plugins import Plugins
from ..run_data import RunData, measure_brightness

# What bits depend on, of the facts that are kept.
THREADS = "threads within an op"
TELLING = {
    "versions": ("tensorflow", "numpy", "toolkit"),
    "machine": ("processor", "cores", THREADS),
}


def of_run(plugins: Plugins, run_data: RunData) -> Dict[str, Any]:
    """What stays: when the run began, its plugins and its data with their hashes."""
    now = datetime.datetime.now(datetime.timezone.utc)
    measured = measure_brightness(run_data.splits["train"])
    return {
        "created": now.isoformat(timespec="seconds"),
        "plugins": {
            p.name: {"kind": p.kind, "distribution": p.distribution, "sha256": p.sha256()}
            for p in plugins.all
        },
        "data": {
            "name": run_data.dataset.name,
            "sha256": run_data.dataset.sha256,
            "examples": {name: len(split) for name, split in run_data.splits.items()},
            "stored": dict(run_data.dataset.spec._asdict()),
            "spec": dict(run_data.spec._asdict()),
            "ink": dict(measured._asdict()) if measured else None,
        },
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


def of_chain(plugins: Plugins, run_data: RunData, config: Dict[str, Any]) -> Dict[str, Any]:
    """What the bits of a session depend on, for its line in the chain of commits."""
    return {
        "versions": versions(),
        "machine": machine(),
        "plugins": {p.name: p.sha256() for p in plugins.all},
        "data": run_data.dataset.sha256,
        "options": dict(config),
    }


def changed_since(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """What differs between two sessions so that one does not go on with the other's bits.

    session, now: of `of_chain`; a session that was read back may lack some of it. Options are not
    looked at: a change of those is asked for.
    """
    told = []
    for title, names in TELLING.items():
        before, after = session.get(title) or {}, now[title]
        for name in [n for n in names if n in before and n in after]:
            if before[name] != after[name]:
                told.append(f"{name} was {before[name]}, now {after[name]}")
    for plugin, files in sorted((session.get("plugins") or {}).items()):
        others = now["plugins"].get(plugin, files)
        changed = sorted(n for n in set(files) | set(others) if files.get(n) != others.get(n))
        if changed:
            told.append(f"plugin '{plugin}' has changed ({', '.join(changed[:3])})")
    if (session.get("data") or now["data"]) != now["data"]:
        told.append("the data is other data")
    return told


def machine() -> Dict[str, Any]:
    """What the order of sums may depend on: the processor, and how many cores there are to use."""
    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            named = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
        cpu = named[0] if named else cpu
    except OSError:
        pass
    return {"processor": cpu, "cores": multiprocessing.cpu_count()}


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
