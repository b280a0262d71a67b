"""`toolkit doctor`: diagnose a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, List, Mapping, Sequence, Tuple

import click

from .. import config as configuration
from ..cli_options import json_option, print_json, verbose_option
from ..display.escapes import escape_line
from ..errors import ToolkitError
from ..option_changes import OptionChange, allow_flags, describe_change, find_changes
from ..options import CoreOptions
from ..storage.run_folder import RunFolder, driver_of, open_run
from .plugin_command import PluginCommand, Words
from .plugin_options import NO_SELECTION, Selection, option_values, resolve, untyped_values
from .resume_options import (
    change_flags,
    find_run,
    name_flags,
    parse_allow,
    select_from_run,
)

if TYPE_CHECKING:
    from ..audit.diagnosis import Diagnosis


def _select(words: Words) -> Selection:
    """Load what the run names, without its code; go on if that fails."""
    path = find_run(words)
    if not path or words.all("--help"):
        return NO_SELECTION
    folder = open_run(path, allow_unstarted=True)
    if driver_of(folder.path):  # it has no model that could be built here
        return NO_SELECTION
    try:
        return select_from_run(folder, words, executes_code=False)
    except ToolkitError as error:
        return NO_SELECTION._replace(failure=error)


@click.command(cls=PluginCommand, select=_select, names_plugin=False)
@click.argument("run_folder", metavar="RUN")
@change_flags
@name_flags
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set any option.")
@json_option
@verbose_option
@click.pass_context
def doctor(
    ctx: click.Context,
    run_folder: str,
    allow: Sequence[str],
    sets: Sequence[str],
    as_json: bool,
    **flags: Any,
) -> int:
    """Diagnose a run: its state, what is wrong and what to do. Nothing is changed.

    With the flags of 'resume', the report says whether that would be accepted. The exit code is 6
    if something is wrong.
    """
    from ..audit.diagnosis import diagnose_folder

    folder = open_run(run_folder, allow_unstarted=True)
    diagnosis = diagnose_folder(folder)
    if ctx.obj.failure is not None:
        _add_failure(diagnosis, ctx.obj.failure)
    if ctx.obj.layers and not folder.is_new:
        _add_resume(diagnosis, folder, ctx.obj, option_values(flags, sets), allow)
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


def _add_resume(
    diagnosis: Diagnosis,
    folder: RunFolder,
    selection: Selection,
    values: Mapping[str, Any],
    allow: Sequence[str],
) -> None:
    """Add whether a resume with these option values and permissions would be accepted."""
    try:
        resolve(selection, {}, use_environment=False)
    except ToolkitError as error:  # in config.json; a wrong flag is a usage error
        return _add_failure(diagnosis, error)
    options = resolve(selection, values, use_environment=False).options
    names = parse_allow(options, allow, untyped_values(selection))
    _add_changes(diagnosis, [c for c in find_changes(folder, options) if c.name not in names])
    _add_model(diagnosis, folder, selection, options, "data" in allow)
    return None


def _add_changes(diagnosis: Diagnosis, changes: Sequence[OptionChange]) -> None:
    """Add the changed options that a resume refuses."""
    from ..audit.checks import Fault

    edited = {fault.subject for fault in diagnosis.faults if fault.part == "config"}
    for change in changes:
        if change.name not in edited:
            diagnosis.faults.append(Fault("option", describe_change(change), change.name))
    if changes:
        flags = allow_flags(changes)
        advice = f"A resume refuses options other than the run's unless allowed: {flags}"
        diagnosis.advice.insert(0, advice)


def _add_model(
    diagnosis: Diagnosis,
    folder: RunFolder,
    selection: Selection,
    options: CoreOptions,
    other_data: bool,
) -> None:
    """Add whether the plugins, the data and the model fit what was committed."""
    from ..audit.diagnosis import diagnose_code, diagnose_data, diagnose_model, diagnose_weights

    config = configuration.run_values(selection.plugin, selection.extensions, options, folder.path)
    if selection.plugins is None or selection.unloaded:
        _add(diagnosis, diagnose_code(folder, selection.unloaded))
        more = diagnose_data(folder, options, other_data)
        more.notes.append(_model_note(selection))
    else:
        more = diagnose_model(folder, selection.plugins, options, config, other_data)
    _add(diagnosis, more)
    _add(diagnosis, diagnose_weights(folder, options))


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


def _add(diagnosis: Diagnosis, more: Diagnosis) -> None:
    diagnosis.notes.extend(more.notes)
    diagnosis.faults.extend(more.faults)
    diagnosis.advice[:0] = [text for text in more.advice if text]


def _print(diagnosis: Diagnosis) -> None:
    rows: List[Tuple[str, str]] = [("state", diagnosis.state)]
    rows += [("note", note) for note in diagnosis.notes]
    rows += [("FAULT", str(fault)) for fault in diagnosis.faults]
    rows += [("do", text) for text in diagnosis.advice]
    for title, text in rows:
        sys.stdout.write(f"{title:8}{escape_line(text)}\n")
