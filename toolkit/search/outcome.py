"""What came of a study: the lines of its trials, the table, the best configuration and its test."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List

from ..comparison.metrics import metrics_by_name
from ..comparison.record import RunRecord, read_record
from ..comparison.verdict import Band, Group, judge, measure_band
from ..display.escapes import escape_line
from ..display.numbers import format_number
from ..errors import ToolkitError
from ..files import write_json
from ..page.writer import write_page
from .definition import FINISHED, Definition, Trial
from .sampler import batches, count_trials
from .study import Study
from .table import Row, describe_intervals, format_table, make_rows, sort_rows
from .trial_options import again_command, describe_values

TABLE_FILE, PAGE_FILE = "table.json", "report.html"
FORMAT = 1
MAX_PAGE_RUNS = 20


def reporter(
    study: Study, show: Callable[[int, int], None] = lambda count, total: None
) -> Callable[[Trial], None]:
    """A function that writes a line on stderr for a trial that has ended; `show` gets the numbers
    of trials that have ended and of all.
    """

    def report(trial: Trial) -> None:
        definition, results = study.definition, study.results
        result, counts = results[trial.key], count_trials(definition)  # more if others add trials
        show(len(results), sum(counts))
        count = sum(rung == trial.rung for _, _, rung in results)
        line = f"trial {count}/{max(counts[trial.rung], count)}  {trial.name}  "
        if definition.reduction:
            line = f"rung {trial.rung + 1}/{len(definition.rungs)}  {line}"
        line += describe_values(trial.configuration.values)
        line += f" seed={trial.seed}" if len(definition.seeds) > 1 else ""
        if result.value is None:
            line += f"  {result.status}: {result.reason}"
        else:
            line += f"  {definition.metric} {format_number(result.value)}"
            line += "" if result.status == FINISHED else f" ({result.status} at {result.step:,})"
        last = [r.value for key, r in results.items() if key[2] == len(definition.rungs) - 1]
        values = [value for value in last if value is not None]
        if values:
            best = min(values) if definition.direction == "min" else max(values)
            line += f"  best {format_number(best)}"
        sys.stderr.write(escape_line(line) + "\n")
        sys.stderr.flush()

    return report


# ------------------------------------------------------------------------------------------ table


def make_table(study: Study) -> Dict[str, Any]:
    """Return the contents of table.json: what came of a study so far.

    rows: of the table, the best first; see `Row`.
    intervals: what the intervals of the rows say.
    best: the number of the best configuration; None if none finished.
    test: the metrics of the test split of its runs, by name: "value", "low", "high" (of one run
        its interval, of several seeds the lowest and the highest), "deviation" (the standard
        deviation over the seeds; None for one), "seeds".
    verdict: whether the best is separated from the second, by the test split, or why nothing
        says so; a sentence.
    again: the command that trains the best configuration again.
    """
    definition = study.definition
    rows = [row for cohort in batches(definition) for row in make_rows(study, cohort)]
    rows = sort_rows(definition, rows)
    finished = [row for row in rows if row.status == FINISHED]
    groups = [read_group(row, study.folder) for row in finished[:2]]
    verdict = "None: no second configuration trained to its end." if groups else ""
    missing = [group.name for group in groups if not group.records]
    if missing:
        verdict = f"None: the runs of {missing[0]} are deleted, or were trained beyond the study."
    elif len(groups) > 1:
        verdict = f"On the test split, {judge(groups, [definition.metric])[0].text}."
    again, test = "", {}
    if finished:
        tested = [record for record in groups[0].records if record.test is not None]
        names = metrics_by_name(tested[0]) if tested else ()
        bands = {name: measure_band(groups[0]._replace(records=tested), name) for name in names}
        test = {name: dict(band._asdict()) for name, band in bands.items() if band is not None}
        best = Trial(study.configurations[finished[0].number], definition.seeds[0], 0)
        again = again_command(study, best)
    return {
        "format": FORMAT,
        "study": definition.as_json(),
        "space": {each.name: str(each) for each in definition.space},
        "budget": definition.summary,
        "rows": [dict(row._asdict()) for row in rows],
        "intervals": describe_intervals(rows),
        "best": finished[0].number if finished else None,
        "test": test,
        "verdict": verdict,
        "again": again,
    }


def read_group(row: Row, folder: str) -> Group:
    """The runs of a row. One that somebody has deleted, or trained further, is missing."""
    records: List[RunRecord] = []
    for path in row.paths:
        try:
            record = read_record(os.path.join(folder, path), os.path.basename(path))
        except ToolkitError:
            continue
        if record.step <= row.step:
            records.append(record)
    return Group(f"configuration {row.number}", records)


# ----------------------------------------------------------------------------------- files, text


def write_outcome(table: Dict[str, Any], folder: str) -> str:
    """Write table.json and the page of the study; return the page's path, "" without any run.
    Raises OSError.
    """
    write_json(os.path.join(folder, TABLE_FILE), table)
    records = []
    for row in (Row(**each) for each in table["rows"]):
        if row.status == FINISHED or row.has_failed:
            records += read_group(row, folder).records
    if not records:
        return ""
    path = os.path.join(folder, PAGE_FILE)
    title = f"Search {os.path.basename(os.path.abspath(folder))}"
    write_page(path, records[:MAX_PAGE_RUNS], search=table, title=title)
    return path


def format_outcome(definition: Definition, table: Dict[str, Any]) -> List[str]:
    """Return the lines that a terminal shows, from the contents of table.json."""
    rows = [Row(**each) for each in table["rows"]]
    lines = format_table(definition, rows)
    if table["intervals"]:
        lines.append(f"brackets {table['intervals']}")
    if table["best"] is None:
        return [*lines, "best     none: no configuration finished"]
    lines.append(f"best     configuration {rows[0].number}, {rows[0].paths[0]}")
    bands = [f"{name} {Band(**band)}" for name, band in table["test"].items()]
    for label, text in [("test", "  ".join(bands)), ("verdict", table["verdict"])]:
        lines += [f"{label:8} {text}"] if text else []
    return [*lines, f"again    {table['again']}"]
