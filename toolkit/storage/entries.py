"""The entries of a run's commit log: their kinds, the schema of each, and the state that they give.

    run         what a run is: when it began, its plugins and data
    branch      the same of a branch, after the entries of its parent
    session     a training session: from which step, with which options, versions and machine
    commit      a checkpoint: the hashes of its files and of its tensors
    evaluated   the best checkpoint and the evaluations so far
    end         how a session ended
    seal        how the run ended, for all that people quote of it

Each entry has the values of the run that change with it. `apply` folds the entries, one after the
other, into the state of the run, which everything reads and `manifest.json` shows.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Type, Union

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Annotated, Literal

FORMAT = 4
RUNNING = "running"  # the status of a session that has not ended, or was killed
TRAINED = "trained"  # of a run before its test
FINISHED = "finished"  # of a run with nothing left to do
UNFINISHED = ("stopped", "diverged", "interrupted", "failed", TRAINED)  # a resume continues them

# ------------------------------------------------------------------------------------------ schema

_Count = Annotated[int, Field(ge=0, le=sys.maxsize)]
_Number = Annotated[float, Field(ge=-sys.maxsize, le=sys.maxsize, allow_inf_nan=False)]
_Dtype = Literal["uint8", "float32", "int32", "int64", "bool", "string"]


class _Values(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Facts(_Values):
    """Values of which more are recorded than code relies on."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Digest(_Values):
    bytes: _Count
    sha256: str


class _Parent(_Values):
    kind: Literal["weights", "branch"]
    name: str
    step: Optional[_Count]
    tensors: str
    head: str


class _Copy(_Values):
    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}-[0-9a-f]{8}$")]
    omitted: List[str]


class _Spec(_Values):
    shape: List[_Count]
    dtype: Union[_Dtype, Literal[""]]
    num_classes: _Count = 0
    class_names: List[str] = []
    class_counts: List[_Count] = []
    value_range: List[_Number] = []
    mean: List[_Number] = []
    deviation: List[_Number] = []
    components: List[List[Any]] = []  # [flat key, the values of its component] each
    table: Optional[Dict[str, Any]] = None
    records: Optional[Dict[str, Any]] = None
    label_scale: _Count = 0


class _Data(_Facts):
    sha256: Dict[str, str]
    partition: str = ""
    stored: _Spec
    spec: _Spec
    ink: Optional[Dict[str, _Number]]


class _Plugin(_Facts):
    distribution: Optional[str] = None


class _Preset(_Values):  # that the data chose
    option: str
    name: str
    reason: str


class _Best(_Facts):
    step: _Count
    metric: str = ""
    direction: Literal["min", "max"] = "max"


class _Evaluation(_Facts):
    step: _Count
    examples: _Count
    metrics: Dict[str, Any]


class _Evaluations(_Values):
    last: _Evaluation
    best: Optional[_Evaluation]


class _Entry(_Values):
    kind: str
    previous: str  # the hash of the entry before it
    hash: str


class _Run(_Entry):
    created: str
    plugins: Dict[str, _Plugin]
    data: _Data
    parent: Optional[_Parent] = None
    presets: List[_Preset] = []


class _Branch(_Entry):
    step: _Count
    kept: List[_Count]
    parent: _Parent
    created: str


class _Session(_Entry):
    model_config = ConfigDict(strict=True, extra="allow")

    from_step: _Count = Field(alias="from")
    kept: List[_Count]
    parent: Optional[_Parent] = None
    seconds_before: _Number = 0.0  # of the sessions before
    session_start: _Number = 0.0  # in seconds since the epoch
    total_steps: _Count = 0
    argv: List[str] = []
    options: Dict[str, Any] = {}
    versions: Dict[str, Any] = {}
    machine: Dict[str, Any] = {}
    plugins: Dict[str, Dict[str, Any]] = {}
    data: Dict[str, Any] = {}
    data_facts: Optional[_Data] = None  # where a resume allowed other data
    sources: Dict[str, _Copy] = {}


class _Commit(_Entry):
    step: _Count
    kept: List[_Count]
    time: _Number  # in seconds since the epoch
    tensors: str
    metrics: _Digest
    files: Dict[str, _Digest]

    @model_validator(mode="after")
    def check_names(self) -> _Commit:
        """Each file is one of this step, inside the checkpoints folder."""
        start = re.escape(f"model.ckpt-{self.step}.")
        if not all(re.fullmatch(start + r"[A-Za-z0-9._-]{1,200}", name) for name in self.files):
            raise ValueError("not a file of the step")
        return self


class _Evaluated(_Entry):
    step: _Count = 0
    best: Optional[_Best]
    evaluations_since_best: _Count = 0
    validation: Optional[_Evaluations] = None


class _End(_Entry):
    status: str = FINISHED
    step: _Count = 0
    reason: str = ""
    seconds: _Number = 0.0  # of training, in all sessions
    exit_code: Optional[int] = None  # of the process that trained; None until it has ended
    hook_ms: Optional[Dict[str, Optional[_Number]]] = None
    summary: Optional[Dict[str, Any]] = None


class _Seal(_End):
    metrics: _Digest  # of metrics.jsonl
    reports: Dict[str, _Digest]

    @model_validator(mode="after")
    def check_names(self) -> _Seal:
        """Each report is inside the folder of the reports."""
        for name in self.reports:
            parts = name.split("/")
            if parts[0] != "reports" or {"", ".", ".."} & set(parts) or "\0" in name:
                raise ValueError("not a report")
        return self


_SCHEMAS: Dict[str, Type[_Entry]] = {
    "run": _Run,
    "branch": _Branch,
    "session": _Session,
    "commit": _Commit,
    "evaluated": _Evaluated,
    "end": _End,
    "seal": _Seal,
}


def is_sound(values: Dict[str, Any]) -> bool:
    """Whether an entry has all values that its kind requires, each of its type."""
    kind = values.get("kind")
    schema = _SCHEMAS.get(kind) if isinstance(kind, str) else None
    try:
        return schema is not None and bool(schema.model_validate(values))
    except (TypeError, ValueError, RecursionError):  # a ValidationError is a ValueError
        return False


# ------------------------------------------------------------------------------------------- state

_BOOKKEEPING = ("kind", "kept", "from", "previous", "hash")
_OF_SESSION = (  # what the state has of a session
    *("argv", "hooks", "total_steps", "versions", "reader", "parent", "git", "keeps_sources"),
    *("model", "seconds_before", "session_start"),
)


WEIGHTS, BRANCH = "weights", "branch"  # the kinds of a parent


class Parent(NamedTuple):
    """What a run began from: the weights of another model, or an earlier commit of another run.

    It is recorded in the first session that the run trained itself, or in the entry with which a
    branch begins. Hashes identify it, since paths change.
    """

    kind: str  # WEIGHTS if the run took only weights and began at step 0; BRANCH if it continues
    name: str  # of the folder of the run, or of the checkpoint, at that time
    step: Optional[int]  # the step of its checkpoint; None if the checkpoint does not say
    # the SHA-256 over the tensors of the checkpoint, see checkpoint_reader.fingerprint
    tensors: str
    head: str  # the hash of the last entry of the run's commit log; "" if it was no run

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


class RunEnd(NamedTuple):
    """The end of the last session."""

    status: str  # of the run
    step: int  # the last one
    reason: str  # why it ended, as a clause or a sentence; "" if nothing says it
    exit_code: int  # of the process that trained


def apply(state: Dict[str, Any], values: Dict[str, Any]) -> None:
    """Let an entry change the state of a run after the entries before; {} before the first, which
    is of the kind "run".
    """
    kind = values["kind"]
    facts = {name: value for name, value in values.items() if name not in _BOOKKEEPING}
    if kind == "run":
        state.clear()
        state.update(format=FORMAT, status=RUNNING, step=0, seconds=0.0, exit_code=None)
        state.update(reason="", summary=None, best=None, evaluations_since_best=0, validation=None)
    if not state:
        return
    if kind == "session":
        data = facts.get("data_facts") or dict(state["data"])
        if facts.get("data"):
            data = dict(data, sha256=facts["data"], partition=facts.get("partition", ""))
        state.update({name: facts[name] for name in _OF_SESSION if name in facts})
        state.update(status=RUNNING, step=values["from"], data=data, exit_code=None, reason="")
        state.update(summary=None, metrics=None, xla=bool(facts.get("compiled")))
        state.update(seconds=facts.get("seconds_before", 0.0))
    elif kind == "commit":
        # Of a session that was killed nobody knows the end: it counts up to its last commit.
        secs = max(0.0, facts["time"] - state.get("session_start", facts["time"]))
        state.update(step=facts["step"], seconds=state.get("seconds_before", 0.0) + secs)
    elif kind == "branch":
        parent = facts["parent"]
        reason = f"a branch of {parent['name']} from step {parent['step']}"
        state.update(facts, status="stopped", reason=reason, seconds=0.0, summary=None)
    else:
        state.update(facts)


def read_end(state: Dict[str, Any]) -> Optional[RunEnd]:
    """The end of the last session; None if it has not ended, or was killed.

    A session that is trained but not yet tested has not ended, unless its test failed.
    """
    code = state.get("exit_code")
    return None if code is None else RunEnd(state["status"], state["step"], state["reason"], code)
