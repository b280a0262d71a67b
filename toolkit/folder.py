"""A run on disk: configuration, manifest, metrics, committed checkpoints.

    config.json     re-runs the run          events/       TensorBoard
    manifest.json   what was run and made    samples/      pictures and other output of plugins
    commits.jsonl   the chain of commits     checkpoints/  model.ckpt-STEP.*
    metrics.jsonl   a line per log step      reports/      of evaluations
    speed.jsonl     the same of the time

Only relative paths are stored. A checkpoint is committed when its line stands in the chain, which
is written last; loading verifies its files and falls back to the newest committed one that is
whole.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import secrets
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from .commits import Checkpoint, Commits
from .errors import CheckpointError, RetryError, ToolkitError, UsageError
from .files import UNFINISHED, sha256_of, sync, write_json
from .lines import JsonLines

fcntl: Optional[ModuleType]
try:
    import fcntl
except ImportError:  # no such lock on this system
    fcntl = None

CHECKPOINTS = "checkpoints"
ASIDE = "damaged"  # within CHECKPOINTS
TEMPORARY = ".tempstate"  # in the names of files that TensorFlow is still writing
LOCK = ".lock"
FORMAT = 2
FINISHED = "finished"  # the status of a run with nothing left to do

# What the rest relies on, where it stands in manifest.json, and of which type; [int]: a list of it.
_MANIFEST: Dict[str, Any] = {
    "status": str,
    "step": int,
    "total_steps": int,
    "reason": str,
    "xla": bool,
    "best": dict,
    "best.step": int,
    "summary": dict,
    "data": dict,
    "data.sha256": dict,
}
for _name in ("data.stored", "data.spec"):
    _MANIFEST.update(
        {
            _name: dict,
            _name + ".shape": [int],
            _name + ".dtype": str,
            _name + ".num_classes": int,
            _name + ".class_names": [str],
            _name + ".class_counts": [int],
        }
    )
_NEEDED = {"status", "data", "data.sha256", "data.spec", "data.spec.shape", "data.spec.dtype"}


class RunFolder:
    """One run's folder. Made from `reserve` or found by `open_run`."""

    def __init__(self, path: str, is_new: bool = False):
        self.path = path
        self.is_new = is_new  # what may be there belongs to another run, until `make`
        self.commits = Commits(self.file("commits.jsonl"), self.prefix)
        self._metrics = JsonLines(self.file("metrics.jsonl"))
        self._speed = JsonLines(self.file("speed.jsonl"))
        self._lock: Any = None

    def __str__(self) -> str:
        return os.path.relpath(self.path) if _below_here(self.path) else self.path

    def make(self, config: Dict[str, Any]) -> None:
        """Create the folder of a new run and hold it; what was there is moved aside, never deleted.

        config: what config.json holds. It is written first: from then on the run can be resumed.
        """
        try:
            if _is_taken(self.path):
                os.rename(self.path, "{}.{}".format(self.path, secrets.token_hex(2)))
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise UsageError("{} cannot be made: {}.".format(self, error.strerror)) from None
        self.lock()
        if os.path.exists(self.file("manifest.json")):
            raise UsageError("Another process began a run in {}.".format(self))
        self.write_config(config)
        with self.writing():
            for name in (CHECKPOINTS, "events"):
                self.subfolder(name)
        self.is_new = False

    def file(self, *parts: str) -> str:
        return os.path.join(self.path, *parts)

    def subfolder(self, *parts: str) -> str:
        path = self.file(*parts)
        os.makedirs(path, exist_ok=True)
        return path

    # ------------------------------------------------------------------------------ configuration

    def read_config(self) -> Dict[str, Any]:
        return _read_json(self.file("config.json"))

    def write_config(self, values: Dict[str, Any]) -> None:
        with self.writing():
            write_json(self.file("config.json"), values)

    def read_manifest(self) -> Dict[str, Any]:
        """What stands in manifest.json. Raises CheckpointError where it is missing or damaged."""
        path = self.file("manifest.json")
        manifest = _read_json(path)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise CheckpointError(
                "{}: expected a manifest of format {}.".format(path, FORMAT),
                hint="Read it with the version of the toolkit that wrote it.",
            )
        for name, kind in _MANIFEST.items():
            place: Any = manifest
            for part in name.split("."):
                place = place.get(part) if isinstance(place, dict) else None
            if place is None and name in _NEEDED:
                raise CheckpointError("{}: '{}' is missing.".format(path, name))
            if place is not None and not _is(place, kind):
                raise CheckpointError("{}: '{}' is {!r:.80}.".format(path, name, place))
        return manifest

    def update_manifest(self, **values: Any) -> None:
        path = self.file("manifest.json")
        manifest = self.read_manifest() if os.path.exists(path) else {"format": FORMAT}
        manifest.update(values)
        with self.writing():
            write_json(path, manifest)

    # ------------------------------------------------------------------------------------ metrics

    @property
    def metrics_path(self) -> str:
        return self._metrics.path

    def append_metrics(self, record: Dict[str, Any]) -> None:
        """Add one line: what a step computed, so that a run that resumes has the same lines."""
        with self.writing():
            self._metrics.append(record)

    def append_speed(self, record: Dict[str, Any]) -> None:
        """Add one line to speed.jsonl: what depends on the machine, and is never taken back."""
        with self.writing():
            self._speed.append(record)

    def read_metrics(self) -> List[Dict[str, Any]]:
        """Every whole line; a last line cut short by a kill is left out."""
        return self._metrics.read()

    def metrics_texts(self, size: Optional[int] = None) -> List[str]:
        """Every whole line as it is written, of the first `size` bytes if that is given."""
        return self._metrics.texts(size)

    def append_metrics_text(self, text: str) -> None:
        """Add a line as another run wrote it."""
        with self.writing():
            self._metrics.append_text(text)

    def cut_metrics(self, checkpoint: Optional[Checkpoint]) -> str:
        """Drop what was recorded after a checkpoint, so that the file tells one story.

        Returns what is wrong where lines from before it are missing or changed, in words, or ''.
        """
        fault = self.metrics_fault(checkpoint)
        with self.writing():
            self._metrics.cut(checkpoint.metrics.bytes if checkpoint else 0)
        return fault

    def metrics_fault(self, checkpoint: Optional[Checkpoint]) -> str:
        """What is wrong with metrics.jsonl up to a checkpoint, in words; '' where nothing is."""
        if checkpoint is None or self._metrics.is_at(checkpoint.metrics):
            return ""
        return "metrics.jsonl is not what it was at step {}".format(checkpoint.step)

    # -------------------------------------------------------------------------------- checkpoints

    def prefix(self, step: int) -> str:
        return self.file(CHECKPOINTS, "model.ckpt-{}".format(step))

    def checkpoints(self) -> List[Checkpoint]:
        """The committed checkpoints, oldest first, unverified."""
        return self.commits.rows()

    def begin_session(self, start: Optional[Checkpoint], **facts: Any) -> List[str]:
        """Put down that training goes on from a checkpoint (None: from the beginning), and with
        what.

        Files of checkpoints that are not kept are put aside: damaged ones, and those of a save that
        a kill cut short, are returned by name.
        """
        step = start.step if start else 0
        kept = [c.step for c in self.checkpoints() if c.step <= step]
        with self.writing():
            aside = self._put_aside(kept)
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
            rows = [c for c in self.checkpoints() if c.step < step]
            rows.append(Checkpoint(step, self.prefix(step), now, files, tensors, metrics))
            kept = set(keep(rows)) | {step}
            self.add_commit(rows[-1], [c.step for c in rows if c.step in kept])
            for checkpoint in rows:
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

    def add_commit(self, row: Checkpoint, kept: List[int]) -> None:
        """Add the line of a checkpoint whose files are on the disk. kept: steps there are now."""
        self.commits.add(
            "commit",
            step=row.step,
            time=row.time,
            kept=kept,
            tensors=row.tensors,
            files=row.files,
            metrics=row.metrics._asdict(),
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
            if name.startswith(("model.ckpt-", UNFINISHED)) and name not in named
        ]

    def _put_aside(self, kept: Iterable[int]) -> List[str]:
        """Remove what retention or a kill left; move aside what is committed, or may have been."""
        aside = []
        there = {n for c in self.checkpoints() for n in c.files}
        names = self.leftovers(kept)
        doubted = set(names) if self.commits.faults() else self._unexplained(names)
        for name in names:
            path = self.file(CHECKPOINTS, name)
            if name in there or name in doubted or os.path.isdir(path):
                os.replace(path, _unused(os.path.join(self.subfolder(CHECKPOINTS, ASIDE), name)))
                aside.append(name)
            else:
                os.remove(path)
        return aside

    def _unexplained(self, names: Iterable[str]) -> Set[str]:
        """Of these files those that no line names, where they are of several steps: a kill leaves
        one step's, so lines are missing at the chain's end.
        """
        named = self.commits.files()
        unnamed = {n for n in names if n not in named and not n.startswith(UNFINISHED)}
        return unnamed if len({n.split(".")[1] for n in unnamed}) > 1 else set()

    def damage(self, checkpoint: Checkpoint) -> str:
        """What is wrong with a committed checkpoint's files, in words; '' where they are whole."""
        for name, facts in checkpoint.files.items():
            path = self.file(CHECKPOINTS, name)
            try:
                size = os.path.getsize(path)
                if size != facts["bytes"]:
                    return "{} has {} bytes, expected {}".format(name, size, facts["bytes"])
                if sha256_of(path) != facts["sha256"]:
                    return "{} has changed since it was written".format(name)
            except FileNotFoundError:
                return "{} is missing".format(name)
            except OSError as error:
                return "{} cannot be read ({})".format(name, error.strerror)
        return "" if checkpoint.files else "its line names no files"

    def newest(self, warn: Callable[[str], None] = lambda text: None) -> Optional[Checkpoint]:
        """The newest committed checkpoint that is whole, or None where nothing was committed.

        Raises CheckpointError where checkpoints were committed and none of them is whole.
        """
        rows = self.checkpoints()
        faults = []
        for checkpoint in reversed(rows):
            fault = self.damage(checkpoint)
            if not fault:
                return checkpoint
            faults.append(fault)
            warn("the checkpoint of step {} is damaged: {}".format(checkpoint.step, fault))
        if faults:
            raise CheckpointError(
                "None of the {} checkpoints in {} is whole: {}.".format(
                    len(rows), self.file(CHECKPOINTS), faults[0]
                ),
                hint="Copy the files back, or train anew in another folder.",
            )
        fault = next(iter(self.commits.faults()), "") or self._lost()
        if fault:
            raise CheckpointError(
                "{} names no checkpoint: {}.".format(self.commits.path, fault),
                hint="Copy the file back, or train anew in another folder.",
            )
        return None

    def is_whole(self) -> bool:
        """Whether the checkpoint of the step that the run came to is there and whole."""
        rows = self.checkpoints()
        at_the_end = bool(rows) and rows[-1].step == self.read_manifest().get("step")
        return at_the_end and not self.damage(rows[-1])

    def _lost(self) -> str:
        """In words, of what work the manifest tells where the chain knows of none; '' of none."""
        manifest = self.read_manifest()
        step = (manifest.get("best") or manifest).get("step")
        if not step:
            return ""
        if not self.commits.lines():
            return "it is missing"
        # These may have made steps that were never committed.
        if manifest["status"] in ("running", "failed") and not manifest.get("best"):
            return ""
        return "lines are missing, as the run came to step {}".format(step)

    def best(self) -> Optional[Dict[str, Any]]:
        """The best checkpoint's step, metric and value; None where none is named, or it is gone."""
        best = self.read_manifest().get("best")
        known = [c.step for c in self.checkpoints()]
        return best if isinstance(best, dict) and best.get("step") in known else None

    def checkpoint(self, which: str, warn: Callable[[str], None] = lambda text: None) -> Checkpoint:
        """The checkpoint that `which` names: "last", "best" or a step. Raises CheckpointError."""
        rows = self.checkpoints()
        if not rows:
            self.newest(warn)
            raise CheckpointError(
                "{} has no checkpoint yet.".format(self),
                hint="Train it: toolkit resume {}".format(self),
            )
        if which == "last":
            return self.newest(warn)
        if which == "best":
            best = self.best()
            if best is None:
                raise CheckpointError(
                    "{} has no best checkpoint.".format(self),
                    hint="Train with --best METRIC, or take --checkpoint last.",
                )
            which = str(best["step"])
        steps = {str(c.step): c for c in rows}
        if which not in steps:
            raise CheckpointError(
                "{} has no checkpoint '{}'.".format(self, which),
                hint="It has last, best (with --best) and the steps {}.".format(", ".join(steps)),
            )
        found = steps[which]
        fault = self.damage(found)
        if fault:
            raise CheckpointError("The checkpoint of step {} is damaged: {}.".format(which, fault))
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
                "{} is gone: it was removed or moved during the training.".format(self),
                hint="If it was moved, go on there with: toolkit resume",
            )
        return RetryError(
            "{} cannot be written: {}.".format(self, why.rstrip(".")),
            hint="Nothing that was committed is lost. When there is room and the right to write, "
            "go on with: toolkit resume {}".format(self),
        )

    # --------------------------------------------------------------------------------------- lock

    def lock(self) -> None:
        """Hold the folder for this process until it ends, however it ends. Raises UsageError where
        another trains in it.
        """
        if fcntl is None or self._lock is not None:
            return
        with self.writing():
            self._lock = open(self.file(LOCK), "a")  # noqa: SIM115 - held for the process's life
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.unlock()
            raise UsageError(
                "Another process is training in {}.".format(self), hint="Wait for it, or stop it."
            ) from None
        for grown in (self.commits, self._metrics, self._speed):  # until now another may have added
            grown.forget()

    def is_locked(self) -> bool:
        """Whether a process is training in the folder now."""
        if fcntl is None or not os.path.exists(self.file(LOCK)):
            return False
        with open(self.file(LOCK)) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


# ---------------------------------------------------------------------------------- make and find


def new_path(base: str, plugin: str) -> str:
    """`base/<plugin>/<UTC time>-<4 hex>`."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return os.path.join(base, plugin, now.strftime("%Y%m%d-%H%M%S") + "-" + secrets.token_hex(2))


def reserve(path: str, force: bool = False) -> RunFolder:
    """The folder of a new run; nothing is written before `make`. Raises UsageError where it is not
    empty.

    force: `make` moves what is there aside.
    """
    folder = RunFolder(os.path.abspath(path), is_new=True)
    if _is_taken(folder.path) and not force:
        raise UsageError(
            "{} is not empty.".format(folder),
            hint="Go on with it (toolkit resume {}), choose another --run-dir, or move it aside"
            " with --force.".format(folder),
        )
    return folder


def open_run(path: str, unbegun: bool = False) -> RunFolder:
    """An existing run. Raises UsageError where the folder holds none.

    unbegun: also one that was ended before its first step; it is a new run, with a config.json.
    """
    folder = RunFolder(os.path.abspath(path))
    if os.path.isfile(folder.file("manifest.json")) or folder.commits.lines():
        return folder
    if not os.path.isdir(folder.path):
        what = "does not exist"
    elif os.path.isfile(folder.file("config.json")) and not _is_taken(folder.path):
        if unbegun:
            return RunFolder(folder.path, is_new=True)
        what = "was ended before its first step; go on with: toolkit resume {}".format(path)
    else:
        what = "holds no run"
    raise UsageError(
        "{} {}.".format(path, what), hint="A run's folder has a manifest.json; see runs/."
    )


def _is_taken(path: str) -> bool:
    """Whether there is more in a folder than what a run leaves that was ended before it began."""
    if not os.path.isdir(path):
        return os.path.exists(path)
    for name in os.listdir(path):
        if name in (CHECKPOINTS, "events"):
            if not os.path.isdir(os.path.join(path, name)) or os.listdir(os.path.join(path, name)):
                return True
        elif name not in (LOCK, "config.json") and not name.startswith(UNFINISHED):
            return True
    return False


# ---------------------------------------------------------------------------------------- helpers


def _unused(path: str) -> str:
    """The path, or where something is there, the first of PATH.1, PATH.2, ... where nothing is."""
    paths = itertools.chain([path], ("{}.{}".format(path, n) for n in itertools.count(1)))
    return next(path for path in paths if not os.path.lexists(path))


def _read_json(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise CheckpointError("{} is missing.".format(path)) from None
    except OSError as error:
        raise CheckpointError("{} cannot be read: {}.".format(path, error.strerror)) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError("{} is not valid JSON: {}.".format(path, error)) from None


def _is(value: Any, kind: Any) -> bool:
    """Whether a value of a manifest is of a type. Whole numbers are counts."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(part, kind[0]) for part in value)
    if kind is int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and 0 <= value <= sys.maxsize
    return isinstance(value, kind)


def _below_here(path: str) -> bool:
    return not os.path.relpath(path).startswith("..")
