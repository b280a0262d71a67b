"""What came of a study: the table, the best configuration and its test, and the files with them."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.metrics import metrics_by_name
from ..comparison.record import RunRecord, read_record
from ..comparison.verdict import Band, Group, judge, measure_band
from ..errors import ToolkitError
from ..files import write_json
from ..page.writer import write_page
from .definition import DIVERGED, FAILED, FINISHED, STOPPED, Definition
from .sampler import History, optuna_study
from .study import Study
from .table import Row, describe_intervals, format_table, make_rows
from .trial_options import again_command

TABLE_FILE, PAGE_FILE = "table.json", "report.html"
FORMAT = 1
MAX_PAGE_RUNS = 20
MIN_PER_OPTION = 5  # configurations for each option that varies, to say which matter
MIN_CONFIGURATIONS = 10
_TREES = 32


class Outcome(NamedTuple):
    """What came of a study so far.

    Attributes:
        definition: of the study.
        rows: of the table, the best first.
        importance: the share of the variance that each option explains, the largest first; {} if it
            cannot be measured.
        importance_note: why not.
        test: the metrics of the test split of the best row's runs, by name: "value", "low", "high"
            (of one run its interval, of several seeds the lowest and the highest), "deviation" (the
            standard deviation over the seeds; None for one), "seeds".
        verdict: whether the best is separated from the second, by the test split, or why nothing
            says so; a sentence.
        again: the command that trains the best configuration again.
    """

    definition: Definition
    rows: List[Row]
    importance: Dict[str, float]
    importance_note: str
    test: Dict[str, Dict[str, Any]]
    verdict: str
    again: str

    @property
    def best(self) -> Optional[Row]:
        """The best finished row; None if there is none."""
        row = self.rows[0] if self.rows else None
        return row if row is not None and row.status == FINISHED else None

    def as_json(self) -> Dict[str, Any]:
        """Return the contents of table.json."""
        return {
            "format": FORMAT,
            "study": self.definition.as_json(),
            "space": {each.name: str(each) for each in self.definition.space},
            "budget": describe_budget(self.definition),
            "rows": [row.as_json() for row in self.rows],
            "intervals": describe_intervals(self.rows),
            "importance": self.importance,
            "importance_note": self.importance_note,
            "best": None if self.best is None else self.best.number,
            "test": self.test,
            "verdict": self.verdict,
            "again": self.again,
        }


def read_outcome(study: Study, folder: str) -> Outcome:
    """Return what came of a study so far."""
    definition = study.definition
    rows = make_rows(definition, study.configurations(), study.results())
    importance, note = measure_importance(definition, study.history())
    finished = [row for row in rows if row.status == FINISHED]
    groups = [_read_group(definition, row, folder) for row in finished[:2]]
    test: Dict[str, Dict[str, Any]] = {}
    again = ""
    if groups:
        test = _test_metrics(groups[0])
        best = study.configurations()[finished[0].number]
        place = os.path.abspath(folder)
        again = again_command(definition, best.values, definition.seeds[0], best.length, place)
    verdict = _verdict(definition, rows, groups)
    return Outcome(definition, rows, importance, note, test, verdict, again)


def measure_importance(definition: Definition, history: History) -> Tuple[Dict[str, float], str]:
    """Return the importance of each option, the largest first; or {}, and why there is none.

    It is the share of the variance of the metric that the option explains: functional ANOVA over a
    random forest (Hutter, Hoos and Leyton-Brown, 2014), as Optuna has it. Configurations that
    failed, or that halving stopped, do not count.

    Args:
        definition: of the study.
        history: each configuration with its standing.
    """
    from optuna.importance import FanovaImportanceEvaluator

    last = len(definition.rungs) - 1
    entries = [e for e in history if e[1].value is not None and e[1].rung == last]
    names = [dimension.name for dimension in definition.space]
    if len(names) < 2:
        return {}, "one option varies" if names else "no option varies"
    least = max(MIN_CONFIGURATIONS, MIN_PER_OPTION * len(names))
    if len(entries) < least:
        return {}, f"{len(entries)} configurations finished, and it needs {least}"
    if len({standing.value for _, standing in entries}) == 1:
        return {}, "all configurations have the same value"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = FanovaImportanceEvaluator(n_trees=_TREES, seed=0)
        shares = evaluator.evaluate(optuna_study(definition, entries))
    return {name: shares[name] for name in sorted(names, key=lambda name: -shares[name])}, ""


def _read_group(definition: Definition, row: Row, folder: str) -> Group:
    """Return the runs of a row; one that somebody has deleted is missing."""
    records: List[RunRecord] = []
    for path in row.paths:
        try:
            records.append(read_record(os.path.join(folder, path), os.path.basename(path)))
        except ToolkitError:
            continue
    return Group(f"configuration {row.number}", records)


def _test_metrics(group: Group) -> Dict[str, Dict[str, Any]]:
    tested = [record for record in group.records if record.test is not None]
    if not tested:
        return {}
    group = group._replace(records=tested)
    bands = {name: measure_band(group, name) for name in metrics_by_name(tested[0])}
    return {name: dict(band._asdict()) for name, band in bands.items() if band is not None}


def _verdict(definition: Definition, rows: Sequence[Row], groups: Sequence[Group]) -> str:
    """Return whether the best is separated from the second, or why nothing says so."""
    if len(groups) < 2:
        return explain_absence(rows) if groups else ""
    return f"On the test split, {judge(groups, [definition.metric])[0].text}."


def explain_absence(rows: Sequence[Row]) -> str:
    """Return why there is no second configuration to compare the best with, as a sentence.

    Args:
        rows: of the table; the first one is the only one that finished.
    """
    if len(rows) == 1:
        return "None: there is only one configuration."
    stops = sorted({row.step for row in rows if row.status == STOPPED})
    num_stopped = sum(row.status == STOPPED for row in rows)
    num_failed = sum(row.status in (DIVERGED, FAILED) for row in rows)
    num_waiting = len(rows) - 1 - num_stopped - num_failed
    steps = f"step{'s' * (len(stops) > 1)} {' and '.join(f'{step:,}' for step in stops)}"
    causes = [
        f"halving stopped {num_stopped} at {steps}" if stops else "",
        f"{num_failed} diverged or failed" if num_failed else "",
        f"{num_waiting} have not ended" if num_waiting else "",
    ]
    text = ", ".join(cause for cause in causes if cause)
    return f"None: only configuration {rows[0].number} trained to its end; {text}."


# ------------------------------------------------------------------------------------------- files


def write_outcome(outcome: Outcome, folder: str) -> None:
    """Write table.json and the page of the study. Raises OSError."""
    write_json(os.path.join(folder, TABLE_FILE), outcome.as_json())
    records = []
    for row in outcome.rows:
        if row.status in (FINISHED, DIVERGED, FAILED):
            records += _read_group(outcome.definition, row, folder).records
    if records:
        path = os.path.join(folder, PAGE_FILE)
        title = f"Search {os.path.basename(os.path.abspath(folder))}"
        write_page(path, records[:MAX_PAGE_RUNS], search=outcome.as_json(), title=title)


def describe_budget(definition: Definition) -> str:
    """Return what each trial may spend, and how many there are, as a sentence without a stop."""
    seeds = len(definition.seeds)
    each = f"{seeds} seeds each" if seeds > 1 else "1 seed each"
    configurations = f"{definition.trials} configuration{'s' * (definition.trials != 1)}"
    text = f"{configurations} ({definition.sampler}), {each}, "
    text += f"{definition.budget}"
    if definition.reduction:
        shares = ", ".join(f"{100 * share:.3g} %" for share in definition.rungs)
        text += f"; halving: 1 of {definition.reduction} continues, rungs at {shares}"
    return text


# ------------------------------------------------------------------------------------------- text


def format_outcome(outcome: Outcome, folder: str) -> List[str]:
    """Return the lines that a terminal shows."""
    definition = outcome.definition
    lines = format_table(definition, outcome.rows)
    intervals = describe_intervals(outcome.rows)
    if intervals:
        lines.append(f"brackets {intervals}")
    if outcome.importance:
        shares = [f"{name} {100 * share:.0f} %" for name, share in outcome.importance.items()]
        lines.append(f"matters  {', '.join(shares)}")
    elif outcome.importance_note:
        lines.append(f"matters  not measured: {outcome.importance_note}")
    if outcome.best is None:
        lines.append("best     none: no configuration finished")
        return lines
    lines.append(f"best     configuration {outcome.best.number}, {outcome.best.paths[0]}")
    if outcome.test:
        texts = [f"{name} {Band(**band)}" for name, band in outcome.test.items()]
        lines.append(f"test     {'  '.join(texts)}")
    if outcome.verdict:
        lines.append(f"verdict  {outcome.verdict}")
    lines.append(f"again    {outcome.again}")
    return lines
