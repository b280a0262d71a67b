"""The commit of the git work tree in which a plugin's files lie, and whether they differ from it.

A work tree may be a stranger's, whose configuration and attributes can name programs to run. So
git only reads references and trees here, and the hash of a file says whether it has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from typing import Any, Dict, Iterable, Optional

from ..plugins import Plugin

_SECS = 5.0  # for one call of git
_DISCOVERY = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")


def read_git_states(plugins: Iterable[Plugin]) -> Dict[str, Dict[str, Any]]:
    """Commit, branch and whether anything has changed, of each plugin that a commit has.

    Returns:
        The name of a plugin -> `{"commit": ..., "branch": None with a detached head, "is_dirty":
        whether a file of the plugin is not that of the commit}`. Without git, outside of a work
        tree and for a plugin of which the commit has no file, there is no state.
    """
    states = {plugin.name: _read_state(plugin) for plugin in plugins}
    return {name: state for name, state in states.items() if state}


def _read_state(plugin: Plugin) -> Optional[Dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        folder = plugin.source_folder
        commit, branch = _call_git(folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split()
        names = list(plugin.sha256())
        places = {os.path.join(os.curdir, name.split(os.sep)[0]) for name in names}
        blobs = {}
        for line in _call_git(folder, "ls-tree", "-rz", commit, "--", *places).split("\0")[:-1]:
            facts, _, path = line.partition("\t")
            blobs[path] = facts.split()[-1]
        if set(names) & set(blobs):
            ids = {name: _blob_id(plugin.read_source(name), len(commit)) for name in names}
            is_dirty = any(blobs.get(name) != ids[name] for name in names)
            name = None if branch == "HEAD" else branch
            return {"commit": commit, "branch": name, "is_dirty": is_dirty}
    return None


def _blob_id(content: bytes, length: int) -> str:
    """The name that git gives to the contents of a file, with so many digits."""
    digest = hashlib.sha1() if length == 40 else hashlib.sha256()
    digest.update(b"blob %d\0" % len(content) + content)
    return digest.hexdigest()


def _call_git(folder: str, *words: str) -> str:
    """What git writes to stdout. Raises OSError or SubprocessError if it fails or is missing."""
    program = shutil.which("git")
    if not folder or program is None or not os.path.isabs(program):
        raise FileNotFoundError("git")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _DISCOVERY
    }
    environment.update(GIT_ALLOW_PROTOCOL="none", GIT_NO_LAZY_FETCH="1", GIT_OPTIONAL_LOCKS="0")
    output = subprocess.run(
        [program, "--no-pager", *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_SECS,
        check=True,
    ).stdout
    return os.fsdecode(output)
