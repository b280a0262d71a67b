"""Provenance: what is recorded once per run and again per session."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import platform
import sys
from typing import Any, Dict, List, Sequence

from .. import __version__
from ..compat import VERSION
from ..data.files.hash_list import summarize
from ..options import ORIGINS
from ..plugins import Plugins
from ..run_data import RunData, measure_brightness

THREADS = "threads within an op"
# The recorded facts on which bits depend.
DECISIVE = {
    "versions": ("tensorflow", "numpy", "toolkit"),
    "machine": ("processor", "cores", THREADS),
}


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


def changes_since(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """The differences between two sessions for which the later one is not bit-exact.

    Options are not compared: a resume changes them only on request.

    Args:
        session: of `reproducibility_facts`, as read from the commit log; some may be missing.
        now: of `reproducibility_facts`.
    """
    changes = []
    for title, names in DECISIVE.items():
        before, after = session.get(title) or {}, now[title]
        for name in [n for n in names if n in before and n in after]:
            if before[name] != after[name]:
                changes.append(f"{name} was {before[name]}, now {after[name]}")
    changes += _reader_changes(session, now)
    before, after = (facts.get("compiled") for facts in (session, now))
    if None not in (before, after) and before != after:
        changes.append(f"compiled by XLA was {_yes_no(before)}, now {_yes_no(after)}")
    for plugin, files in sorted((session.get("plugins") or {}).items()):
        others = now["plugins"].get(plugin, files)
        hashed = set(files)  # a plugin that imports another file has changed itself
        if any(os.path.basename(name) == "__init__.py" for name in files):
            hashed |= set(others)  # all files of a package
        file_names = sorted(n for n in hashed if files.get(n) != others.get(n))
        if file_names:
            changes.append(f"plugin '{plugin}' has changed ({', '.join(file_names[:3])})")
    if summarize(session.get("data") or now["data"]) != summarize(now["data"]):
        changes.append("the data has changed")
    if session.get("partition", now["partition"]) != now["partition"]:
        changes.append("other examples are held out")
    return changes


def _reader_changes(session: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """Whether the examples come in another order; "mapped" and "stream" have one order."""
    before, after = session.get("reader"), now.get("reader")
    if None not in (before, after) and (before == "resident") != (after == "resident"):
        return [f"reader was {before}, now {after}"]
    # The first sessions that streamed in the present order are the first that recorded a reader.
    is_earlier = before is None and bool(session.get("options"))
    if is_earlier and after in ("stream", "mapped"):
        return ["this version streams examples in another order"]
    return []


def _yes_no(value: Any) -> str:
    return "yes" if value else "no"


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
