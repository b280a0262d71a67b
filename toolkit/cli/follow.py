"""Evaluate the checkpoints of a run as another process commits them: `toolkit evaluate --follow`,
and the evaluator of a cluster.

Results go to stdout, and to `evaluations.jsonl` in the folder of the run if it can be written. No
report is kept: the process that trains writes its own, which it seals.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict, Optional

from ..cli_options import print_json_line, warn
from ..display.escapes import escape_line
from ..errors import InterruptedRun, ToolkitError
from ..storage.checkpoint_feed import CheckpointFeed, FeedSettings, NextCheckpoint
from ..storage.entries import RunEnd
from ..storage.record_log import EVALUATIONS, EvaluationLog
from .common import print_metrics, say

if TYPE_CHECKING:
    from ..inference.evaluation import OpenEvaluation

VALIDATION = "validation"  # the split to prefer: the test split is for the end of a run


def follow(
    path: str, subject: Dict[str, Any], settings: FeedSettings, as_json: bool = False
) -> int:
    """Evaluate the checkpoints of a run as they appear, until the run ends.

    Args:
        path: of the run's folder, which need not exist yet.
        subject: what to evaluate them on: arguments of `OpenEvaluation`.
        settings: which checkpoints, and how long to wait.
        as_json: whether to print a JSON object per line.

    Returns:
        The exit code of the process that trained the run.

    Raises:
        InterruptedRun: after Ctrl-C.
        RetryError: the run has not begun, or was killed and is not continued.
    """
    evaluations = _Evaluations(path, subject, settings, as_json)
    try:
        end = evaluations.run()
    except KeyboardInterrupt:
        raise InterruptedRun(f"Interrupted; {evaluations.describe_count()}.") from None
    finally:
        evaluations.close()
    return end.exit_code


class _Evaluations:
    """The evaluations of one run; the arguments are those of `follow`."""

    def __init__(self, path: str, subject: Dict[str, Any], settings: FeedSettings, as_json: bool):
        self._feed = CheckpointFeed(path, settings, warn)
        self._folder = self._feed.folder
        self._subject, self._as_json = dict(subject, default_split=VALIDATION), as_json
        self._evaluation: Optional[OpenEvaluation] = None
        self._log: Optional[EvaluationLog] = None
        self._session = 0  # of the open evaluation
        self._count = 0

    def run(self) -> RunEnd:
        """Evaluate until the run ends."""
        if not self._feed.has_begun():
            say(f"Waiting for a run in {self._folder}.")
            from ..inference import evaluation  # noqa: F401  with TensorFlow, which takes seconds
        self._feed.wait_for_run()
        if self._feed.end is None:  # while the run makes its first steps
            self._open(self._feed.session)
        item = self._feed.next()
        while item is not None:
            self._take(item)
            item = self._feed.next()
        end = self._feed.end
        assert end is not None  # else there is a next checkpoint
        reason = escape_line(end.reason.split("\n")[0].rstrip("."))
        ending = end.status + (f": {reason}" if reason else "")
        say(f"{self._folder} is {ending}; {self.describe_count()}.")
        return end

    def describe_count(self) -> str:
        """How many checkpoints were evaluated, as a clause."""
        noun = "checkpoint was" if self._count == 1 else "checkpoints were"
        return f"{self._count} {noun} evaluated"

    def close(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None

    def _take(self, item: NextCheckpoint) -> None:
        """Evaluate a checkpoint, and record and print the result; before the first one of a
        session, only build its graph.
        """
        from ..storage.checkpoint_reader import has_files

        try:
            if self._evaluation is None or item.session != self._session:
                self._open(item.session)
                return  # the feed has it again, unless it was evaluated before
            result = self._evaluation.measure(item.checkpoint)
        except ToolkitError:
            if not has_files(item.checkpoint.path):
                return  # retention deleted it meanwhile, and the feed has a newer one
            raise
        self._feed.complete(item)
        self._count += 1
        assert self._log is not None
        try:
            self._log.add(item.checkpoint, result)
        except ToolkitError as error:
            warn(f"step {item.checkpoint.step} is not in {EVALUATIONS}: {error.message}")
        if self._as_json:
            print_json_line(dict(result, run=str(self._folder)))
        else:
            print_metrics(result)
            sys.stdout.flush()

    def _open(self, session: int) -> None:
        """Open the data, and build the graph of a session of the run: a resume may change it."""
        from ..api import open_begun
        from ..inference.evaluation import OpenEvaluation

        self.close()
        self._evaluation = OpenEvaluation(open_begun(self._folder), log=say, **self._subject)
        self._log = EvaluationLog(self._folder, self._evaluation.identity())
        self._feed.is_known = self._log.contains
        self._session = session
