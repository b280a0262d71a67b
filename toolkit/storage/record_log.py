"""The records of a run as files in its folder: `metrics.jsonl`, `speed.jsonl`, and the metrics of
checkpoints that were evaluated while it trained, `evaluations.jsonl`.

The process that trains does not write the last one, and no commit or seal depends on it:
evaluations may run beside the training, from other machines, and after its end. Each record names
the tensors that were evaluated by their hash, so that none is evaluated twice.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Set

from ..errors import CheckpointError
from .commit_log import Checkpoint
from .folder_lock import lock_file
from .jsonl import JsonLines

if TYPE_CHECKING:
    from .run_folder import RunFolder

EVALUATIONS = "evaluations.jsonl"


class RecordLog(JsonLines):
    """A JSON-lines file of a run folder. A failed write raises the folder's `write_error`."""

    def __init__(self, folder: RunFolder, name: str):
        super().__init__(folder.file(name))
        self._folder = folder

    def append_line(self, text: str, durable: bool = False) -> None:
        with self._folder.writing():
            super().append_line(text, durable)

    def cut_back(self, checkpoint: Optional[Checkpoint]) -> str:
        """Remove the records after a checkpoint (None: all), so that a resume does not repeat them.
        Returns what `find_fault` says of those up to it, which stay as they are.
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


class EvaluationLog(RecordLog):
    """The records of one run folder. Several processes may append to it.

    `subject` is in each record that this one appends: what, besides the checkpoint, its metrics
    depend on, such as the split.
    """

    def __init__(self, folder: RunFolder, subject: Dict[str, Any]):
        super().__init__(folder, EVALUATIONS)
        self._subject = subject
        self._known: Set[str] = set()  # step and tensors of each
        with contextlib.suppress(CheckpointError):  # nor can it be written, which `add` says
            for record in self.read():
                if all(record.get(name) == value for name, value in subject.items()):
                    self._known.add(f"{record.get('step')} {record.get('tensors')}")

    def contains(self, checkpoint: Checkpoint) -> bool:
        """Whether this checkpoint was evaluated on this subject, before this object existed or
        through it.
        """
        return f"{checkpoint.step} {checkpoint.tensors}" in self._known

    def add(self, checkpoint: Checkpoint, result: Dict[str, Any]) -> None:
        """Append the result of a checkpoint. Raises ToolkitError if it cannot be written."""
        self._known.add(f"{checkpoint.step} {checkpoint.tensors}")
        with self._folder.writing(), lock_file(self.path):
            self.invalidate_cache()
            facts = dict(self._subject, step=checkpoint.step, tensors=checkpoint.tensors)
            self.append(dict(result, **facts))
