"""`toolkit doctor`: diagnose a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

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
        except ToolkitError as error:
            _add_failure(diagnosis, error)
    if as_json:
        faults = [str(fault) for fault in diagnosis.faults]
        print_json(dict(diagnosis._asdict(), faults=faults, run=str(folder)))
    else:
        _print(diagnosis)
    return 6 if diagnosis.faults else 0


def _add_failure(diagnosis: Diagnosis, error: ToolkitError) -> None:
    """Add why a resume cannot load the run, unless a check has found that file damaged."""
    from ..audit.checks import fault_of_error

    if error.path and error.path in [fault.subject for fault in diagnosis.faults]:
        return
    diagnosis.faults.append(fault_of_error("resume", error))
    diagnosis.advice[:0] = [error.hint] if error.hint else []


def _add_model(diagnosis: Diagnosis, folder: RunFolder, selection: Selection) -> None:
    """Add whether the options, the plugins, the data and the model fit what was committed."""
    from ..audit.diagnosis import diagnose_code, diagnose_data, diagnose_model, diagnose_weights

    options = resolve(selection, {}, use_environment=False).options
    changes = find_changes(folder, options)
    if changes:
        flags = allow_flags(changes)
        advice = f"A resume refuses options other than the run's unless allowed: {flags}"
        diagnosis.advice.insert(0, advice)
    config = configuration.run_values(selection.plugin, selection.extensions, options, folder.path)
    if selection.plugins is None or selection.unloaded:
        diagnose_code(diagnosis, folder, selection.unloaded)
        diagnose_data(diagnosis, folder, options)
        diagnosis.notes.append(_model_note(selection))
    else:
        diagnose_model(diagnosis, folder, selection.plugins, options, config)
    diagnose_weights(diagnosis, folder, options)


def _model_note(selection: Selection) -> str:
    """Return why the model was not checked, and how to check it."""
    flags = [
        f"{'--plugin' if name == selection.plugin else '--with'} {name}"
        for name in selection.unloaded
    ]
    return (
        "Whether the model fits was not checked, since that executes "
        f"{' and '.join(selection.unloaded)}; to check it, add {' '.join(flags)}."
    )


def _print(diagnosis: Diagnosis) -> None:
    rows: List[Tuple[str, str]] = [("state", diagnosis.state)]
    rows += [("note", note) for note in diagnosis.notes]
    rows += [("FAULT", str(fault)) for fault in diagnosis.faults]
    rows += [("do", text) for text in diagnosis.advice]
    for title, text in rows:
        sys.stdout.write(f"{title:8}{escape_line(text)}\n")
