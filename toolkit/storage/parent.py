"""What a run began from: the weights of another model, or an earlier commit of another run.

The parent is recorded in the manifest and in the first session that the run trained itself. It is
identified by hashes, since paths change.
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
        """The parent that a record contains; None if there is none."""
        return cls(**{name: values[name] for name in cls._fields}) if is_record(values) else None

    def as_json(self) -> Dict[str, Any]:
        return dict(self._asdict())

    def sentence(self) -> str:
        """What the run began from."""
        step = "" if self.step is None else f", step {self.step}"
        if self.kind == BRANCH:
            return f"The run is a branch of {self.name}{step} (tensors {self.tensors[:16]})."
        return f"The run began with the weights of {self.name}{step} (tensors {self.tensors[:16]})."


def is_record(values: Any) -> bool:
    """Whether a value of JSON is the record of a parent."""
    if not isinstance(values, dict) or values.get("kind") not in (WEIGHTS, BRANCH):
        return False
    step = values.get("step")
    is_step = isinstance(step, int) and not isinstance(step, bool) and step >= 0
    texts = [values.get(name) for name in ("name", "tensors", "head")]
    return all(isinstance(text, str) for text in texts) and (is_step or step is None)
