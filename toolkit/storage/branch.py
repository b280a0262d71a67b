"""A branch: a new run that continues from an earlier commit of another run, its parent.

A branch begins as the parent was when it committed that step: with the entries of its commit log up
to there, so that both chains have the same hashes; its records up to the step; the checkpoints up
to it that still exist. The next entry, the first of the branch itself, names the parent. The parent
is not changed, and not needed any more. The events for TensorBoard begin at the branch.
"""

from __future__ import annotations

import datetime
import itertools
import os
import secrets
import shutil
from typing import Any, Dict, Iterable, List, NamedTuple, Set

from ..errors import CheckpointError
from ..files import make_folders, sync
from .checkpoint_store import CHECKPOINTS
from .commit_log import Checkpoint
from .entries import BRANCH, Parent
from .run_folder import EVENTS, RunFolder
from .source_copies import SOURCES


class BranchPoint(NamedTuple):
    """The commit from which a branch continues."""

    checkpoint: Checkpoint
    number: int  # of its entry in the commit log of the parent, from 1
    session: Dict[str, Any]  # the values of the session that trained up to it

    def config(self, folder: RunFolder) -> Dict[str, Any]:
        """The contents of config.json when the parent trained this step."""
        saved = folder.read_config()
        options = self.session.get("options")
        if not isinstance(options, dict) or not isinstance(saved, dict):
            return saved
        origins = {name: saved[name] for name in ("origins",) if name in saved}
        return dict(options, **origins)


def find_branch_point(folder: RunFolder, step: int) -> BranchPoint:
    """The commit of a step of the run that becomes the parent. Raises CheckpointError if there is
    no checkpoint of the step, or it or the commit log is damaged.
    """
    try:
        checkpoint = folder.checkpoints.find(str(step))
    except CheckpointError as error:
        known = ", ".join(str(each.step) for each in folder.checkpoints.list() if each.step != step)
        error.hint = error.hint or (f"The run has the steps {known}." if known else "")
        raise
    entry = folder.commits.current_commits().get(step)
    number = entry.number if entry else len(folder.commits.entries())
    earlier = folder.commits.entries()[:number]
    faults = [f"entry {each.number} {each.fault}" for each in earlier if each.fault]
    if entry is None or faults:
        fault = next(iter(faults), f"step {step} has no commit in it")
        raise CheckpointError(
            f"{folder.commits.path} is damaged: {fault}.",
            hint="Copy the file back: a branch begins with its entries.",
        )
    sessions = [each.values for each in earlier if each.kind == "session"]
    return BranchPoint(checkpoint, number, sessions[-1] if sessions else {})


def create_branch(
    folder: RunFolder, point: BranchPoint, path: str, config: Dict[str, Any]
) -> RunFolder:
    """Create the folder of a branch, whole or not at all, where there is none or an empty one.
    Raises UsageError if it cannot be created, RetryError if it cannot be written, CheckpointError
    if the parent's files changed or went away while they were copied.
    """
    target = RunFolder(os.path.abspath(path))
    part = RunFolder(f"{target.path}.part-{secrets.token_hex(2)}")
    with target.creating():
        make_folders(part.path)
    try:
        with part.writing():
            step = point.checkpoint.step
            for name in (CHECKPOINTS, EVENTS):
                part.make_subfolder(name)
            with open(folder.commits.path, encoding="utf-8", newline="\n") as file:
                _write_lines(part.commits.path, itertools.islice(file, point.number))
            records = folder.metrics.lines(point.checkpoint.metrics.bytes)
            _write_lines(part.metrics.path, [record + "\n" for record in records])
            steps = _copy_checkpoints(folder, part, step)
            if os.path.isfile(folder.file("data.sha256")):
                shutil.copyfile(folder.file("data.sha256"), part.file("data.sha256"))
            if os.path.isdir(folder.file(SOURCES)):
                shutil.copytree(folder.file(SOURCES), part.file(SOURCES), symlinks=True)
            part.write_config(config)
            name, tensors = os.path.basename(folder.path), point.checkpoint.tensors
            parent = Parent(BRANCH, name, step, tensors, folder.commits.head())
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            part.record("branch", step=step, kept=steps, parent=parent._asdict(), created=now)
            with target.creating():  # a link or what a run has left may be there
                os.rename(part.path, target.path)
            sync(os.path.dirname(target.path))
    finally:
        shutil.rmtree(part.path, ignore_errors=True)
    return target


def _write_lines(path: str, lines: Iterable[str]) -> None:
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    sync(path)


def _copy_checkpoints(folder: RunFolder, part: RunFolder, step: int) -> List[int]:
    """Copy the intact checkpoints up to a step, and return their steps."""
    steps: List[int] = []
    names: Set[str] = set()
    for checkpoint in [each for each in folder.checkpoints.list() if each.step <= step]:
        copies = [
            (folder.file(CHECKPOINTS, n), part.file(CHECKPOINTS, n)) for n in checkpoint.files
        ]
        fault = ""
        try:
            for source, target in copies:
                shutil.copyfile(source, target)
                sync(target)
        except FileNotFoundError as error:  # a process that trains the parent may have deleted it
            fault = f"{os.path.basename(error.filename)} is missing"
        fault = fault or part.checkpoints.find_damage(checkpoint)
        if fault and checkpoint.step == step:
            raise CheckpointError(f"The checkpoint of step {step} cannot be copied: {fault}.")
        if not fault:
            steps.append(checkpoint.step)
            names.update(checkpoint.files)
    for name in os.listdir(part.file(CHECKPOINTS)):
        if name not in names:
            os.remove(part.file(CHECKPOINTS, name))
    return steps
