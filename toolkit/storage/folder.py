"""A folder that a run writes to: paths in it, and the errors of writing to it."""

from __future__ import annotations

import contextlib
import os

from ..errors import CheckpointError, RetryError, ToolkitError


class Folder:
    """The folder at `path`. As text it is the shortest path that a user can type."""

    def __init__(self, path: str):
        self.path = path

    def __str__(self) -> str:
        relative = os.path.relpath(self.path)
        return self.path if relative.startswith("..") else relative

    def file(self, *parts: str) -> str:
        """The path of a file in the folder, such as file("checkpoints", NAME)."""
        return os.path.join(self.path, *parts)

    def make_subfolder(self, *parts: str) -> str:
        """Create a subfolder unless it exists, and return its path."""
        path = self.file(*parts)
        os.makedirs(path, exist_ok=True)
        return path

    @contextlib.contextmanager
    def writing(self):
        """Raise the folder's `write_error` for an OSError in the block."""
        try:
            yield
        except OSError as error:
            raise self.write_error(error.strerror or str(error)) from error

    def write_error(self, reason: str) -> ToolkitError:
        """The error to raise when the system refuses a write: a RetryError, or a CheckpointError
        if the folder is gone.
        """
        if not os.path.isdir(self.path):
            return CheckpointError(
                f"{self} is gone: it was removed or moved during training.",
                hint="If it was moved, continue there with: toolkit resume",
            )
        return RetryError(
            f"{self} cannot be written: {reason.rstrip('.')}.",
            hint="Nothing that was committed is lost. Free some space, or restore the write "
            "permission.",
        )
