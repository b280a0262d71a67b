"""`toolkit evaluate`: metrics and reports of a trained model on a split."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

import click

from ..cli_options import checkpoint_option, json_option, print_json, trust_option, verbose_option
from ..errors import UsageError
from ..storage.checkpoint_feed import FeedSettings
from .cluster_flags import Seconds
from .common import open_with_warnings, print_details, print_metrics, say, tta_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@checkpoint_option
@click.option(
    "--split",
    default=None,
    metavar="train|validation|test",
    help="Split; default: test (--follow: validation if there is one), or all of --data if it has "
    "no splits of its own.",
)
@click.option(
    "--data",
    default=None,
    metavar="DATA",
    help="Data to use instead of the run's own; its classes are matched by name.",
)
@tta_option
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Evaluate the newest checkpoint, then each one as another process commits it, until the "
    "run ends. The metrics are also added to RUN/evaluations.jsonl; no report is kept.",
)
@click.option(
    "--every",
    is_flag=True,
    help="With --follow: every checkpoint that exists, also those that appear during an "
    "evaluation; by default the newest of them.",
)
@click.option(
    "--idle-secs",
    type=Seconds(0),
    metavar="S",
    help="With --follow: how long to wait for a run to begin, or to go on after it was killed "
    f"[default {FeedSettings().idle_secs:g}].",
)
@trust_option
@json_option
@verbose_option
def evaluate(
    run_folder: str,
    checkpoint: Optional[str],
    split: Optional[str],
    data: Optional[str],
    tta: Optional[bool],
    follows: bool,
    every: bool,
    idle_secs: Optional[float],
    as_json: bool,
) -> int:
    """Evaluate a trained model on a split of the data.

    The plugin may write reports into the run's folder. With --follow, the exit code is that of the
    process that trains: 0 if the run finished or paused; 138 if it was killed.
    """
    subject = {"split": split, "data": data, "tta": tta}
    if follows:
        if checkpoint is not None:
            raise UsageError("--follow has no single checkpoint.", hint="Omit --checkpoint.")
        return _follow(run_folder, subject, every, idle_secs, as_json)
    if every or idle_secs is not None:
        name = "--every" if every else "--idle-secs"
        raise UsageError(f"{name} has no effect without --follow.", hint="Add --follow.")
    from ..inference.evaluation import evaluate as evaluate_model

    with open_with_warnings(run_folder, checkpoint) as model:
        result = evaluate_model(model, **subject, log=say)
    if as_json:
        print_json(result)
    else:
        _print(result)
    return 0


def _follow(
    run_folder: str,
    subject: Dict[str, Any],
    every: bool,
    idle_secs: Optional[float],
    as_json: bool,
) -> int:
    from .follow import follow

    settings = FeedSettings(every=every)
    if idle_secs is not None:
        settings = settings._replace(idle_secs=idle_secs, start_secs=idle_secs)
    return follow(run_folder, subject, settings, as_json)


def _print(result: Dict[str, Any]) -> None:
    print_metrics(result)
    print_details(result.get("lines", ()))
    if "reports" in result:
        sys.stdout.write(f"reports {result['run']}/{result['reports']}\n")
    if "reports_omitted" in result:
        sys.stderr.write(f"warning: no report is kept: {result['reports_omitted']}\n")
