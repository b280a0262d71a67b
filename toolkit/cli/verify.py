"""`toolkit verify`: check the integrity of a run, replay steps, and test recovery from kills."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from typing import Any, Dict, Iterator, Optional, Tuple

import click

from ..cli_options import print_json, writing_output
from ..display.waits import waiting
from ..errors import CheckFailed, UsageError
from ..storage.run_folder import RunFolder, driver_of, open_run, shell_argument
from .common import flag, model_flags, print_lines, say

Steps = Tuple[Optional[int], Optional[int]]  # from, to; None: the default


def _parse_replay(ctx: click.Context, param: click.Parameter, text: Optional[str]) -> Any:
    """The steps of --replay FROM:TO."""
    match = re.fullmatch(r"(-?\d{1,18})?:(-?\d{1,18})?", ":" if text is None else text, re.ASCII)
    if match is None:
        hint = "Either may be omitted; ':' selects the steps between the last two checkpoints."
        if os.path.isdir(str(text)):  # the argument RUN was taken for the range
            command = f"toolkit verify --replay : {shell_argument(str(text))}"
            hint = f"Between the last two checkpoints: {command} (the whole run: 0:)"
        raise UsageError(f"--replay '{text}' is not FROM:TO, two steps as in 400:500.", hint=hint)
    first, last = (int(step) if step else None for step in match.groups())
    return None if text is None else (first, last)


@click.command()
@click.argument("run_folder", metavar="RUN")
@flag(
    "--replay steps",
    "FROM:TO",
    "Train these steps again and compare; ':' for those between the last two checkpoints.",
    callback=_parse_replay,
)
@flag("--chaos", "N", "Train a copy that is killed N times, and compare.", click.IntRange(1))
@flag("--seed", "N", "Seed of the random moments of --chaos [default 0].", int)
@model_flags
def verify(
    run_folder: str,
    steps: Optional[Steps],
    chaos: Optional[int],
    seed: Optional[int],
    as_json: bool,
) -> None:
    """Check the commit log of a run, every file that it lists, and what its seal covers: summary,
    metrics of the test, best checkpoint, hashes of data and plugins, reports.

    The exit code is 6 if something is not as it was committed; the error names the first fault.
    """
    from ..audit.checks import refuse_faults, run_checks

    if seed is not None and chaos is None:
        raise UsageError("--seed is that of --chaos, which is not set.", hint="Add --chaos N.")
    folder = open_run(run_folder)
    if folder.is_locked():
        raise UsageError(f"A process is training in {folder}.", hint="Wait for it, or stop it.")
    with waiting("Checking the files of the run"):
        checks = run_checks(folder)
    facts: Dict[str, Any] = {"run": str(folder), "checks": []}

    def show(name: str, text: str) -> None:
        if not as_json:
            print_lines([(name, text)], width=12)

    for check in checks:
        faults = [fault.message for fault in check.faults]
        facts["checks"].append({"name": check.name, "summary": check.summary, "faults": faults})
        show(check.name, check.summary or "cannot be read")
        for fault in faults:
            show("", "FAULT: " + fault)
    failure = None
    try:
        refuse_faults(folder, checks)
        if steps is not None:
            with _temporary_folder() as path:
                facts["replay"], text = _replay(folder, os.path.join(path, "replay"), *steps)
            show("replay", text)
        if chaos is not None:
            with _temporary_folder() as path:
                facts["chaos"], text = _chaos(folder, os.path.join(path, "chaos"), chaos, seed or 0)
            show("chaos", text)
    except CheckFailed as error:
        failure = error
        facts["fault"] = error.message
    if as_json:
        print_json(facts)
    if failure is not None:
        raise failure
    is_repeated = steps is not None or chaos is not None
    more = ", and trained again it has the same bits" if is_repeated else ""
    show("ok", f"everything is as the run committed it{more}")


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    """A folder for copies of the run, in TMPDIR if the user has set it, and nowhere else."""
    parent = os.environ.get("TMPDIR") or None
    with writing_output(f"TMPDIR={parent}" if parent else "The temporary folder (TMPDIR)"):
        folder = tempfile.TemporaryDirectory(prefix="toolkit-verify-", dir=parent)
    os.environ["TOOLKIT_IS_COPY"] = "1"  # for `Run.is_copy`, in further processes, too
    try:
        with folder as path:
            yield path
    finally:
        del os.environ["TOOLKIT_IS_COPY"]


def _replay(
    folder: RunFolder, path: str, first: Optional[int], last: Optional[int]
) -> Tuple[Dict[str, Any], str]:
    """What came of training steps again, as JSON and as a line."""
    from ..audit.replay import find_segment, replay_segment

    segment = find_segment(folder, first, last)
    start, end = segment.start.step if segment.start else 0, segment.end.step
    result = replay_segment(folder, segment, path)
    return {"from": start, "to": end, "result": result}, f"steps {start} to {end}, {result}"


def _chaos(folder: RunFolder, path: str, kills: int, seed: int) -> Tuple[Dict[str, Any], str]:
    """What came of a copy that was killed, as JSON and as a line."""
    from ..audit.chaos import kill_copies
    from ..audit.replay import check_initial_weights, find_segment

    driver = driver_of(folder.path)
    if driver:
        raise UsageError(
            f"--chaos trains a copy by the core's loop, and '{driver}' made the steps of {folder}.",
            hint="To replay steps: toolkit verify RUN --replay :",
        )
    try:
        segment = find_segment(folder, 0, None)
    except UsageError as error:
        error.hint = "--chaos trains the whole run again, with the options of one session."
        raise
    check_initial_weights(folder, segment)
    outcome = kill_copies(folder, segment, path, kills, say, seed)
    counts = ", ".join(f"{count} {moment}" for moment, count in sorted(outcome["kills"].items()))
    return outcome, "kills: {}; copies: {copies}; {result}".format(counts, **outcome)
