"""`toolkit launch`: several processes of one run on this machine, for a try-out."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

import click

from .. import config as configuration
from ..cli_options import verbose_option
from ..cluster.layout import Command, Layout, assign_hosts, has_flag, tf_config
from ..display.escapes import escape_line
from ..errors import ToolkitError, UsageError
from ..plugins import is_name
from ..storage.run_folder import new_path
from .help import HELP
from .plugin_command import PluginCommand, Words, name_plugin, read_words, select_named
from .plugin_options import (
    NO_SELECTION,
    FieldOption,
    Selection,
    missing_plugin_error,
    option_flags,
    option_values,
    resolve,
)

COMMANDS = ("run", "resume")
TASK_FLAGS = ("--cluster", "--task", "--channel-port")  # the launcher sets them for each process
TASK_VARIABLES = ("TF_CONFIG", "TOOLKIT_CLUSTER", "TOOLKIT_TASK", "TOOLKIT_CHANNEL_PORT")
EXAMPLE = "toolkit launch --workers 2 -- run PLUGIN"
DEFAULT_KILLS = 3


@click.command(
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    metavar="N",
    help="Processes that train, the chief included [default 2].",
)
@click.option(
    "--ps",
    type=click.IntRange(0, 64),
    default=0,
    metavar="N",
    help="Parameter servers [default 0].",
)
@click.option("--evaluator", is_flag=True, help="Add a process that evaluates the checkpoints.")
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=3,
    metavar="N",
    help="Restart the processes so often after one of them has died [default 3].",
)
@click.option("--print", "prints", is_flag=True, help="Print the command of each task; start none.")
@click.option("--hosts", metavar="A,B,...", help="For --print: one host for each task.")
@click.option(
    "--port",
    type=click.IntRange(1, 65000),
    default=2222,
    metavar="N",
    help="For --print: the port of each host [default 2222].",
)
@click.option(
    "--chaos",
    is_flag=False,
    flag_value=DEFAULT_KILLS,
    type=click.IntRange(1),
    metavar="[N]",
    help=f"Kill a random process N times, and restart [without N: {DEFAULT_KILLS}].",
)
@click.option("--chaos-seed", default=0, metavar="N", help="Seed of these kills [default 0].")
@verbose_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] run|resume ...")
def launch(
    workers: int,
    ps: int,
    evaluator: bool,
    restarts: int,
    prints: bool,
    hosts: Optional[str],
    port: int,
    chaos: Optional[int],
    chaos_seed: int,
    command: Sequence[str],
) -> int:
    """Train with several processes on this machine: each gets the same command and a task.

    All lines are in one log on stderr, with the task in front; stdout is that of the chief. After a
    death, all processes start again and continue from the last commit. Ctrl-C ends all of them with
    the state committed, a second one at once.

    For example: toolkit launch --workers 2 -- run PLUGIN
    """
    layout = Layout(workers, ps, evaluator)
    if command and command[0].startswith("-"):
        _refuse_unknown_option(command)
    _check_words(command)
    if hosts is not None and not prints:
        raise UsageError(
            "--hosts is for --print: 'launch' starts processes on this machine alone.",
            hint="Add --print for the commands to start on these hosts.",
        )
    plugin, is_unknown = _read_plugins(command)
    if not is_unknown:
        _check_command(command)
    if not plugin and command[0] == "run":
        raise missing_plugin_error()
    job = _read_command(list(command), plugin)
    if prints:
        return _print_tasks(layout, job, hosts, port)
    environment, notes = _environment(layout)
    for note in notes:
        sys.stderr.write(f"note: {escape_line(note)}\n")
    from ..cluster.chaos import Chaos
    from ..cluster.launcher import Launcher, LaunchOptions
    from ..cluster.output import MergedLog

    kills = None if chaos is None else Chaos(chaos, job.run_dir, chaos_seed)
    names = [task.name for task in layout.tasks([""] * layout.num_servers)]
    options = LaunchOptions(restarts, kills, environment)
    return Launcher(layout, job, MergedLog(names), options).run()


# ------------------------------------------------------------------------------------- the command

_HINTS = {
    "evaluate": "For an evaluator beside the training, add --evaluator, as in: "
    "toolkit launch --evaluator -- run PLUGIN",
    "toolkit": f"Leave out the word 'toolkit', as in: {EXAMPLE}",
}


def _check_words(words: Sequence[str]) -> None:
    """Refuse a command that is not for several processes."""
    if not words:
        raise UsageError("The command to launch is missing.", hint=f"As in: {EXAMPLE}")
    if words[0] not in COMMANDS:
        raise UsageError(
            f"'toolkit launch' starts 'run' and 'resume', not '{words[0]}'.",
            hint=_HINTS.get(os.path.basename(words[0]), f"As in: {EXAMPLE}"),
        )
    for flag in TASK_FLAGS:
        if has_flag(words, flag):
            raise UsageError(
                f"{flag} is in the command, but 'toolkit launch' sets the task of each process.",
                hint=f"Omit {flag}, or start each process by hand with 'toolkit {words[0]}'.",
            )
    if "--print-config" in words or any(HELP.fullmatch(word) for word in words):
        raise UsageError(
            "The command prints something and trains nothing.", hint="Run it without 'launch'."
        )
    if words[0] == "resume" and has_flag(words, "--from"):
        raise UsageError(
            "--from creates a new run, which one process alone has to do.",
            hint="Branch off with 'toolkit resume RUN --from STEP --pause-at N', then launch "
            "'resume' with the branch.",
        )
    if words[0] == "resume" and (len(words) == 1 or words[1].startswith("-")):
        raise UsageError(
            "The folder of the run is missing after 'resume'.",
            hint="As in: toolkit launch --workers 2 -- resume RUN",
        )


def _read_plugins(words: Sequence[str]) -> Tuple[str, bool]:
    """The reference of the model plugin, and whether a file names plugins that are code.

    Such code is loaded by a command that trains, if it is trusted, but not by --print-config.
    """
    if words[0] == "resume":
        named = Words({}, [])
        paths = [path for path in [os.path.join(words[1], "config.json")] if os.path.isfile(path)]
    else:
        named = _read_run(name_plugin(words[1:]))
        paths = named.all("--config")
    configs = [configuration.read(path) for path in paths]
    references = [config.plugin for config in configs if config.plugin]
    references += [os.environ["TOOLKIT_PLUGIN"]] if os.environ.get("TOOLKIT_PLUGIN") else []
    references += named.all("--plugin")
    in_files = [name for config in configs for name in [config.plugin, *config.extensions]]
    return (references or [""])[-1], not all(map(is_name, in_files))


def _check_command(words: Sequence[str]) -> None:
    """Resolve the options as the processes will, so that a mistake is said once."""
    command = _command(words[0])
    with contextlib.redirect_stderr(io.StringIO()):  # each process prints its warnings
        try:
            with command.make_context(words[0], [*words[1:], "--print-config"]) as ctx:
                flags = [p.name for p in ctx.command.params if isinstance(p, FieldOption)]
                values = option_values({n: ctx.params[n] for n in flags}, ctx.params["sets"])
                resolve(ctx.obj, values, use_environment=words[0] == "run")
        except click.NoSuchOption as error:
            if error.option_name not in _flags(launch.params):
                raise
            raise UsageError(
                f"{error.option_name} is an option of launch: write it before '{words[0]}'."
            ) from None


def _refuse_unknown_option(words: Sequence[str]) -> None:
    """Refuse an option before the command, which may be one that belongs behind it."""
    flag = words[0].partition("=")[0]
    name = next((word for word in words if word in COMMANDS), COMMANDS[0])
    if flag not in _flags([*_command(name).params, *option_flags(_selected(words).plugins)]):
        raise click.NoSuchOption(flag)
    _check_words([name, "RUN", flag])  # some are refused there, too
    raise UsageError(f"{flag} is an option of {name}: write it after '{name}'.")


def _read_run(words: Sequence[str]) -> Words:
    """Read the flags of `run` in words, all that do not depend on a plugin."""
    return read_words([*_command("run").own_params, *option_flags(None)], words)


def _command(name: str) -> PluginCommand:
    from . import run as commands

    command: PluginCommand = getattr(commands, name)
    return command


def _selected(words: Sequence[str]) -> Selection:
    """The plugins that the words name, for their options; none if they cannot be loaded."""
    with contextlib.suppress(ToolkitError):
        return select_named(_read_run(words))
    return NO_SELECTION


def _flags(params: Iterable[click.Parameter]) -> Set[str]:
    return {flag for param in params for flag in [*param.opts, *param.secondary_opts]}


def _read_command(words: List[str], plugin: str) -> Command:
    """The command, with a folder for the run, which all processes and restarts share."""
    name, *arguments = words
    has_json = "--json" in arguments
    if name == "resume":
        return Command(words, arguments[0], has_json)
    named = _read_run(name_plugin(arguments)).all("--run-dir")
    run_dir = [os.environ.get("TOOLKIT_RUN_DIR", ""), *named][-1]
    if not run_dir:
        run_dir = new_path("runs", _folder_name(plugin))
    if not has_flag(arguments, "--run-dir"):
        words = [name, "--run-dir", run_dir, *name_plugin(arguments)]
    return Command(words, run_dir, has_json)


def _folder_name(reference: str) -> str:
    """The name of the folder of a plugin's runs, without an import of the plugin."""
    name = os.path.basename(reference)
    if name.endswith(".py"):
        return name[:-3]
    module, _, attribute = name.partition("@")[0].partition(":")
    return attribute or module


# ------------------------------------------------------------------------------------- environment


def _without_tasks(variables: Mapping[str, str]) -> Dict[str, str]:
    return {name: text for name, text in variables.items() if name not in TASK_VARIABLES}


def _environment(layout: Layout) -> Tuple[Dict[str, str], List[str]]:
    """The variables of all processes, and what a user should know about them."""
    environment = _without_tasks(os.environ)
    notes = []
    names = [name for name in TASK_VARIABLES if os.environ.get(name)]
    if names:
        verb = "do" if len(names) > 1 else "does"
        notes.append(
            f"{' and '.join(names)} of the environment {verb} not apply: each process gets a task "
            "of its own."
        )
    cores = len(os.sched_getaffinity(0))
    count = layout.trainers
    if count > cores:
        notes.append(
            f"{count} processes train on {cores} core{'s' * (cores > 1)}, so that each is slower "
            "than one alone."
        )
    return environment, notes


# ------------------------------------------------------------------------------------------- print


def _print_tasks(layout: Layout, job: Command, hosts: Optional[str], port: int) -> int:
    """Print one line of shell for each task."""
    names = ["127.0.0.1"] * layout.num_servers if hosts is None else hosts.split(",")
    tasks = layout.tasks(assign_hosts(layout, names, port))
    words = " ".join(shlex.quote(word) for word in ["toolkit", *job.words])
    for task in tasks:
        host = task.address.rpartition(":")[0] or "any host that reads the folder of the run"
        text = "{}" if layout.is_alone and task.address else tf_config(tasks, task)
        sys.stdout.write(f"# {task.name}, on {host}\n")
        sys.stdout.write(f"TF_CONFIG={shlex.quote(text)} {words}\n")
    return 0
