"""The command `toolkit adopt`, and what `toolkit resume` does with its runs."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Optional, Sequence

import click
from click.core import ParameterSource

from toolkit import UsageError, cli_options

from . import refuse_cluster

MB = 1_000_000
_NOT_LIFTED = ("threads", "journal_limit")  # flags that the loop of steps does not know
_PLUGIN = """\
# The model function `{function}` of {module} as a plugin of the toolkit. ModelFn takes params=,
# feature= (the name of the features in a dict), one_hot= and flat=.
from toolkit_adopt import standins
from toolkit_adopt.lift.model_fn import ModelFn

with standins.installed():  # where `import tensorflow` gives version 1
    from {module} import {function}

plugin = ModelFn({function})
"""


def _number(name: str, text: str, default: Optional[int] = None, least: int = 1) -> Any:
    """An option that takes a whole number."""
    shown = "" if default is None else f" [default {default}]"
    return click.option(
        name, type=click.IntRange(least), default=default, metavar="N", help=f"{text}{shown}."
    )


class _Adopt(click.Command):
    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            way = f"One of the script comes after --: toolkit adopt SCRIPT -- {error.option_name}"
            raise click.UsageError(f"{error.format_message()}\n{way}", ctx) from None


@click.command("adopt", cls=_Adopt, short_help="Train an untouched TensorFlow 1 script.")
@click.argument("script", metavar="[SCRIPT]", required=False)
@click.argument("args", nargs=-1, metavar="[-- ARGS]")
@click.option("--run-dir", metavar="DIR", help="The run's folder [default runs/adopt/TIME].")
@click.option("--force", is_flag=True, help="Rename a run folder that is not empty.")
@_number("--steps", "End after N train calls")
@_number("--commit-steps", "Train calls per commit", 100)
@_number("--log-steps", "Train calls per record", 10)
@click.option("--seed", type=int, default=0, metavar="N", help="Of all noise [default 0].")
@_number("--threads", "Threads; 0: one per core", 1, least=0)
@_number("--keep-checkpoints", "Checkpoints to keep", 3)
@_number("--journal-limit", "MB of the journal", 1000)
@click.option(
    "--init-from",
    metavar="PATH",
    help="Begin with these weights: RUN, RUN@STEP, a checkpoint or a SavedModel.",
)
@click.option(
    "--map", "renames", metavar="OLD=NEW,...", help="Rename OLD (or a scope/) of --init-from."
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "drive", "lift"]),
    metavar="auto|drive|lift",
    default="auto",
    help="drive: the script makes its calls; lift: its graph trains in a loop, on --data; auto: "
    "lift if --data is given [default auto].",
)
@click.option("--data", metavar="DATA", help="What to lift it to, as for 'toolkit run'.")
@click.option(
    "--model-fn",
    metavar="MODULE:FUNCTION",
    help="Train an Estimator's model_fn; ARGS are those of 'toolkit run'.",
)
@click.option("--dry-run", is_flag=True, help="Run two periods, print what it does, and stop.")
@cli_options.json_option
@cli_options.verbose_option
@click.pass_context
def adopt(
    ctx: click.Context,
    script: Optional[str],
    args: Sequence[str],
    mode: str,
    data: Optional[str],
    model_fn: Optional[str],
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train an untouched TensorFlow 1 script. Its calls of sessions are journaled: 'toolkit resume'
    runs it again, answers its calls from the journal up to the last commit, and goes on exactly.
    """
    _refuse_flags(script or "", mode, data, model_fn, dry_run)
    is_driven = dry_run or not (model_fn or data)
    words = [] if is_driven else _list_flags(ctx)  # which refuses before anything is written or run
    if model_fn:
        words = ["run", "--plugin", write_plugin(model_fn), *words]
        return _go_on(ctx, [*words, *([script] if script else []), *args])
    path = os.path.abspath(script or "")
    hash_seed = os.environ.get("PYTHONHASHSEED", "0")
    if os.environ.get("PYTHONHASHSEED") != hash_seed:  # the order of sets of texts depends on it
        _begin_again(ctx, ctx.find_root().obj, PYTHONHASHSEED=hash_seed)
    from toolkit import DrivenRun  # imports TensorFlow, which takes seconds

    from .dry_run import lift, print_table
    from .names import refuse_missing_names

    refuse_missing_names(path)
    run_dir, force, renames = map(flags.pop, ("run_dir", "force", "renames"))
    settings = {
        **flags,
        "script": path,
        "hash_seed": hash_seed,
        "args": list(args),
        "directory": os.getcwd(),
        "journal_limit": flags["journal_limit"] * MB,
        "init_from": flags["init_from"] and os.path.abspath(flags["init_from"]),
        "map": renames.split(",") if renames else [],
    }
    if dry_run:
        return print_table(settings)
    if data:
        return _go_on(ctx, ["run", "lift", *lift(settings), *words])
    run = DrivenRun.begin("adopt", settings, run_dir, force)
    run.require_trust(path, is_chosen=True)
    return _train(run, ctx, as_json)


@click.command("resume")
@click.argument("run_folder", metavar="RUN")
@_number("--steps", "End after N train calls")
@_number("--pause-at", "Stop there, to continue another time")
@_number("--journal-limit", "MB of the journal, in place of the run's")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["script"]),
    metavar="script",
    help="Continue with a script that has changed.",
)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
@click.pass_context
def resume(
    ctx: click.Context,
    run_folder: str,
    steps: Optional[int],
    pause_at: Optional[int],
    journal_limit: Optional[int],
    allow: Sequence[str],
    as_json: bool,
) -> int:
    """Continue a run of 'toolkit adopt' from its last intact checkpoint."""
    from toolkit import DrivenRun

    refuse_cluster()
    run = DrivenRun.reopen(run_folder)
    hash_seed = run.settings.get("hash_seed", "random")
    if os.environ.get("PYTHONHASHSEED", "random") != hash_seed:
        _begin_again(ctx, ctx.find_root().obj, PYTHONHASHSEED=hash_seed)
    if steps is not None:
        run.settings["steps"] = steps
    if journal_limit is not None:
        run.settings["journal_limit"] = journal_limit * MB
    if run.is_finished and (steps is None or steps <= run.last_step):
        sys.stderr.write(f"Nothing left to do: {run} is finished.\n")
        return 0
    return _train(run, ctx, as_json, allow, pause_at or 0)


def _refuse_flags(script: str, mode: str, data: Any, model_fn: Any, dry_run: bool) -> None:
    """Refuse what is no script, and options that contradict each other."""
    if mode == "drive" and data:
        raise UsageError("A driven script reads its own data, and --data is set.", hint="Omit it.")
    if model_fn:
        if dry_run or mode == "drive":
            what = "A dry run is one of a script" if dry_run else "A script is driven"
            raise UsageError(f"{what}, and --model-fn names none.")
        return
    if not os.path.isfile(script):
        there = f"There is no script {script}." if script else "No script is named."
        raise UsageError(there, hint=cli_options.suggest_path(script) or "Name a Python file.")
    if script.endswith(".meta"):
        hint = f"toolkit run lift --meta {script} --train-op NAME --data DATA"
        raise UsageError(f"{script} is a graph, no script.", hint=hint)
    if mode == "lift" and not data:
        raise UsageError(
            "A lifted script takes its batches from --data, which is not set.",
            hint=f"toolkit adopt {script} --dry-run shows what it is fed.",
        )
    refuse_cluster()


def _begin_again(ctx: click.Context, words: Sequence[str], **variables: str) -> None:
    """Replace this process by a command, unless it does more than its own."""
    program = sys.argv[0]
    starts = {"toolkit": [program], "__main__.py": ["-m", "toolkit"]}
    start = starts.get(os.path.basename(program))
    if start is not None and sys.argv[1:] == ctx.find_root().obj:
        sys.stdout.flush()
        sys.stderr.flush()
        command = [sys.executable, *start, *words]
        os.execve(sys.executable, command, {**os.environ, **variables})


def _go_on(ctx: click.Context, words: List[str]) -> int:
    """Go on as another command: as a process without what the script did to this one."""
    _begin_again(ctx, words)
    app: Any = ctx.find_root().command
    return int(app.main(args=words, prog_name="toolkit", standalone_mode=False, obj=words) or 0)


def _list_flags(ctx: click.Context) -> List[str]:
    """The words of `toolkit run` for the flags that were given. Raises UsageError for others."""
    names = {"commit_steps": "checkpoint_steps", "renames": "map", "as_json": "json"}
    known = ("run_dir", "steps", "log_steps", "seed", "keep_checkpoints", "init_from", "data")
    words = []
    for name in (*known, "force", *names, *_NOT_LIFTED):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag, value = "--" + names.get(name, name).replace("_", "-"), ctx.params[name]
            if name in _NOT_LIFTED:
                raise UsageError(
                    f"{flag} is for scripts that are driven, and the loop of steps has none.",
                    hint="Omit it, or drive the script (without --data and --mode lift).",
                )
            words += [flag] if value is True else [flag, str(value)]
    return words


def write_plugin(reference: str) -> str:
    """Write the plugin of a model function into the working directory, unless its file is there.

    The reference is MODULE:FUNCTION of a module of the working directory; returned is what
    `--plugin` takes. Raises UsageError if there is no such module, or its plugin is of another
    function.
    """
    module, _, function = reference.partition(":")
    module = module[: -len(".py")] if module.endswith(".py") else module
    if not function.isidentifier() or not all(map(str.isidentifier, module.split("."))):
        raise UsageError(
            f"--model-fn {reference} names no function of a module of the working directory.",
            hint="Write --model-fn my_model:model_fn, in the folder of my_model.py.",
        )
    path = module.replace(".", os.sep)
    if not os.path.isfile(path + ".py"):
        raise UsageError(f"--model-fn {reference}: there is no file {path}.py.")
    name = module.rpartition(".")[2] + "_plugin"
    if os.path.exists(name + ".py"):
        with open(name + ".py", encoding="utf-8") as file:
            if f"ModelFn({function}" not in file.read():
                raise UsageError(
                    f"{name}.py is there, and is no plugin of {function}.",
                    hint=f"Rename it; it is trained by: toolkit run --plugin {name}:plugin",
                )
    else:
        with open(name + ".py", "w", encoding="utf-8") as file:
            file.write(_PLUGIN.format(module=module, function=function))
    return f"{name}:plugin"


def _train(run: Any, ctx: click.Context, as_json: bool, *options: Any) -> int:
    from .drive import train

    argv: List[str] = ["toolkit", *(ctx.find_root().obj or [])]
    train(run, argv, cli_options.print_json if as_json else lambda summary: None, *options)
    return 0
