"""The checkpoints of a run on disk: committed, kept, verified, put aside.

A checkpoint is committed when its line stands in the chain, which is written last; loading verifies
its files and falls back to the newest committed one that is whole.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from ..errors import CheckpointError, RetryError, ToolkitError
from ..files import TEMPORARY_PREFIX, sha256_of, sync
from .commit_log import Checkpoint, CommitLog
from .jsonl import JsonLines

CHECKPOINTS = "checkpoints"
QUARANTINE = "damaged"  # within CHECKPOINTS
TEMPORARY = ".tempstate"  # in the names of files that TensorFlow is still writing


class Store:
    """The part of a run's folder that holds checkpoints, and what they hang on: the chain and
    metrics.jsonl. What stands in the manifest a subclass knows.
    """

    def __init__(self, path: str):
        self.path = path
        self.commits = CommitLog(self.file("commits.jsonl"), self.prefix)
        self._metrics = JsonLines(self.file("metrics.jsonl"))

    def __str__(self) -> str:
        return os.path.relpath(self.path) if _below_here(self.path) else self.path

    def file(self, *parts: str) -> str:
        return os.path.join(self.path, *parts)

    def subfolder(self, *parts: str) -> str:
        path = self.file(*parts)
        os.makedirs(path, exist_ok=True)
        return path

    def read_manifest(self) -> Dict[str, Any]:
        raise NotImplementedError

    # -------------------------------------------------------------------------------- checkpoints

    def prefix(self, step: int) -> str:
        return self.file(CHECKPOINTS, f"model.ckpt-{step}")

    def checkpoints(self) -> List[Checkpoint]:
        """The committed checkpoints, oldest first, unverified."""
        return self.commits.checkpoints()

    def begin_session(self, start: Optional[Checkpoint], **facts: Any) -> List[str]:
        """Put down that training goes on from a checkpoint (None: from the beginning), and with
        what.

        Files of checkpoints that are not kept are put aside: damaged ones, and those of a save that
        a kill cut short, are returned by name.
        """
        step = start.step if start else 0
        kept = [c.step for c in self.checkpoints() if c.step <= step]
        with self.writing():
            aside = self._quarantine(kept)
            self._clear_unfinished()
            self.commits.add("session", **dict({"from": step, "kept": kept}, **facts))
        return aside

    def commit(
        self,
        step: int,
        now: float,
        keep: Callable[[List[Checkpoint]], Iterable[int]],
        tensors: str,
    ) -> None:
        """Make the files of `step` durable, then add their line to the chain, then delete what
        `keep` (checkpoints, oldest first -> steps to keep) leaves out.

        tensors: the SHA-256 over the tensors of the checkpoint.
        """
        with self.writing():
            files = self._durable_files(step)
            self._metrics.make_durable()
            metrics = self._metrics.position()
            checkpoints = [c for c in self.checkpoints() if c.step < step]
            checkpoints.append(Checkpoint(step, self.prefix(step), now, files, tensors, metrics))
            kept = set(keep(checkpoints)) | {step}
            self.add_commit(checkpoints[-1], [c.step for c in checkpoints if c.step in kept])
            for checkpoint in checkpoints:
                if checkpoint.step not in kept:
                    self._delete(checkpoint)

    def _durable_files(self, step: int) -> Dict[str, Dict[str, Any]]:
        """Name -> size and hash of each file of a step, all on the disk."""
        folder = self.file(CHECKPOINTS)
        start = os.path.basename(self.prefix(step)) + "."
        files = {}
        for name in sorted(os.listdir(folder)):
            if name.startswith(start) and TEMPORARY not in name:
                path = os.path.join(folder, name)
                sync(path)
                files[name] = {"bytes": os.path.getsize(path), "sha256": sha256_of(path)}
        sync(folder)
        return files

    def add_commit(self, checkpoint: Checkpoint, kept: List[int]) -> None:
        """Add the line of a checkpoint whose files are on the disk. kept: steps there are now."""
        self.commits.add(
            "commit",
            step=checkpoint.step,
            time=checkpoint.time,
            kept=kept,
            tensors=checkpoint.tensors,
            files=checkpoint.files,
            metrics=checkpoint.metrics._asdict(),
        )

    def _delete(self, checkpoint: Checkpoint) -> None:
        for name in checkpoint.files:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.file(CHECKPOINTS, name))

    def leftovers(self, kept: Iterable[int]) -> List[str]:
        """Names of the checkpoint files that belong to no checkpoint in `kept`."""
        steps = set(kept)
        named = {name for c in self.checkpoints() if c.step in steps for name in c.files}
        folder = self.file(CHECKPOINTS)
        return [
            name
            for name in sorted(os.listdir(folder) if os.path.isdir(folder) else ())
            if name.startswith(("model.ckpt-", TEMPORARY_PREFIX)) and name not in named
        ]

    def _quarantine(self, kept: Iterable[int]) -> List[str]:
        """Remove what retention or a kill left; move aside what is committed, or may have been."""
        aside = []
        there = {n for c in self.checkpoints() for n in c.files}
        names = self.leftovers(kept)
        doubted = set(names) if self.commits.faults() else self._unexplained(names)
        for name in names:
            path = self.file(CHECKPOINTS, name)
            if name in there or name in doubted or os.path.isdir(path):
                os.replace(
                    path, _unused(os.path.join(self.subfolder(CHECKPOINTS, QUARANTINE), name))
                )
                aside.append(name)
            else:
                os.remove(path)
        return aside

    def _clear_unfinished(self) -> None:
        """Remove the files in the run's folder itself that a kill left half written."""
        for name in os.listdir(self.path):
            if name.startswith(TEMPORARY_PREFIX):
                os.remove(self.file(name))

    def _unexplained(self, names: Iterable[str]) -> Set[str]:
        """Of these files those that no line names, where they are of several steps: a kill leaves
        one step's, so lines are missing at the chain's end.
        """
        named = self.commits.files()
        unnamed = {n for n in names if n not in named and not n.startswith(TEMPORARY_PREFIX)}
        return unnamed if len({n.split(".")[1] for n in unnamed}) > 1 else set()

    def find_damage(self, checkpoint: Checkpoint) -> str:
        """What is wrong with a committed checkpoint's files, in words; '' where they are whole."""
        for name, facts in checkpoint.files.items():
            path = self.file(CHECKPOINTS, name)
            try:
                size = os.path.getsize(path)
                if size != facts["bytes"]:
                    return f"{name} has {size} bytes, expected {facts['bytes']}"
                if sha256_of(path) != facts["sha256"]:
                    return f"{name} has changed since it was written"
            except FileNotFoundError:
                return f"{name} is missing"
            except OSError as error:
                return f"{name} cannot be read ({error.strerror})"
        return "" if checkpoint.files else "its line names no files"

    def newest(self, warn: Callable[[str], None] = lambda text: None) -> Optional[Checkpoint]:
        """The newest committed checkpoint that is whole, or None where nothing was committed.

        Raises CheckpointError where checkpoints were committed and none of them is whole.
        """
        checkpoints = self.checkpoints()
        faults = []
        for checkpoint in reversed(checkpoints):
            fault = self.find_damage(checkpoint)
            if not fault:
                return checkpoint
            faults.append(fault)
            warn(f"the checkpoint of step {checkpoint.step} is damaged: {fault}")
        if faults:
            raise CheckpointError(
                f"None of the {len(checkpoints)} checkpoints in {self.file(CHECKPOINTS)} is whole: "
                f"{faults[0]}.",
                hint="Copy the files back, or train anew in another folder.",
            )
        fault = next(iter(self.commits.faults()), "") or self._lost()
        if fault:
            raise CheckpointError(
                f"{self.commits.path} names no checkpoint: {fault}.",
                hint="Copy the file back, or train anew in another folder.",
            )
        return None

    def is_intact(self) -> bool:
        """Whether the checkpoint of the step that the run came to is there and whole."""
        checkpoints = self.checkpoints()
        at_the_end = bool(checkpoints) and checkpoints[-1].step == self.read_manifest().get("step")
        return at_the_end and not self.find_damage(checkpoints[-1])

    def _lost(self) -> str:
        """In words, of what work the manifest tells where the chain knows of none; '' of none."""
        manifest = self.read_manifest()
        step = manifest.get("committed") or (manifest.get("best") or {}).get("step")
        if not self.commits.entries() and (step or self.leftovers(())):
            return "it is missing"
        return f"lines are missing, as step {step} was committed" if step else ""

    def best(self) -> Optional[Dict[str, Any]]:
        """The best checkpoint's step, metric and value; None where none is named, or it is gone."""
        best = self.read_manifest().get("best")
        known = [c.step for c in self.checkpoints()]
        return best if isinstance(best, dict) and best.get("step") in known else None

    def checkpoint(self, which: str, warn: Callable[[str], None] = lambda text: None) -> Checkpoint:
        """The checkpoint that `which` names: "last", "best" or a step. Raises CheckpointError."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            self.newest(warn)
            raise CheckpointError(
                f"{self} has no checkpoint yet.",
                hint=f"Train it: toolkit resume {self}",
            )
        if which == "last":
            return self.newest(warn)
        if which == "best":
            best = self.best()
            if best is None:
                raise CheckpointError(
                    f"{self} has no best checkpoint.",
                    hint="Train with --best-metric METRIC, or take --checkpoint last.",
                )
            which = str(best["step"])
        steps = {str(c.step): c for c in checkpoints}
        if which not in steps:
            raise CheckpointError(
                f"{self} has no checkpoint '{which}'.",
                hint=f"It has last, best (with --best-metric) and the steps {', '.join(steps)}.",
            )
        found = steps[which]
        fault = self.find_damage(found)
        if fault:
            raise CheckpointError(f"The checkpoint of step {which} is damaged: {fault}.")
        return found

    # ------------------------------------------------------------------------------------- faults

    @contextlib.contextmanager
    def writing(self):
        """Tell what the system refuses: RetryError, or CheckpointError where the folder is gone."""
        try:
            yield
        except OSError as error:
            raise self.cannot_write(error.strerror or str(error)) from error

    def cannot_write(self, why: str) -> ToolkitError:
        """The error to raise when something in the folder could not be written."""
        if not os.path.isdir(self.path):
            return CheckpointError(
                f"{self} is gone: it was removed or moved during the training.",
                hint="If it was moved, go on there with: toolkit resume",
            )
        return RetryError(
            f"{self} cannot be written: {why.rstrip('.')}.",
            hint="Nothing that was committed is lost. When there is room and the right to write, "
            f"go on with: toolkit resume {self}",
        )


def _unused(path: str) -> str:
    """The path, or where something is there, the first of PATH.1, PATH.2, ... where nothing is."""
    paths = itertools.chain([path], (f"{path}.{n}" for n in itertools.count(1)))
    return next(path for path in paths if not os.path.lexists(path))


def _below_here(path: str) -> bool:
    return not os.path.relpath(path).startswith("..")
