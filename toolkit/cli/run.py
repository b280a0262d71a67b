"""`toolkit run` and `toolkit resume`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import click

from .. import config as configuration
from ..cli_options import (
    Command,
    json_option,
    optional_output,
    print_json,
    trust_option,
    verbose_option,
    warn,
)
from ..cluster.tasks import Cluster
from ..display.escapes import escape_line
from ..errors import InterruptedRun, ToolkitError, UsageError
from ..option_changes import describe_branch, has_other_length
from ..options import AUTO, NOT_SET, PRESET, CoreOptions, Origin, Resolved, map_paths
from ..preset_choice import recorded_choices
from ..storage.entries import FINISHED, TRAINED
from ..storage.run_folder import RunFolder, new_path, open_run, reserve
from .cluster_flags import cluster_flags, pop_cluster
from .cluster_run import (
    dismiss_peers,
    evaluate_run,
    follow_chief,
    open_peers,
    reporting_failure,
)
from .interrupts import report_interrupt_of
from .plugin_command import PluginCommand
from .plugin_options import (
    Selection,
    missing_plugin_error,
    option_values,
    resolve,
    untyped_values,
)
from .resume_options import (
    check_resume_flags,
    find_begun,
    naming_resume,
    refuse_changes,
    refuse_other_plugins,
    select_run,
)

if TYPE_CHECKING:
    from ..cluster.tasks import Cluster
    from ..training.trainer import Job


class TrainFlags(NamedTuple):
    """The values of the flags that `train_flags` adds."""

    pause_at: Optional[int]
    sets: Sequence[str]
    print_config: bool
    as_json: bool

    @classmethod
    def pop(cls, flags: Dict[str, Any]) -> TrainFlags:
        """Move the values from the flags of a command to a record."""
        return cls(**{name: flags.pop(name) for name in cls._fields})


def train_flags(command: Command) -> Command:
    """Add the flags that `run` and `resume` share."""
    for option in (
        json_option,
        verbose_option,
        click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set any option."),
        click.option(
            "--print-config",
            is_flag=True,
            help="Print each option with its value and origin; do not train.",
        ),
        click.option(
            "--pause-at",
            type=click.IntRange(1),
            metavar="N",
            help="Save a checkpoint at step N and stop; 'toolkit resume' continues.",
        ),
    ):
        command = option(command)
    return command


@click.command(
    cls=PluginCommand,
    options_metavar="PLUGIN [OPTIONS]",
    examples=(
        "toolkit run {plugin} --data images:photos --image-size 64",
        "toolkit run {plugin} --config my.toml --learning-rate 0.01",
        "toolkit run ./model.py --data table:prices.csv --epochs 50",
    ),
    most_used={
        "data": "what it reads: 'toolkit data list'",
        "image_size": "size of images: 64 or WIDTHxHEIGHT",
        "epochs": "passes over the training data",
        "steps": "steps, in place of --epochs",
        "batch_size": "examples per step",
        "learning_rate": "before its schedule",
        "seed": "of all random numbers",
        "init_from": "weights of a run, a checkpoint or a SavedModel",
        "extensions": "add an extension: 'toolkit plugins list'",
        "config": "TOML or JSON file with options",
        "run_dir": "the run's folder [default runs/PLUGIN/TIME]",
        "is_resume": "continue the run in --run-dir, else begin it",
    },
)
@click.option("--plugin", metavar="NAME", help="Model plugin: NAME, module:[attribute], ./file.py.")
@click.option("--with", "extensions", multiple=True, metavar="NAME", help="Add an extension.")
@click.option("--config", multiple=True, metavar="FILE", help="TOML or JSON file with options.")
@click.option("--run-dir", metavar="DIR", help="The run's folder [default runs/PLUGIN/TIME].")
@click.option("--force", is_flag=True, help="Rename a run folder that is not empty.")
@click.option(
    "--resume",
    "is_resume",
    is_flag=True,
    help="Continue the run in --run-dir if there is one, else begin it.",
)
@trust_option
@cluster_flags
@train_flags
@click.pass_context
def run(
    ctx: click.Context,
    plugin: Optional[str],
    extensions: Sequence[str],
    config: Sequence[str],
    run_dir: Optional[str],
    force: bool,
    is_resume: bool,
    **flags: Any,
) -> int:
    """Train a plugin's model, and test it."""
    selection: Selection = ctx.obj
    settings, cluster = TrainFlags.pop(flags), pop_cluster(flags)
    values = option_values(flags, settings.sets)
    if selection.plugins is None and not settings.print_config:
        raise missing_plugin_error()
    resolved = resolve(selection, values)
    if selection.plugins is None or settings.print_config:
        return _print_config(selection, resolved, cluster, settings.as_json)
    run_dir = run_dir or os.environ.get("TOOLKIT_RUN_DIR")
    if is_resume:
        check_resume_flags(run_dir, force)
    if cluster is not None and cluster.is_evaluator:
        options = resolved.options
        return evaluate_run(run_dir, options, cluster, settings.as_json, is_resume, force)
    path = os.path.abspath(run_dir or new_path("runs", selection.plugins.model.name))
    if cluster is not None and not cluster.is_chief:  # it needs no folder
        return _follow(_make_job(ctx, resolved, RunFolder(path, is_new=True)), cluster)
    with reporting_failure(cluster):
        existing = find_begun(path) if is_resume else None
        if existing is None:
            folder = reserve(path, force, _inputs(selection, resolved))
        else:
            with naming_resume(existing):
                refuse_other_plugins(existing, selection)
                resolved = recorded_choices(resolved, existing)
                refuse_changes(existing, resolved.options, (), untyped_values(ctx.obj))
    if existing is not None:
        with naming_resume(existing):
            sets_length = has_other_length(existing, resolved.options)
            return _resume(ctx, existing, sets_length, resolved, settings, (), cluster)
    with report_interrupt_of(folder):
        job = _make_job(ctx, resolved, folder, pause_at=settings.pause_at)
        return _train(job, settings.as_json, cluster=cluster)


@click.command(cls=PluginCommand, select=select_run, names_plugin=False)
@click.argument("run_folder", metavar="RUN")
@click.option(
    "--from",
    "from_step",
    type=click.IntRange(0),
    metavar="STEP",
    help="Branch off: continue from the checkpoint of this step in a new run.",
)
@click.option("--run-dir", metavar="DIR", help="The folder of the branch [default RUN-from-STEP].")
@click.option(
    "--allow",
    multiple=True,
    metavar="NAME",
    help="Allow another value of this option; data: other contents too; steps: a jump of the "
    "learning rate.",
)
@click.option(
    "--plugin",
    metavar="NAME",
    expose_value=False,
    help="The run's plugin, if it is a file or a module: execute it.",
)
@click.option(
    "--with",
    multiple=True,
    metavar="NAME",
    expose_value=False,
    help="The run's extension, if it is a file or a module: execute it.",
)
@trust_option
@cluster_flags
@train_flags
@click.pass_context
def resume(
    ctx: click.Context,
    run_folder: str,
    from_step: Optional[int],
    run_dir: Optional[str],
    allow: Sequence[str],
    **flags: Any,
) -> int:
    """Continue a run from its last intact checkpoint, or from an earlier one in a new run.

    Options of length, reports, checkpoints, evaluation and machine may change. A change of another
    option is refused unless --allow names it. A finished run continues only with a larger --steps
    or --epochs, and with --allow steps if a learning rate that follows the length of the run jumps.
    """
    folder = open_run(run_folder, allow_unstarted=True)
    settings = TrainFlags.pop(flags)
    cluster = pop_cluster(flags)
    values = option_values(flags, settings.sets)
    sets_length = bool({"steps", "epochs"} & set(values))
    resolved = recorded_choices(resolve(ctx.obj, values, use_environment=False), folder)
    if run_dir is not None and from_step is None:
        raise UsageError(
            "--run-dir names the folder of a branch, but --from is missing.",
            hint="A resume continues in the folder of the run; add --from STEP for a new one.",
        )
    if from_step is None:
        return _resume(ctx, folder, sets_length, resolved, settings, allow, cluster)
    if cluster is not None:
        raise UsageError(
            "--from creates a new run, which one process alone has to do.",
            hint="Branch off in one process with --pause-at, then resume the branch here.",
        )
    if settings.print_config:
        return _print_config(ctx.obj, resolved, cluster, settings.as_json)
    branch = _create_branch(ctx, folder, from_step, run_dir, resolved)
    with _removed_if_unused(branch):
        return _resume(ctx, branch, sets_length, resolved, settings, allow, cluster, is_branch=True)


def _resume(
    ctx: click.Context,
    folder: RunFolder,
    sets_length: bool,
    resolved: Resolved,
    settings: TrainFlags,
    allow: Sequence[str],
    cluster: Optional[Cluster],
    is_branch: bool = False,
) -> int:
    """Continue a run, or refuse to; `sets_length`: whether --steps or --epochs is new."""
    refuse_changes(folder, resolved.options, allow, untyped_values(ctx.obj))
    if settings.print_config:
        return _print_config(ctx.obj, resolved, cluster, settings.as_json)
    if cluster is not None and cluster.is_evaluator:
        return evaluate_run(folder.path, resolved.options, cluster, settings.as_json, True)
    is_follower = cluster is not None and not cluster.is_chief  # the chief tells it the end
    if not is_follower and not sets_length and _has_status(folder, FINISHED):
        dismiss_peers(cluster)
        return _print_nothing_left(folder, resolved.options, settings.as_json)
    if is_branch:
        note = describe_branch(folder, resolved.options)
        resolved = resolved._replace(notes=[note, *resolved.notes])
    with report_interrupt_of(folder):
        job = _make_job(
            ctx,
            resolved,
            folder,
            pause_at=settings.pause_at,
            allow_other_data="data" in allow,
            allow_other_rate=bool({"steps", "epochs"} & set(allow)),
        )
        if cluster is not None and not cluster.is_chief:
            return _follow(job, cluster)
        is_trained = not sets_length and _has_status(folder, TRAINED)
        return _train(job, settings.as_json, is_branch, cluster, is_trained)


def _create_branch(
    ctx: click.Context,
    folder: RunFolder,
    step: int,
    run_dir: Optional[str],
    resolved: Resolved,
) -> RunFolder:
    """Create the folder of a branch, by default RUN-from-STEP beside that of the run."""
    from ..storage.branch import create_branch, find_branch_point

    selection: Selection = ctx.obj
    if selection.plugins is None:
        raise missing_plugin_error()
    path = os.path.abspath(run_dir or f"{folder.path}-from-{step}")
    try:
        reserve(path)
    except UsageError as error:
        error.hint = "Name another folder for the branch with --run-dir."
        raise
    config = _run_config(selection, resolved, path)
    return create_branch(folder, find_branch_point(folder, step), path, config)


@contextlib.contextmanager
def _removed_if_unused(branch: RunFolder) -> Iterator[None]:
    """Remove a branch if an error ends the block before its first session has begun."""
    count = len(branch.commits.entries())
    try:
        yield
    except InterruptedRun:
        raise
    except ToolkitError:
        branch.commits.invalidate_cache()
        if len(branch.commits.entries()) == count:
            branch.unlock()
            shutil.rmtree(branch.path, ignore_errors=True)
        raise


def _inputs(selection: Selection, resolved: Resolved) -> List[str]:
    """Return the files and folders that a new run reads: its data, its plugin files, and all that
    its options name.
    """
    from ..data.sources import resolve_path

    options = resolved.options
    paths = [resolve_path(options.data), selection.plugin, *selection.extensions]

    def add(path: str) -> str:
        path = os.path.expanduser(path)
        paths.append(path if os.path.exists(path) else path + ".index")
        return path

    for name, value in options:
        map_paths(type(options), name, value, add)
    return [path for path in paths if path and os.path.exists(path)]


def _make_job(ctx: click.Context, resolved: Resolved, folder: RunFolder, **more: Any) -> Job:
    """Return what to train in a folder; `more`: further fields of `Job`."""
    from ..training.trainer import Job

    selection: Selection = ctx.obj
    if selection.plugins is None:
        raise missing_plugin_error()
    config = _run_config(selection, resolved, folder.path)
    argv = ["toolkit", *ctx.find_root().obj]
    return Job(
        selection.plugins,
        resolved.options,
        folder,
        config,
        argv,
        notes=resolved.notes,
        resolved=resolved,
        **more,
    )


def _run_config(selection: Selection, resolved: Resolved, path: str) -> Dict[str, Any]:
    """Return the contents of config.json in the folder of a run."""
    return configuration.run_values(
        selection.plugin,
        selection.extensions,
        resolved.options,
        path,
        resolved.origins,
    )


def _has_status(folder: RunFolder, status: str) -> bool:
    """Whether a run has a status, and its last checkpoint is intact."""
    if folder.is_new:
        return False
    return folder.state()["status"] == status and folder.checkpoints.is_intact()


def _follow(job: Job, cluster: Cluster) -> int:
    """Train a replica of a run whose chief is another process."""
    from ..display.console import Console

    with optional_output():
        return follow_chief(job, cluster, Console(every_secs=job.options.console_secs))


def _train(
    job: Job,
    as_json: bool,
    is_branch: bool = False,
    cluster: Optional[Cluster] = None,
    is_trained: bool = False,
) -> int:
    from ..display.console import Console
    from ..training.run_summary import list_summary_lines
    from ..training.trainer import Trainer

    console = Console(every_secs=job.options.console_secs)
    peers = open_peers(cluster, job.options, console, is_trained)
    # Plugins may print.
    with console.shown(), Trainer(job, console, peers) as trainer, optional_output():
        trainer.check_resume(is_branch)
        summary = None if trainer.is_finished() else trainer.train_and_test()
    if summary is None:
        return _print_nothing_left(job.folder, job.options, as_json)
    if as_json:
        print_json(summary)
        return 0
    with optional_output():
        sys.stdout.writelines(f"{line}\n" for line in list_summary_lines(summary, trainer.page))
    return 0


# ------------------------------------------------------------------------------------------- print


def _print_nothing_left(folder: RunFolder, options: CoreOptions, as_json: bool) -> int:
    allowance = ""
    if options.schedule != "constant" and options.decay_steps is None:
        allowance = (
            f", with --allow steps: the {options.schedule} schedule follows the length of the run"
        )
    state = folder.state()
    summary = state["summary"] or {"run": str(folder), "step": state["step"]}
    reason = escape_line(state["reason"] or "is finished")
    sys.stderr.write(
        f"Nothing left to do: {folder} {reason}.\n"
        f"To train longer, set a larger --steps or --epochs{allowance}.\n"
    )
    if as_json:
        print_json(summary)
    return 0


def _print_config(
    selection: Selection, resolved: Resolved, cluster: Optional[Cluster], as_json: bool
) -> int:
    values = resolved.options.model_dump(mode="json")
    rows = {"plugin": (selection.plugin, ""), "with": (selection.extensions, "")}
    if cluster is not None:
        rows["cluster"] = (cluster.summary, cluster.source)
    rows.update((name, (value, str(resolved.origins[name]))) for name, value in values.items())
    rows.update(dict.fromkeys(resolved.open_options, (AUTO, str(Origin(PRESET, AUTO)))))
    rows.update(untyped_values(selection))
    if selection.unloaded:
        warn(selection.note)
    notes = list(resolved.notes)
    if resolved.open_presets:  # opening them would take seconds, and minutes for the first time
        names = ", ".join(resolved.open_presets)
        notes.append(f"{names} is chosen when the data are opened, and what it sets")
    for note in notes:
        sys.stderr.write(f"note: {escape_line(note)}\n")
    if as_json:
        print_json({n: {"value": value, "origin": origin} for n, (value, origin) in rows.items()})
        return 0
    width = max(map(len, rows))

    # What a person set comes first, what is at its default last.
    def rank(name: str) -> Tuple[bool, bool]:
        origin = resolved.origins.get(name)
        return origin == NOT_SET, origin is not None and not origin.is_choice

    for name, (value, origin) in sorted(rows.items(), key=lambda row: rank(row[0])):
        text = "none" if value is None else str(value)
        row = f"{name:{width}}  {text:24}  {origin}".rstrip()
        sys.stdout.write(escape_line(row) + "\n")
    return 0
