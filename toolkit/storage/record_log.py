"""The records of a run, metrics.jsonl and speed.jsonl, as files in its folder."""

from __future__ import annotations

import os
from typing import Optional

from .commit_log import Checkpoint
from .folder import Folder
from .jsonl import JsonLines


class RecordLog(JsonLines):
    """A JSON-lines file of a run folder. A failed write raises the folder's `write_error`."""

    def __init__(self, folder: Folder, name: str):
        super().__init__(folder.file(name))
        self._folder = folder

    def append_line(self, text: str, durable: bool = False) -> None:
        with self._folder.writing():
            super().append_line(text, durable)

    def cut_back(self, checkpoint: Optional[Checkpoint]) -> str:
        """Remove the records after a checkpoint (None: all), so that a resume does not repeat them.

        Returns:
            What `find_fault` says of the records up to the checkpoint, which stay as they are.
        """
        fault = self.find_fault(checkpoint)
        with self._folder.writing():
            self.truncate(checkpoint.metrics.bytes if checkpoint else 0)
        return fault

    def find_fault(self, checkpoint: Optional[Checkpoint]) -> str:
        """What is wrong with the records up to a checkpoint, as a clause; '' if nothing is."""
        if checkpoint is None or self.starts_with(checkpoint.metrics):
            return ""
        return f"{os.path.basename(self.path)} is not what it was at step {checkpoint.step}"
