"""How a run ended, in lines: for the console, and for its log in the run's folder."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..display.console import MAX_METRICS
from ..display.metrics_line import describe_level, describe_omissions, join_metrics
from ..storage.folder import shell_argument
from .best_metric import WORDS


def list_summary_lines(summary: Dict[str, Any], page: str) -> List[str]:
    """The lines that the command `run` ends with, from the summary of `Trainer.train_and_test` and
    the path of the run's page, "" if there is none.
    """
    rows = [
        ("done", f"{summary['reason']} in {summary['seconds']:.1f} s ({summary['steps']} steps)")
    ]
    best = summary.get("best")
    if best and "direction" in best:
        rows.append(("best", describe_best(best)))
    rows += _describe_test(summary)
    if page:
        rows.append(("page", page))
    rows.append(("run", summary["run"]))
    if not summary["finished"]:
        rows.append(("resume", f"toolkit resume {shell_argument(summary['run'])}"))
    return [f"{name:8}{text}" for name, text in rows]


def describe_best(best: Dict[str, Any]) -> str:
    """What the best checkpoint has, from its record: "lowest loss 0.1234 (validation, step 5)"."""
    value, word = best["value"], WORDS[best["direction"]]
    place = f"validation, step {best['step']}"
    best_value = best.get("reached", value)
    if best_value == value:
        return f"{word} {best['metric']} {value:.4f} ({place})"
    reason = f"the newest within the noise, {best['noise']:.4f}, of the {word}, {best_value:.4f}"
    return f"{best['metric']} {value:.4f} ({place}: {reason})"


def _describe_test(summary: Dict[str, Any]) -> List[Tuple[str, str]]:
    """The metrics and the lines of the scorers; of many metrics, the lines alone."""
    test = summary.get("test")
    if not test or not (test["metrics"] or test.get("lines")):
        return []
    source = f"{test['examples']} examples, {test['checkpoint']} checkpoint, step {test['step']}"
    first, *lines = test.get("lines") or [""]
    if not first or len(test["metrics"]) <= MAX_METRICS:
        lines = [*describe_omissions(test), *([first, *lines] if first else [])]
        first, source = join_metrics(test), source + describe_level(test)
    rows = [("test", f"{first}  ({source})"), *(("", line) for line in lines)]
    if "reports" in test:
        rows.append(("reports", f"{summary['run']}/{test['reports']}"))
    return rows
