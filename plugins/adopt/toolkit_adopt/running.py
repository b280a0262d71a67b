"""One session of an adopted run, from its opening to its end, however the script ends."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Any, Dict, List, Optional, Sequence

from toolkit import DrivenRun, InterruptedRun, ToolkitError, UsageError

from .drive import Drive, hash_file


def train(
    run: DrivenRun, argv: List[str], allow: Sequence[str] = (), pause_at: Optional[int] = None
) -> Dict[str, Any]:
    """Train a run to its end, or to a pause; return the summary.

    Args:
        run: from `begin` or `reopen`.
        argv: the command.
        allow: "script" allows other contents of its files.
        pause_at: a train call after which it stops, to continue another time.

    Raises:
        InterruptedRun: after Ctrl-C or SIGTERM; the last train call is committed.
        DivergedError: a loss is not finite.
        ToolkitError: the script failed, or cannot be driven.
    """
    with run:
        _refuse_changes(run, allow)
        drive = Drive(run, argv, pause_at)
        try:
            reason = _run_script(run, drive)
            drive.end()
            if drive.signum:
                raise InterruptedRun("", signum=drive.signum)
        except ToolkitError as error:
            run.fail(error)
            raise
        is_paused = pause_at is not None and drive.step >= pause_at
        return run.finish(f"paused at step {drive.step}" if is_paused else reason, not is_paused)


def _run_script(run: DrivenRun, drive: Drive) -> str:
    """Run the script to its end; return why it ended, as a clause.

    Raises:
        ToolkitError: it raised an exception, or ended with an exit code.
    """
    path = run.settings["script"]
    name = os.path.basename(path)
    handlers = {s: signal.signal(s, drive.interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        drive.run_script()
    except SystemExit as error:
        if error.code not in (None, 0) and drive.failure is None:
            raise ToolkitError(f"{name} ended with exit code {error.code}.") from None
    except KeyboardInterrupt:
        if not drive.signum:
            raise ToolkitError(f"{name} raised KeyboardInterrupt.") from None
    except ToolkitError:  # ours, not the script's
        if drive.failure is None:
            raise
    except BaseException as error:
        if drive.failure is None:
            raise _failed(error, run, drive.is_coming_back) from error
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
    return f"{name} ended" if not drive.is_at_end else f"reached step {drive.step}"


def _failed(error: BaseException, run: DrivenRun, is_coming_back: bool) -> ToolkitError:
    """The error of a script that failed, whose own traceback is shown."""
    path = run.settings["script"]
    frames = traceback.extract_tb(error.__traceback__)
    own = [place for place, frame in enumerate(frames) if frame.filename == path]
    shown = frames[own[0] :] if own else frames
    lines = traceback.format_list(shown) + traceback.format_exception_only(type(error), error)
    sys.stderr.write("Traceback (most recent call last):\n" + "".join(lines))
    line = f" (line {shown[0].lineno})" if own else ""
    return ToolkitError(
        f"{os.path.basename(path)} failed: {type(error).__name__}: "
        f"{str(error).splitlines()[0] if str(error) else ''}{line}.",
        hint=f"Correct the cause; go on from train call {run.step} with: toolkit resume "
        f"{run.argument} --allow script."
        + " What it wrote into files before may be in its way here: move that."
        * is_coming_back,
    )


def _refuse_changes(run: DrivenRun, allow: Sequence[str]) -> None:
    """Refuse to continue with other contents of the script or of its modules, or with a script that
    this user never ran: the folder may be somebody else's.
    """
    sources = dict(run.sources_before())
    if run.restart is not None:
        sources.update(run.restart.values["sources"])
    for path, sha256 in sorted(sources.items()):
        if not os.path.isfile(path):
            raise UsageError(f"{path}, which the run executes, is gone.", hint="Put it back.")
        if hash_file(path) != sha256 and "script" not in allow:
            raise UsageError(
                f"{path} has changed since the run began.",
                hint="Put it back, start a new run, or allow the change: --allow script",
            )
    run.require_trust(run.settings["script"], is_chosen="script" in allow)
