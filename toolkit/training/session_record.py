"""How a session of a run begins and ends, as its commit log has it and in lines, and its page.

Both kinds of runs write it: those of the training loop (run_log.py) and of drivers (driven.py).
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..display.console import MAX_METRICS, Console
from ..display.numbers import (
    describe_level,
    describe_omissions,
    format_count,
    format_number,
    join_metrics,
)
from ..display.waits import waiting
from ..errors import DivergedError, InterruptedRun, RetryError, ToolkitError
from ..storage.entries import FINISHED, TRAINED
from ..storage.report_folder import hash_reports
from ..storage.run_folder import RunFolder
from ..storage.session_changes import find_session_changes
from .best_metric import WORDS


class TrainResult(NamedTuple):
    """How training ended."""

    step: int  # the last one
    seconds: float  # of the loop
    reason: str
    is_done: bool  # False if it paused, to continue another time


class SessionRecord:
    """Writes how a session of a run begins and ends; `subject` names its plugin or driver."""

    def __init__(self, folder: RunFolder, subject: str, console: Console):
        self._folder, self._subject, self._console = folder, subject, console
        self.seconds_before = 0.0  # of training, in the sessions before
        self._last_end: Dict[str, Any] = {}

    def begin_session(
        self,
        config: Dict[str, Any],
        argv: Sequence[str],
        session: Dict[str, Any],
        run_facts: Callable[[], Dict[str, Any]],
    ) -> List[str]:
        """Write the run where it is new, and open its log.

        `session` has facts of the session, to which those of its beginning are added. Returns why
        its bits may not be those of an undisturbed run, a clause each.
        """
        folder, changes = self._folder, []
        if folder.is_new:
            folder.create(config)
            folder.record("run", **run_facts())
        else:
            self.seconds_before = folder.state()["seconds"]
            last = folder.commits.last_session()
            changes = find_session_changes(last, session) if last else []
        self._console.file.open(folder.path, list(argv))
        session.update(argv=list(argv), seconds_before=self.seconds_before)
        session.update(session_start=time.time())
        return changes

    def end(self, result: TrainResult) -> None:
        """Write how training ended, before the test."""
        status = TRAINED if result.is_done else "stopped"
        self._write_end(status, result.step, result.reason, result.seconds)

    def finish(self, result: TrainResult, test: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Write the summary of the run, with the result of the test if there is any; return it."""
        folder = self._folder
        summary = {
            "run": str(folder),
            "plugin": self._subject,
            "steps": result.step,
            "seconds": round(result.seconds, 2),
            "reason": result.reason,
            "finished": result.is_done,
            "best": folder.checkpoints.best(),
            "test": test,
        }
        relative = dict(summary, run=".")
        if result.is_done:  # written last: a resume repeats what a kill prevents
            with folder.writing():  # the seal has the hash of what is on the disk
                folder.metrics.make_durable()
            folder.record(
                "seal",
                status=FINISHED,
                step=result.step,
                exit_code=0,
                summary=relative,
                metrics=dict(folder.metrics.position()._asdict()),
                reports=hash_reports(folder, (test or {}).get("reports", "")),
            )
        else:
            folder.record("end", **dict(self._last_end, summary=relative, exit_code=0))
        return summary

    def write_failure(self, error: ToolkitError, step: int, seconds: float, resume: str) -> None:
        """Write that the session failed after the last good step and its seconds, and add to the
        error the sentence that says how to continue.
        """
        status = "failed"
        if isinstance(error, InterruptedRun):
            status, error.hint = "interrupted", resume
            error.message = f"Interrupted; step {step} is saved in {self._folder}."
        elif isinstance(error, DivergedError):
            status = "diverged"
            event = {"step": step, "kind": "event", "event": status, "message": error.message}
            with contextlib.suppress(ToolkitError):
                self._folder.metrics.append(event)
        elif isinstance(error, RetryError):
            error.hint = " ".join(text for text in (error.hint, resume) if text)
        with contextlib.suppress(ToolkitError):  # the folder may be what failed
            if self._folder.state()["status"] != FINISHED:  # else no session has begun since
                self._write_end(status, step, error.message, seconds, exit_code=error.exit_code)

    def fail_test(self, error: BaseException) -> None:
        """Write that the test failed after the training, for who waits for the end of the run."""
        code = getattr(error, "exit_code", InterruptedRun.exit_code)
        self._console.file.write(f"Error: {str(error) or 'Interrupted.'}")
        with contextlib.suppress(ToolkitError):
            self._folder.record("end", **dict(self._last_end, exit_code=code))

    def write_page(self) -> str:
        """Write the page of the run; return its path, "" if there is none."""
        from ..page.writer import PAGE, write_run_page

        if self._folder.is_new:
            return ""
        path = self._folder.file(PAGE)
        try:
            with self._folder.writing(), waiting("Writing the page"):
                write_run_page(self._folder.path, path)
        except Exception as error:  # the run is what counts
            message = error.message if isinstance(error, ToolkitError) else f"{error!r}."
            self._console.warn(f"{PAGE} is not written: {message}")
            return ""
        return os.path.join(str(self._folder), PAGE)

    def _write_end(self, status: str, step: int, reason: str, seconds: float, **facts: Any) -> None:
        """Write how the session ended; `seconds` are its own, `facts` further values."""
        seconds = round(self.seconds_before + seconds, 2)
        self._last_end = {"status": status, "step": step, "reason": reason, "seconds": seconds}
        self._folder.record("end", **self._last_end, **dict({"exit_code": None}, **facts))


# ----------------------------------------------------------------------------------------- in lines


def list_summary_lines(summary: Dict[str, Any], page: str, resume: str) -> List[str]:
    """The lines that a run ends with, from its summary, the path of its page, "" if there is none,
    and with what to continue it.
    """
    reason, step = summary["reason"], f"step {summary['steps']}"
    text = reason if reason.endswith(step) else f"{reason}, at {step}"
    rows = [("done", f"{text} in {summary['seconds']:.1f} s")]
    best = summary.get("best")
    if best and "direction" in best:
        rows.append(("best", describe_best(best)))
    rows += _describe_test(summary)
    if page:
        rows.append(("page", page))
    rows.append(("run", summary["run"]))
    if not summary["finished"]:
        rows.append(("resume", resume))
    return [f"{name:8}{text}" for name, text in rows]


def describe_best(best: Dict[str, Any]) -> str:
    """What the best checkpoint has, from its record: "lowest loss 0.1234 (validation, step 5)"."""
    word = WORDS[best["direction"]]
    value, noise = format_number(best["value"]), format_number(best.get("noise") or 0.0)
    place = f"validation, step {best['step']}"
    reached = best.get("reached", best["value"])
    if reached == best["value"]:
        return f"{word} {best['metric']} {value} ({place})"
    reason = f"the newest within the noise, {noise}, of the {word}, {format_number(reached)}"
    return f"{best['metric']} {value} ({place}: {reason})"


def _describe_test(summary: Dict[str, Any]) -> List[Tuple[str, str]]:
    """The metrics and the lines of the scorers; of many metrics, the lines alone."""
    test = summary.get("test")
    if not test or not (test["metrics"] or test.get("lines")):
        return []
    count = format_count(test["examples"], "example")
    source = f"{count}, {test['checkpoint']} checkpoint, step {test['step']}"
    first, *lines = test.get("lines") or [""]
    if not first or len(test["metrics"]) <= MAX_METRICS:
        lines = [*describe_omissions(test), *([first, *lines] if first else [])]
        first, source = join_metrics(test), source + describe_level(test)
    rows = [("test", f"{first}  ({source})"), *(("", line) for line in lines)]
    if "reports" in test:
        rows.append(("reports", f"{summary['run']}/{test['reports']}"))
    return rows
