"""`toolkit run` and `toolkit resume`."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict

import click

from .common import json_option, print_json, verbose_option
from .resuming import ResumeCommand, changes_options, refuse_changes
from .selection import OptionsCommand, Selection, flag_values, resolve, which_plugin

PAUSE = "Save at step N and leave off; resume goes on."


def _shared(command):
    for option in (
        json_option,
        verbose_option,
        click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set any option."),
        click.option(
            "--print-config", is_flag=True, help="Print each value with its origin; do not train."
        ),
    ):
        command = option(command)
    return command


@click.command(cls=OptionsCommand)
@click.option("--plugin", metavar="NAME", help="Model plugin: NAME, module:[attribute], ./file.py.")
@click.option("--with", "extensions", multiple=True, metavar="NAME", help="Add an extension.")
@click.option("--config", multiple=True, metavar="FILE", help="TOML or JSON file with options.")
@click.option("--run-dir", metavar="DIR", help="The run's folder [default runs/PLUGIN/TIME].")
@click.option("--force", is_flag=True, help="Move a non-empty run folder aside.")
@click.option("--pause-at", type=click.IntRange(1), metavar="N", help=PAUSE)
@_shared
@click.pass_context
def run(
    ctx, plugin, extensions, config, run_dir, force, pause_at, sets, print_config, as_json, **given
):
    """Train a plugin's model, test it, and leave a run folder."""
    selection: Selection = ctx.obj
    flags = flag_values(given, sets)
    if selection.plugins is None and not print_config:
        raise which_plugin()
    resolved = resolve(selection, flags)
    if print_config:
        return _print_config(selection, resolved, as_json)

    from .. import config as configuration
    from ..storage.run_folder import new_path, reserve

    run_dir = run_dir or os.environ.get("TOOLKIT_RUN_DIR")
    path = os.path.abspath(run_dir or new_path("runs", selection.plugins.model.name))
    folder = reserve(path, force)
    saved = configuration.for_run(selection.plugin, selection.extensions, resolved.options, path)
    return _train(ctx, resolved.options, folder, saved, as_json, pause_at=pause_at)


@click.command(cls=ResumeCommand)
@click.argument("run_folder", metavar="RUN")
@changes_options
@click.option("--pause-at", type=click.IntRange(1), metavar="N", help=PAUSE)
@_shared
@click.pass_context
def resume(
    ctx, run_folder, allow, init_new, maps, drop, pause_at, sets, print_config, as_json, **given
):
    """Go on with a run from its newest checkpoint that is whole.

    Where to stop, and how it reports, saves and evaluates, may be changed; any other change is
    refused unless it is allowed by name. A finished run has nothing left to do, unless --steps or
    --epochs asks for more.
    """
    from .. import config as configuration
    from ..storage.checkpoint_diff import RestoreOptions
    from ..storage.manifest import FINISHED
    from ..storage.run_folder import open_run
    from ..storage.variable_map import parse_map

    folder = open_run(run_folder, allow_unstarted=True)
    selection: Selection = ctx.obj
    flags = flag_values(given, sets)
    resolved = resolve(selection, flags, use_environment=False)
    refuse_changes(folder, selection, resolved, allow)
    if print_config:
        return _print_config(selection, resolved, as_json)
    changes = RestoreOptions(init_new, drop, parse_map(maps))
    if not folder.is_new:
        manifest = folder.read_manifest()
        asks_for_more = {"steps", "epochs"} & set(flags)
        if manifest["status"] == FINISHED and not asks_for_more and folder.checkpoints.is_intact():
            return _nothing_left(folder, manifest, as_json)
    saved = configuration.for_run(
        selection.plugin, selection.extensions, resolved.options, folder.path
    )
    more = {"pause_at": pause_at, "changes": changes, "other_data": "data" in allow}
    return _train(ctx, resolved.options, folder, saved, as_json, **more)


def _nothing_left(folder, manifest: Dict[str, Any], as_json: bool) -> int:
    summary = manifest.get("summary") or {"run": str(folder), "step": manifest["step"]}
    sys.stderr.write(
        f"Nothing left to do: {folder} {manifest.get('reason', 'is finished')}.\nTo train "
        "on, name a later --steps or --epochs.\n"
    )
    if as_json:
        print_json(summary)
    return 0


def _train(ctx, options, folder, saved: Dict[str, Any], as_json: bool, **more: Any) -> int:
    from ..display.console import Console
    from ..training.trainer import Job, Trainer

    console = Console(every_secs=options.console_secs)
    argv = ["toolkit"] + ctx.find_root().obj
    trainer = Trainer(Job(ctx.obj.plugins, options, folder, saved, argv, **more), console)
    try:
        trainer.check_data()
        if trainer.nothing_left():
            return _nothing_left(folder, folder.read_manifest(), as_json)
        summary = trainer.train_and_test()
    finally:
        trainer.close()
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)
    return 0


def _print_summary(summary: Dict[str, Any]) -> None:
    rows = [
        ("done", f"{summary['reason']} in {summary['seconds']:.1f} s ({summary['steps']} steps)")
    ]
    test = summary.get("test")
    if test:
        metrics = "  ".join(f"{n} {v:.4f}" for n, v in sorted(test["metrics"].items()))
        of = f"{test['examples']} examples, {test['checkpoint']} checkpoint, step {test['step']}"
        rows.append(("test", f"{metrics}  ({of})"))
        rows += [("", line) for line in test.get("lines", ())]
        if "reports" in test:
            rows.append(("reports", f"{summary['run']}/{test['reports']}"))
    rows.append(("run", summary["run"]))
    if not summary["finished"]:
        rows.append(("go on", f"toolkit resume {summary['run']}"))
    for name, text in rows:
        sys.stdout.write(f"{name:8}{text}\n")


def _print_config(selection: Selection, resolved, as_json: bool) -> int:
    values = resolved.options.model_dump(mode="json")
    rows = {"plugin": (selection.plugin, ""), "with": (selection.extensions, "")}
    rows.update((name, (value, resolved.origins[name])) for name, value in values.items())
    if as_json:
        print_json({n: {"value": value, "origin": origin} for n, (value, origin) in rows.items()})
        return 0
    width = max(map(len, rows))
    for name, (value, origin) in rows.items():
        text = "none" if value is None else str(value)
        sys.stdout.write("{:{}}  {:24}  {}\n".format(name, width, text, origin).rstrip() + "\n")
    return 0
