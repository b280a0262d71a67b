"""Provenance: what is recorded once per run and again per session."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import shutil
import subprocess
import sys
from typing import Any, Dict, Iterable, List

from .. import __version__
from ..compat import VERSION
from ..data.files.parallel import count_cores
from ..data.same_data import summarize
from ..options import ORIGINS
from ..plugins import Plugin, Plugins
from ..run_data import RunData, measure_brightness

_GIT_SECS = 5.0  # for one call of git
_DISCOVERY = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")


def run_facts(plugins: Plugins, run_data: RunData) -> Dict[str, Any]:
    """What is recorded once: when the run began, its plugins and its data with their hashes."""
    return {
        "created": now(),
        "plugins": {
            p.name: {"kind": p.kind, "distribution": p.distribution, "sha256": p.sha256()}
            for p in plugins.all
        },
        "data": {
            "name": run_data.dataset.name,
            "sha256": summarize(run_data.dataset.sha256),
            "examples": {name: len(split) for name, split in run_data.splits.items()},
            "partition": run_data.dataset.partition(),
            "stored": run_data.dataset.spec._asdict(),
            "spec": run_data.spec._asdict(),
            "ink": measure_brightness(run_data.splits["train"]),
        },
    }


def now() -> str:
    """The time as a run records it, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


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


def read_git_commits(plugins: Iterable[Plugin]) -> Dict[str, Dict[str, Any]]:
    """The commit of the git work tree in which the files of each plugin lie.

    A work tree may be a stranger's, whose configuration and attributes can name programs to run, so
    git only reads references and trees here. The result has `{"commit": ..., "branch": None with a
    detached head}` by the names of plugins, none without git, or where the commit has no file of
    the plugin.
    """
    commits = {}
    for plugin in plugins:
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            folder = plugin.source_folder
            words = _call_git(folder, ["rev-parse", "HEAD", "--abbrev-ref", "HEAD"])
            commit, branch = words.split()
            places = {os.path.join(os.curdir, n.split(os.sep)[0]) for n in plugin.sha256()}
            if _call_git(folder, ["ls-tree", commit, "--", *sorted(places)]):
                branch_name = None if branch == "HEAD" else branch
                commits[plugin.name] = {"commit": commit, "branch": branch_name}
    return commits


def _call_git(folder: str, words: List[str]) -> str:
    """What git writes to stdout. Raises OSError or SubprocessError if it fails or is missing."""
    program = shutil.which("git")
    if not folder or program is None or not os.path.isabs(program):
        raise FileNotFoundError("git")
    own = {n: v for n, v in os.environ.items() if not n.startswith("GIT_") or n in _DISCOVERY}
    own.update(GIT_ALLOW_PROTOCOL="none", GIT_NO_LAZY_FETCH="1", GIT_OPTIONAL_LOCKS="0")
    output = subprocess.run(
        [program, "--no-pager", *words],
        cwd=folder,
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_GIT_SECS,
        check=True,
    ).stdout
    return os.fsdecode(output)
