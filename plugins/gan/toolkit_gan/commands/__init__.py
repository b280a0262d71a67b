"""The command `toolkit gan`; what it does is imported when it runs."""

from __future__ import annotations

import sys

import click

from toolkit import cli_options

# Further flags of `calibrate` that choose and shape the data, with their values for help texts.
_DATA_FLAGS = {
    **{"fit": "pad|crop|stretch", "background": "COLOUR"},
    **{"validation_share": "SHARE", "test_share": "SHARE", "folds": "N", "fold": "N"},
    **{"split_seed": "N", "label_column": "NAME,...", "label_kind": "auto|class|value"},
    **{"image_column": "NAME", "feature_columns": "NAME,...", "ignore_columns": "NAME,..."},
    **{"split_column": "NAME", "missing": "refuse|drop|fill", "categories": "index|one-hot"},
}


def _data_flags(command):
    """Add the flags to a command; they are arguments of their names."""
    for name, metavar in reversed(list(_DATA_FLAGS.items())):
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, metavar=metavar, help="As in run.")(command)
    return command


@click.group(cls=cli_options.HelpGroup)
def gan():
    """Tools for generative adversarial networks."""


@gan.command()
@click.option("--data", default="mnist5k", metavar="DATA", help="As in run; default: mnist5k.")
@click.option("--image-size", metavar="N|WIDTHxHEIGHT", help="As in run.")
@click.option("--channels", type=click.Choice(["1", "3"]), help="As in run.")
@_data_flags
@click.option(
    "--features",
    default="auto",
    metavar="RUN|auto|self|classifier|pixels",
    help="Source of the features, as in run: auto is a classifier if it is good, else self.",
)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
def calibrate(data, image_size, channels, features, as_json, **texts):
    """Measure the Frechet distance (FD) of real images with known damage.

    The FD compares the features of two sets of images; lower is more alike. Each line gives the FD
    of training images, damaged in one way, from the test images, and its multiple of the floor: the
    FD that two sets of real images reach by sampling noise. This ruler makes the FD of generated
    images readable.
    """
    from . import calibration

    is_square = image_size is not None and image_size.isdecimal()
    size = int(image_size) if is_square else image_size
    values = {"data": data, "features": features, "image_size": size, **texts}
    values["channels"] = None if channels is None else int(channels)
    flags = {name: value for name, value in values.items() if value is not None}
    result = calibration.calibrate(flags)
    if as_json:
        return cli_options.print_json(result)
    sys.stdout.write("".join(line + "\n" for line in calibration.report_lines(result)))
    return None


@gan.command(context_settings={"ignore_unknown_options": True})
@click.option("--dir", "folder", required=True, metavar="DIR", help="The folder of the tournament.")
@click.option("--presets", default="", metavar="A,B", help="Which presets; default: all.")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NAME",
    help="A plugin with the hook 'sample' that competes, too; flags of its own in quotes: 'vae "
    "--code 8'. Repeatable.",
)
@click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="NAME=COMMAND",
    help="A program in any language that competes, too; how it is called is in "
    "docs/tournament.md. Repeatable.",
)
@click.option(
    "--cpu-minutes",
    default="2",
    metavar="M[,M...]",
    help="CPU time of each run [default 2]; several for a table each; --steps N sets a number of "
    "steps instead.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=1, metavar="K", help="Runs of each one."
)
@click.option("--markdown", metavar="FILE", help="Write the result as a page, samples beside it.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
@click.pass_context
def tournament(
    context, folder, presets, plugins, programs, cpu_minutes, seeds, markdown, flags, as_json
):
    """Train presets, plugins and programs for equal CPU time on your data, and rank their images.

    FLAGS are those of 'toolkit search' and 'toolkit run', such as --data, --workers or --network;
    those of the GAN alone hold for the presets. Killed or interrupted, the same command continues.
    For example: toolkit gan tournament --dir runs/tournament --cpu-minutes 5 --data images:photos
    --workers 2
    """
    from . import result_page, standings, training

    page = "" if markdown is None else cli_options.resolve_output(markdown)
    has_other_budget = training.sets_budget(flags)
    plans = training.plans(folder, presets, plugins, cpu_minutes, seeds, flags, programs)
    results = []
    for plan in plans:
        training.train(context, plan)
        if "--dry-run" not in flags:
            standings.train_programs(plan)
            minutes = None if has_other_budget else plan.minutes
            results.append(result_page.Result(plan.folder, minutes, standings.rank(plan)))
    if page and results:
        own = {"dir": folder, "presets": presets, "plugin": plugins, "program": programs}
        own.update({"cpu-minutes": cpu_minutes, "seeds": seeds, "markdown": markdown})
        command = training.command_text(own, flags)
        with cli_options.writing_output(page):
            result_page.write_page(results, command, page)
    if as_json:
        return cli_options.print_json(result_page.as_json(results))
    sys.stdout.write("".join(line + "\n" for line in result_page.text_lines(results)))
    return None
