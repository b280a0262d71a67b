"""The source files of a plugin that Python imports from a zip archive."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import zipfile
from typing import Dict, Tuple


def hash_archived(file: str) -> Dict[str, str]:
    """Path -> SHA-256 of each Python file of a module in an archive; {} if there is no archive.

    Args:
        file: of the module: a path that leads through the archive.
    """
    archive, inner = _split(file)
    if not archive:
        return {}
    folder, name = posixpath.split(inner)
    try:
        with zipfile.ZipFile(archive) as contents:
            names = [inner]
            if name == "__init__.py":
                inside = [each for each in contents.namelist() if each.startswith(folder + "/")]
                names = sorted(each for each in inside if each.endswith(".py"))
                folder = posixpath.dirname(folder)
            return {
                posixpath.relpath(each, folder or "."): hashlib.sha256(
                    contents.read(each)
                ).hexdigest()
                for each in names
            }
    except (OSError, KeyError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return {}  # it has changed since it was imported, or its contents are encrypted


def read_archived(path: str) -> bytes:
    """The contents of a file in an archive. Raises OSError if there is none."""
    archive, inner = _split(path)
    try:
        with zipfile.ZipFile(archive) as contents:
            return contents.read(inner)
    except (KeyError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise OSError(errno.EIO, str(error), path) from None


def _split(path: str) -> Tuple[str, str]:
    """The archive on the way to a path, and the name within it; ("", "") without an archive."""
    archive, inner = path, ""
    while archive and not os.path.lexists(archive):
        archive, name = os.path.split(archive)
        if not name:
            return "", ""
        inner = posixpath.join(name, inner) if inner else name
    return (archive, inner) if inner and os.path.isfile(archive) else ("", "")
