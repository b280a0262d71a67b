"""A run on disk: configuration, manifest, metrics, committed checkpoints.

    config.json     re-runs the run          events/       TensorBoard
    manifest.json   what was run and made    samples/      pictures and other output of plugins
    commits.jsonl   the chain of commits     checkpoints/  model.ckpt-STEP.*
    metrics.jsonl   a line per log step      reports/      of evaluations
    speed.jsonl     the same of the time

Only relative paths are stored.
"""

from __future__ import annotations

import datetime
import os
import secrets
from types import ModuleType
from typing import Any, Dict, List, Optional

from ..errors import UsageError
from ..files import TEMPORARY_PREFIX, write_json
from . import manifest
from .checkpoint_store import CHECKPOINTS, Store
from .commit_log import Checkpoint
from .jsonl import JsonLines, Position

fcntl: Optional[ModuleType]
try:
    import fcntl
except ImportError:  # no such lock on this system
    fcntl = None

LOCK = ".lock"


class RunFolder(Store):
    """One run's folder. Made from `reserve` or found by `open_run`."""

    def __init__(self, path: str, is_new: bool = False):
        super().__init__(path)
        self.is_new = is_new  # what may be there belongs to another run, until `make`
        self._speed = JsonLines(self.file("speed.jsonl"))
        self._lock: Any = None

    def make(self, config: Dict[str, Any]) -> None:
        """Create the folder of a new run and hold it; what was there is moved aside, never deleted.

        config: what config.json holds. It is written first: from then on the run can be resumed.
        """
        try:
            if _is_taken(self.path):
                os.rename(self.path, f"{self.path}.{secrets.token_hex(2)}")
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self} cannot be made: {error.strerror}.") from None
        self.lock()
        if os.path.exists(self.file("manifest.json")):
            raise UsageError(f"Another process began a run in {self}.")
        self.write_config(config)
        with self.writing():
            for name in (CHECKPOINTS, "events"):
                self.subfolder(name)
        self.is_new = False

    # ------------------------------------------------------------------------------ configuration

    def read_config(self) -> Dict[str, Any]:
        return manifest.read_json(self.file("config.json"))

    def write_config(self, values: Dict[str, Any]) -> None:
        with self.writing():
            self._write(self.file("config.json"), values)

    def _write(self, path: str, values: Dict[str, Any]) -> None:
        os.stat(self.path)  # where the folder was removed, it is not to come back
        write_json(path, values)

    def read_manifest(self) -> Dict[str, Any]:
        """What stands in manifest.json. Raises CheckpointError where it is missing or damaged."""
        return manifest.read(self.file("manifest.json"))

    def update_manifest(self, **values: Any) -> None:
        path = self.file("manifest.json")
        held = self.read_manifest() if os.path.exists(path) else {"format": manifest.FORMAT}
        held.update(values)
        with self.writing():
            self._write(path, held)

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

    def metrics_position(self) -> Position:
        """How far the whole lines go."""
        return self._metrics.position()

    def metrics_end_fault(self) -> str:
        """What is wrong with metrics.jsonl as a whole, in words, where the run is finished."""
        end = self.read_manifest().get("metrics")
        if not isinstance(end, dict) or end == self.metrics_position()._asdict():
            return ""
        return "metrics.jsonl is not what it was when the run finished"

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
        return f"metrics.jsonl is not what it was at step {checkpoint.step}"

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
                f"Another process is training in {self}.", hint="Wait for it, or stop it."
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
            f"{folder} is not empty.",
            hint=f"Go on with it (toolkit resume {folder}), choose another --run-dir, or move it "
            "aside with --force.",
        )
    return folder


def open_run(path: str, unbegun: bool = False) -> RunFolder:
    """An existing run. Raises UsageError where the folder holds none.

    unbegun: also one that was ended before its first step; it is a new run, with a config.json.
    """
    folder = RunFolder(os.path.abspath(path))
    if os.path.isfile(folder.file("manifest.json")) or folder.commits.entries():
        return folder
    if not os.path.isdir(folder.path):
        what = "does not exist"
    elif os.path.isfile(folder.file("config.json")) and not _is_taken(folder.path):
        if unbegun:
            return RunFolder(folder.path, is_new=True)
        what = f"was ended before its first step; go on with: toolkit resume {path}"
    else:
        what = "holds no run"
    raise UsageError(f"{path} {what}.", hint="A run's folder has a manifest.json; see runs/.")


def _is_taken(path: str) -> bool:
    """Whether there is more in a folder than what a run leaves that was ended before it began."""
    if not os.path.isdir(path):
        return os.path.exists(path)
    for name in os.listdir(path):
        if name in (CHECKPOINTS, "events"):
            if not os.path.isdir(os.path.join(path, name)) or os.listdir(os.path.join(path, name)):
                return True
        elif name not in (LOCK, "config.json") and not name.startswith(TEMPORARY_PREFIX):
            return True
    return False


# ---------------------------------------------------------------------------------------- helpers
