"""`toolkit evaluate`: metrics and reports of a trained model on a split."""

from __future__ import annotations

import sys
from typing import Any, Optional

import click

from .. import cli_options as shared
from ..errors import UsageError
from ..storage.checkpoint_feed import FeedSettings
from .common import flag, model_flags, print_metrics, say, switch, tta_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@shared.checkpoint_option
@flag(
    "--split",
    "train|validation|test",
    "Default: test (--follow: validation if there is one); all of --data without splits.",
)
@flag("--data", "DATA", "Data to use instead; classes match by name.")
@tta_option
@switch(
    "--follow follows",
    "Evaluate each checkpoint that another process commits, until the run ends, and add the "
    "metrics to RUN/evaluations.jsonl; no report is kept.",
)
@switch("--every", "With --follow: leave out no checkpoint; else the newest each time.")
@flag(
    "--idle-secs",
    "S",
    f"With --follow: how long to wait for the run [default {FeedSettings().idle_secs:g}].",
    shared.FloatRange(0, 1e6),
)
@model_flags
def evaluate(
    run_folder: str,
    checkpoint: Optional[str],
    follows: bool,
    every: bool,
    idle_secs: Optional[float],
    as_json: bool,
    **subject: Any,
) -> int:
    """Evaluate a trained model on a split of the data.

    The plugin may write reports into the run's folder.
    With --follow, the exit code is that of the process that trains: 0 if the run finished or
    paused; 138 if it was killed.
    """
    if follows:
        if checkpoint is not None:
            raise UsageError("--follow has no single checkpoint.", hint="Omit --checkpoint.")
        from .follow import follow

        settings = FeedSettings(every=every)
        if idle_secs is not None:
            settings = settings._replace(idle_secs=idle_secs, start_secs=idle_secs)
        return follow(run_folder, subject, settings, as_json)
    if every or idle_secs is not None:
        name = "--every" if every else "--idle-secs"
        raise UsageError(f"{name} has no effect without --follow.", hint="Add --follow.")
    from ..api import open_trained

    with open_trained(run_folder, checkpoint, shared.warn) as model:
        from ..inference.evaluation import evaluate as evaluate_model

        result = evaluate_model(model, **subject, log=say)
    if as_json:
        shared.print_json(result)
        return 0
    print_metrics(result)
    if "reports" in result:
        sys.stdout.write(f"reports {result['run']}/{result['reports']}\n")
    if "reports_omitted" in result:
        shared.warn(f"no report is kept: {result['reports_omitted']}")
    return 0
