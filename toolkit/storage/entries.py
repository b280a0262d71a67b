"""The entries of a run's commit log: their kinds, what each has, and the state that they give.

    run         what a run is: when it began, its plugins and data
    branch      the same of a branch, after the entries of its parent
    session     a training session: from which step, with which options, versions and machine
    commit      a checkpoint: the hashes of its files and of its tensors; why training ended there
    evaluated   the best checkpoint and the evaluations so far
    end         how a session ended
    seal        how the run ended, for all that people quote of it

Each entry has the values of the run that change with it. `apply` folds the entries, one after the
other, into the state of the run, which everything reads and `manifest.json` shows.
"""

from __future__ import annotations

import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

FORMAT = 4
RUNNING = "running"  # the status of a session that has not ended, or was killed
TRAINED = "trained"  # of a run before its test
FINISHED = "finished"  # of a run with nothing left to do
UNFINISHED = ("stopped", "diverged", "interrupted", "failed", TRAINED)  # a resume continues them

# ----------------------------------------------------------------------------------------- entries

# What each kind has besides the hashes, as far as code relies on it: name -> types.
_FIELDS: Dict[str, Dict[str, Tuple[type, ...]]] = {
    "run": {"created": (str,), "plugins": (dict,), "data": (dict,)},
    "branch": {"step": (int,), "kept": (list,), "parent": (dict,), "created": (str,)},
    "session": {"from": (int,), "kept": (list,)},
    "commit": {
        "step": (int,),
        "kept": (list,),
        "time": (int, float),  # in seconds since the epoch
        "tensors": (str,),
        "metrics": (dict,),  # bytes and sha256 of metrics.jsonl
        "files": (dict,),  # the same of each file by its name
    },
    "evaluated": {"best": (dict, type(None))},
    "end": {},
    "seal": {"metrics": (dict,), "reports": (dict,)},
}
_COPY = re.compile(r"[A-Za-z0-9_.-]{1,60}-[0-9a-f]{8}")  # the folder of a plugin's sources


def is_sound(values: Dict[str, Any]) -> bool:
    """Whether an entry has what its kind requires, and names no file outside of its folder.

    Its hash was right, so the toolkit wrote it; it may be of another version.
    """
    fields = _FIELDS.get(str(values.get("kind")))
    if fields is None or not isinstance(values.get("previous"), str):
        return False
    if not all(type(values.get(name)) in types for name, types in fields.items()):
        return False
    if values["kind"] == "commit":
        file = re.compile(re.escape(f"model.ckpt-{values['step']}.") + r"[A-Za-z0-9._-]{1,200}")
        return all(map(file.fullmatch, values["files"]))
    if values["kind"] == "seal":
        reports = [name.split("/") for name in values["reports"]]
        return all(r[0] == "reports" and not {"", ".", ".."} & set(r) for r in reports)
    try:
        copies = (values.get("sources") or {}).values()
        return all(_COPY.fullmatch(copy["folder"]) for copy in copies)
    except (AttributeError, KeyError, TypeError):
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

    def sentence(self) -> str:
        """What the run began from."""
        step = "" if self.step is None else f", step {self.step}"
        if self.kind == BRANCH:
            return f"The run is a branch of {self.name}{step} (tensors {self.tensors[:16]})."
        return f"The run began with the weights of {self.name}{step} (tensors {self.tensors[:16]})."


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
        if facts.get("end"):
            state.update(status=TRAINED, reason=facts["end"])
    elif kind == "branch":
        parent = facts["parent"]
        reason = f"a branch of {parent['name']} from step {parent['step']}"
        state.update(facts, status="stopped", reason=reason, seconds=0.0, summary=None)
    else:
        state.update(facts)


def has_ended(state: Dict[str, Any]) -> bool:
    """Whether the last session has ended, and was not killed. One that is trained but not yet
    tested has not ended, unless its test failed.
    """
    return state.get("exit_code") is not None
