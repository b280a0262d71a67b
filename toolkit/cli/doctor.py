"""`toolkit doctor`: what state a run is in, and what can be done."""

from __future__ import annotations

import sys
from typing import List, Optional

import click

from ..errors import ToolkitError
from .common import json_option, print_json, verbose_option
from .resuming import ResumeCommand, allowed_names, changed_options, changes_options
from .selection import Selection, flag_values, plain, resolve


class DoctorCommand(ResumeCommand):
    """Goes on where the configuration or a plugin cannot be loaded, which it then tells."""

    failure: Optional[ToolkitError] = None

    def selection(self, args: List[str]) -> Selection:
        self.failure = None
        try:
            return super().selection(args)
        except ToolkitError as error:
            self.failure = error
            return Selection("", [], None, [])


@click.command(cls=DoctorCommand)
@click.argument("run_folder", metavar="RUN")
@changes_options
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set any option.")
@json_option
@verbose_option
@click.pass_context
def doctor(ctx, run_folder, allow, init_new, maps, drop, sets, as_json, **given):
    """Say in plain words what state a run is in and what can be done, and change nothing.

    Takes the flags of 'resume' and tells how the model, with these, would fit the checkpoint. Ends
    with exit code 6 where something is wrong.
    """
    from ..audit import diagnosis
    from ..storage.run_folder import open_run

    folder = open_run(run_folder, allow_unstarted=True)
    found = diagnosis.of_folder(folder)
    selection, failure = ctx.obj, ctx.command.failure
    if failure is not None and not any(failure.message in fault for fault in found.faults):
        found.faults.append(failure.message)
        found.advice[:0] = [failure.hint] if failure.hint else []
    if selection.plugins is not None and not folder.is_new:
        values = flag_values(given, sets)
        try:
            resolve(selection, {}, use_environment=False)
        except ToolkitError as error:  # of config.json; a wrong flag is a mistake of usage
            found.faults.append(error.message)
            found.advice[:0] = [error.hint] if error.hint else []
        else:
            resolved = resolve(selection, values, use_environment=False)
            allowed = allowed_names(resolved, allow)
            _add_options(found, changed_options(folder, selection, resolved), allowed)
            flags = init_new, drop, maps
            more = _of_model(diagnosis, folder, selection, resolved, flags, allowed)
            found.notes.extend(more.notes)
            found.faults.extend(more.faults)
            found.advice[:0] = [text for text in more.advice if text]
    if as_json:
        print_json(dict(found._asdict(), run=str(folder)))
    else:
        _print(found)
    return 6 if found.faults else 0


def _add_options(found, changed, allowed: List[str]) -> None:
    """Add the options that are others than the run's, which a resume refuses unless allowed."""
    left = [row for row in changed if row[0] not in allowed]
    for name, old, new in left:
        told = f"config: {name} is"  # of config.json itself, and told already
        if not any(fault.startswith(told) for fault in found.faults):
            found.faults.append(f"option: {name} was {plain(old)}, now {plain(new)}.")
    if left:
        flags = " ".join(f"--allow {name}" for name, _, _ in left)
        found.advice.insert(0, "A resume refuses other options than the run's, without: " + flags)


def _of_model(diagnosis, folder, selection: Selection, resolved, flags, allowed: List[str]):
    from .. import config as configuration
    from ..storage.checkpoint_diff import RestoreOptions
    from ..storage.variable_map import parse_map

    init_new, drop, maps = flags
    saved = configuration.for_run(
        selection.plugin, selection.extensions, resolved.options, folder.path
    )
    changes = RestoreOptions(init_new, drop, parse_map(maps))
    return diagnosis.of_model(
        folder, selection.plugins, resolved.options, changes, saved, "data" in allowed
    )


def _print(found) -> None:
    rows: List = [("state", found.state)]
    for title, texts in (("note", found.notes), ("FAULT", found.faults), ("do", found.advice)):
        rows += [(title, text) for text in texts]
    for title, text in rows:
        sys.stdout.write(f"{title:8}{text}\n")
