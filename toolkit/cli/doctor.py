"""`toolkit doctor`: diagnose a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import config as configuration
from ..errors import ToolkitError
from ..option_changes import allow_flags, find_changes
from ..plugins import UntrustedCode
from ..storage.run_folder import RunFolder, driver_of, open_run
from .common import model_flags, print_result
from .plugin_command import select_from_run
from .plugin_options import resolve

if TYPE_CHECKING:
    from ..audit.diagnosis import Diagnosis


@click.command()
@click.argument("run_folder", metavar="RUN")
@model_flags
def doctor(run_folder: str, as_json: bool) -> int:
    """Diagnose a run: its state, what is wrong and what to do. Nothing is changed.

    Whether a resume with other options would be accepted says 'toolkit resume RUN --print-config'
    with these options. The exit code is 6 if something is wrong.
    """
    from ..audit.checks import fault_of_error
    from ..audit.diagnosis import diagnose_folder

    folder = open_run(run_folder, allow_unstarted=True)
    diagnosis = diagnose_folder(folder)
    if not driver_of(folder.path):  # which has no model that could be built here
        try:
            _add_model(diagnosis, folder)
        except ToolkitError as error:  # unless a check has found that file damaged
            if not error.path or error.path not in [each.subject for each in diagnosis.faults]:
                diagnosis.faults.append(fault_of_error("resume", error))
                diagnosis.advice[:0] = [error.hint] if error.hint else []
    faults = [str(fault) for fault in diagnosis.faults]
    lines = [("state", diagnosis.state), *(("note", text) for text in diagnosis.notes)]
    lines += [("FAULT", text) for text in faults] + [("do", text) for text in diagnosis.advice]
    facts = dict(diagnosis._asdict(), faults=faults, run=str(folder))
    print_result(as_json, facts, lines, width=8)
    return 6 if faults else 0


def _add_model(diagnosis: Diagnosis, folder: RunFolder) -> None:
    """Add whether the options, the plugins, the data and the model fit what was committed."""
    from ..audit.diagnosis import diagnose_model, diagnose_weights

    try:
        selection = select_from_run(folder)
    except UntrustedCode as error:
        diagnosis.notes.append(
            f"Whether options, data and model fit was not checked: {error.message} To check it, "
            "add --trust."
        )
        return
    if folder.is_new or selection.plugins is None:
        return
    options = resolve(selection, {}, use_environment=False).options
    changes = find_changes(folder, options)
    if changes:
        advice = "A resume refuses options other than the run's unless allowed: "
        diagnosis.advice.insert(0, advice + allow_flags(changes))
    plugin, extensions = selection.plugin, selection.extensions
    config = configuration.run_values(plugin, extensions, options, folder.path)
    diagnose_model(diagnosis, folder, selection.plugins, options, config)
    diagnose_weights(diagnosis, folder, options)
