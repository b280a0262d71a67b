"""`toolkit runs`: list runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from ..cli_options import json_option, verbose_option
from ..display.numbers import format_duration, format_number
from ..display.waits import waiting

if TYPE_CHECKING:
    from ..comparison.listing import Row
    from ..comparison.metrics import Metric

DEFAULT_FOLDER = "runs"
COLUMNS = ("name", "status", "step", "metric", "time", "data", "options")
MORE_COLUMNS = ("plugin", "created", "path", "reason")
RIGHT_ALIGNED = ("step", "time")
MAX_NOTES = 5
UNRANKED = ("step", "time", "created", "name")  # keys that say nothing of better and worse


@click.command()
@click.argument("folders", metavar="[DIR]...", nargs=-1)
@click.option(
    "--sort",
    default="created",
    metavar="KEY",
    help="metric, step, time, created or name, or an option or a metric [default created].",
)
@click.option("--reverse", is_flag=True, help="The other way round: worst, oldest or last first.")
@click.option(
    "--where",
    "wheres",
    multiple=True,
    metavar="CONDITION",
    help="Only runs with, for example, 'learning_rate>0.01', status=finished or 'data~mnist'.",
)
@click.option("--plugin", default=None, metavar="NAME", help="Only runs of this plugin.")
@click.option("--metric", default=None, metavar="NAME", help="The metric to list and to sort by.")
@click.option(
    "--columns",
    default=None,
    metavar="NAME,...",
    help=f"Columns: {', '.join((*COLUMNS, *MORE_COLUMNS))}, an option or a metric.",
)
@click.option("--limit", default=None, type=click.IntRange(1), metavar="N", help="The first N.")
@json_option
@verbose_option
def runs(
    folders: Tuple[str, ...],
    sort: str,
    reverse: bool,
    wheres: Tuple[str, ...],
    plugin: Optional[str],
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

    notes: List[str] = []
    conditions = [listing.Condition.parse(text) for text in wheres]
    if plugin:
        conditions.append(listing.Condition("plugin", "=", plugin))
    with waiting("Reading the runs"):
        rows = listing.read_rows(folders or [_default_folder()], notes.append, metric)
    num_rows = len(rows)
    rows = listing.add_special_options(listing.filter_rows(rows, conditions))
    rows = listing.sort_rows(rows, sort, reverse)[:limit]
    rankings = listing.describe_rankings(rows, sort) if sort not in UNRANKED else ""
    notes += [rankings] if rankings else []
    names = _parse_columns(columns, rows)
    if as_json:
        _print_json(rows, notes)
        return 0
    _print_notes(notes)
    if rows:
        _print_table(rows, names)
    else:
        what = f"None of {num_rows} runs matches" if num_rows else "There is no run in"
        sys.stderr.write(f"{what} {', '.join(wheres or folders) or DEFAULT_FOLDER}.\n")
    return 0


def _print_json(rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Print one JSON object, with one run per line: indented, thousands of them take seconds."""
    from ..files import to_json_value

    texts = ["  " + json.dumps(to_json_value(_row_facts(row))) for row in rows]
    text = '{"runs": [\n' + ",\n".join(texts) + '\n],\n"notes": ' + json.dumps(list(notes)) + "}\n"
    sys.stdout.write(text.replace("\x7f", "\\u007f"))
    sys.stdout.flush()


def _default_folder() -> str:
    from ..errors import UsageError

    if not os.path.isdir(DEFAULT_FOLDER):
        raise UsageError(
            f"There is no folder {DEFAULT_FOLDER} here.",
            hint="Name the folder with the runs: toolkit runs DIR",
        )
    return DEFAULT_FOLDER


def _parse_columns(text: Optional[str], rows: Sequence[Row]) -> List[str]:
    """The names of the columns to print. Raises UsageError."""
    from ..comparison.listing import check_columns

    if text is None:
        plugins = {row.record.plugin for row in rows if row.record}
        extra = ["plugin"] if len(plugins) > 1 else []
        return [*COLUMNS[:2], *extra, *COLUMNS[2:]]
    names = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    check_columns(names, rows, (*COLUMNS, *MORE_COLUMNS))
    return names or list(COLUMNS)


def _print_notes(notes: Sequence[str]) -> None:
    from ..cli_options import warn

    for text in notes[:MAX_NOTES]:
        warn(text)
    if len(notes) > MAX_NOTES:
        warn(f"{len(notes) - MAX_NOTES} more folders are left out; --json lists them all")


def _print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    from ..display.table import format_table

    names = {row.metric.name for row in rows if row.metric}
    common = names.pop() if len(names) == 1 else None
    header = [common if name == "metric" and common else name for name in columns]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    cells = [[_cell(row, name, common is not None) for name in columns] for row in rows]
    for line in format_table(header, cells, width, RIGHT_ALIGNED):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _cell(row: Row, column: str, is_common_metric: bool) -> str:
    """The text of a cell."""
    from ..comparison.listing import read_value
    from ..comparison.special_options import describe_options
    from ..options import format_value

    if row.record is None:
        return {"name": row.name, "path": row.path, "status": row.status, "reason": row.fault}.get(
            column, row.fault if column == "options" else ""
        )
    if column == "step":
        total = row.record.total_steps
        return f"{row.record.step}/{total}" if total else str(row.record.step)
    if column == "metric":
        return describe_metric(row.metric, is_common_metric)
    if column == "time":
        return "" if row.record.seconds is None else format_duration(row.record.seconds)
    if column == "options":
        return describe_options(row.special)
    value = read_value(row, column)
    if isinstance(value, float) and column in row.record.metrics:
        return format_number(value)
    return "" if value is None and column not in row.record.options else format_value(value)


def describe_metric(metric: Optional[Metric], is_name_known: bool) -> str:
    """`accuracy 0.8380 [0.8032, 0.8675]`; the name is left out if the header has it."""
    if metric is None:
        return ""
    text = ("" if is_name_known else f"{metric.name} ") + format_number(metric.value)
    if metric.low is not None and metric.high is not None:
        text += f" [{format_number(metric.low)}, {format_number(metric.high)}]"
    return text + ("" if metric.split == "test" else f" ({metric.split})")


def _row_facts(row: Row) -> Dict[str, Any]:
    """A run for --json."""
    from ..comparison.special_options import own_options

    facts: Dict[str, Any] = {"name": row.name, "path": row.path, "status": row.status}
    record = row.record
    if record is None:
        return dict(facts, reason=row.fault)
    metric = row.metric.as_json() if row.metric else None
    return dict(
        facts,
        reason=record.reason,
        exit_code=record.exit_code,
        step=record.step,
        total_steps=record.total_steps,
        seconds=record.seconds,
        created=record.created,
        plugin=record.plugin,
        extensions=record.extensions,
        data=record.data_name,
        metric=metric,
        metrics=record.metrics,
        special=row.special,
        options=own_options(record),
    )
