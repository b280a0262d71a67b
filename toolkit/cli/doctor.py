"""`toolkit doctor`: diagnose a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Optional, Sequence

import click

from .. import config as configuration
from ..cli_options import json_option, print_json, verbose_option
from ..display.escapes import escape_line
from ..errors import ToolkitError
from ..option_changes import allow_flags, find_changes
from ..plugins import choose
from ..storage.run_folder import RunFolder, driver_of, open_run
from .plugin_command import Words
from .plugin_options import Selection, resolve
from .resume_options import select_from_run

if TYPE_CHECKING:
    from ..audit.diagnosis import Diagnosis


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.option(
    "--plugin",
    metavar="NAME",
    help="The run's plugin, if it is a file or a module: execute it.",
)
@click.option(
    "--with",
    "extensions",
    multiple=True,
    metavar="NAME",
    help="The run's extension, if it is a file or a module: execute it.",
)
@json_option
@verbose_option
def doctor(run_folder: str, plugin: Optional[str], extensions: Sequence[str], as_json: bool) -> int:
    """Diagnose a run: its state, what is wrong and what to do. Nothing is changed.

    Whether a resume with other options would be accepted says 'toolkit resume RUN --print-config'
    with these options. The exit code is 6 if something is wrong.
    """
    from ..audit.checks import fault_of_error
    from ..audit.diagnosis import diagnose_folder

    folder = open_run(run_folder, allow_unstarted=True)
    diagnosis = diagnose_folder(folder)
    named = {"--plugin": [plugin] if plugin else [], "--with": list(extensions)}
    for reference in [*named["--plugin"], *named["--with"]]:
        choose(reference)
    if not driver_of(folder.path):  # which has no model that could be built here
        try:
            selection = select_from_run(folder, Words(named, []), executes_code=False)
            if not folder.is_new:
                _add_model(diagnosis, folder, selection)
        except ToolkitError as error:  # unless a check has found that file damaged
            if not error.path or error.path not in [each.subject for each in diagnosis.faults]:
                diagnosis.faults.append(fault_of_error("resume", error))
                diagnosis.advice[:0] = [error.hint] if error.hint else []
    faults = [str(fault) for fault in diagnosis.faults]
    if as_json:
        print_json(dict(diagnosis._asdict(), faults=faults, run=str(folder)))
        return 6 if faults else 0
    for title, texts in (
        ("state", [diagnosis.state]),
        ("note", diagnosis.notes),
        ("FAULT", faults),
        ("do", diagnosis.advice),
    ):
        sys.stdout.writelines(f"{title:8}{escape_line(text)}\n" for text in texts)
    return 6 if faults else 0


def _add_model(diagnosis: Diagnosis, folder: RunFolder, selection: Selection) -> None:
    """Add whether the options, the plugins, the data and the model fit what was committed."""
    from ..audit.diagnosis import diagnose_code, diagnose_data, diagnose_model, diagnose_weights

    options, unloaded = resolve(selection, {}, use_environment=False).options, selection.unloaded
    changes = find_changes(folder, options)
    if changes:
        advice = "A resume refuses options other than the run's unless allowed: "
        diagnosis.advice.insert(0, advice + allow_flags(changes))
    config = configuration.run_values(selection.plugin, selection.extensions, options, folder.path)
    if selection.plugins is None or unloaded:
        diagnose_code(diagnosis, folder, unloaded)
        diagnose_data(diagnosis, folder, options)
        flags = [f"{'--plugin' if n == selection.plugin else '--with'} {n}" for n in unloaded]
        diagnosis.notes.append(
            "Whether the model fits was not checked, since that executes "
            f"{' and '.join(unloaded)}; to check it, add {' '.join(flags)}."
        )
    else:
        diagnose_model(diagnosis, folder, selection.plugins, options, config)
    diagnose_weights(diagnosis, folder, options)
