"""`toolkit verify`: prove that a run is what its folder says."""

from __future__ import annotations

import sys
import tempfile
from typing import Any, Dict, Optional, Tuple

import click

from .common import json_option, print_json, verbose_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.option(
    "--replay",
    default=None,
    metavar="FROM:TO",
    help="Train these steps again and compare; ':' for those since the last checkpoint but one.",
)
@click.option(
    "--chaos",
    default=None,
    type=click.IntRange(1),
    metavar="N",
    help="Train a copy that is killed N times, and compare.",
)
@click.option("--seed", default=0, metavar="N", help="Of the moments to kill at [default 0].")
@json_option
@verbose_option
def verify(run_folder, replay, chaos, seed, as_json):
    """Check a run's chain of commits and every file it names; train again what is asked for.

    Ends with exit code 6 and the first difference where something is not as it was committed.
    """
    from ..audit import checks
    from ..errors import CheckFailed, UsageError
    from ..storage.run_folder import open_run

    wanted = None if replay is None else _range(replay)
    folder = open_run(run_folder)
    if folder.is_locked():
        raise UsageError(f"A process is training in {folder}.", hint="Wait for it, or stop it.")
    found = checks.checks(folder)
    facts: Dict[str, Any] = {"run": str(folder)}
    facts["checks"] = [check._asdict() for check in found]
    if not as_json:
        _print(found)
    failed = None
    try:
        checks.refuse_faults(folder, found)
        with tempfile.TemporaryDirectory(prefix="toolkit-verify-") as place:
            if wanted is not None:
                facts["replay"] = _replay(folder, wanted, place + "/replay", as_json)
            if chaos is not None:
                facts["chaos"] = _chaos(folder, chaos, seed, place + "/chaos", as_json)
    except CheckFailed as error:
        failed = error
        facts["fault"] = error.message
    if as_json:
        print_json(facts)
    if failed is not None:
        raise failed
    return 0


def _replay(folder, wanted, place: str, as_json: bool) -> Dict[str, Any]:
    from ..audit import checks

    part = checks.segment(folder, *wanted)
    first = part.start.step if part.start else 0
    told = checks.replay(folder, part, place)
    _say(as_json, "replay", f"steps {first} to {part.end.step}, {told}")
    return {"from": first, "to": part.end.step, "told": told}


def _chaos(folder, kills: int, seed: int, place: str, as_json: bool) -> Dict[str, Any]:
    from ..audit import checks
    from ..audit.chaos import Chaos
    from ..errors import UsageError

    def say(text: str) -> None:
        sys.stderr.write(text + "\n")

    try:
        part = checks.segment(folder, 0, None)
    except UsageError as error:
        error.hint = "--chaos trains the whole run again, with the options of one session."
        raise
    outcome = Chaos(folder, part, place, say, seed).run(kills)
    moments = outcome.moments()
    counted = ", ".join(f"{count} {moment}" for moment, count in sorted(moments.items()))
    text = f"kills: {counted}; copies: {outcome.copies}; {outcome.told}"
    _say(as_json, "chaos", text)
    return {"kills": moments, "copies": outcome.copies, "told": outcome.told}


def _range(text: str) -> Tuple[Optional[int], Optional[int]]:
    from ..errors import UsageError

    first, colon, last = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return int(first) if first else None, int(last) if last else None
    except ValueError:
        raise UsageError(
            f"--replay '{text}' is not FROM:TO, two steps as in 400:500.",
            hint="Either may be left out; ':' goes from the last checkpoint but one to the last.",
        ) from None


def _print(found) -> None:
    for check in found:
        texts = [check.told or "cannot be read"] + ["FAULT: " + text for text in check.faults]
        for name, text in zip([check.name] + [""] * len(check.faults), texts):
            sys.stdout.write(f"{name:12}{text}\n")
    sys.stdout.flush()


def _say(as_json: bool, name: str, text: str) -> None:
    if not as_json:
        sys.stdout.write(f"{name:12}{text}\n")
        sys.stdout.flush()
