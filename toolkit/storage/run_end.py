"""How the last session of a run ended, as its manifest says."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

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
    code = manifest.get("exit_code")
    if code is None:
        return None
    reason = str(manifest.get("reason", ""))
    return RunEnd(manifest["status"], manifest.get("step", 0), reason, code)
