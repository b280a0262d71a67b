"""How the last session of a run ended, as its manifest says."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

from ..errors import DivergedError, InterruptedRun, ToolkitError
from .manifest import FINISHED

# The exit codes of runs that an earlier version trained, whose manifests have none.
_FORMER_CODES = {
    FINISHED: 0,
    "stopped": 0,
    "diverged": DivergedError.exit_code,
    "interrupted": InterruptedRun.exit_code,
    "failed": ToolkitError.exit_code,
}
UNFINISHED = ("stopped", "diverged", "interrupted", "failed", "trained")  # a resume continues them


class RunEnd(NamedTuple):
    """The end of a session.

    Attributes:
        status: of the manifest.
        step: the last one.
        reason: why it ended, as a clause or a sentence; "" if nothing says it.
        exit_code: of the process that trained.
    """

    status: str
    step: int
    reason: str
    exit_code: int


def read_end(manifest: Dict[str, Any]) -> Optional[RunEnd]:
    """The end of the last session; None if it has not ended, or was killed.

    A session that is trained but not yet tested has not ended, unless its test failed.
    """
    status, code = manifest["status"], manifest.get("exit_code")
    if status == "trained" and not code:
        return None
    if status == "stopped" and not (code or manifest.get("summary")):
        return None
    if status not in _FORMER_CODES and status != "trained":
        return None
    if code is None:
        code = _FORMER_CODES[status]
    return RunEnd(status, manifest.get("step", 0), str(manifest.get("reason", "")), code)
