"""The metrics of checkpoints that were evaluated while a run trained, `evaluations.jsonl`.

The process that trains does not write this file, and no commit or seal depends on it: evaluations
may run beside the training, from other machines, and after its end. Each record names the tensors
that were evaluated by their hash, so that `verify` can say whether the run has committed them.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Set, Tuple

from ..errors import CheckpointError
from .commit_log import Checkpoint
from .folder import Folder
from .folder_lock import lock_file
from .jsonl import parse_object
from .record_log import RecordLog

EVALUATIONS = "evaluations.jsonl"


class EvaluationLog(RecordLog):
    """The records of one run folder. Several processes may append to it.

    Args:
        folder: of the run.
        subject: what, besides the checkpoint, the metrics of this process depend on: JSON values
            by name, such as the split. They are in each record that it appends.
    """

    def __init__(self, folder: Folder, subject: Dict[str, Any]):
        super().__init__(folder, EVALUATIONS)
        self._subject = subject
        self._known: Set[Tuple[int, str]] = set()
        with contextlib.suppress(
            CheckpointError
        ):  # it cannot be read; nor written, which `add` says
            for record in self.read():
                if all(record.get(name) == value for name, value in subject.items()):
                    self._known.add(_read_identity(record))

    def contains(self, checkpoint: Checkpoint) -> bool:
        """Whether this checkpoint was evaluated on this subject, before this object existed or
        through it.
        """
        return (checkpoint.step, checkpoint.tensors) in self._known

    def add(self, checkpoint: Checkpoint, result: Dict[str, Any]) -> None:
        """Append the result of a checkpoint. Raises ToolkitError if it cannot be written."""
        self._known.add((checkpoint.step, checkpoint.tensors))
        with self._folder.writing(), lock_file(self.path):
            self.invalidate_cache()
            facts = dict(self._subject, step=checkpoint.step, tensors=checkpoint.tensors)
            self.append(dict(result, **facts))


def find_evaluation_faults(lines: List[str], tensors: Dict[int, List[str]]) -> Iterator[str]:
    """What is wrong with the lines of `evaluations.jsonl`, a clause each.

    Args:
        lines: of the file.
        tensors: step -> the hashes of the tensors that the run ever committed at this step.
    """
    for number, line in enumerate(lines, 1):
        step, digest = _read_identity(parse_object(line) or {})
        place = f"line {number} of {EVALUATIONS}"
        if step < 0:
            yield f"{place} is not a record of an evaluation"
        elif digest not in tensors.get(step, ()):
            yield f"{place} evaluates other tensors than the run committed at step {step}"


def _read_identity(record: Dict[str, Any]) -> Tuple[int, str]:
    """The step and the hash of the tensors of a record; -1 and "" if it has none."""
    step, digest = record.get("step"), record.get("tensors")
    if isinstance(step, int) and not isinstance(step, bool) and isinstance(digest, str):
        return (step, digest) if step >= 0 else (-1, "")
    return -1, ""
