"""`toolkit runs`: list runs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, List, Optional, Tuple

import click

from ..cli_options import print_json, warn
from ..display.numbers import format_duration, format_number
from ..display.table import format_table
from ..display.waits import waiting
from ..errors import UsageError, suggest
from .common import flag, output_flags, switch

if TYPE_CHECKING:
    from ..comparison.listing import Row

DEFAULT_FOLDER = "runs"
COLUMNS = ("name", "status", "step", "metric", "time", "data", "options")
MORE_COLUMNS = ("plugin", "created", "path", "reason")
RIGHT_ALIGNED = ("step", "time")
MAX_NOTES = 5
UNRANKED = ("step", "time", "created", "name")  # keys that say nothing of better and worse


@click.command()
@click.argument("folders", metavar="[DIR]...", nargs=-1)
@flag(
    "--sort", "KEY", "metric, step, time, created, name, an option or a metric.", default="created"
)
@switch("--reverse", "The other way round: worst, oldest or last first.")
@flag(
    "--where wheres",
    "CONDITION",
    "Only runs with, for example, 'learning_rate>0.01', plugin=NAME or 'data~mnist'.",
    multiple=True,
)
@flag("--metric", "NAME", "The metric to list and to sort by.")
@flag(
    "--columns",
    "NAME,...",
    f"Columns: {', '.join((*COLUMNS, *MORE_COLUMNS))}, an option or a metric.",
)
@flag("--limit", "N", "The first N.", click.IntRange(1))
@output_flags
def runs(
    folders: Tuple[str, ...],
    sort: str,
    reverse: bool,
    wheres: Tuple[str, ...],
    metric: Optional[str],
    columns: Optional[str],
    limit: Optional[int],
    as_json: bool,
) -> int:
    """List the runs in folders and below them, the newest first; without a folder, those in runs.

    The last column shows the options that tell a run from the others: those that somebody set, if
    not all runs of the plugin have them.
    """
    from ..comparison import listing

    if not folders and not os.path.isdir(DEFAULT_FOLDER):
        raise UsageError(
            f"There is no folder {DEFAULT_FOLDER} here.",
            hint="Name the folder with the runs: toolkit runs DIR",
        )
    notes: List[str] = []
    conditions = [listing.Condition.parse(text) for text in wheres]
    with waiting("Reading the runs"):
        rows = listing.read_rows(folders or [DEFAULT_FOLDER], notes.append, metric)
    known = {name for row in rows if row.record for name in row.record.metrics}
    if metric is not None and known and not any(row.metric for row in rows):
        raise UsageError(f"No run has the metric '{metric}'.", hint=suggest(metric, known))
    num_rows = len(rows)
    names = list(filter(None, map(str.strip, (columns or "").split(","))))
    names = listing.find_names(names, rows, "show", (*listing.FIELDS, *COLUMNS, *MORE_COLUMNS))
    rows = listing.filter_rows(rows, conditions)
    listing.add_special_options(rows)
    rows = listing.sort_rows(rows, sort, reverse)[:limit]
    rankings = "" if sort in UNRANKED else listing.describe_rankings(rows, sort)
    notes[:0] = [rankings] if rankings else []  # the others are of folders, and may be many
    if as_json:  # in one line: indented, thousands of runs take seconds
        print_json({"runs": [row.facts for row in rows], "notes": notes}, indent=None)
        return 0
    for text in notes[:MAX_NOTES]:
        warn(text)
    if len(notes) > MAX_NOTES:
        warn(f"{len(notes) - MAX_NOTES} more folders are left out; --json lists them all")
    if not rows:
        what = f"None of {num_rows} runs matches" if num_rows else "There is no run in"
        sys.stderr.write(f"{what} {', '.join(wheres or folders) or DEFAULT_FOLDER}.\n")
        return 0
    has_plugins = len({row.record.plugin for row in rows if row.record}) > 1
    names = names or [*COLUMNS[:2], *["plugin"] * has_plugins, *COLUMNS[2:]]
    metrics = {row.metric.name for row in rows if row.metric}
    common = next(iter(metrics)) if len(metrics) == 1 else ""
    header = [common if name == "metric" and common else name for name in names]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    cells = [[_cell(row, name, common) for name in names] for row in rows]
    lines = format_table(header, cells, width, RIGHT_ALIGNED)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _cell(row: Row, column: str, common_metric: str) -> str:
    """The text of a cell; the name of the metric is left out if the header has it."""
    from ..options import format_value

    record, metric = row.record, row.metric
    if record is None:
        return str(row.values.get("reason" if column == "options" else column, ""))
    if column == "step" and record.total_steps:
        return f"{record.step}/{record.total_steps}"
    if column == "time":
        return "" if record.seconds is None else format_duration(record.seconds)
    if column == "options":
        return " ".join(f"{k}={format_value(value)}" for k, value in row.facts["special"].items())
    if column == "metric" and metric is not None:
        text = ("" if common_metric else f"{metric.name} ") + format_number(metric.value)
        if metric.low is not None and metric.high is not None:
            text += f" [{format_number(metric.low)}, {format_number(metric.high)}]"
        return text + ("" if metric.split == "test" else f" ({metric.split})")
    value = row.values.get(column, "")
    is_metric = value is record.metrics.get(column)  # no option or field of its name
    return format_number(value) if is_metric else format_value(value)
