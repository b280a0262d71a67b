"""The command `toolkit adopt`, and what `toolkit resume` does with its runs."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Optional, Sequence

import click

from toolkit import UsageError, cli_options

MB = 1_000_000


@click.command("adopt")
@click.argument("script", metavar="SCRIPT")
@click.argument("args", nargs=-1, metavar="[-- ARGS]")
@click.option("--run-dir", metavar="DIR", help="The run's folder [default runs/adopt/TIME].")
@click.option("--force", is_flag=True, help="Rename a run folder that is not empty.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="End after N train calls.")
@click.option(
    "--commit-steps",
    type=click.IntRange(1),
    default=100,
    metavar="N",
    help="Commit every N train calls [default 100].",
)
@click.option(
    "--log-steps",
    type=click.IntRange(1),
    default=10,
    metavar="N",
    help="Record metrics every N train calls [default 10].",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Of all noise [default 0].")
@click.option(
    "--threads",
    type=click.IntRange(0),
    default=1,
    metavar="N",
    help="Threads of TensorFlow [default 1; 0: one for each core].",
)
@click.option(
    "--keep-checkpoints",
    type=click.IntRange(1),
    default=3,
    metavar="N",
    help="How many checkpoints to keep [default 3].",
)
@click.option(
    "--journal-limit",
    type=click.IntRange(1),
    default=1000,
    metavar="MB",
    help="The largest size of the journal [default 1000].",
)
@click.option("--dry-run", is_flag=True, help="Run two periods, print what it does, and stop.")
@cli_options.json_option
@cli_options.verbose_option
@click.pass_context
def adopt(
    ctx: click.Context,
    script: str,
    args: Sequence[str],
    run_dir: Optional[str],
    force: bool,
    journal_limit: int,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train an untouched TensorFlow 1 script, so that 'toolkit resume' continues it exactly.

    Its calls of sessions are observed and journaled; a resume runs it again from its first line,
    answers the calls from the journal up to the last commit, and goes on from there.
    """
    path = os.path.abspath(script)
    if not os.path.isfile(path):
        raise UsageError(f"There is no script {script}.", hint="Name a Python file.")
    if os.environ.get("TF_CONFIG"):
        raise UsageError(
            "TF_CONFIG is set: the script would train in several processes, and a run is one.",
            hint="Unset it.",
        )
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
        **flags,
    }
    if dry_run:
        from .dry_run import print_table

        return print_table(settings)
    return _train(DrivenRun.begin("adopt", settings, run_dir, force), ctx, as_json, ())


@click.command("resume")
@click.argument("run_folder", metavar="RUN")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="End after N train calls.")
@click.option(
    "--pause-at", type=click.IntRange(1), metavar="N", help="Stop there, to continue another time."
)
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


def _pin_hashes(seed: str, ctx: click.Context) -> None:
    """Begin this process again with a PYTHONHASHSEED, on which the order of sets of texts depends.

    In a process that does more than this command, the order stays as it is.
    """
    program, words = sys.argv[0], ctx.find_root().obj
    starts = {"toolkit": [program], "__main__.py": ["-m", "toolkit"]}
    start = starts.get(os.path.basename(program)) if sys.argv[1:] == words else None
    if start is not None and os.environ.get("PYTHONHASHSEED", "random") != seed:
        sys.stdout.flush()
        sys.stderr.flush()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        os.execve(sys.executable, [sys.executable, *start, *words], environment)


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
