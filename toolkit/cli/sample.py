"""`toolkit sample`: draw samples from a trained model, for any plugin with the hook `sample`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

import click

from .. import cli_options as shared
from ..errors import UsageError
from ..inference.sample_options import sample_options_class
from ..plugins import UntrustedCode
from ..storage.own_folders import is_run
from ..storage.run_folder import open_run
from .common import flag, model_flags, print_result
from .help import OWN
from .plugin_command import PluginCommand, Words, find_run, select_from_run
from .plugin_options import NO_SELECTION, Selection, class_flags

if TYPE_CHECKING:
    from ..inference.sampling import SamplePlan


def _select(words: Words) -> Selection:
    path = find_run(words)
    if not is_run(path) and not any(word.startswith("-") for word in words.rest):
        return NO_SELECTION  # the command says so, after it has checked the output
    try:
        return select_from_run(open_run(path))
    except UsageError as error:
        if not words.all("--help"):
            raise
        way = " With --trust, the help has its settings." * isinstance(error, UntrustedCode)
        shared.warn(f"{error.message}{way}")
        return NO_SELECTION


@click.command(
    cls=PluginCommand,
    select=_select,
    # The settings that the run's plugin declares are flags of the command.
    plugin_flags=lambda plugins: []
    if plugins is None
    else class_flags(sample_options_class(plugins), {}, OWN),
)
@click.argument("run_folder", metavar="RUN")
@flag(
    "-n --count",
    "N",
    "Number of samples; default: 64, with classes in rows of one class each.",
    click.IntRange(1, 1000000),  # six digits name so many files
)
@flag(
    "--seed", "S", "The same seed gives the same samples.", click.IntRange(0, 2**32 - 1), default=0
)
@flag(
    "-o --out --output out",  # `toolkit predict` calls it --output
    "DIR|FILE",
    "A new or empty folder for PNGs, a .npz file for arrays, or a .png file for a grid of all;"
    " a file is overwritten. Default: RUN/samples/seed-S-step-K.png.",
)
@flag("--class class_", "K", "Only this class, by its name or number.")
@shared.checkpoint_option
@model_flags
def sample(
    run_folder: str,
    count: Optional[int],
    seed: int,
    out: Optional[str],
    class_: Optional[str],
    checkpoint: Optional[str],
    as_json: bool,
    **flags: Any,
) -> None:
    """Draw samples from a trained model.

    The model's plugin may add settings: 'toolkit sample RUN --help' shows them.
    """
    from ..api import open_trained
    from . import sample_files

    kind = sample_files.kind_of(out, count)
    path = None if out is None else shared.resolve_output(out, kind == sample_files.FOLDER)
    settings = {name: value for name, value in flags.items() if value is not None}
    with open_trained(run_folder, checkpoint, shared.warn) as model:
        sampler = model.sampler()
        options = model.sample_settings(settings, are_flags=True)
        plan = sampler.plan(count, seed, class_, options, in_rows=kind == sample_files.GRID)
        name = file_name(plan, count, model.step)
        out = out or os.path.join(run_folder, "samples", name)
        parts, noun = sample_files.check_kind(sampler.draw(plan.request), kind)
        with shared.writing_output(out):
            if path is None:  # a link to another folder is refused
                path = os.path.join(model.run_folder.make_subfolder("samples"), name)
            sample_files.write(kind, path, parts, plan)
        summary = {
            "count": plan.request.count,
            "seed": plan.request.seed,
            "label": plan.label,
            **plan.request.options.model_dump(),
            "plugin": model.plugin,
            "step": model.step,
            "sha256": model.sha256,
        }
    text = "{}  {count} {} of step {step}, seed {seed}".format(out, noun, **summary)
    print_result(as_json, {"run": run_folder, "out": out, **summary}, [text])


def file_name(plan: SamplePlan, count: Optional[int], step: int) -> str:
    """A file name that is different for each request: seed-0-step-500-class-3.png; `count` is the
    number of samples that the user set.
    """
    words = [f"seed-{plan.request.seed}-step-{step}"]
    words += [f"n-{count}"] * (count is not None)
    words += [f"class-{plan.label}"] * (plan.label is not None)
    return "-".join(words + plan.request.options.file_words()) + ".png"
