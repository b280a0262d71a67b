"""`toolkit compare`: what differs between runs, what is better, and where they parted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Tuple

import click

from .. import cli_options as shared
from ..display.table import format_table
from ..display.waits import waiting
from ..errors import UsageError
from .common import flag, output_flags, print_result

if TYPE_CHECKING:
    from ..comparison.record import RunRecord

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_RESULT = "no run has a result of the test"
_DIRECTIONS = {"max": "higher is better", "min": "lower is better"}


@click.command()
@click.argument("run_folders", metavar="RUN RUN...", nargs=-1, required=True)
@flag(
    "--metric metrics",
    "NAME",
    "Compare by this metric; repeatable [default: the main one and all with a direction].",
    multiple=True,
)
@flag(
    "--level",
    "P",
    "How sure all verdicts are together.",
    shared.FloatRange(0.5, 0.9999),
    default=0.95,
)
@output_flags
def compare(
    run_folders: Sequence[str], metrics: Sequence[str], level: float, as_json: bool
) -> None:
    """Compare runs: the options, code and data that differ, the metrics with a verdict, and the
    step at which the runs parted.

    Runs that differ in the seed alone are one group. A folder with runs stands for all of them. The
    exit code is 0 whatever the verdict. 'toolkit report RUN RUN -o FILE' writes it as a page.
    """
    from ..comparison.comparison import compare as compare_records

    with waiting("Comparing the runs"):
        records = _read_records(run_folders)
        comparison = compare_records(records, metrics, level)
    runs = [{"name": r.name, "path": r.path, "status": r.status} for r in records]
    print_result(as_json, {"runs": runs, **comparison}, _describe(records, comparison), width=10)


def _read_records(paths: Sequence[str]) -> List[RunRecord]:
    """The records of two or more runs, without damaged ones among them. Raises ToolkitError."""
    from ..comparison.record import read_runs

    runs = read_runs(paths, shared.warn)
    for run in runs:
        if run.error is not None:
            shared.warn(f"{run.name} is left out: {run.error.message}")
    records = [run.record for run in runs if run.record is not None]
    if len(records) < 2:
        named = {os.path.abspath(path) for path in paths}
        for run in runs:
            if run.error is not None and run.path in named:
                raise run.error
        raise UsageError(
            f"A comparison needs two runs, and {' '.join(paths)} has {len(records)}.",
            hint="Name two runs, or a folder with several.",
        )
    return records


# ------------------------------------------------------------------------------------------- text


def _describe(
    records: Sequence[RunRecord], comparison: Dict[str, Any]
) -> Iterator[Tuple[str, str]]:
    """The lines of a comparison, the first of a kind with its title."""
    from ..comparison.differences import distinct_seeds
    from ..comparison.verdict import Band

    groups = [[records[place] for place in places] for places in comparison["groups"]]
    labels = [_label(place) for place in range(len(groups))]
    verdicts = [each["text"] for each in comparison["verdicts"]]
    if len(groups) == 1:
        count = len(distinct_seeds(records))
        what = f"the {count} runs are one method with {count} seeds"
        if count == 1:
            what = "the runs have the same seed and the same options"
        verdicts = [f"nothing to compare: {what}"]
    rows = []
    for metric in comparison["metrics"]:
        cells = ["-" if band is None else str(Band(**band)) for band in metric["values"]]
        rows.append([metric["name"], *cells, _DIRECTIONS.get(metric["direction"], "")])
    texts = {
        "runs": [
            f"{label}  {_describe_group(group)}"
            + (f"  these runs also differ in: {'; '.join(mixture)}" if mixture else "")
            for label, group, mixture in zip(labels, groups, comparison["mixtures"])
        ],
        "options": _option_lines(records, comparison, labels),
        **{title: comparison[title] for title in ("code", "data", "software")},
        "metrics": format_table(["", *labels, ""], rows) if rows else [NO_RESULT],
        "verdict": verdicts,
        "parting": [
            f"{records[each['a']].name} and {records[each['b']].name}: {each['text']}"
            for each in comparison["parting"]
        ],
    }
    for title, lines in texts.items():
        yield from (("" if number else title, line) for number, line in enumerate(lines))


def _label(place: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    before, last = divmod(place, len(LETTERS))
    return (_label(before - 1) if before else "") + LETTERS[last]


def _describe_group(records: Sequence[RunRecord]) -> str:
    """The runs of a group, how they ended, their seeds, and which of them repeats a seed."""
    from ..comparison.differences import SEED, distinct_seeds

    different = distinct_seeds(records)
    facts = sorted({f"{record.status} at step {record.step:,}" for record in records})
    if len(different) > 1:
        facts.append(f"seeds {', '.join(str(record.options.get(SEED)) for record in different)}")
    names = [record.name for record in records if record not in different]
    if names:
        verb = "repeats" if len(names) == 1 else "repeat"
        facts.append(f"{', '.join(names)} {verb} the seed of an earlier run, which counts once")
    return f"{', '.join(record.name for record in records)}  ({'; '.join(facts)})"


def _option_lines(
    records: Sequence[RunRecord], comparison: Dict[str, Any], labels: Sequence[str]
) -> List[str]:
    """A table of the options that differ between groups."""
    from ..comparison.differences import last_session, options_without_effect, show_value

    without_effect = options_without_effect(*map(last_session, records))
    firsts, rows = [places[0] for places in comparison["groups"]], []
    for option in comparison["options"]:
        pairs = [(option["values"][place], option["origins"][place]) for place in firsts]
        is_equal = all(value == pairs[0][0] for value, _ in pairs)
        if is_equal and len({origin is None for _, origin in pairs}) == 1:
            continue  # it differs within the groups alone, as the seed does
        cells = [
            "-" if origin is None else show_value(value) + (f" ({origin})" if origin else "")
            for value, origin in pairs
        ]
        note = "no effect on the result" if option["name"] in without_effect else ""
        rows.append([option["name"], *cells, note])
    if rows:
        return format_table(["", *labels, ""], rows)
    names = [option["name"] for option in comparison["options"]]
    names = ["the seed" if name == "seed" else name for name in names]
    return ["no option differs" + (f" but {', '.join(names)}" if names else "")]
