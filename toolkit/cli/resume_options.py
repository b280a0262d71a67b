"""A run that continues: its saved configuration, and changes to it."""

from __future__ import annotations

import contextlib
import os
from typing import Iterable, Iterator, Optional, Sequence

from .. import config as configuration
from .. import option_changes
from .. import options as typed
from ..errors import RetryError, ToolkitError, UsageError, suggest
from ..plugins import is_same
from ..storage.run_folder import RunFolder, open_run
from ..storage.source_copies import naming_copies
from .plugin_command import Words
from .plugin_options import NO_SELECTION, Selection, load_selection


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
    step = ["", *words.all("--from")][-1]
    if step.isdecimal():  # click refuses what is no number
        from ..storage.branch import find_branch_point

        values = find_branch_point(folder, int(step)).config(folder)
        config = configuration.parse_values(folder.path, values, folder.file("config.json"))
    else:
        config = configuration.read_run_config(folder)
    for flag, references in (("--plugin", [config.plugin]), ("--with", config.extensions)):
        for name in words.all(flag):
            if not any(is_same(name, reference) for reference in references):
                raise UsageError(
                    f"{flag} {name} is not what the run names: {', '.join(references) or 'none'}.",
                    hint="A run keeps its plugins; to train another, start a new run.",
                )
    origins = dict.fromkeys(config.references, os.path.join(str(folder), "config.json"))
    owners = folder.read_distributions()
    with naming_copies(folder):
        return load_selection(
            config.plugin, config.extensions, origins, [config], executes_code, owners
        )


# ----------------------------------------------------------------------------------------- changes


def refuse_changes(
    folder: RunFolder,
    options: typed.CoreOptions,
    allow: Sequence[str],
    untyped: Iterable[str] = (),
) -> None:
    """Raise UsageError if options that the result depends on changed and are not allowed to.

    Args:
        folder: of the run.
        options: with which it is to continue.
        allow: the values of --allow.
        untyped: the names of further options, of plugins that are not loaded.
    """
    known = [*type(options).model_fields, *untyped, "plugin", "with"]
    names = [text.replace("-", "_") for text in allow]
    for name in names:
        if name not in known:
            raise UsageError(f"--allow {name}: no such option.", hint=suggest(name, known))
    option_changes.refuse_changes(
        folder, option_changes.find_changes(folder, options), names, option_changes.allow_flags
    )


# ------------------------------------------------------------------------------------ run --resume


def check_resume_flags(run_dir: Optional[str], force: bool) -> None:
    """Raise UsageError if the flags beside --resume do not say which run, or contradict it.

    Args:
        run_dir: of --run-dir, if it is set.
        force: whether --force is set.
    """
    if not run_dir:
        raise UsageError(
            "--resume is set, but --run-dir is not: without it, each run has a new folder.",
            hint="Add --run-dir DIR, and repeat the same command to continue the run.",
        )
    if force:
        raise UsageError(
            "Both --resume and --force are set: one continues the run in the folder, the other "
            "renames it.",
            hint="Set one of them.",
        )


def find_begun(path: str) -> Optional[RunFolder]:
    """The run to continue in a folder; None if it has yet to begin.

    Raises:
        RetryError: another process is training in the folder, perhaps the one that this process
            replaces.
    """
    folder = RunFolder(path)
    if folder.is_locked():
        raise RetryError(
            f"Another process is training in {folder}.", hint="Wait for it, or stop it."
        )
    return open_run(path) if folder.is_run else None


def refuse_other_plugins(folder: RunFolder, selection: Selection) -> None:
    """Raise UsageError if a run has other plugins or extensions than the command names."""
    config = configuration.read_run_config(folder)
    pairs = [
        ("plugin", [config.plugin], [selection.plugin]),
        ("extensions", config.extensions, selection.extensions),
    ]
    for word, before, now in pairs:
        if len(before) != len(now) or not all(map(is_same, before, now)):
            texts = [", ".join(references) or "none" for references in (before, now)]
            raise UsageError(
                f"{folder} is a run with the {word} {texts[0]}, and the command names {texts[1]}.",
                hint="A run keeps its plugins; for another, choose another --run-dir.",
            )


@contextlib.contextmanager
def naming_resume(folder: RunFolder) -> Iterator[None]:
    """Add to a hint with --allow, which `run` lacks, that it is a flag of `resume`."""
    try:
        yield
    except ToolkitError as error:
        if "--allow" in error.hint:
            error.hint += f"\n--allow is a flag of: toolkit resume {folder.argument}"
        raise
