"""`toolkit run --resume`: one command that begins a run, continues it, and notices its end."""

from __future__ import annotations

import contextlib
import re
from typing import Iterator, Optional

from .. import config as configuration
from ..errors import RetryError, ToolkitError, UsageError
from ..plugins import is_same
from ..storage.run_folder import RunFolder, open_run
from .plugin_options import Selection
from .resume_options import ChangeFlags

NO_CHANGES = ChangeFlags(allow=())
_RESUME_FLAG = re.compile(r"--allow\b")


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


def find_run(path: str) -> Optional[RunFolder]:
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
    """Add to a hint with a flag that `run` lacks that it is one of `resume`."""
    try:
        yield
    except ToolkitError as error:
        match = _RESUME_FLAG.search(error.hint)
        if match:
            error.hint += f"\n{match.group()} is a flag of: toolkit resume {folder.argument}"
        raise
