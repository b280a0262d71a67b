"""`toolkit launch`: several processes of one run on this machine, for a try-out."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Optional, Sequence

import click

from ..cli_options import verbose_option
from ..cluster.layout import Command, Layout, has_flag, identify_folder
from ..errors import UsageError
from ..storage.run_folder import is_used, new_path
from .common import flag
from .plugin_command import PluginCommand, list_flags, name_plugin
from .plugin_options import FieldOption, missing_plugin_error, resolve

COMMANDS = ("run", "resume")
TASK_FLAGS = ("--cluster", "--task", "--channel-port")  # the launcher sets them for each process
TASK_VARIABLES = ("TF_CONFIG", "TOOLKIT_CLUSTER", "TOOLKIT_TASK", "TOOLKIT_CHANNEL_PORT")
EXAMPLE = "toolkit launch --workers 2 -- run PLUGIN"


@click.command(
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@flag(
    "--workers", "N", "Processes that train, the chief included.", click.IntRange(1, 64), default=2
)
@flag("--ps", "N", "Parameter servers.", click.IntRange(0, 64), default=0)
@flag(
    "--restarts", "N", "Restart the processes so often after a death.", click.IntRange(0), default=3
)
@flag("--chaos", "N", "Kill a random process N times, and restart.", click.IntRange(1))
@flag("--chaos-seed", "N", "Seed of these kills [default 0].", int)
@verbose_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] run|resume ...")
def launch(
    workers: int,
    ps: int,
    restarts: int,
    chaos: Optional[int],
    chaos_seed: Optional[int],
    command: Sequence[str],
) -> int:
    """Train with several processes on this machine: each gets the same command and a task.

    All lines are in one log on stderr, with the task in front; stdout is that of the chief. After a
    death, all processes start again and continue from the last commit. Ctrl-C ends all of them with
    the state committed, a second one at once.

    For example: toolkit launch --workers 2 -- run PLUGIN
    """
    if chaos is None and chaos_seed is not None:
        raise UsageError("--chaos-seed is set, but --chaos is not.", hint="Add --chaos N.")
    layout = Layout(workers, ps)
    job = _read_command(command)
    from ..cluster.chaos import Chaos
    from ..cluster.launcher import Launcher
    from ..cluster.output import MergedLog

    kills = None if chaos is None else Chaos(chaos, job.run_dir, chaos_seed or 0)
    names = [task.name for task in layout.tasks([""] * layout.num_servers)]
    variables = {n: text for n, text in os.environ.items() if n not in TASK_VARIABLES}
    return Launcher(layout, job, MergedLog(names), restarts, kills, variables).run()


# ------------------------------------------------------------------------------------- the command


def _read_command(words: Sequence[str]) -> Command:
    """Read a command as its processes will, so that a mistake is said once; return it with a folder
    for the run, which all processes and restarts share.
    """
    if not words:
        raise UsageError("The command to launch is missing.", hint=f"As in: {EXAMPLE}")
    name, *arguments = words
    if name.startswith("-"):
        raise UsageError(
            f"{name.partition('=')[0]} is no option of launch.",
            hint=f"Write an option of the command behind it, as in: {EXAMPLE} --steps 100",
        )
    if name not in COMMANDS:
        raise UsageError(
            f"'toolkit launch' starts 'run' and 'resume', not '{name}'.",
            hint=f"As in: {EXAMPLE}; to evaluate beside it: toolkit evaluate RUN --follow",
        )
    for own in TASK_FLAGS:
        if has_flag(words, own):
            raise UsageError(
                f"{own} is in the command, but 'toolkit launch' sets the task of each process.",
                hint=f"Omit {own}, or start each process by hand with 'toolkit {name}'.",
            )
    if has_flag(words, "--from"):
        raise UsageError(
            "--from creates a new run, which one process alone has to do.",
            hint="Branch off with 'toolkit resume RUN --from STEP --pause-at N', then launch "
            "'resume' with the branch.",
        )
    from . import run as commands

    parsed: PluginCommand = getattr(commands, name)
    with contextlib.redirect_stderr(io.StringIO()):  # each process prints its warnings
        try:
            with parsed.make_context(name, list(arguments)) as ctx:
                selection, params = ctx.obj, ctx.params
                flags = [p.name for p in ctx.command.params if isinstance(p, FieldOption)]
                resolve(selection, {n: params[n] for n in flags}, use_environment=name == "run")
        except click.NoSuchOption as error:
            if error.option_name not in list_flags(launch.params):
                raise
            raise UsageError(
                f"{error.option_name} is an option of launch: write it before '{name}'."
            ) from None
    if selection.plugins is None:
        raise missing_plugin_error()
    if name == "resume":
        return Command(list(words), params["run_folder"])
    run_dir = commands.read_run_dir(params["run_dir"], params["is_resume"], params["force"])
    run_dir = run_dir or new_path("runs", selection.plugins.model.name)
    named = words
    if not params["run_dir"]:
        named = [name, "--run-dir", run_dir, *name_plugin(arguments)]
    is_replaced = params["force"] and is_used(run_dir)
    return Command(list(named), run_dir, identify_folder(run_dir) if is_replaced else None)
