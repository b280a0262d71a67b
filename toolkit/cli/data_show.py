"""`toolkit data show`: a sheet of examples, and of what augmentation does to them."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping, Optional, Tuple

import click

from .. import options as typed
from ..cli_options import json_option, print_json, resolve_output, verbose_option, writing_output
from ..errors import UsageError
from ..plugins import Plugins, choose, load
from .help import ShortCommand
from .plugin_options import FieldOption

_OF_TRAINING = ("data", "normalize", "reader", "resident_limit", "shuffle_buffer", "batch_size")


def data_flags(*more: str) -> List[FieldOption]:
    """Return a flag for each option that says how data is read, and for these further options."""
    return [
        FieldOption(field)
        for field in typed.describe(typed.CoreOptions)
        if field.name in more or (field.group == "Data" and field.name not in _OF_TRAINING)
    ]


def given(flags: Mapping[str, Optional[str]]) -> Dict[str, str]:
    """Return the texts of the flags that the command line has."""
    return {name: text for name, text in flags.items() if text is not None}


@click.command(cls=ShortCommand)
@click.argument("value", metavar="[DATA]", default="mnist5k")
@click.option(
    "-o",
    "--out",
    default="examples.png",
    metavar="FILE.png",
    help="The sheet to write, which is overwritten; default: examples.png.",
)
@click.option("--plugin", metavar="NAME", help="Show what 'run' does with this plugin by default.")
@click.option("--examples", type=click.IntRange(1, 100), default=8, metavar="N", help="Rows.")
@click.option(
    "--versions",
    type=click.IntRange(1, 100),
    default=4,
    metavar="N",
    help="Versions of each example with all changes.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=1, metavar="N", help="As in run."
)
@json_option
@verbose_option
def show(
    value: str,
    out: str,
    plugin: Optional[str],
    examples: int,
    versions: int,
    seed: int,
    as_json: bool,
    **flags: Optional[str],
) -> None:
    """Write a picture of training examples.

    With --plugin, --augment or a strength, each row has an example, versions with one change each,
    and versions with all changes, as the steps of a training see them. Below each is what was
    applied.
    """
    if not out.lower().endswith(".png"):
        raise UsageError(f"{out}: the sheet ends in .png.")
    path = resolve_output(out)
    options, dataset = _open(plugin, dict(given(flags), data=value, seed=seed))
    facts = _write(options, dataset, path, out, examples, versions)
    if as_json:
        return print_json(facts)
    changes = ", ".join(f"{name} {value:g}" for name, value in facts["strengths"].items())
    sys.stdout.write(f"{facts['examples']} examples of {value}; changes: {changes or 'none'}\n")
    sys.stdout.write(f"sheet    {out}\n")
    return None


def _open(plugin: Optional[str], values: Dict[str, Any]) -> Tuple[typed.CoreOptions, Any]:
    """The options of a run of the plugin, and the data set; without a plugin, nothing changes
    images but what is set.
    """
    from ..preset_choice import choose_presets
    from ..run_data import open_from_options, open_run_data

    if plugin is None:
        classes = [("augmentation", typed.AugmentationOptions)]
        options = typed.resolve(classes, flags={"augment": "none", **values}).options
        return options, open_from_options(options)

    choose(plugin)
    plugins = Plugins(load(plugin))
    if not any(issubclass(cls, typed.AugmentationOptions) for _, cls in plugins.options()):
        raise UsageError(
            f"Plugin '{plugin}' has no options that change training images.", hint="Omit --plugin."
        )
    resolved = typed.resolve(plugins.options(), flags=values)
    data = open_run_data(plugins, resolved.options, origins=resolved.origins)
    resolved = choose_presets(resolved, data)
    for note in resolved.notes:
        sys.stderr.write(f"note: {note}\n")
    return resolved.options, data.dataset


def _write(
    options: typed.CoreOptions, dataset: Any, path: str, out: str, count: int, versions: int
) -> Dict[str, Any]:
    """Write the sheet, and return what is on it."""
    import numpy as np

    from ..data.check import check_is_images

    check_is_images(dataset, "They cannot be shown as a sheet.")
    split = dataset.splits["train"]
    positions = np.unique(np.linspace(0, len(split) - 1, count).astype(int))
    images = split.take(positions)[0]
    captions = [""] * len(images)
    if split.class_labels is not None:
        names, labels = dataset.spec.class_names, split.class_labels[positions]
        captions = [str(names[label]) for label in labels]
    from ..augmentation.sheet import active_strengths, save_sheet

    assert isinstance(options, typed.AugmentationOptions)
    with writing_output(out):
        save_sheet(path, images, captions, options, versions)
    strengths = dict(active_strengths(options))
    return {"data": dataset.name, "examples": len(images), "strengths": strengths, "sheet": out}


# Of augmentation, nothing is on unless a flag says so.
_changes = [field._replace(default=None) for field in typed.describe(typed.AugmentationOptions)]
show.params.extend([*data_flags(), *(FieldOption(field) for field in _changes)])
