"""The command `toolkit adopt`, and what `toolkit resume` does with its runs."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any, Dict, List, Optional, Sequence

import click
from click.core import ParameterSource

from toolkit import UsageError, cli_options

from .model_fn_file import write_plugin

MB = 1_000_000


def _number(name: str, text: str, default: Optional[int] = None, least: int = 1) -> Any:
    """An option that takes a whole number."""
    shown = "" if default is None else f" [default {default}]"
    return click.option(
        name, type=click.IntRange(least), default=default, metavar="N", help=f"{text}{shown}."
    )


@click.command("adopt", short_help="Train an untouched TensorFlow 1 script.")
@click.argument("script", metavar="[SCRIPT]", required=False)
@click.argument("args", nargs=-1, metavar="[-- ARGS]")
@click.option("--run-dir", metavar="DIR", help="The run's folder [default runs/adopt/TIME].")
@click.option("--force", is_flag=True, help="Rename a run folder that is not empty.")
@_number("--steps", "End after N train calls")
@_number("--commit-steps", "Train calls per commit", 100)
@_number("--log-steps", "Train calls per record", 10)
@click.option("--seed", type=int, default=0, metavar="N", help="Of all noise [default 0].")
@_number("--threads", "Threads of TensorFlow; 0: one for each core", 1, least=0)
@_number("--keep-checkpoints", "Checkpoints to keep", 3)
@_number("--journal-limit", "MB that the journal may take", 1000)
@click.option(
    "--init-from",
    metavar="PATH",
    help="Begin with the weights of a run, RUN@STEP, a checkpoint or a SavedModel.",
)
@click.option(
    "--map",
    "renames",
    metavar="OLD=NEW,...",
    help="Take variable (or scope/) OLD of --init-from as NEW.",
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "drive", "lift"]),
    metavar="auto|drive|lift",
    default="auto",
    help="drive: the script makes each call; lift: its graph trains in the loop of steps, on "
    "--data; auto: lift if --data is given and its feeds are understood [default auto].",
)
@click.option("--data", metavar="DATA", help="What to lift it to, as 'toolkit run' takes it.")
@click.option(
    "--model-fn",
    metavar="MODULE:FUNCTION",
    help="In place of SCRIPT, the model_fn of an Estimator; ARGS are those of 'toolkit run'.",
)
@click.option(
    "--meta",
    metavar="FILE.meta",
    help="In place of SCRIPT, a graph; ARGS are those of 'toolkit run lift', such as --train-op.",
)
@click.option("--dry-run", is_flag=True, help="Run two periods, print what it does, and stop.")
@cli_options.json_option
@cli_options.verbose_option
@click.pass_context
def adopt(
    ctx: click.Context,
    script: Optional[str],
    args: Sequence[str],
    run_dir: Optional[str],
    force: bool,
    journal_limit: int,
    init_from: Optional[str],
    renames: Optional[str],
    mode: str,
    data: Optional[str],
    model_fn: Optional[str],
    meta: Optional[str],
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train an untouched TensorFlow 1 script, so that 'toolkit resume' continues it exactly.

    Its calls of sessions are observed and journaled; a resume runs it again from its first line,
    answers the calls from the journal up to the last commit, and goes on from there.
    """
    _refuse_flags(script or "", mode, data, model_fn, meta, dry_run)
    if model_fn or meta or mode == "lift" and not dry_run:
        _refuse_flags_of_drive(ctx)
    if model_fn or meta:
        words = ["lift", "--meta", meta] if meta else ["--plugin", write_plugin(model_fn or "")]
        return _go_on(ctx, ["run", *words, *_list_flags(ctx), *([script] if script else []), *args])
    path = os.path.abspath(script or "")
    hash_seed = os.environ.get("PYTHONHASHSEED", "0")
    _pin_hashes(hash_seed, ctx)
    from toolkit import DrivenRun  # imports TensorFlow, which takes seconds

    from .names import refuse_missing_names

    refuse_missing_names(path)
    settings = {
        "script": path,
        "hash_seed": hash_seed,
        "args": list(args),
        "directory": os.getcwd(),
        "journal_limit": journal_limit * MB,
        "init_from": init_from and os.path.abspath(init_from),
        "map": renames.split(",") if renames else [],
        **flags,
    }
    if dry_run:
        from .dry_run import print_table

        return print_table(settings)
    if mode == "lift" or mode == "auto" and data:
        words = _lift(settings, mode)
        if words:
            _refuse_flags_of_drive(ctx)
            return _go_on(ctx, ["run", "lift", *words, *_list_flags(ctx)])
        return _go_on(ctx, _without_data(ctx.find_root().obj))
    return _train(DrivenRun.begin("adopt", settings, run_dir, force), ctx, as_json, ())


@click.command("resume")
@click.argument("run_folder", metavar="RUN")
@_number("--steps", "End after N train calls")
@_number("--pause-at", "Stop there, to continue another time")
@click.option(
    "--allow", multiple=True, metavar="script", help="Continue with a script that has changed."
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
    allow: Sequence[str],
    as_json: bool,
) -> int:
    """Continue a run of 'toolkit adopt' from its last intact checkpoint."""
    from toolkit import DrivenRun

    run = DrivenRun.reopen(run_folder)
    _pin_hashes(run.settings.get("hash_seed", "random"), ctx)
    if steps is not None:
        run.settings["steps"] = steps
    if run.is_finished and (steps is None or steps <= run.last_step):
        sys.stderr.write(f"Nothing left to do: {run} is finished.\n")
        return 0
    return _train(run, ctx, as_json, allow, pause_at)


def _refuse_flags(
    script: str, mode: str, data: Any, model_fn: Any, meta: Any, dry_run: bool
) -> None:
    """Refuse what is no script, and options that contradict each other."""
    if model_fn and meta:
        raise UsageError("Both --model-fn and --meta are set.", hint="Set one of them.")
    if mode == "drive" and data:
        raise UsageError("A driven script reads its own data, and --data is set.", hint="Omit it.")
    if model_fn or meta:
        if dry_run:
            raise UsageError("A dry run is one of a script, and --model-fn and --meta name none.")
        return
    if not os.path.isfile(script):
        there = f"There is no script {script}." if script else "No script is named."
        raise UsageError(there, hint=cli_options.suggest_path(script) or "Name a Python file.")
    if script.endswith(".meta"):
        raise UsageError(f"{script} is a graph, no script.", hint=f"toolkit adopt --meta {script}")
    if mode == "lift" and not data:
        raise UsageError(
            "A lifted script takes its batches from --data, which is not set.",
            hint=f"toolkit adopt {script} --dry-run shows what it is fed.",
        )
    if os.environ.get("TF_CONFIG"):
        raise UsageError(
            "TF_CONFIG is set: the script would train in several processes, and a run is one.",
            hint="Unset it.",
        )


def _refuse_flags_of_drive(ctx: click.Context) -> None:
    """Refuse what the loop of steps, which trains what is lifted, does not know."""
    names = {"threads": "--threads", "journal_limit": "--journal-limit"}
    for name, flag in names.items():
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            what = f"{flag} is for scripts that are driven, and is not known to the loop of steps."
            raise UsageError(
                what, hint="Omit it, or drive the script (--mode drive, without --data)."
            )


def _pin_hashes(seed: str, ctx: click.Context) -> None:
    """Begin this process again with a PYTHONHASHSEED, on which the order of sets of texts depends.

    In a process that does more than this command, the order stays as it is.
    """
    if os.environ.get("PYTHONHASHSEED", "random") != seed:
        _begin_again(ctx, ctx.find_root().obj, PYTHONHASHSEED=seed)


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
    """The words of `toolkit run` for the flags that were given."""
    names = {"commit_steps": "checkpoint_steps", "renames": "map", "as_json": "json"}
    known = ("run_dir", "steps", "log_steps", "seed", "keep_checkpoints", "init_from", "data")
    words = []
    for name in (*known, "force", *names):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = ctx.params[name]
            words.append("--" + names.get(name, name).replace("_", "-"))
            words += [] if value is True else [str(value)]
    return words


def _without_data(words: Sequence[str]) -> List[str]:
    """The words of the command without `--data`, with which it drives."""
    place = next(i for i, word in enumerate(words) if word.partition("=")[0] == "--data")
    return [*words[:place], *words[place + (1 if "=" in words[place] else 2) :]]


def _lift(settings: Dict[str, Any], mode: str) -> List[str]:
    """Write the graph of a script; return the words for `toolkit run lift`, [] if it is driven."""
    from .dry_run import observe
    from .lifting import list_words, write_graph

    seen = observe(settings, as_written=True)
    if seen.refusal is not None:
        raise seen.refusal
    try:
        words = list_words(seen)
    except UsageError as error:
        if mode == "lift":
            error.hint = "Drive it (--mode drive), or write the rules: toolkit adopt --meta."
            raise
        files = f" Two periods have written {', '.join(seen.files[:4])}." if seen.files else ""
        sys.stderr.write(f"note   driven, not lifted: {error.message}{files}\n")
        return []
    name = os.path.splitext(os.path.basename(settings["script"]))[0]
    meta = write_graph(seen, os.path.join(settings["directory"], f"{name}.lifted"))
    sys.stderr.write(
        f"note   lifted to {os.path.relpath(meta)}: {' '.join(map(shlex.quote, words))}\n"
    )
    return ["--meta", meta, *words]


def _train(
    run: Any,
    ctx: click.Context,
    as_json: bool,
    allow: Sequence[str],
    pause_at: Optional[int] = None,
) -> int:
    from . import running

    argv: List[str] = ["toolkit", *(ctx.find_root().obj or [])]
    with cli_options.optional_output():
        summary = running.train(run, argv, allow, pause_at)
    if as_json:
        cli_options.print_json(summary)
    return 0
