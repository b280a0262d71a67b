"""`toolkit data`: list sources, check data, show examples and what augmentation does to them."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import click

from .. import options as typed
from ..cli_options import HelpGroup, json_option, resolve_output, writing_output
from ..display.numbers import format_count
from ..errors import UsageError
from .common import flag, output_flags, print_result
from .help import ShortCommand
from .plugin_command import refuse_two_values
from .plugin_options import FieldOption

_MAX_CLASSES = 100  # whose examples a report counts
_VERSIONS = 4  # of each example with all changes, on a sheet
_OF_TRAINING = ("data", "normalize", "reader", "resident_limit", "shuffle_buffer", "batch_size")


def data_flags(*more: str) -> List[FieldOption]:
    """Return a flag for each option that says how data is read, and for these further options."""
    return [
        FieldOption(field)
        for field in typed.describe(typed.CoreOptions)
        if field.name in more or (field.group == "Data" and field.name not in _OF_TRAINING)
    ]


class DataCommand(ShortCommand):
    """A command with flags of `run`, which refuses two values of one, as `run` does."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        refuse_two_values(self, ctx, args)
        return super().parse_args(ctx, args)


@click.group(cls=HelpGroup)
def data() -> None:
    """List data sources, check data, and show examples."""


@data.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the sources that --data can name."""
    from ..data.sources import list_sources

    rows = list_sources()
    print_result(as_json, rows, [(row["value"], row["what"]) for row in rows], width=15)


@data.command(cls=DataCommand)
@click.argument("value", metavar="DATA")
@json_option
def check(value: str, as_json: bool, **flags: Optional[str]) -> int:
    """Read all examples and report on them.

    The report has counts, shapes, ranges, classes, damaged files, and duplicates within and across
    splits. The exit code is 4 if data is damaged. 'toolkit data show DATA' writes a picture of it.
    """
    from ..data.check import check_source
    from ..data.reading_options import reading_settings

    given = {name: text for name, text in flags.items() if text is not None}
    options = typed.resolve([], flags=dict(given, data=value)).options
    report, _ = check_source(options.data, **reading_settings(options))
    print_result(as_json, report, _describe(report), width=9)
    return 0 if report["ok"] else 4


def _describe(report: Dict[str, Any]) -> Iterator[Union[str, Tuple[str, str]]]:
    def describe_range(values: Dict[str, Any]) -> str:
        return f"{values['min']:g} to {values['max']:g}, mean {values['mean']:g}"

    yield "data", report["data"]
    for fault in report["corrupt"]:
        yield "corrupt", f"{fault['file']}: {fault['reason']}"
    if not report["ok"]:
        return
    if "components" not in report:
        yield "shape", f"{'x'.join(map(str, report['shape']))} {report['dtype']}"
    for key, text in report.get("components", {}).items():
        yield f"{key}  {text}"
    for name, split in report["splits"].items():
        counts = [f"{each} {n}" for each, n in (split.get("class_counts") or {}).items()]
        if len(counts) > _MAX_CLASSES:
            counts[_MAX_CLASSES:] = [f"... ({len(counts) - _MAX_CLASSES:,} more classes)"]
        classes = f"; class: {', '.join(counts)}" if counts else ""
        values = f"; values {describe_range(split)}" if "min" in split else ""
        duplicates = f"; {format_count(split['duplicates'], 'duplicate')}"
        yield name, f"{format_count(split['examples'], 'example')}{classes}{values}{duplicates}"
        if split.get("contradicting"):
            yield name, f"{split['contradicting']} examples also occur with another class"
        for key, values in split.get("ranges", {}).items():
            yield name, f"{key} {describe_range(values)}"
    for name in ("test", "validation"):
        yield "shared", f"{report['in_train_and_' + name]} examples are in train and {name}"
    for note in report["notes"]:
        yield "note", note


# --------------------------------------------------------------------------------------- show


@data.command(cls=DataCommand)
@click.argument("value", metavar="[DATA]", default="mnist5k")
@flag("-o --out", "FILE.png", "The sheet to write, which is overwritten.", default="examples.png")
@flag("--examples", "N", "Rows.", click.IntRange(1, 100), default=8)
@output_flags
def show(value: str, out: str, examples: int, as_json: bool, **more: Optional[str]) -> None:
    """Write a picture of training examples.

    With --augment or a strength, each row has an example, versions with one change each,
    and versions with all changes, as the steps of a training see them. Below each is what was
    applied.
    """
    if not out.lower().endswith(".png"):
        raise UsageError(f"{out}: the sheet ends in .png.")
    path = resolve_output(out)
    given = {name: text for name, text in more.items() if text is not None}
    options, dataset = _open(dict(given, data=value))
    import numpy as np

    from ..augmentation.sheet import active_strengths, save_sheet
    from ..data.check import check_is_images

    check_is_images(dataset, "They cannot be shown as a sheet.")
    split = dataset.splits["train"]
    positions = np.unique(np.linspace(0, len(split) - 1, examples).astype(int))
    images = split.take(positions)[0]
    captions = [""] * len(images)
    if split.class_labels is not None:
        labels = split.class_labels[positions]
        captions = [str(dataset.spec.class_names[label]) for label in labels]
    assert isinstance(options, typed.AugmentationOptions)
    with writing_output(out):
        save_sheet(path, images, captions, options, _VERSIONS)
    strengths = dict(active_strengths(options))
    changes = ", ".join(f"{name} {strength:g}" for name, strength in strengths.items())
    facts = {"data": dataset.name, "examples": len(images), "strengths": strengths, "sheet": out}
    count = f"{format_count(len(images), 'example')} of {value}; changes: {changes or 'none'}"
    print_result(as_json, facts, [count, f"sheet    {out}"])


check.params.extend(data_flags("rehash"))
# Of augmentation, nothing is on unless a flag says so.
_changes = [field._replace(default=None) for field in typed.describe(typed.AugmentationOptions)]
show.params.extend([*data_flags(), *(FieldOption(field) for field in _changes)])


def _open(values: Dict[str, Any]) -> Tuple[typed.CoreOptions, Any]:
    """The options of a run, and the data set; nothing changes images but what is set."""
    from ..run_data import open_from_options

    classes = [("augmentation", typed.AugmentationOptions)]
    values = {"augment": "none", **values}
    resolved = typed.resolve(classes, flags=values)
    dataset = open_from_options(resolved.options)
    if resolved.open_presets:  # auto
        split = dataset.splits["train"]
        name, reason = typed.AugmentationOptions.choose_preset(dataset.spec, len(split))
        sys.stderr.write(f"note: augment {name}, because {reason}\n")
        resolved = typed.resolve(classes, flags={**values, "augment": name})
    for note in resolved.notes:
        sys.stderr.write(f"note: {note}\n")
    return resolved.options, dataset
