"""`toolkit run` and `toolkit resume`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar

import click

from .. import config as configuration
from ..cli_options import (
    json_option,
    optional_output,
    print_json,
    trust_option,
    verbose_option,
    warn,
)
from ..display.escapes import escape_line
from ..options import CoreOptions, Resolved, map_paths
from ..storage.folder import shell_argument
from ..storage.manifest import FINISHED
from ..storage.run_folder import RunFolder, new_path, open_run, reserve
from .interrupts import report_interrupt_of
from .plugin_options import (
    OptionsCommand,
    Selection,
    missing_plugin_error,
    option_values,
    resolve,
    untyped_values,
)
from .resume_options import ChangeFlags, ResumeCommand, change_flags, name_flags, refuse_changes

if TYPE_CHECKING:
    from ..training.trainer import Job

Command = TypeVar("Command", bound=Callable[..., Any])


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


@click.command(cls=OptionsCommand)
@click.option("--plugin", metavar="NAME", help="Model plugin: NAME, module:[attribute], ./file.py.")
@click.option("--with", "extensions", multiple=True, metavar="NAME", help="Add an extension.")
@click.option("--config", multiple=True, metavar="FILE", help="TOML or JSON file with options.")
@click.option("--run-dir", metavar="DIR", help="The run's folder [default runs/PLUGIN/TIME].")
@click.option("--force", is_flag=True, help="Rename a run folder that is not empty.")
@trust_option
@train_flags
@click.pass_context
def run(
    ctx: click.Context,
    plugin: Optional[str],
    extensions: Sequence[str],
    config: Sequence[str],
    run_dir: Optional[str],
    force: bool,
    **flags: Any,
) -> int:
    """Train a plugin's model, and test it.

    Everything about the run is in its run folder: options, metrics, checkpoints, reports.
    """
    selection: Selection = ctx.obj
    settings = TrainFlags.pop(flags)
    values = option_values(flags, settings.sets)
    if selection.plugins is None and not settings.print_config:
        raise missing_plugin_error()
    resolved = resolve(selection, values)
    if selection.plugins is None or settings.print_config:
        return _print_config(selection, resolved, settings.as_json)
    run_dir = run_dir or os.environ.get("TOOLKIT_RUN_DIR")
    path = os.path.abspath(run_dir or new_path("runs", selection.plugins.model.name))
    folder = reserve(path, force, _inputs(selection, resolved))
    with report_interrupt_of(folder):
        job = _make_job(ctx, resolved, folder, pause_at=settings.pause_at)
        return _train(job, settings.as_json)


@click.command(cls=ResumeCommand)
@click.argument("run_folder", metavar="RUN")
@change_flags
@name_flags
@trust_option
@train_flags
@click.pass_context
def resume(ctx: click.Context, run_folder: str, **flags: Any) -> int:
    """Continue a run from its last intact checkpoint.

    Options of length, reports, checkpoints, evaluation and machine may change. A change of another
    option is refused unless --allow names it. A finished run continues only with a larger --steps
    or --epochs, and with --allow steps if a learning rate that follows the length of the run jumps.
    """
    folder = open_run(run_folder, allow_unstarted=True)
    settings, changes = TrainFlags.pop(flags), ChangeFlags.pop(flags)
    values = option_values(flags, settings.sets)
    resolved = resolve(ctx.obj, values, use_environment=False)
    refuse_changes(folder, resolved.options, changes.allow, untyped_values(ctx.obj))
    if settings.print_config:
        return _print_config(ctx.obj, resolved, settings.as_json)
    restore_options = changes.restore_options()
    if not {"steps", "epochs"} & set(values) and _is_complete(folder):
        return _print_nothing_left(folder, resolved.options, settings.as_json)
    with report_interrupt_of(folder):
        job = _make_job(
            ctx,
            resolved,
            folder,
            pause_at=settings.pause_at,
            restore_options=restore_options,
            allow_other_data=changes.other_data,
            allow_other_rate=changes.other_rate,
        )
        return _train(job, settings.as_json)


def _inputs(selection: Selection, resolved: Resolved) -> List[str]:
    """Return the files and folders that a new run reads: its data, its plugin files, and all that
    its options name.
    """
    from ..data.sources import resolve_path

    options = resolved.options
    paths = [resolve_path(options.data), selection.plugin, *selection.extensions]

    def add(path: str) -> str:
        paths.append(os.path.expanduser(path))
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
    config = configuration.run_values(
        selection.plugin,
        selection.extensions,
        resolved.options,
        folder.path,
        resolved.first_origins,
    )
    argv = ["toolkit", *ctx.find_root().obj]
    return Job(
        selection.plugins, resolved.options, folder, config, argv, notes=resolved.notes, **more
    )


def _is_complete(folder: RunFolder) -> bool:
    """Whether a run is finished and its last checkpoint is intact."""
    if folder.is_new:
        return False
    return folder.read_manifest()["status"] == FINISHED and folder.checkpoints.is_intact()


def _train(job: Job, as_json: bool) -> int:
    from ..display.console import Console
    from ..training.trainer import Trainer

    trainer = Trainer(job, Console(every_secs=job.options.console_secs))
    try:
        with optional_output():  # of plugins
            trainer.check_data()
            trainer.check_length()
            summary = None if trainer.is_finished() else trainer.train_and_test()
    finally:
        trainer.close()
    if summary is None:
        return _print_nothing_left(job.folder, job.options, as_json)
    if as_json:
        print_json(summary)
        return 0
    with optional_output():
        _print_summary(summary)
    return 0


# ------------------------------------------------------------------------------------------- print


def _print_nothing_left(folder: RunFolder, options: CoreOptions, as_json: bool) -> int:
    allowance = ""
    if options.schedule != "constant" and options.decay_steps is None:
        allowance = (
            f", with --allow steps: the {options.schedule} schedule follows the length of the run"
        )
    manifest = folder.read_manifest()
    summary = manifest.get("summary") or {"run": str(folder), "step": manifest["step"]}
    reason = escape_line(str(manifest.get("reason", "is finished")))
    sys.stderr.write(
        f"Nothing left to do: {folder} {reason}.\n"
        f"To train longer, set a larger --steps or --epochs{allowance}.\n"
    )
    if as_json:
        print_json(summary)
    return 0


def _print_summary(summary: Dict[str, Any]) -> None:
    rows = [
        ("done", f"{summary['reason']} in {summary['seconds']:.1f} s ({summary['steps']} steps)")
    ]
    best = summary.get("best")
    if best and "direction" in best:
        word = "lowest" if best["direction"] == "min" else "highest"
        value = f"{best['metric']} {best['value']:.4f}"
        rows.append(("best", f"{word} {value} (validation, step {best['step']})"))
    test = summary.get("test")
    if test:
        metrics = "  ".join(f"{n} {v:.4f}" for n, v in sorted(test["metrics"].items()))
        source = (
            f"{test['examples']} examples, {test['checkpoint']} checkpoint, step {test['step']}"
        )
        rows.append(("test", f"{metrics}  ({source})"))
        rows += [("", line) for line in test.get("lines", ())]
        if "reports" in test:
            rows.append(("reports", f"{summary['run']}/{test['reports']}"))
    rows.append(("run", summary["run"]))
    if not summary["finished"]:
        rows.append(("resume", f"toolkit resume {shell_argument(summary['run'])}"))
    for name, text in rows:
        sys.stdout.write(f"{name:8}{text}\n")


def _print_config(selection: Selection, resolved: Resolved, as_json: bool) -> int:
    values = resolved.options.model_dump(mode="json")
    rows = {"plugin": (selection.plugin, ""), "with": (selection.extensions, "")}
    rows.update((name, (value, resolved.origins[name])) for name, value in values.items())
    rows.update(untyped_values(selection))
    if selection.unloaded:
        warn(selection.note)
    for note in resolved.notes:
        sys.stderr.write(f"note: {escape_line(note)}\n")
    if as_json:
        print_json({n: {"value": value, "origin": origin} for n, (value, origin) in rows.items()})
        return 0
    width = max(map(len, rows))
    for name, (value, origin) in rows.items():
        text = "none" if value is None else str(value)
        row = f"{name:{width}}  {text:24}  {origin}".rstrip()
        sys.stdout.write(escape_line(row) + "\n")
    return 0
