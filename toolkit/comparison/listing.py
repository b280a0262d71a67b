"""A list of runs: read, filtered and sorted."""

from __future__ import annotations

import collections
import ctypes
import math
import operator
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import UsageError, join_names, suggest
from ..options import format_value
from .differences import find_special_options, own_options
from .metrics import Metric, main_metric
from .record import EXTENSIONS, Found, RunRecord, read_runs

DAMAGED = "damaged"
# The fields of a run that can be named beside options and metrics.
FIELDS = (
    *("name", "path", "status", "reason", "step", "total_steps", "seconds", "created"),
    *("plugin", "data", "metric"),
)
# Of a run in --json, these attributes of its record.
_FACTS = ("exit_code", "step", "total_steps", "seconds", "created", "plugin", "extensions")
_DESCENDING = {"step": "step", "time": "seconds", "created": "created"}  # key -> field
SORT_KEYS = ("metric", *_DESCENDING, "name")
_MAX_NAMES = 8  # of each kind in a hint
_ORDERS: Dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_CONDITION = re.compile(r"\s*([^=!<>~]*[^=!<>~\s])\s*(==|!=|>=|<=|=|>|<|~)\s*(.*?)\s*", re.DOTALL)


class Row(NamedTuple):
    """A run in a list, or a folder that looks like one and cannot be read."""

    record: Optional[RunRecord]  # None if the folder cannot be read
    metric: Optional[Metric]  # the main metric of the run; None if it has none
    # what can be named to filter, to sort and to show: the fields, options and metrics of the run
    # by name
    values: Dict[str, Any]
    facts: Dict[str, Any]  # what `toolkit runs --json` prints


def read_rows(
    folders: Sequence[str], note: Callable[[str], None], metric: Optional[str] = None
) -> List[Row]:
    """Read the runs in folders, as the user named them, and below them, each once, with a metric or
    the main one of each. For `note` and errors, see `find_runs`.
    """
    return [_make_row(run, metric) for run in read_runs(folders, note, may_be_empty=True)]


def _make_row(run: Found, name: Optional[str]) -> Row:
    facts: Dict[str, Any] = {"name": run.name, "path": run.path, "status": DAMAGED}
    if run.record is None:
        fault = run.error.message if run.error else ""
        facts["reason"] = fault.replace(run.path + os.sep, "")
        return Row(None, None, facts, facts)
    record, metric = run.record, main_metric(run.record, name)
    facts.update(status=record.status, reason=record.reason, data=record.data_name)
    facts.update((name, getattr(record, name)) for name in _FACTS)
    fields = dict(facts, metric=metric.value if metric else None)
    fields = {name: fields[name] for name in FIELDS if fields[name] is not None}
    values = {**record.metrics, **record.options, EXTENSIONS: record.extensions, **fields}
    facts.update(metric=metric and dict(metric._asdict()), metrics=record.metrics)
    return Row(record, metric, values, dict(facts, special={}, options=own_options(record)))


def add_special_options(rows: Sequence[Row]) -> None:
    """Add the special options to the facts of rows; see `find_special_options`."""
    special = iter(find_special_options([row.record for row in rows if row.record]))
    for row in rows:
        if row.record:
            row.facts["special"] = next(special)


# -------------------------------------------------------------------------------------------- sort


def sort_rows(rows: Sequence[Row], key: str, is_reverse: bool = False) -> List[Row]:
    """Sort rows by one of SORT_KEYS, an option or a metric: the best metric, the highest step, the
    longest time and the newest run first, options from low to high, names in alphabetical order
    with numbers in theirs. Rows without a value come last.

    By a metric, the runs of one data set are together: those of another are not better or worse.
    Raises UsageError if no row has such an option or metric.
    """
    (key,) = find_names([key], rows, "sort by", SORT_KEYS)
    rows = sorted(rows, key=lambda row: natural_key(row.values["name"]))
    if key == "name":
        return rows[::-1] if is_reverse else rows
    orders: List[Any] = [row.values.get(_DESCENDING.get(key, "")) for row in rows]
    orders = [None if value == "" else value for value in orders]
    if key not in _DESCENDING:
        orders = _order_by_value(rows, key)
    pairs = list(zip(orders, rows))
    known = [pair for pair in pairs if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=key in _DESCENDING)
    known = known[::-1] if is_reverse else known
    return [row for _, row in [*known, *(pair for pair in pairs if pair[0] is None)]]


def _order_by_value(rows: Sequence[Row], key: str) -> List[Any]:
    """What to sort each row by, None without a value: the merit of a metric among the runs of the
    same metric and data, of which most have the first place; numbers before other options.
    """
    metrics = [_metric_to_sort(row, key) for row in rows]
    names = _rank([metric.name for metric in metrics if metric])
    data = _rank([_data_of(row.record) for row in rows if row.record])
    orders: List[Any] = []
    for row, metric in zip(rows, metrics):
        value, number = row.values.get(key), _as_number(row.values.get(key))
        if metric and row.record:
            place = names[metric.name], data[_data_of(row.record)]
            orders.append(None if math.isnan(metric.value) else (0, *place, -metric.merit))
        elif value in (None, "") or key == "metric":
            orders.append(None)
        else:
            orders.append((2, format_value(value)) if number is None else (1, number))
    return orders


def describe_rankings(rows: Sequence[Row], key: str) -> str:
    """That rows sorted by a metric are several rankings, a sentence; "" if they are one."""
    data = {_data_of(row.record) for row in rows if row.record and _metric_to_sort(row, key)}
    text = f"the runs are of {len(data)} data sets or splits, each with a ranking of its own"
    return text if len(data) > 1 else ""


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


def _rank(texts: Sequence[str]) -> Dict[str, int]:
    """Texts by their rank: the one that most rows have first."""
    ordered = sorted(collections.Counter(texts).items(), key=lambda each: (-each[1], each[0]))
    return {text: rank for rank, (text, _) in enumerate(ordered)}


def natural_key(text: str) -> List[Tuple[int, int, str]]:
    """A key under which run-2 comes before run-10."""
    parts = re.split(r"(\d{1,100})", text)
    return [(0, int(p), p) if p.isdigit() and p.isascii() else (1, 0, p) for p in parts]


# ------------------------------------------------------------------------------------------ filter


class Condition(NamedTuple):
    """A condition of `--where`: `learning_rate>0.01`."""

    name: str  # of an option, a metric, or one of a run's fields
    operator: str  # "=", "!=", ">", ">=", "<", "<=", or "~" (contains)
    value: str  # as text

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse the text of a condition. Raises UsageError."""
        match = _CONDITION.fullmatch(text)
        hint = "Comparisons are = != > >= < <= and ~ (contains)."
        if not match:
            raise UsageError(
                f"--where '{text}' is not a name, a comparison and a value.",
                hint="Write for example --where 'learning_rate>0.01' or --where status=finished. "
                + hint,
            )
        name, sign, value = match.groups()
        if sign != "~" and value[:1] in ("=", "<", ">"):
            raise UsageError(f"--where '{text}' has no comparison '{sign}{value[:1]}'.", hint=hint)
        return cls(name, "=" if sign == "==" else sign, value)

    def matches(self, row: Row) -> bool:
        """Whether a row has the name, and its value fulfils the condition."""
        if self.name not in row.values:
            return False
        value = row.values[self.name]
        text, number = format_value(value), _as_number(value)
        limit = None if self.name == "created" else _as_number(self.value)  # a year is no number
        are_numbers = number is not None and limit is not None
        if isinstance(value, float) and limit is not None:  # a metric of 0.9 is 0.89999998
            number, limit = ctypes.c_float(value).value, ctypes.c_float(limit).value
        if self.operator == "~":
            return self.value.lower() in text.lower()
        if self.operator in _ORDERS:
            compare, is_mixed = _ORDERS[self.operator], (number is None) != (limit is None)
            if value is None or is_mixed:
                return False
            return compare(number, limit) if are_numbers else compare(text, self.value)
        if isinstance(value, bool):
            words = ("true", "on", "yes", "1") if value else ("false", "off", "no", "0")
            is_equal = self.value.lower() in words
        elif are_numbers:
            is_equal = number == limit
        else:
            parts = map(str, value) if isinstance(value, (list, tuple)) else ()
            is_equal = self.value in (text, *parts)
        return is_equal == (self.operator == "=")


def filter_rows(rows: Sequence[Row], conditions: Sequence[Condition]) -> List[Row]:
    """The rows that match all conditions. Raises UsageError if a name occurs in no row, or a limit
    of numbers is no number.
    """
    names = find_names([each.name for each in conditions], rows, "filter by", FIELDS)
    conditions = [each._replace(name=name) for each, name in zip(conditions, names)]
    for name, sign, text in conditions:
        values = [row.values[name] for row in rows if row.values.get(name) is not None]
        numbers = [_as_number(value) for value in values]
        if sign in _ORDERS and _as_number(text) is None and numbers and None not in numbers:
            raise UsageError(
                f"--where '{name}{sign}{text}': '{text}' is no number.",
                hint=f"The values of {name} are numbers, such as {format_value(values[0])}.",
            )
    return [row for row in rows if all(each.matches(row) for each in conditions)]


def find_names(
    names: Sequence[str], rows: Sequence[Row], action: str, fields: Sequence[str]
) -> List[str]:
    """The names as the runs have them: as given, or that of a flag with underscores. Raises
    UsageError for one that no run has and that is none of `fields`: with the most similar one, or a
    few of each kind, as there are more than a hundred options.
    """
    records = [row.record for row in rows if row.record]
    metrics = {name for record in records for name in record.metrics}
    known = {EXTENSIONS, *metrics, *(name for record in records for name in record.options)}
    found = [name if name in known else name.replace("-", "_") for name in names]
    for name in found if records else ():  # else there is nothing to compare with
        if name in known or name in fields:
            continue
        hint = suggest(name, {*known, *fields})
        if not hint.startswith("Did you mean"):
            own = {key for record in records for key in own_options(record)}
            kinds = {"metrics": metrics, "options that somebody set": own, "columns": set(fields)}
            parts = [
                f"{kind}: {join_names(sorted(each), _MAX_NAMES)}"
                for kind, each in kinds.items()
                if each
            ]
            hint = f"For example {'; '.join(parts)}; any other option has the name of its flag."
        raise UsageError(
            f"There is no '{name}' to {action}: it is no option and no metric of these runs.",
            hint=hint,
        )
    return found


def _as_number(value: Any) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
