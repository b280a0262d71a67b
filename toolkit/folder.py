"""A run on disk: configuration, manifest, metrics, committed checkpoints.

    config.json     re-runs the run          events/       TensorBoard
    manifest.json   what was run and made    samples/      pictures and other output of plugins
    metrics.jsonl   a line per log step      checkpoints/  model.ckpt-STEP.*
    reports/        of evaluations

Only relative paths are stored. A checkpoint is committed when its line stands in the manifest,
which is written last; loading verifies its files and falls back to the newest committed one that
is whole.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

from .errors import CheckpointError, UsageError
from .files import finite, sha256_of, sync, write_json, written_whole

CHECKPOINTS = "checkpoints"
FORMAT = 1


class Checkpoint(NamedTuple):
    """A committed checkpoint. `path`: its prefix, for a Saver. `time`: seconds since the epoch."""

    step: int
    path: str
    time: float
    files: Dict[str, Dict[str, Any]]


class RunFolder:
    """One run's folder. Made from `reserve` or found by `open_run`."""

    def __init__(self, path: str, is_new: bool = False):
        self.path = path
        self.is_new = is_new  # what may be there belongs to another run, until `make`
        self._lock = None

    def __str__(self) -> str:
        return os.path.relpath(self.path) if _below_here(self.path) else self.path

    def make(self) -> None:
        """Create the folder of a new run; what was there is moved aside, never deleted."""
        if os.path.exists(self.path) and (not os.path.isdir(self.path) or os.listdir(self.path)):
            os.rename(self.path, "{}.{}".format(self.path, secrets.token_hex(2)))
        try:
            for name in ("", CHECKPOINTS, "events"):
                os.makedirs(self.file(name), exist_ok=True)
        except OSError as error:
            raise UsageError("{} cannot be made: {}.".format(self, error.strerror)) from None
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
        for name in ("status", "data", "checkpoints"):
            if name not in manifest:
                raise CheckpointError("{}: '{}' is missing.".format(path, name))
        return manifest

    def update_manifest(self, **values: Any) -> None:
        path = self.file("manifest.json")
        manifest = self.read_manifest() if os.path.exists(path) else {"format": FORMAT}
        manifest.update(values)
        write_json(path, manifest)

    # ------------------------------------------------------------------------------------ metrics

    @property
    def metrics_path(self) -> str:
        return self.file("metrics.jsonl")

    def append_metrics(self, record: Dict[str, Any]) -> None:
        """Add one line. Non-finite numbers become null, which every JSON reader takes."""
        with open(self.metrics_path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite(record)) + "\n")

    def read_metrics(self) -> List[Dict[str, Any]]:
        """Every whole line; a last line cut short by a kill is left out."""
        records = []
        if os.path.exists(self.metrics_path):
            with open(self.metrics_path, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        records.append(json.loads(line))
        return records

    def cut_metrics(self, step: int) -> None:
        """Drop what was recorded after `step`, so that the file tells one story."""
        if not os.path.exists(self.metrics_path):
            return
        kept = [r for r in self.read_metrics() if r.get("step", 0) <= step]
        text = "".join(json.dumps(r) + "\n" for r in kept)
        with open(self.metrics_path, encoding="utf-8") as file:
            if file.read() == text:
                return
        with written_whole(self.metrics_path, durable=True) as file:
            file.write(text.encode("utf-8"))

    # -------------------------------------------------------------------------------- checkpoints

    def prefix(self, step: int) -> str:
        return self.file(CHECKPOINTS, "model.ckpt-{}".format(step))

    def checkpoints(self) -> List[Checkpoint]:
        """The committed checkpoints, oldest first, unverified."""
        rows = self.read_manifest().get("checkpoints", [])
        return [Checkpoint(r["step"], self.prefix(r["step"]), r["time"], r["files"]) for r in rows]

    def commit(
        self, step: int, now: float, keep: Callable[[List[Checkpoint]], Iterable[int]]
    ) -> None:
        """Make the files of `step` durable, then name them in the manifest, then delete what `keep`
        (checkpoints, oldest first -> steps to keep) leaves out.
        """
        folder = self.file(CHECKPOINTS)
        start = os.path.basename(self.prefix(step)) + "."
        files = {}
        for name in sorted(os.listdir(folder)):
            if name.startswith(start):
                path = os.path.join(folder, name)
                sync(path)
                files[name] = {"bytes": os.path.getsize(path), "sha256": sha256_of(path)}
        sync(folder)
        rows = [c for c in self.checkpoints() if c.step < step]
        rows.append(Checkpoint(step, self.prefix(step), now, files))
        kept = set(keep(rows)) | {step}
        self._write_checkpoints([c for c in rows if c.step in kept])
        for checkpoint in rows:
            if checkpoint.step not in kept:
                self._delete(checkpoint)

    def _write_checkpoints(self, rows: List[Checkpoint]) -> None:
        self.update_manifest(
            checkpoints=[{"step": c.step, "time": c.time, "files": c.files} for c in rows]
        )

    def _delete(self, checkpoint: Checkpoint) -> None:
        for name in checkpoint.files:
            try:
                os.remove(self.file(CHECKPOINTS, name))
            except FileNotFoundError:
                pass

    def forget_after(self, step: int) -> None:
        """Take back what was committed after `step`: training goes on from there."""
        rows = self.checkpoints()
        later = [c for c in rows if c.step > step]
        if later:
            self._write_checkpoints([c for c in rows if c.step <= step])
            best = self.read_manifest().get("best")
            if best and best["step"] > step:
                self.update_manifest(best=None, evaluations_since_best=0)
            self.update_manifest(evaluated_step=step)
            for checkpoint in later:
                self._delete(checkpoint)

    def damage(self, checkpoint: Checkpoint) -> str:
        """What is wrong with a committed checkpoint's files, in words; '' where they are whole."""
        for name, facts in checkpoint.files.items():
            path = self.file(CHECKPOINTS, name)
            if not os.path.exists(path):
                return "{} is missing".format(name)
            size = os.path.getsize(path)
            if size != facts["bytes"]:
                return "{} has {} bytes, expected {}".format(name, size, facts["bytes"])
            if sha256_of(path) != facts["sha256"]:
                return "{} has changed since it was written".format(name)
        return ""

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
            warn("checkpoint of step {} is damaged: {}".format(checkpoint.step, fault))
        if faults:
            raise CheckpointError(
                "None of the {} checkpoints in {} is whole: {}.".format(
                    len(rows), self.file(CHECKPOINTS), faults[0]
                ),
                hint="Copy the files back, or train anew in another folder.",
            )
        return None

    def checkpoint(self, which: str, warn: Callable[[str], None] = lambda text: None) -> Checkpoint:
        """The checkpoint that `which` names: "last", "best" or a step. Raises CheckpointError."""
        rows = self.checkpoints()
        if not rows:
            raise CheckpointError(
                "{} has no checkpoint yet.".format(self),
                hint="Train it: toolkit resume {}".format(self),
            )
        if which == "last":
            return self.newest(warn)
        if which == "best":
            best = self.read_manifest().get("best")
            if best is None:
                raise CheckpointError(
                    "{} has no best checkpoint.".format(self),
                    hint="Train with --best METRIC, or take --checkpoint last.",
                )
            which = str(best["step"])
        steps = [c.step for c in rows]
        if not which.isdigit() or int(which) not in steps:
            raise CheckpointError(
                "{} has no checkpoint '{}'.".format(self, which),
                hint="It has last, best (with --best) and the steps {}.".format(
                    ", ".join(map(str, steps))
                ),
            )
        found = rows[steps.index(int(which))]
        fault = self.damage(found)
        if fault:
            raise CheckpointError("The checkpoint of step {} is damaged: {}.".format(which, fault))
        return found

    # --------------------------------------------------------------------------------------- lock

    def lock(self) -> None:
        """Hold the folder for this process until it ends. Raises UsageError where another trains
        in it.
        """
        try:
            import fcntl
        except ImportError:  # no such lock on this system
            return
        self._lock = open(self.file(".lock"), "w")  # noqa: SIM115 - held for the process's life
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                "Another process is training in {}.".format(self), hint="Wait for it, or stop it."
            ) from None

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
    taken = os.path.exists(folder.path) and (
        not os.path.isdir(folder.path) or bool(os.listdir(folder.path))
    )
    if taken and not force:
        raise UsageError(
            "{} is not empty.".format(folder),
            hint="Go on with it (toolkit resume {}), choose another --run-dir, or move it aside"
            " with --force.".format(folder),
        )
    return folder


def open_run(path: str) -> RunFolder:
    """An existing run. Raises UsageError where the folder holds none."""
    folder = RunFolder(os.path.abspath(path))
    if not os.path.isfile(folder.file("manifest.json")):
        what = "holds no run" if os.path.isdir(folder.path) else "does not exist"
        raise UsageError(
            "{} {}.".format(path, what), hint="A run's folder has a manifest.json; see runs/."
        )
    return folder


# ---------------------------------------------------------------------------------------- helpers


def retained(keep: int, every_hours: Optional[float], always: Iterable[int] = ()):
    """The rule for `RunFolder.commit`: the `keep` newest, `always`, and one per `every_hours`.

    It is a function of the committed checkpoints and their times alone, so a restart forgets
    nothing.
    """

    def rule(checkpoints: List[Checkpoint]) -> List[int]:
        kept = [c.step for c in checkpoints[-keep:]] + list(always)
        if every_hours is not None and checkpoints:
            last = checkpoints[0].time
            kept.append(checkpoints[0].step)
            for checkpoint in checkpoints[1:]:
                if checkpoint.time - last >= every_hours * 3600:
                    kept.append(checkpoint.step)
                    last = checkpoint.time
        return kept

    return rule


def _read_json(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise CheckpointError("{} is missing.".format(path)) from None
    except ValueError as error:
        raise CheckpointError("{} is not valid JSON: {}.".format(path, error)) from None


def _below_here(path: str) -> bool:
    return not os.path.relpath(path).startswith("..")
