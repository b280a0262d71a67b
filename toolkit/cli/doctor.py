"""`toolkit doctor`: what state a run is in, and what can be done."""

from __future__ import annotations

import sys
from typing import List, Optional

import click

from ..errors import ToolkitError
from .common import json_option, print_json, verbose_option
from .resuming import ResumeCommand, changed_options, changes_options
from .selection import Selection, flag_values, resolve


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
    from .. import diagnosis
    from ..folder import open_run

    folder = open_run(run_folder, unbegun=True)
    found = diagnosis.of_folder(folder)
    selection, failure = ctx.obj, ctx.command.failure
    if failure is not None:
        found.faults.append(failure.message)
        found.advice.extend([failure.hint] if failure.hint else [])
    if selection.plugins is not None and not folder.is_new:
        resolved = resolve(selection, flag_values(given, sets), use_environment=False)
        found.notes.extend(
            "option: {} was {}, now {}; --allow {} lets a resume go on.".format(n, a, b, n)
            for n, a, b in changed_options(folder, selection, resolved)
            if n not in allow
        )
        more = _of_model(diagnosis, folder, selection, resolved, (init_new, drop, maps))
        for old, new in zip(found[1:], more[1:]):
            old.extend(text for text in new if text and text not in old)
    if as_json:
        print_json(dict(found._asdict(), run=str(folder)))
    else:
        _print(found)
    return 6 if found.faults else 0


def _of_model(diagnosis, folder, selection: Selection, resolved, flags):
    from .. import config as configuration
    from ..fitting import Changes, parse_map

    init_new, drop, maps = flags
    saved = configuration.for_run(
        selection.plugin, selection.extensions, resolved.options, folder.path
    )
    changes = Changes(init_new, drop, parse_map(maps))
    return diagnosis.of_model(folder, selection.plugins, resolved.options, changes, saved)


def _print(found) -> None:
    rows: List = [("state", found.state)]
    for title, texts in (("note", found.notes), ("FAULT", found.faults), ("do", found.advice)):
        rows += [(title, text) for text in texts]
    for title, text in rows:
        sys.stdout.write("{:8}{}\n".format(title, text))
