"""The flags of `resume` and `doctor`: the saved configuration of a run, and changes to it."""

from __future__ import annotations

import os
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Sequence,
    TypeVar,
)

import click

from .. import config as configuration
from .. import options as typed
from ..errors import UsageError, suggest
from ..option_changes import allow_flags, describe_changes, find_changes, refuse_other_start
from ..plugins import is_same
from ..storage.run_folder import RunFolder, open_run
from ..storage.source_copies import naming_copies
from .plugin_command import Words
from .plugin_options import NO_SELECTION, Selection, load_selection

Command = TypeVar("Command", bound=Callable[..., Any])


def select_run(words: Words) -> Selection:
    """Load the plugins that the saved configuration of the run in the arguments names."""
    path = find_run(words)
    if not path or words.all("--help"):
        return NO_SELECTION
    folder = open_run(path, allow_unstarted=True)
    return select_from_run(folder, words, not words.only_print)


def find_run(words: Words) -> str:
    """Return the argument that names the run, before the flags of its plugin are known."""
    return words.argument(lambda word: os.path.isfile(os.path.join(word, "manifest.json")))


def select_from_run(folder: RunFolder, words: Words, executes_code: bool) -> Selection:
    """Return the selection that the saved configuration of a run names.

    Args:
        folder: of the run.
        words: of the command; --plugin and --with may repeat what the configuration names.
        executes_code: see `load_selection`.
    """
    config = _read_config(folder, words)
    _check_names("--plugin", words.all("--plugin"), [config.plugin])
    _check_names("--with", words.all("--with"), config.extensions)
    named_by = os.path.join(str(folder), "config.json")
    origins = dict.fromkeys([config.plugin, *config.extensions], named_by)
    layers = [config.layer(folder.file("config.json"))]
    with naming_copies(folder):
        return load_selection(
            config.plugin,
            config.extensions,
            origins,
            layers,
            executes_code,
            folder.read_distributions(),
        )


def _read_config(folder: RunFolder, words: Words) -> configuration.Config:
    """Return the saved configuration of a run, or with --from that of the step."""
    step = ["", *words.all("--from")][-1]
    if not step.isdecimal():  # click refuses what is no number
        return configuration.read_run_config(folder)
    from ..storage.branch import find_branch_point

    values = find_branch_point(folder, int(step)).config(folder)
    return configuration.parse_values(folder.path, values, folder.file("config.json"))


def _check_names(flag: str, names: Sequence[str], references: Sequence[str]) -> None:
    """Raise UsageError if a flag names another plugin than the saved configuration does."""
    for name in names:
        if not any(is_same(name, reference) for reference in references):
            raise UsageError(
                f"{flag} {name} is not what the run names: {', '.join(references) or 'none'}.",
                hint="A run keeps its plugins; to train another, start a new run.",
            )


def name_flags(command: Command) -> Command:
    """Add --plugin and --with, which repeat what a run names, so that its code is executed."""
    for option in (
        click.option(
            "--with",
            multiple=True,
            metavar="NAME",
            expose_value=False,
            help="The run's extension, if it is a file or a module: execute it.",
        ),
        click.option(
            "--plugin",
            metavar="NAME",
            expose_value=False,
            help="The run's plugin, if it is a file or a module: execute it.",
        ),
    ):
        command = option(command)
    return command


# ------------------------------------------------------------------------------------------- flags


class ChangeFlags(NamedTuple):
    """The values of the flags that `change_flags` adds."""

    allow: Sequence[str]

    @classmethod
    def pop(cls, flags: Dict[str, Any]) -> ChangeFlags:
        """Move the values from the flags of a command to a record."""
        return cls(**{name: flags.pop(name) for name in cls._fields})

    @property
    def other_data(self) -> bool:
        """Whether the run may continue with other data."""
        return "data" in self.allow

    @property
    def other_rate(self) -> bool:
        """Whether the learning rate may jump because the run gets another length."""
        return bool({"steps", "epochs"} & set(self.allow))


def change_flags(command: Command) -> Command:
    """Add the flag that allows changes which a resume refuses otherwise."""
    return click.option(
        "--allow",
        multiple=True,
        metavar="NAME",
        help="Allow another value of this option; data: other contents too; steps: a jump of "
        "the learning rate.",
    )(command)


# ----------------------------------------------------------------------------------------- changes


def parse_allow(
    options: typed.CoreOptions, allow: Sequence[str], untyped: Iterable[str] = ()
) -> List[str]:
    """Return the option names of `--allow`. Raises UsageError.

    Args:
        options: of the run.
        allow: the values of the flag.
        untyped: the names of further options, of plugins that are not loaded.
    """
    cls = type(options)
    names, aliases = [*cls.model_fields, *untyped, "plugin", "with"], typed.alias_names(cls)
    result = []
    for name in (text.replace("-", "_") for text in allow):
        if name not in names and name not in aliases:
            raise UsageError(f"--allow {name}: no such option.", hint=suggest(name, names))
        result.append(aliases.get(name, name))
    return result


def refuse_changes(
    folder: RunFolder,
    options: typed.CoreOptions,
    allow: Sequence[str],
    untyped: Iterable[str] = (),
) -> None:
    """Raise UsageError if options that the result depends on changed and are not allowed to.

    For `untyped`, see `parse_allow`.
    """
    names = parse_allow(options, allow, untyped)
    differences = find_changes(folder, options)
    refuse_other_start(folder, differences)
    changes = [change for change in differences if change.name not in names]
    if changes:
        raise UsageError(
            describe_changes(changes),
            hint="Keep the former values, start a new run, or allow the change: "
            + allow_flags(changes),
        )
