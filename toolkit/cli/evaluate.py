"""`toolkit evaluate`: metrics and reports of a trained model on a split; with `--follow`, which the
evaluator of a cluster is, too, of each checkpoint that another process commits.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import click

from .. import cli_options as shared
from ..display.escapes import escape_line
from ..errors import InterruptedRun, ToolkitError, UsageError
from ..storage.checkpoint_feed import CheckpointFeed, FeedSettings
from ..storage.record_log import EVALUATIONS, EvaluationLog
from .common import flag, model_flags, print_metrics, say, switch, tta_option

if TYPE_CHECKING:
    from ..inference.evaluation import OpenEvaluation

VALIDATION = "validation"  # the split to prefer: the test split is for the end of a run


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


# ------------------------------------------------------------------------------------- --follow


def follow(
    path: str, subject: Dict[str, Any], settings: FeedSettings, as_json: bool = False
) -> int:
    """Evaluate the checkpoints of a run as they appear, until it ends; return the exit code of the
    process that trained it. The run need not exist yet.

    `subject` has arguments of `OpenEvaluation`; `as_json` prints a JSON object per line. Raises
    InterruptedRun after Ctrl-C, RetryError if no run has begun, or it was killed and not continued.

    Results go to stdout, and to `evaluations.jsonl` in the folder of the run if it can be written.
    No report is kept: the process that trains writes its own, which it seals.
    """
    from ..storage.checkpoint_reader import has_files

    feed = CheckpointFeed(path, settings, shared.warn)
    num_evaluated = session = 0
    evaluation: Optional[OpenEvaluation] = None
    with contextlib.ExitStack() as opened:
        try:
            if not feed.has_begun():
                say(f"Waiting for a run in {feed.folder}.")
                from ..inference import evaluation as _  # noqa: F401  TensorFlow takes seconds
            feed.wait_for_run()
            if feed.end is None:  # while the run makes its first steps
                (evaluation, log), session = _open(feed, subject, opened), feed.session
            for item in iter(feed.next, None):
                try:
                    if evaluation is None or item.session != session:
                        (evaluation, log), session = _open(feed, subject, opened), item.session
                        continue  # the feed has it again, unless it was evaluated before
                    result = evaluation.measure(item.checkpoint)
                except ToolkitError:
                    if not has_files(item.checkpoint.path):
                        continue  # retention deleted it meanwhile, and the feed has a newer one
                    raise
                feed.complete(item)
                num_evaluated += 1
                try:
                    log.add(item.checkpoint, result)
                except ToolkitError as error:
                    shared.warn(
                        f"step {item.checkpoint.step} is not in {EVALUATIONS}: {error.message}"
                    )
                if as_json:
                    shared.print_json(dict(result, run=str(feed.folder)), indent=None)
                else:
                    print_metrics(result)
                    sys.stdout.flush()
        except KeyboardInterrupt:
            raise InterruptedRun(f"Interrupted; {_describe_count(num_evaluated)}.") from None
    end = feed.end
    assert end is not None  # else there is a next checkpoint
    reason = escape_line(end["reason"].split("\n")[0].rstrip("."))
    ending = end["status"] + (f": {reason}" if reason else "")
    say(f"{feed.folder} is {ending}; {_describe_count(num_evaluated)}.")
    return int(end["exit_code"])


def _open(
    feed: CheckpointFeed, subject: Dict[str, Any], opened: contextlib.ExitStack
) -> Tuple[OpenEvaluation, EvaluationLog]:
    """Open the data, and build the graph of a session of the run: a resume may change it."""
    from ..api import open_folder
    from ..inference.evaluation import OpenEvaluation

    opened.close()
    model = open_folder(feed.folder, has_begun=True)
    evaluation = OpenEvaluation(model, log=say, **subject, default_split=VALIDATION)
    opened.callback(evaluation.close)
    log = EvaluationLog(feed.folder, evaluation.identity())
    feed.is_known = log.contains
    return evaluation, log


def _describe_count(evaluated: int) -> str:
    """How many checkpoints were evaluated, as a clause."""
    return f"{evaluated} {'checkpoint was' if evaluated == 1 else 'checkpoints were'} evaluated"
