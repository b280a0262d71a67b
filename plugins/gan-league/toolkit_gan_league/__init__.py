"""The command `toolkit gan-league`; what it does is imported when it runs."""

from __future__ import annotations

import os
import sys

import click

from toolkit import cli_options


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--dir", "folder", required=True, metavar="DIR", help="The folder of the league.")
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
    "the README of toolkit-gan-league. Repeatable.",
)
@click.option(
    "--cpu-minutes",
    type=float,
    default=2.0,
    metavar="M",
    help="CPU time of each run [default 2]; --steps N sets a number of steps instead.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=1, metavar="K", help="Runs of each one."
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
@click.pass_context
def gan_league(context, folder, presets, plugins, programs, cpu_minutes, seeds, flags, as_json):
    """Train presets, plugins and programs for equal CPU time on your data, and rank their images.

    FLAGS hold for all; they are those of 'toolkit search' and 'toolkit run', such as --data or
    --workers. Killed or interrupted, the same command continues. For example: toolkit gan-league
    --dir runs/league --cpu-minutes 5 --data images:photos --workers 2
    """
    from . import result_page, standings, training

    plan = training.plan(
        os.path.abspath(folder), presets, plugins, cpu_minutes, seeds, flags, programs
    )
    training.train(context, plan)
    if "--dry-run" in flags:
        return cli_options.print_json({}) if as_json else None
    entrants = standings.rank(plan)
    if as_json:
        return cli_options.print_json(standings.as_json(plan, entrants))
    lines = [*result_page.table_lines(entrants), *standings.list_remarks(entrants)]
    sys.stdout.write("".join(line + "\n" for line in lines))
    return None
