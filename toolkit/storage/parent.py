"""What a run began from: the weights of another model, or an earlier commit of another run.

The parent is recorded in the first session that the run trained itself, or in the entry with which
a branch begins. It is identified by hashes, since paths change.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

WEIGHTS, BRANCH = "weights", "branch"  # the kinds of a parent


class Parent(NamedTuple):
    """What a run began from.

    Attributes:
        kind: WEIGHTS if the run took only weights and began at step 0; BRANCH if it continues.
        name: of the folder of the run, or of the checkpoint, at that time.
        step: the step of its checkpoint; None if the checkpoint does not say.
        tensors: the SHA-256 over the tensors of the checkpoint, see checkpoint_reader.fingerprint.
        head: the hash of the last entry of the run's commit log; "" if it was no run.
    """

    kind: str
    name: str
    step: Optional[int]
    tensors: str
    head: str

    @classmethod
    def from_json(cls, values: Any) -> Optional[Parent]:
        """The parent that a sound entry, or the state of a run, has; None if there is none."""
        return cls(**values) if values else None

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())

    def sentence(self) -> str:
        """What the run began from."""
        step = "" if self.step is None else f", step {self.step}"
        if self.kind == BRANCH:
            return f"The run is a branch of {self.name}{step} (tensors {self.tensors[:16]})."
        return f"The run began with the weights of {self.name}{step} (tensors {self.tensors[:16]})."
