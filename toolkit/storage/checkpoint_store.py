"""The checkpoints of a run on disk: commit, retain, verify and quarantine them.

A checkpoint is committed once its entry is in the commit log, which is written last. Loading
verifies the files and falls back to the newest committed checkpoint that is intact.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Set

from ..errors import CheckpointError
from ..files import TEMPORARY_PREFIX, sync
from .commit_log import Checkpoint, CommitLog, retained_steps
from .jsonl import FileDigest, digest_of, find_damage
from .own_folders import COMMITS
from .record_log import RecordLog

if TYPE_CHECKING:
    from .run_folder import RunFolder

CHECKPOINTS = "checkpoints"
REPORTS = "reports"
_STALE_SECS = 24 * 3600.0  # no evaluation takes so long to write its reports
QUARANTINE = "damaged"  # within CHECKPOINTS
TF_TEMPORARY = ".tempstate"  # in the names of files that TensorFlow is still writing


class CheckpointStore:
    """The checkpoints of one run folder, with its commit log. Each commit has the size and the hash
    of metrics.jsonl.
    """

    def __init__(self, folder: RunFolder, metrics: RecordLog):
        self.commits = CommitLog(folder.file(COMMITS), self.prefix)
        self._folder = folder
        self._metrics = metrics

    def prefix(self, step: int) -> str:
        """The path prefix of the files of a step, as a Saver takes it."""
        return self._file(f"model.ckpt-{step}")

    def _file(self, name: str) -> str:
        return self._folder.file(CHECKPOINTS, name)

    # -------------------------------------------------------------------------------------- write

    def begin_session(
        self,
        start: Optional[Checkpoint],
        warn: Callable[[str], None] = lambda text: None,
        **facts: Any,
    ) -> List[str]:
        """Add the entry of a session that continues from a checkpoint (None: the beginning), clear
        the folder of files without a commit, and cut the metrics back. `warn` gets a message for
        what may be of use.

        Returns the names of the files that were moved to quarantine: those of damaged checkpoints,
        and those that may belong to a commit whose entry is lost.
        """
        step = start.step if start else 0
        steps = [checkpoint.step for checkpoint in self.list() if checkpoint.step <= step]
        with self._folder.writing():
            names = self._clear(steps)
            for path, folders, files in os.walk(self._folder.path):
                for name in [each for each in files if each.startswith(TEMPORARY_PREFIX)]:
                    os.remove(os.path.join(path, name))
                for name in [each for each in folders if each.startswith(TEMPORARY_PREFIX)]:
                    folders.remove(name)
                    place = os.path.join(path, name)
                    with contextlib.suppress(FileNotFoundError):
                        age = time.time() - os.stat(place).st_mtime
                        # An evaluation that is under way writes to a young one.
                        if os.path.basename(path) != REPORTS or age > _STALE_SECS:
                            shutil.rmtree(place)
            self.commits.add("session", **{"from": step, "kept": steps}, **facts)
        if names:
            warn(f"moved to {self._folder}/{CHECKPOINTS}/{QUARANTINE}: {', '.join(names)}")
        fault = self._metrics.cut_back(start)
        if fault:
            warn(f"{fault}; its contents stay")
        return names

    def commit(
        self,
        step: int,
        now: float,
        tensors: str,
        keep: int,
        every_hours: Optional[float] = None,
        end: str = "",
    ) -> None:
        """Make the files durable that a Saver has written of a step, add their entry, then delete
        the checkpoints that neither `retained_steps` nor `best` names.

        `now` is in seconds since the epoch; `tensors` is the SHA-256 over the tensors; `end` is why
        training ends with the step, if a hook has asked for that.
        """
        with self._folder.writing():
            files = self._make_durable(step)
            self._metrics.make_durable()
            position = self._metrics.position()
            checkpoints = [checkpoint for checkpoint in self.list() if checkpoint.step < step]
            checkpoints.append(Checkpoint(step, self.prefix(step), now, files, tensors, position))
            best = self.best() or {"step": step}
            steps = retained_steps(checkpoints, keep, every_hours) | {best["step"]}
            kept = [c.step for c in checkpoints if c.step in steps]
            self.add_commit(checkpoints[-1], kept, **({"end": end} if end else {}))
            for name in [name for c in checkpoints if c.step not in steps for name in c.files]:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self._file(name))

    def _make_durable(self, step: int) -> Dict[str, FileDigest]:
        """Sync the files of a step to the disk; return their digests by name."""
        folder = self._folder.file(CHECKPOINTS)
        start = os.path.basename(self.prefix(step)) + "."
        files = {}
        for name in sorted(os.listdir(folder)):
            if name.startswith(start) and TF_TEMPORARY not in name:
                path = os.path.join(folder, name)
                sync(path)
                files[name] = digest_of(path)
        sync(folder)
        return files

    def add_commit(self, checkpoint: Checkpoint, steps: List[int], **facts: Any) -> None:
        """Add the entry of a checkpoint whose files are on the disk, with the steps whose
        checkpoints exist from now on, and further facts.
        """
        self.commits.add(
            "commit",
            step=checkpoint.step,
            time=checkpoint.time,
            kept=steps,
            tensors=checkpoint.tensors,
            files={name: digest._asdict() for name, digest in checkpoint.files.items()},
            metrics=checkpoint.metrics._asdict(),
            **facts,
        )

    # -------------------------------------------------------------------------- uncommitted files

    def leftovers(self, steps: Iterable[int]) -> List[str]:
        """The names of the checkpoint files that belong to none of the commits of these steps."""
        valid = set(steps)
        names = {name for c in self.list() if c.step in valid for name in c.files}
        folder = self._folder.file(CHECKPOINTS)
        try:
            all_names = sorted(os.listdir(folder) if os.path.isdir(folder) else ())
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be read: {error.strerror}.") from None
        return [
            name
            for name in all_names
            if name.startswith(("model.ckpt-", TEMPORARY_PREFIX)) and name not in names
        ]

    def _clear(self, steps: Iterable[int]) -> List[str]:
        """Delete or quarantine all checkpoint files but those of these steps.

        What retention or a kill left is deleted; what was committed, or may have been, is moved to
        quarantine, and its names are returned.
        """
        damaged = []
        listed = {name for checkpoint in self.list() for name in checkpoint.files}
        names = self.leftovers(steps)
        doubtful = set(names) if self.commits.faults() else self._unlisted_files(names)
        for name in names:
            if name in listed or name in doubtful or os.path.isdir(self._file(name)):
                folder = self._folder.make_subfolder(CHECKPOINTS, QUARANTINE)
                places = (f"{name}.{number}" if number else name for number in itertools.count())
                paths = (os.path.join(folder, place) for place in places)
                free = next(path for path in paths if not os.path.lexists(path))
                os.replace(self._file(name), free)
                damaged.append(name)
            else:
                os.remove(self._file(name))
        return damaged

    def _unlisted_files(self, names: Iterable[str]) -> Set[str]:
        """The names that no entry lists, if they are of several steps: a kill leaves files of one
        step only, so entries are missing at the end of the commit log.
        """
        commits = [entry for entry in self.commits.entries() if entry.kind == "commit"]
        known = {name for entry in commits for name in entry.values["files"]}
        unknown = {n for n in names if n not in known and not n.startswith(TEMPORARY_PREFIX)}
        return unknown if len({name.split(".")[1] for name in unknown}) > 1 else set()

    # --------------------------------------------------------------------------------------- read

    def list(self) -> List[Checkpoint]:
        """The committed checkpoints, oldest first; their files are not verified."""
        return self.commits.checkpoints()

    def find(self, which: str, warn: Callable[[str], None] = lambda text: None) -> Checkpoint:
        """The checkpoint "last", "best" or of a step, verified. `warn` gets a message for each
        damaged one that "last" skips. Raises CheckpointError if it does not exist, or is damaged.
        """
        if which == "last" or not self.list():
            newest = self.newest(warn)
            if newest is None:
                raise CheckpointError(
                    f"{self._folder} has no checkpoint yet.",
                    hint=f"Train it: toolkit resume {self._folder.argument}",
                )
            return newest
        steps = {str(checkpoint.step): checkpoint for checkpoint in self.list()}
        best = None if which in steps else self.best()
        if which == "best" and best is None:
            raise CheckpointError(
                f"{self._folder} has no best checkpoint.",
                hint="Train with --best-metric METRIC, or use --checkpoint last.",
            )
        step = str(best["step"]) if best and which == "best" else which
        if step not in steps:
            raise CheckpointError(
                f"{self._folder} has no checkpoint '{which}'.",
                hint=f"It has {'last' if best is None else 'last, best'} and the steps "
                f"{', '.join(steps)}.",
            )
        fault = self.find_damage(steps[step])
        if fault and self._is_outdated(list(steps.values())):
            return self.find(which, warn)
        if fault:
            raise CheckpointError(f"The checkpoint of step {step} is damaged: {fault}.")
        return steps[step]

    def best(self) -> Optional[Dict[str, Any]]:
        """The step, metric and value of the best checkpoint; None if there is none any more."""
        best = self.commits.state().get("best")
        steps = [checkpoint.step for checkpoint in self.list()]
        return best if best and best["step"] in steps else None

    def newest(self, warn: Callable[[str], None] = lambda text: None) -> Optional[Checkpoint]:
        """The newest committed checkpoint that is intact, or None if nothing was committed. `warn`
        gets a message for each one that is skipped. Raises CheckpointError if none is intact.
        """
        checkpoints, newest = self.list(), None
        faults: Dict[int, str] = {}  # by step
        for checkpoint in reversed(checkpoints):
            fault = self.find_damage(checkpoint)
            if not fault:
                newest = checkpoint
                break
            faults[checkpoint.step] = fault
        if faults and self._is_outdated(checkpoints):
            return self.newest(warn)
        for step, fault in faults.items():
            warn(f"the checkpoint of step {step} is damaged: {fault}")
        if newest is not None:
            return newest
        if faults:
            raise CheckpointError(
                f"None of the {len(checkpoints)} checkpoints in {self._folder.file(CHECKPOINTS)} "
                f"is intact: {next(iter(faults.values()))}.",
                hint="Copy the files back, or start a new run in another folder.",
            )
        fault, names = next(iter(self.commits.faults()), ""), self.leftovers(())
        if not fault and not self.commits.entries():
            fault = "it is missing" if names else ""
        elif not fault:  # commits that files show
            lost = self._unlisted_files(names)
            fault = f"entries are missing, as of {min(lost)}" if lost else ""
        if fault:
            raise CheckpointError(
                f"{self.commits.path} lists no checkpoint: {fault}.",
                hint="Copy the file back, or start a new run in another folder.",
            )
        return None

    def _is_outdated(self, checkpoints: List[Checkpoint]) -> bool:
        """Whether a process that trains the run has committed since these were listed: what seemed
        to be missing may have been deleted by its retention.
        """
        self.commits.invalidate_cache()
        return [c.step for c in self.list()] != [c.step for c in checkpoints]

    def find_damage(self, checkpoint: Checkpoint) -> str:
        """What is wrong with the files of a checkpoint, as a clause; '' if they are intact."""
        for name, digest in checkpoint.files.items():
            fault = find_damage(self._file(name), digest.sha256, digest.bytes)
            if fault:
                return f"{name} {fault}"
        return "" if checkpoint.files else "its commit log entry lists no files"

    def is_intact(self) -> bool:
        """Whether the checkpoint of the run's last step exists and is not damaged."""
        last = self.list()[-1:]
        step = self.commits.state()["step"]
        return any(each.step == step and not self.find_damage(each) for each in last)
