"""`toolkit run` and `toolkit resume`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import click

from .. import cli_options as shared
from .. import config as configuration
from .. import option_changes
from ..cluster.tasks import Cluster, describe_resume
from ..display.console import Console
from ..display.escapes import escape_line
from ..errors import InterruptedRun, ToolkitError, UsageError, suggest
from ..options import AUTO, NOT_SET, PRESET, Origin, Resolved, map_paths
from ..preset_choice import recorded_choices
from ..storage.branch import create_branch, find_branch_point
from ..storage.entries import FINISHED, TRAINED
from ..storage.run_folder import RunFolder, new_path, open_run, reserve
from ..training.signals import FirstSignal, interrupt
from . import cluster_run
from .cluster_run import cluster_flags, pop_cluster
from .common import flag, print_result, switch
from .plugin_command import PluginCommand, select_run, selection_options
from .plugin_options import Selection, missing_plugin_error, resolve

if TYPE_CHECKING:
    from ..training.trainer import Job


def train_flags(command: shared.Command) -> shared.Command:
    """Add the flags that `run` and `resume` share; `_read_order` takes their values."""
    pause = "Save a checkpoint at step N and stop; 'toolkit resume' continues."
    show = "Print each option with its value and origin; do not train."
    command = switch("--print-config", show)(shared.verbose_option(shared.json_option(command)))
    command = flag("--pause-at", "N", pause, click.IntRange(1))(command)
    return shared.trust_option(cluster_flags(command))


class Order(NamedTuple):
    """What a command is to train: the plugins, their options, and the flags of `train_flags`."""

    selection: Selection
    argv: Sequence[str]
    cluster: Optional[Cluster]
    resolved: Resolved
    pause_at: Optional[int]
    print_config: bool
    as_json: bool

    def config(self, path: str) -> Dict[str, Any]:
        """Return the contents of config.json in the folder of a run."""
        plugin, extensions = self.selection.plugin, self.selection.extensions
        options, origins = self.resolved.options, self.resolved.origins
        return configuration.run_values(plugin, extensions, options, path, origins)

    def job(self, folder: RunFolder, **more: Any) -> Job:
        """Return what to train in a folder; `more`: further fields of `Job`."""
        from ..training.trainer import Job

        assert self.selection.plugins is not None  # else `_read_order` refuses the command
        return Job(
            self.selection.plugins,
            self.resolved,
            folder,
            self.config(folder.path),
            ["toolkit", *self.argv],
            self.pause_at,
            **more,
        )


def _read_order(ctx: click.Context, flags: Dict[str, Any], use_environment: bool) -> Order:
    names = ("pause_at", "print_config", "as_json")
    more = {name: flags.pop(name) for name in names}
    cluster = pop_cluster(flags)
    if ctx.obj.plugins is None and not more["print_config"]:
        raise missing_plugin_error()
    resolved = resolve(ctx.obj, flags, use_environment)
    devices = resolved.options.devices
    if cluster is not None and devices > 1:
        raise UsageError(
            f"--devices is {devices}, which a process of a cluster does not support.",
            hint="Start a worker for each device, with one GPU each in CUDA_VISIBLE_DEVICES.",
        )
    return Order(ctx.obj, ctx.find_root().obj, cluster, resolved, **more)


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
@selection_options
@flag("--run-dir", "DIR", "The run's folder [default runs/PLUGIN/TIME].")
@switch("--force", "Rename a run folder that is not empty.")
@switch("--resume is_resume", "Continue the run in --run-dir if there is one, else begin it.")
@train_flags
@click.pass_context
def run(
    ctx: click.Context,
    run_dir: Optional[str],
    force: bool,
    is_resume: bool,
    **flags: Any,
) -> int:
    """Train a plugin's model, and test it."""
    order = _read_order(ctx, flags, use_environment=True)
    plugins, cluster = order.selection.plugins, order.cluster
    if plugins is None or order.print_config:
        return _print_config(order)
    run_dir = read_run_dir(run_dir, is_resume, force)
    if cluster is not None and cluster.is_evaluator:
        options = order.resolved.options
        return cluster_run.evaluate_run(
            run_dir, options, cluster, order.as_json, is_resume, is_replaced=force
        )
    path = os.path.abspath(run_dir or new_path("runs", plugins.model.name))
    if cluster is not None and not cluster.is_chief:  # it needs no folder
        return cluster_run.follow_chief(order.job(RunFolder(path, is_new=True)), cluster)
    with cluster_run.reporting_failure(cluster):
        existing, begun = None, RunFolder(path)
        if is_resume and begun.is_locked():  # perhaps by a process that this one replaces
            raise begun.lock_error()
        if is_resume and begun.is_run:
            existing = open_run(path)
        if existing is None:
            folder = reserve(path, force, _inputs(order))
        else:
            names = order.selection.plugin, order.selection.extensions
            others = option_changes.find_plugin_changes(existing, *names)
            if others:
                raise UsageError(
                    f"{existing} is a run of other plugins: {'; '.join(map(str, others))}.",
                    hint="A run keeps its plugins; for another, choose another --run-dir.",
                )
            order = order._replace(resolved=recorded_choices(order.resolved, existing))
            _refuse_changes(existing, order)
    if existing is not None:
        return _resume(order, existing)
    with report_interrupt_of(folder, cluster):
        return _train(order, order.job(folder))


def read_run_dir(run_dir: Optional[str], is_resume: bool, force: bool) -> str:
    """Return the folder that a flag or else a variable names, "" if there is none. Raises
    UsageError if --resume has no folder, or is set with --force.
    """
    # A shell leaves the ~ of --run-dir=~/x to the program.
    run_dir = os.path.expanduser(run_dir or os.environ.get("TOOLKIT_RUN_DIR", ""))
    if is_resume and not run_dir:
        raise UsageError(
            "--resume is set, but --run-dir is not: without it, each run has a new folder.",
            hint="Add --run-dir DIR, and repeat the same command to continue the run.",
        )
    if is_resume and force:
        raise UsageError(
            "Both --resume and --force are set: one continues the run in the folder, the other "
            "renames it.",
            hint="Set one of them.",
        )
    return run_dir


@click.command(cls=PluginCommand, select=select_run)
@click.argument("run_folder", metavar="RUN")
@flag(
    "--from from_step",
    "STEP",
    "Branch off: continue from the checkpoint of this step in a new run.",
    click.IntRange(0),
)
@flag("--run-dir", "DIR", "The folder of the branch [default RUN-from-STEP].")
@flag("--allow", "NAME", "Allow another value of this option; data: other contents.", multiple=True)
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
    option is refused unless --allow names it. A finished run continues with a larger --steps or
    --epochs; a learning rate that follows the length of the run then follows the new one.
    """
    folder = open_run(run_folder, allow_unstarted=True)
    order = _read_order(ctx, flags, use_environment=False)
    order = order._replace(resolved=recorded_choices(order.resolved, folder))
    if from_step is None:
        if run_dir is not None:
            raise UsageError(
                "--run-dir names the folder of a branch, but --from is missing.",
                hint="A resume continues in the folder of the run; add --from STEP for a new one.",
            )
        return _resume(order, folder, allow)
    if order.cluster is not None:
        raise UsageError(
            "--from creates a new run, which one process alone has to do.",
            hint="Branch off in one process with --pause-at, then resume the branch here.",
        )
    try:
        path = reserve(run_dir or f"{folder.path}-from-{from_step}").path
    except UsageError as error:
        error.hint = "Name another folder for the branch with --run-dir."
        raise
    _refuse_changes(folder, order, allow, from_step)
    if order.print_config:
        return _print_config(order)
    with _open_branch(order, folder, from_step, path) as branch:
        return _resume(order, branch, allow, is_branch=True)


def _resume(
    order: Order, folder: RunFolder, allow: Sequence[str] = (), is_branch: bool = False
) -> int:
    """Continue a run, or refuse to."""
    _refuse_changes(folder, order, allow)
    if order.print_config:
        return _print_config(order)
    cluster, resolved = order.cluster, order.resolved
    if cluster is not None and cluster.is_evaluator:
        return cluster_run.evaluate_run(folder.path, resolved.options, cluster, order.as_json, True)
    is_follower = cluster is not None and not cluster.is_chief  # the chief tells it the end
    has_length = not option_changes.has_other_length(folder, resolved.options)
    if not is_follower and has_length and _has_status(folder, FINISHED):
        cluster_run.dismiss_peers(cluster)
        return _print_nothing_left(order, folder)
    if is_branch:
        note = option_changes.describe_branch(folder, resolved.options)
        order = order._replace(resolved=resolved._replace(notes=[note, *resolved.notes]))
    with report_interrupt_of(folder, cluster):
        job = order.job(folder, allow_other_data="data" in allow)
        if cluster is not None and is_follower:
            return cluster_run.follow_chief(job, cluster)
        # What --allow names may change the number of steps, too.
        is_trained = has_length and not allow and _has_status(folder, TRAINED)
        return _train(order, job, is_branch, is_trained)


def _train(order: Order, job: Job, is_branch: bool = False, is_trained: bool = False) -> int:
    from ..training.trainer import Trainer

    console = Console(every_secs=job.options.console_secs)
    peers = cluster_run.open_peers(order.cluster, console, is_trained)
    with console.shown(), Trainer(job, console, peers) as trainer:
        trainer.check_resume(is_branch)
        summary = None if trainer.is_finished() else trainer.train_and_test()
    if summary is None:
        return _print_nothing_left(order, job.folder)
    if order.as_json:
        shared.print_json(summary)
    else:
        sys.stdout.writelines(f"{line}\n" for line in trainer.lines)
    return 0


@contextlib.contextmanager
def report_interrupt_of(folder: RunFolder, cluster: Optional[Cluster]) -> Iterator[None]:
    """Turn a signal in the block, before a step or in the test, into an InterruptedRun that says
    what the run has saved.
    """
    first = FirstSignal(interrupt)
    try:
        with first:
            yield
    except KeyboardInterrupt:
        signum = first.signum or signal.SIGINT
        if folder.is_new:
            text = "Interrupted before the first step; nothing was trained."
            raise InterruptedRun(text, signum=signum) from None
        checkpoints = folder.checkpoints.list()
        saved = "no step was saved yet"
        if checkpoints:
            saved = f"step {checkpoints[-1].step} is saved"
        raise InterruptedRun(
            f"Interrupted; {saved} in {folder}.",
            hint=f"Continue with: {describe_resume(cluster, folder.argument)}",
            signum=signum,
        ) from None


@contextlib.contextmanager
def _open_branch(order: Order, folder: RunFolder, step: int, path: str) -> Iterator[RunFolder]:
    """Create the folder of a branch; remove it if an error ends the block before the first session
    of the branch has begun.
    """
    branch = create_branch(folder, find_branch_point(folder, step), path, order.config(path))
    count = len(branch.commits.entries())
    try:
        yield branch
    except InterruptedRun:
        raise
    except ToolkitError:
        branch.commits.invalidate_cache()
        if len(branch.commits.entries()) == count:
            branch.unlock()
            shutil.rmtree(branch.path, ignore_errors=True)
        raise


def _inputs(order: Order) -> List[str]:
    """Return the files and folders that a new run reads: its data, its plugin files, and all that
    its options name.
    """
    from ..data.sources import resolve_path

    options, selection = order.resolved.options, order.selection
    paths = [resolve_path(options.data), selection.plugin, *selection.extensions]

    def add(path: str) -> str:
        paths.extend([os.path.expanduser(path), os.path.expanduser(path) + ".index"])
        return path

    for name, value in options:
        map_paths(type(options), name, value, add)
    return [path for path in paths if path and os.path.exists(path)]


def _has_status(folder: RunFolder, status: str) -> bool:
    """Whether a run has a status, and its last checkpoint is intact."""
    if folder.is_new:
        return False
    return folder.state()["status"] == status and folder.checkpoints.is_intact()


# ------------------------------------------------------------------------------------ run --resume


def _refuse_changes(
    folder: RunFolder, order: Order, allow: Sequence[str] = (), step: Optional[int] = None
) -> None:
    """Refuse other values of options that the result depends on than in the last session, or in
    that of the step at which a branch is to begin, unless --allow names them.
    """
    options = order.resolved.options
    known = [*type(options).model_fields, "plugin", "with"]
    names = [text.replace("-", "_") for text in allow]
    for name in names:
        if name not in known:
            raise UsageError(f"--allow {name}: no such option.", hint=suggest(name, known))
    if step is None:
        changes = option_changes.find_changes(folder, options)
    else:  # its plugins are those of that session
        session = find_branch_point(folder, step).session
        changes = option_changes.find_option_changes(folder, options, session)

    def name_flags(refused: Sequence[option_changes.OptionChange]) -> str:
        return f"{option_changes.allow_flags(refused)} (toolkit resume)"  # for `run --resume`, too

    option_changes.refuse_changes(folder, changes, names, name_flags)


# ------------------------------------------------------------------------------------------- print


def _print_nothing_left(order: Order, folder: RunFolder) -> int:
    state = folder.state()
    reason = escape_line(state["reason"] or "is finished")
    flags = "--early-stopping (0: none)" if folder.stopped_early() else "--steps or --epochs"
    sys.stderr.write(
        f"Nothing left to do: {folder} {reason}.\nTo train longer, set a larger {flags}.\n"
    )
    if order.as_json:
        shared.print_json(state["summary"] or {"run": str(folder), "step": state["step"]})
    return 0


def _print_config(order: Order) -> int:
    selection, resolved, cluster = order.selection, order.resolved, order.cluster
    rows: Dict[str, Tuple[Any, str]] = {
        "plugin": (selection.plugin, ""),
        "with": (selection.extensions, ""),
    }
    if cluster is not None:
        rows["cluster"] = (cluster.summary, cluster.source)
    values = resolved.options.model_dump(mode="json")
    rows.update((name, (value, str(resolved.origins[name]))) for name, value in values.items())
    notes = list(resolved.notes)
    if resolved.open_presets:  # opening them would take seconds, and minutes for the first time
        of_open = str(Origin(PRESET, AUTO))
        rows.update((name, (AUTO, text)) for name, (_, text) in rows.items() if text == of_open)
        names = ", ".join(resolved.open_presets)
        notes.append(f"{names} is chosen when the data are opened, and what it sets")
    sys.stderr.writelines(f"note: {escape_line(note)}\n" for note in notes)

    def rank(name: str) -> Tuple[bool, bool]:
        """What a person set comes first, what is at its default last."""
        origin = resolved.origins.get(name)
        return origin == NOT_SET, origin is not None and not origin.is_choice

    texts = {n: "none" if value is None else str(value) for n, (value, _) in rows.items()}
    lines = [(n, f"{texts[n]:24}  {rows[n][1]}".rstrip()) for n in sorted(rows, key=rank)]
    facts = {name: {"value": value, "origin": origin} for name, (value, origin) in rows.items()}
    print_result(order.as_json, facts, lines, width=max(map(len, rows)) + 2)
    return 0
