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
    from .. import verifying
    from ..errors import UsageError
    from ..folder import open_run

    folder = open_run(run_folder)
    if folder.is_locked():
        raise UsageError(
            "A process is training in {}.".format(folder), hint="Wait for it, or stop it."
        )
    found = verifying.checks(folder)
    facts: Dict[str, Any] = {"run": str(folder)}
    facts["checks"] = [check._asdict() for check in found]
    if not as_json:
        _print(found)
    verifying.refuse_faults(found)
    with tempfile.TemporaryDirectory(prefix="toolkit-verify-") as place:
        if replay is not None:
            part = verifying.segment(folder, *_range(replay))
            first = part.start.step if part.start else 0
            told = verifying.replay(folder, part, place + "/replay")
            facts["replay"] = {"from": first, "to": part.end.step, "told": told}
            _say(as_json, "replay", "steps {} to {}, {}".format(first, part.end.step, told))
        if chaos is not None:
            facts["chaos"] = _chaos(folder, chaos, seed, place + "/chaos", as_json)
    if as_json:
        print_json(facts)
    return 0


def _chaos(folder, kills: int, seed: int, place: str, as_json: bool) -> Dict[str, Any]:
    from .. import verifying
    from ..chaos import Chaos

    def say(text: str) -> None:
        sys.stderr.write(text + "\n")

    part = verifying.segment(folder, 0, None)
    outcome = Chaos(folder, part, place, say, seed).run(kills)
    moments = outcome.moments()
    counted = ", ".join("{} {}".format(count, moment) for moment, count in sorted(moments.items()))
    text = "{} kills ({}), {} copies; {}".format(kills, counted, outcome.copies, outcome.told)
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
            "--replay {}: expected two steps, as in 400:500.".format(text),
            hint="One or both may be left out: ':' is the last checkpoint but one to the last.",
        ) from None


def _print(found) -> None:
    for check in found:
        text = check.told or "cannot be read"
        if check.faults:
            text += "; FAULT: " + check.faults[0]
        sys.stdout.write("{:12}{}\n".format(check.name, text))
    sys.stdout.flush()


def _say(as_json: bool, name: str, text: str) -> None:
    if not as_json:
        sys.stdout.write("{:12}{}\n".format(name, text))
        sys.stdout.flush()
