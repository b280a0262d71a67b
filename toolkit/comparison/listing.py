"""A list of runs: read, filtered and sorted."""

from __future__ import annotations

import collections
import math
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import UsageError, suggest
from ..options import format_value
from .differences import join_names
from .metrics import Metric, main_metric
from .record import RunRecord, read_runs
from .special_options import EXTENSIONS, find_special_options, own_options

DAMAGED = "damaged"
SORT_KEYS = ("metric", "step", "time", "created", "name")
_FIELDS = (
    *("name", "path", "status", "reason", "step", "total_steps", "seconds", "created"),
    *("plugin", "data", "metric"),
)
_MAX_NAMES = 8  # of each kind in a hint
_ORDERS = (">", ">=", "<", "<=")
_CONDITION = re.compile(r"\s*([\w.@-]+)\s*(==|!=|>=|<=|=|>|<|~)\s*(.*?)\s*", re.DOTALL)


class Row(NamedTuple):
    """A run in a list, or a folder that looks like one and cannot be read.

    Attributes:
        name: the path that was listed, with the path of the run below it.
        path: of the folder, absolute.
        record: None if the folder cannot be read.
        fault: why it cannot be read, a sentence; "" if it can.
        metric: the main metric of the run; None if it has none.
        special: the options that tell the run from the others, by name.
    """

    name: str
    path: str
    record: Optional[RunRecord]
    fault: str
    metric: Optional[Metric] = None
    special: Dict[str, Any] = {}

    @property
    def status(self) -> str:
        return self.record.status if self.record else DAMAGED


def read_rows(
    folders: Sequence[str], note: Callable[[str], None], metric: Optional[str] = None
) -> List[Row]:
    """Read the runs in folders and below them, each once.

    Args:
        folders: as the user named them.
        note: is called with a sentence for each folder that is left out but may contain runs.
        metric: the name of the metric to list; None: the main one of each run.

    Raises:
        UsageError: a folder does not exist or cannot be read.
    """
    rows = []
    for run in read_runs(folders, note, may_be_empty=True):
        fault = run.error.message.replace(run.path + os.sep, "") if run.error else ""
        main = main_metric(run.record, metric) if run.record else None
        rows.append(Row(run.name, run.path, run.record, fault, main))
    return rows


def add_special_options(rows: Sequence[Row]) -> List[Row]:
    """The rows with their special options; see `find_special_options`."""
    records = [row.record for row in rows if row.record]
    special = iter(find_special_options(records))
    return [row._replace(special=next(special)) if row.record else row for row in rows]


# -------------------------------------------------------------------------------------------- sort


def sort_rows(rows: Sequence[Row], key: str, is_reverse: bool = False) -> List[Row]:
    """Sort rows: the best metric, the highest step, the longest time and the newest run first,
    options from low to high, names in alphabetical order with numbers in theirs. Rows without a
    value come last. By a metric, the runs of one data set are together: those of another are not
    better or worse.

    Args:
        rows: to sort.
        key: one of SORT_KEYS, or the name of an option or of a metric.
        is_reverse: whether to reverse the order of the rows with a value.

    Raises:
        UsageError: no row has such an option or metric.
    """
    read = _sort_value(rows, key)
    ordered = sorted(rows, key=lambda row: natural_key(row.name))
    with_value = [row for row in ordered if read(row) is not None]
    others = [row for row in ordered if read(row) is None]
    with_value.sort(key=read)
    return (with_value[::-1] if is_reverse else with_value) + others


def describe_rankings(rows: Sequence[Row], key: str) -> str:
    """That rows sorted by a metric are several rankings, a sentence; "" if they are one."""
    records = [row.record for row in rows if row.record and _metric_to_sort(row, key)]
    count = len({_data_of(record) for record in records})
    if count < 2:
        return ""
    return f"the runs are of {count} data sets or splits, each with a ranking of its own"


def _data_of(record: RunRecord) -> str:
    """A text that is equal for runs of the same data and splits."""
    return repr((sorted(record.data_sha256.items()) or record.data_name, record.partition))


def _metric_to_sort(row: Row, key: str) -> Optional[Metric]:
    """The metric by which a row is sorted: the main one, or that of a name which is no option."""
    if row.record is None or key in row.record.options:
        return None
    if key == "metric":
        return row.metric
    return main_metric(row.record, key) if key in row.record.metrics else None


def _sort_value(rows: Sequence[Row], key: str) -> Callable[[Row], Any]:
    """A function that returns what to sort by in ascending order, or None."""
    records = [row.record for row in rows if row.record]
    if key == "name":
        return lambda row: natural_key(row.name)
    if key == "step":
        return lambda row: row.record and -row.record.step
    if key == "time":
        return lambda row: row.record and _negative(row.record.seconds)
    if key == "created":
        newest = sorted({record.created for record in records}, reverse=True)
        ranks = {created: rank for rank, created in enumerate(newest) if created}
        return lambda row: ranks.get(row.record.created) if row.record else None
    _check_names([key], rows, "sort by", SORT_KEYS)
    name_ranks = _rank([row.metric.name for row in rows if row.metric])
    data_ranks = _rank([_data_of(record) for record in records])

    def read(row: Row) -> Any:
        metric = _metric_to_sort(row, key)
        if metric is not None and row.record is not None:
            if math.isnan(metric.value):
                return None
            ranks = name_ranks.get(metric.name, 0), data_ranks[_data_of(row.record)]
            return (0, *ranks, -metric.merit, "")
        value = None if key == "metric" else read_value(row, key)
        return None if value is None else (1, *_order_of_value(value))

    return read


def _rank(texts: Sequence[str]) -> Dict[str, int]:
    """Texts by their rank: the one that most rows have first."""
    counts = collections.Counter(texts)
    ordered = sorted(counts, key=lambda text: (-counts[text], text))
    return {text: rank for rank, text in enumerate(ordered)}


def _negative(value: Optional[float]) -> Optional[float]:
    return None if value is None else -value


def natural_key(text: str) -> List[Tuple[int, int, str]]:
    """A key under which run-2 comes before run-10."""
    parts = re.split(r"(\d{1,100})", text)
    return [(0, int(p), p) if p.isdigit() and p.isascii() else (1, 0, p) for p in parts]


def _order_of_value(value: Any) -> Tuple[int, float, str]:
    """A key that orders numbers by size, and before other values."""
    number = _as_number(value)
    return (1, 0.0, format_value(value)) if number is None else (0, number, "")


# ------------------------------------------------------------------------------------------ filter


class Condition(NamedTuple):
    """A condition of `--where`: `learning_rate>0.01`.

    Attributes:
        name: of an option, a metric, or one of a run's fields.
        operator: "=", "!=", ">", ">=", "<", "<=", or "~" (contains).
        value: as text.
    """

    name: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse the text of a condition. Raises UsageError."""
        match = _CONDITION.fullmatch(text)
        if not match:
            raise UsageError(
                f"--where '{text}' is not a name, a comparison and a value.",
                hint="Write for example --where 'learning_rate>0.01' or --where status=finished; "
                "comparisons are = != > >= < <= and ~ (contains).",
            )
        name, operator, value = match.groups()
        if operator != "~" and value[:1] in ("=", "<", ">"):
            raise UsageError(
                f"--where '{text}' has no comparison '{operator}{value[:1]}'.",
                hint="Comparisons are = != > >= < <= and ~ (contains).",
            )
        return cls(name.replace("-", "_"), "=" if operator == "==" else operator, value)

    def matches(self, row: Row) -> bool:
        """Whether a row has the name, and its value fulfils the condition."""
        value = read_value(row, self.name)
        if value is None and (row.record is None or self.name not in row.record.options):
            return False
        if self.operator == "~":
            return self.value.lower() in format_value(value).lower()
        if self.operator in ("=", "!="):
            return _is_equal(value, self.value) == (self.operator == "=")
        return _is_ordered(value, self.operator, self.value)


def filter_rows(rows: Sequence[Row], conditions: Sequence[Condition]) -> List[Row]:
    """The rows that match all conditions.

    Raises:
        UsageError: a name occurs in no row, or a limit of numbers is no number.
    """
    _check_names([condition.name for condition in conditions], rows, "filter by", _FIELDS)
    for condition in conditions:
        _check_limit(condition, rows)
    return [row for row in rows if all(each.matches(row) for each in conditions)]


def _check_limit(condition: Condition, rows: Sequence[Row]) -> None:
    """Raise UsageError if numbers are compared by size with a text."""
    if condition.operator not in _ORDERS or _as_number(condition.value) is not None:
        return
    values = [read_value(row, condition.name) for row in rows]
    numbers = [_as_number(value) for value in values if value is not None]
    if numbers and None not in numbers:
        name, operator, text = condition
        example = next(value for value in values if value is not None)
        raise UsageError(
            f"--where '{name}{operator}{text}': '{text}' is no number.",
            hint=f"The values of {name} are numbers, such as {format_value(example)}.",
        )


def known_names(rows: Sequence[Row]) -> List[str]:
    """The names of all options and metrics of the rows."""
    names = {EXTENSIONS}
    for row in rows:
        if row.record:
            names.update(row.record.options, row.record.metrics)
    return sorted(names)


def check_columns(names: Sequence[str], rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Raise UsageError if a column is none of `columns`, and no option or metric of a row."""
    _check_names(names, rows, "show", (*_FIELDS, *columns))


def _check_names(
    names: Sequence[str], rows: Sequence[Row], action: str, fields: Sequence[str]
) -> None:
    if not any(row.record for row in rows):
        return  # there are no options to compare the names with
    known = known_names(rows)
    for name in names:
        if name not in known and name not in fields:
            raise UsageError(
                f"There is no '{name}' to {action}: it is no option and no metric of these runs.",
                hint=_suggest_names(name, rows, known, fields),
            )


def _suggest_names(
    name: str, rows: Sequence[Row], known: Sequence[str], fields: Sequence[str]
) -> str:
    """The most similar name, or a few of each kind: there are more than a hundred options."""
    hint = suggest(name, {*known, *fields})
    if hint.startswith("Did you mean"):
        return hint
    records = [row.record for row in rows if row.record]
    kinds = {
        "metrics": {metric for record in records for metric in record.metrics},
        "options that somebody set": {key for record in records for key in own_options(record)},
        "columns": set(fields),
    }
    parts = [
        f"{kind}: {join_names(sorted(names), _MAX_NAMES)}" for kind, names in kinds.items() if names
    ]
    return f"For example {'; '.join(parts)}; any other option has the name of its flag."


def read_value(row: Row, name: str) -> Any:
    """The value of a field, option or metric of a row; None if it has none."""
    if name in _FIELDS:
        return _read_field(row, name)
    if row.record is None:
        return None
    if name == EXTENSIONS:
        return row.record.extensions
    if name in row.record.options:
        return row.record.options[name]
    return row.record.metrics.get(name)


def _read_field(row: Row, name: str) -> Any:
    if name in ("name", "path", "status"):
        return getattr(row, name)
    if row.record is None:
        return row.fault if name == "reason" else None
    if name == "metric":
        return row.metric.value if row.metric else None
    return row.record.data_name if name == "data" else getattr(row.record, name)


def _is_equal(value: Any, text: str) -> bool:
    """Whether a value is what a text says; of a list, the whole or one of its parts."""
    if isinstance(value, bool):
        return text.lower() in (
            ("true", "on", "yes", "1") if value else ("false", "off", "no", "0")
        )
    numbers = _as_number(value), _as_number(text)
    if None not in numbers:
        return numbers[0] == numbers[1]
    is_part = isinstance(value, (list, tuple)) and text in map(str, value)
    return is_part or format_value(value) == text


def _is_ordered(value: Any, operator: str, text: str) -> bool:
    """Whether numbers, or else texts such as dates, stand in an order."""
    number, limit = _as_number(value), _as_number(text)
    if value is None or (number is None) != (limit is None):
        return False
    if number is None or limit is None:
        words = format_value(value)
        order = (words > text) - (words < text)
    else:
        order = (number > limit) - (number < limit)
    return {">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0}[operator]


def _as_number(value: Any) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
