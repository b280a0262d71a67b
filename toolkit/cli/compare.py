"""`toolkit compare`: what differs between runs, what is better, and where they parted."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

import click

from ..cli_options import (
    json_option,
    print_json,
    resolve_output,
    verbose_option,
    warn,
    writing_output,
)
from ..display.escapes import escape_line
from ..display.waits import waiting

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..comparison.record import RunRecord

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@click.command()
@click.argument("run_folders", metavar="RUN RUN...", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Compare by this metric; repeatable [default: the main one and all with a direction].",
)
@click.option(
    "--level",
    default=0.95,
    type=click.FloatRange(0.5, 0.9999),
    metavar="P",
    help="How sure the verdicts are, all together [default 0.95].",
)
@click.option("--html", default=None, metavar="FILE", help="Write a page with all runs, too.")
@json_option
@verbose_option
def compare(
    run_folders: Tuple[str, ...],
    metrics: Tuple[str, ...],
    level: float,
    html: Optional[str],
    as_json: bool,
) -> int:
    """Compare runs: the options, code and data that differ, the metrics with a verdict, and the
    step at which the runs parted.

    Runs that differ in the seed alone are one group. A folder with runs stands for all of them. The
    exit code is 0 whatever the verdict.
    """
    from ..comparison.comparison import compare as compare_records

    output = resolve_output(html) if html else None
    with waiting("Comparing the runs"):
        records = _read_records(run_folders)
        comparison = compare_records(records, metrics, level)
        if html and output:
            _write_page(html, output, comparison)
    if as_json:
        runs = [{"name": r.name, "path": r.path, "status": r.status} for r in records]
        print_json(dict({"runs": runs}, **comparison.as_json()))
    else:
        _print(comparison)
        if html:
            _print_part("page", [html])
    return 0


def _read_records(paths: Sequence[str]) -> List[RunRecord]:
    """The records of two or more runs, without damaged ones among them. Raises ToolkitError."""
    from ..comparison.record import read_runs
    from ..errors import UsageError

    runs = read_runs(paths, warn)
    for run in runs:
        if run.error is not None:
            warn(f"{run.name} is left out: {run.error.message}")
    records = [run.record for run in runs if run.record is not None]
    if len(records) < 2:
        named = {os.path.abspath(path) for path in paths}
        errors = [run.error for run in runs if run.error is not None and run.path in named]
        raise next(
            iter(errors),
            UsageError(
                f"A comparison needs two runs, and {' '.join(paths)} has {len(records)}.",
                hint="Name two runs, or a folder with several.",
            ),
        )
    return records


def _write_page(name: str, output: str, comparison: Comparison) -> None:
    from ..page.writer import write_page

    with writing_output(name):
        write_page(output, comparison.records, comparison.as_json())


# ------------------------------------------------------------------------------------------- text


def _print(comparison: Comparison) -> None:
    labels = [_label(place) for place in range(len(comparison.groups))]
    _print_part("runs", _describe_groups(comparison, labels))
    _print_part("options", _option_lines(comparison, labels))
    for title, clauses in (
        ("code", comparison.code),
        ("data", comparison.data),
        ("software", comparison.software),
    ):
        _print_part(title, clauses)
    _print_part("metrics", _metric_lines(comparison, labels))
    _print_part("verdict", _verdict_lines(comparison))
    _print_part("parting", _parting_lines(comparison))
    sys.stdout.flush()


def _print_part(title: str, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        sys.stdout.write(f"{'' if number else title:10}{escape_line(line)}\n")


def _label(place: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    before, last = divmod(place, len(LETTERS))
    return (_label(before - 1) if before else "") + LETTERS[last]


def _describe_groups(comparison: Comparison, labels: Sequence[str]) -> List[str]:
    lines: List[str] = []
    for label, places, seeds in zip(
        labels, comparison.places, map(comparison.seeds, range(len(labels)))
    ):
        records = [comparison.records[place] for place in places]
        names = ", ".join(record.name for record in records)
        facts = sorted({f"{record.status} at step {record.step:,}" for record in records})
        text = f"{label}  {names}  ({'; '.join(facts)}"
        if len(seeds) > 1:
            text += f"; seeds {', '.join(map(str, seeds))}"
        text += _describe_repetitions(records) + ")"
        mixture = comparison.mixture(len(lines))
        text += f"  these runs also differ in: {'; '.join(mixture)}" if mixture else ""
        lines.append(text)
    return lines


def _describe_repetitions(records: Sequence[RunRecord]) -> str:
    """Which runs of a group are left out because their seed is that of an earlier one."""
    from ..comparison.differences import distinct_seeds

    paths = {record.path for record in distinct_seeds(records)}
    names = [record.name for record in records if record.path not in paths]
    if not names:
        return ""
    verb = "repeats" if len(names) == 1 else "repeat"
    return f"; {', '.join(names)} {verb} the seed of an earlier run, which counts once"


def _option_lines(comparison: Comparison, labels: Sequence[str]) -> List[str]:
    """A table of the options that differ between groups."""
    from ..display.table import format_table

    firsts = [places[0] for places in comparison.places]
    rows = []
    for option in comparison.options:
        values = [(option.is_present[place], option.values[place]) for place in firsts]
        if all(value == values[0] for value in values):
            continue  # it differs within the groups alone, as the seed does
        note = "" if option.affects_result else "no effect on the result"
        rows.append([option.name, *(option.cell(place) for place in firsts), note])
    if not rows:
        names = [option.name for option in comparison.options]
        names = ["the seed" if name == "seed" else name for name in names]
        return ["no option differs" + (f" but {', '.join(names)}" if names else "")]
    return format_table(["", *labels, ""], rows)


def _metric_lines(comparison: Comparison, labels: Sequence[str]) -> List[str]:
    from ..display.table import format_table

    words = {"max": "higher is better", "min": "lower is better"}
    rows = []
    for name in comparison.metrics:
        bands = [comparison.band(group, name) for group in range(len(labels))]
        note = words.get(comparison.direction(name) or "", "")
        rows.append([name, *("-" if band is None else str(band) for band in bands), note])
    return format_table(["", *labels, ""], rows) if rows else ["no run has a result of the test"]


def _verdict_lines(comparison: Comparison) -> List[str]:
    if len(comparison.groups) > 1:
        return [verdict.text for verdict in comparison.verdicts]
    seeds = len(comparison.seeds(0))
    if seeds == 1:
        return ["nothing to compare: the runs have the same seed and the same options"]
    return [f"nothing to compare: the {seeds} runs are one method with {seeds} seeds"]


def _parting_lines(comparison: Comparison) -> List[str]:
    names = [record.name for record in comparison.records]
    return [
        f"{names[a]} and {names[b]}: {parting.text}"
        for (a, b), parting in comparison.partings.items()
    ]
