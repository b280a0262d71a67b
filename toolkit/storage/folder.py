"""A folder that a run writes to: paths in it, and the errors of writing to it."""

from __future__ import annotations

import contextlib
import os
import shlex

from ..errors import CheckpointError, RetryError, ToolkitError, UsageError


class Folder:
    """The folder at `path`. As text it is the shortest path that a user can type."""

    def __init__(self, path: str):
        self.path = path

    def __str__(self) -> str:
        relative = os.path.relpath(self.path)
        return self.path if relative.startswith("..") else relative

    @property
    def argument(self) -> str:
        """The folder as an argument of a command in a shell: quoted, and never taken for a flag."""
        return shell_argument(str(self))

    def file(self, *parts: str) -> str:
        """The path of a file in the folder, such as file("checkpoints", NAME)."""
        return os.path.join(self.path, *parts)

    def make_subfolder(self, *parts: str) -> str:
        """Create a subfolder unless it exists, and return its path. Raises UsageError if a symbolic
        link is in its place, or in that of a folder above it.
        """
        path = self.path
        for name in os.path.join(*parts).split(os.sep):
            path = os.path.join(path, name)
            if os.path.islink(path):
                raise self._link_error(path)
        os.makedirs(path, exist_ok=True)
        return path

    def refuse_links(self) -> None:
        """Raise UsageError if there is a symbolic link in the folder or below it.

        What is written to a link changes a file that is not the run's.
        """
        for path, folders, files in os.walk(self.path):
            for name in folders + files:
                if os.path.islink(os.path.join(path, name)):
                    raise self._link_error(os.path.join(path, name))

    def _link_error(self, path: str) -> UsageError:
        return UsageError(
            f"{os.path.join(str(self), os.path.relpath(path, self.path))} is a symbolic link, and "
            "a run writes only to its own folder.",
            hint="Remove the link, or replace it by a copy of the file or folder.",
        )

    @contextlib.contextmanager
    def writing(self):
        """Raise the folder's `write_error` for an OSError in the block."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            if isinstance(error, PermissionError) and isinstance(error.filename, str):
                name = os.path.relpath(error.filename, self.path)
                reason = reason if name == "." else f"{name}: {reason}"
            raise self.write_error(reason) from error

    def write_error(self, reason: str) -> ToolkitError:
        """The error to raise when the system refuses a write: a RetryError, or a CheckpointError
        if the folder is gone.
        """
        if not os.path.isdir(self.path):
            return self.loss_error()
        return RetryError(
            f"{self} cannot be written: {reason.rstrip('.')}.",
            hint="Nothing that was committed is lost. Free some space, or restore the write "
            "permission.",
        )

    def loss_error(self) -> CheckpointError:
        """The error to raise when the folder is no longer at its path."""
        return CheckpointError(
            f"{self} is gone: it was removed or moved during training.",
            hint="If it was moved, continue there with: toolkit resume RUN",
        )


def shell_argument(path: str) -> str:
    """A path as an argument of a command in a shell: quoted, and never taken for a flag."""
    return shlex.quote(os.path.join(".", path) if path.startswith("-") else path)
