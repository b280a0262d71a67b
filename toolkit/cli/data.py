"""`toolkit data list`, `toolkit data check DATA` and `toolkit data show DATA`."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional

import click

from ..cli_options import HelpGroup, json_option, print_json, resolve_output, writing_output
from ..display.escapes import escape_line
from ..errors import UsageError

_MAX_CLASSES = 100  # whose examples a report counts


class DataGroup(HelpGroup):
    """Imports the command `show` when it is used: its flags need all options of a run."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return [*super().list_commands(ctx), "show"]

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        if name != "show":
            return super().get_command(ctx, name)
        from .data_show import show

        return show


@click.group(cls=DataGroup)
def data() -> None:
    """List data sources, check data, and show examples."""


# The flags for the columns of tables and the keys of records, with their values for help texts.
_COLUMN_FLAGS = {
    "label_column": "NAME,...",
    "label_kind": "auto|class|value",
    "image_column": "NAME",
    "feature_columns": "NAME,...",
    "ignore_columns": "NAME,...",
    "split_column": "NAME",
    "missing": "refuse|drop|fill",
    "categories": "index|one-hot",
}


def column_flags(command: Callable) -> Callable:
    """Add the flags for columns to a command; they are arguments of their names."""
    for name, metavar in reversed(list(_COLUMN_FLAGS.items())):
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, metavar=metavar, help="As for 'toolkit run'.")(command)
    return command


def _read_columns(flags: Mapping[str, Optional[str]]) -> Any:
    """The `ColumnOptions` of the flags, checked as those of `toolkit run`."""
    from ..data.reading_options import DEFAULT_COLUMNS

    values = {name: text for name, text in flags.items() if text is not None}
    if not values:
        return DEFAULT_COLUMNS
    from ..options import resolve
    from ..run_data import column_options

    return column_options(resolve([], [], None, values).options)


@data.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the sources that --data can name."""
    from ..data.sources import list_sources

    rows = list_sources()
    if as_json:
        return print_json(rows)
    width = max(len(str(row["size"])) for row in rows)
    for row in rows:
        access = "offline" if row["offline"] else "downloads"
        sys.stdout.write(f"{row['value']:14} {row['size']:{width}} {access:10} {row['what']}\n")
    return None


@data.command()
@click.argument("value", metavar="DATA")
@click.option("--image-size", metavar="N|WIDTHxHEIGHT", help="As for 'toolkit run'.")
@click.option("--channels", type=click.Choice(["1", "3"]), help="As for 'toolkit run'.")
@click.option("--fit", default="pad", metavar="pad|crop|stretch", help="As for 'toolkit run'.")
@click.option("--background", default="white", metavar="COLOUR", help="As for 'toolkit run'.")
@column_flags
@click.option(
    "--sheet",
    metavar="FILE.png",
    help="Write a contact sheet of 100 training examples; the file is overwritten.",
)
@click.option("--rehash", is_flag=True, help="As for 'toolkit run'.")
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
    image_size: Optional[str],
    channels: Optional[str],
    fit: str,
    background: str,
    sheet: Optional[str],
    rehash: bool,
    hashes: bool,
    lists_damaged: bool,
    as_json: bool,
    **column_texts: Optional[str],
) -> int:
    """Read all examples and report on them.

    The report has counts, shapes, ranges, classes, damaged files, and duplicates within and across
    splits. The exit code is 4 if data is damaged.
    """
    from ..data.check import check_source, contact_sheet
    from ..data.reading_options import ImageOptions
    from ..data.sources import resolve_path

    if sheet and not sheet.lower().endswith(".png"):
        raise UsageError(f"{sheet}: the contact sheet ends in .png.")
    sheet_path = resolve_output(sheet) if sheet else ""
    report, dataset = check_source(
        value,
        images=ImageOptions(image_size, int(channels) if channels else None, fit, background),
        columns=_read_columns(column_texts),
        rehash=rehash,
    )
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


def _describe_range(values: Dict[str, Any]) -> str:
    return f"{values['min']:g} to {values['max']:g}, mean {values['mean']:g}"


def _format_counts(counts: Dict[str, int]) -> str:
    """The examples of each class; of many classes, those of the first ones."""
    texts = [f"{name} {count}" for name, count in counts.items()]
    rest = len(texts) - _MAX_CLASSES
    more = [f"... ({rest:,} more classes)"] if rest > 0 else []
    return ", ".join(texts[:_MAX_CLASSES] + more)


def _print(report: Dict[str, Any], with_hashes: bool) -> None:
    def out(line: str) -> None:
        sys.stdout.write(escape_line(line) + "\n")

    out(f"data     {report['data']}")
    for fault in report["corrupt"]:
        out(f"corrupt  {fault['file']}: {fault['reason']}")
    if not report["ok"]:
        return
    if "components" not in report:
        out(f"shape    {'x'.join(map(str, report['shape']))} {report['dtype']}")
    for key, text in report.get("components", {}).items():
        out(f"{key}  {text}")
    for name, split in report["splits"].items():
        counts = split.get("class_counts") or {}
        classes = f"; class: {_format_counts(counts)}" if counts else ""
        values = f"; values {_describe_range(split)}" if "min" in split else ""
        duplicates = f"; {split['duplicates']} duplicates"
        out(f"{name:8} {split['examples']} examples{classes}{values}{duplicates}")
        for key, values in split.get("ranges", {}).items():
            out(f"{name:8} {key} {_describe_range(values)}")
    for name in ("test", "validation"):
        out(f"shared   {report['in_train_and_' + name]} examples are in train and {name}")
    for note in report["notes"]:
        out(f"note     {note}")
    for name, digest in report["sha256"].items() if with_hashes else ():
        out(f"sha256   {digest}  {name}")
    if "sheet" in report:
        out(f"sheet    {report['sheet']}")
