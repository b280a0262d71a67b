"""`toolkit data list`, `toolkit data check DATA` and `toolkit data show DATA`."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional

import click

from .. import options as typed
from ..cli_options import HelpGroup, json_option, print_json, resolve_output, writing_output
from ..display.escapes import escape_line
from ..errors import UsageError
from .data_show import data_flags, given, show
from .help import ShortCommand

_MAX_CLASSES = 100  # whose examples a report counts


@click.group(cls=HelpGroup)
def data() -> None:
    """List data sources, check data, and show examples."""


@data.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the sources that --data can name."""
    from ..data.sources import list_sources

    rows = list_sources()
    if as_json:
        return print_json(rows)
    width = max(len(row["size"]) for row in rows)
    for row in rows:
        sys.stdout.write(f"{row['value']:14} {row['size']:{width}} {row['what']}\n")
    return None


@data.command(cls=ShortCommand)
@click.argument("value", metavar="DATA")
@click.option(
    "--sheet",
    metavar="FILE.png",
    help="Write a contact sheet of 100 training examples; the file is overwritten.",
)
@click.option("--hashes", is_flag=True, help="Print the SHA-256 of each file.")
@click.option(
    "--list-damaged",
    "lists_damaged",
    is_flag=True,
    help="Print the paths of damaged images alone, one in a line, as for xargs -d '\\n'.",
)
@json_option
def check(
    value: str,
    sheet: Optional[str],
    hashes: bool,
    lists_damaged: bool,
    as_json: bool,
    **flags: Optional[str],
) -> int:
    """Read all examples and report on them.

    The report has counts, shapes, ranges, classes, damaged files, and duplicates within and across
    splits. The exit code is 4 if data is damaged.
    """
    from ..data.check import check_source, contact_sheet
    from ..data.reading_options import reading_settings
    from ..data.sources import resolve_path

    if sheet and not sheet.lower().endswith(".png"):
        raise UsageError(f"{sheet}: the contact sheet ends in .png.")
    sheet_path = resolve_output(sheet) if sheet else ""
    options = typed.resolve([], flags=dict(given(flags), data=value)).options
    report, dataset = check_source(options.data, **reading_settings(options))
    if sheet and dataset is not None:
        with writing_output(sheet):
            contact_sheet(dataset, sheet_path)
        report["sheet"] = sheet
    if lists_damaged:
        folder = resolve_path(report["data"])
        for fault in report["corrupt"]:
            sys.stdout.write(os.path.join(folder, fault["file"]) + "\n")
    elif as_json:
        print_json(report)
    else:
        _print(report, hashes)
    return 0 if report["ok"] else 4


def _print(report: Dict[str, Any], with_hashes: bool) -> None:
    def out(title: str, text: str) -> None:
        sys.stdout.write(escape_line(f"{title:8} {text}") + "\n")

    def describe_range(values: Dict[str, Any]) -> str:
        return f"{values['min']:g} to {values['max']:g}, mean {values['mean']:g}"

    out("data", report["data"])
    for fault in report["corrupt"]:
        out("corrupt", f"{fault['file']}: {fault['reason']}")
    if not report["ok"]:
        return
    if "components" not in report:
        out("shape", f"{'x'.join(map(str, report['shape']))} {report['dtype']}")
    for key, text in report.get("components", {}).items():
        sys.stdout.write(escape_line(f"{key}  {text}") + "\n")
    for name, split in report["splits"].items():
        counts = [f"{each} {n}" for each, n in (split.get("class_counts") or {}).items()]
        if len(counts) > _MAX_CLASSES:
            counts[_MAX_CLASSES:] = [f"... ({len(counts) - _MAX_CLASSES:,} more classes)"]
        classes = f"; class: {', '.join(counts)}" if counts else ""
        values = f"; values {describe_range(split)}" if "min" in split else ""
        duplicates = f"; {split['duplicates']} duplicates"
        out(name, f"{split['examples']} examples{classes}{values}{duplicates}")
        for key, values in split.get("ranges", {}).items():
            out(name, f"{key} {describe_range(values)}")
    for name in ("test", "validation"):
        out("shared", f"{report['in_train_and_' + name]} examples are in train and {name}")
    for note in report["notes"]:
        out("note", note)
    for name, digest in report["sha256"].items() if with_hashes else ():
        out("sha256", f"{digest}  {name}")
    if "sheet" in report:
        out("sheet", report["sheet"])


check.params.extend(data_flags("rehash"))
data.add_command(show)
