"""What commands share that go on with a run: its saved configuration, and changes of it."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Sequence, Tuple

import click

from .. import config as configuration
from .. import options as typed
from ..errors import UsageError, suggest
from ..plugins import Plugins
from .selection import OptionsCommand, Selection, plain


class ResumeCommand(OptionsCommand):
    """Takes the plugin from the run's saved configuration."""

    def selection(self, args: List[str]) -> Selection:
        from ..storage.run_folder import open_run

        path = _run_among(args)
        if not path or {"-h", "--help"} & set(args):
            return Selection("", [], None, [])
        return select_saved(open_run(path, allow_unstarted=True))


def _run_among(args: List[str]) -> str:
    """The argument that is the run: the first that holds one, else the first after no flag."""
    words = [a for a in args if not a.startswith("-")]
    runs = [word for word in words if os.path.isfile(os.path.join(word, "manifest.json"))]
    free = [w for before, w in zip([""] + args, args) if not (before + w).startswith("-")]
    return next(iter(runs + [w for w in free if w in words] + words), "")


def select_saved(folder) -> Selection:
    """What the saved configuration of a run names."""
    read = configuration.read_run_config(folder)
    plugins = Plugins.load(read.plugin, read.extensions)
    return Selection(
        read.plugin, read.extensions, plugins, [(folder.file("config.json"), read.values)]
    )


def changes_options(command):
    """The flags that allow what a resume otherwise refuses."""
    for option in (
        click.option(
            "--drop", is_flag=True, help="Drop what the checkpoint has and the model has not."
        ),
        click.option(
            "--map",
            "maps",
            multiple=True,
            metavar="OLD=NEW",
            help="Restore variable (or scope/) OLD of the checkpoint as NEW.",
        ),
        click.option(
            "--init-new", is_flag=True, help="Initialise what the model has and the checkpoint not."
        ),
        click.option(
            "--allow", multiple=True, metavar="NAME", help="Allow a change of this option, or data."
        ),
    ):
        command = option(command)
    return command


def changed_options(folder, selection: Selection, resolved) -> List[Tuple[str, Any, Any]]:
    """(name, saved, now) of the options that a run has to go on with, and that are others now.

    They are compared with those of the run's last session, so that an edited config.json shows.
    """
    sessions = folder.commits.sessions()
    saved = sessions[-1].get("options") if sessions else None
    if not isinstance(saved, dict):
        return []
    options = type(resolved.options)
    saved = typed.current_names(options, saved)
    now = resolved.options.model_dump(mode="json")
    changed = [
        (name, saved[name], value)
        for name, value in now.items()
        if name not in typed.changeable_options(options)
        if name != "data" and name in saved and saved[name] != value
    ]
    # Both as they stand in a file of the run's folder.
    named = folder.read_config()  # a dict, as it was resolved
    changed += [
        (name, saved[name], named.get(name))
        for name in ("plugin", "with")
        if name in saved and named.get(name) != saved[name]
    ]
    return changed


def allowed_names(resolved, allow: Sequence[str]) -> List[str]:
    """The names of --allow as options are named. Raises UsageError for one that is no option."""
    names = [field.name for field in typed.describe(type(resolved.options))] + ["plugin", "with"]
    aliases = typed.alias_names(type(resolved.options))
    allowed = []
    for name in (name.replace("-", "_") for name in allow):
        if name in aliases:
            sys.stderr.write(f"warning: --allow {name}: {name} is now called {aliases[name]}.\n")
        elif name not in names:
            raise UsageError(f"--allow {name}: no such option.", hint=suggest(name, names))
        allowed.append(aliases.get(name, name))
    return allowed


def refuse_changes(folder, selection: Selection, resolved, allow: Sequence[str]) -> None:
    """Raise UsageError where options that a run depends on have changed and that is not allowed."""
    allowed = allowed_names(resolved, allow)
    left = [row for row in changed_options(folder, selection, resolved) if row[0] not in allowed]
    if left:
        raise UsageError(
            "The run was trained with other options: "
            f"{'; '.join((f'{n} was {plain(a)}, now {plain(b)}' for n, a, b in left))}.",
            hint="Leave them as they were, start a new run, or go on with them all the same: "
            + " ".join(f"--allow {name}" for name, _, _ in left),
        )
