"""The folder of a run.

    config.json     options, to run it again      events/       TensorBoard
    manifest.json   what was run, and its end     samples/      images and other plugin output
    commits.jsonl   the commit log                checkpoints/  model.ckpt-STEP.*
    metrics.jsonl   losses and metrics by step    reports/      of evaluations
    speed.jsonl     timings by step

Only relative paths are stored.
"""

from __future__ import annotations

import datetime
import os
import secrets
from types import ModuleType
from typing import Any, Dict, Optional

from ..errors import UsageError
from ..files import TEMPORARY_PREFIX, write_json
from . import manifest
from .checkpoint_store import CHECKPOINTS, CheckpointStore
from .folder import Folder
from .record_log import RecordLog

fcntl: Optional[ModuleType]
try:
    import fcntl
except ImportError:  # this system has no such locks
    fcntl = None

EVENTS = "events"
LOCK = ".lock"


class RunFolder(Folder):
    """The folder of one run, from `reserve` or `open_run`.

    Attributes:
        checkpoints: the committed checkpoints.
        commits: the commit log.
        metrics: metrics.jsonl, a function of seed and step: a resumed run has the same records.
        speed: speed.jsonl, which depends on the machine and is never cut back.
        is_new: whether `create` is still to be called; until then the files belong to another run.
    """

    def __init__(self, path: str, is_new: bool = False):
        super().__init__(path)
        self.is_new = is_new
        self.metrics = RecordLog(self, "metrics.jsonl")
        self.speed = RecordLog(self, "speed.jsonl")
        self.checkpoints = CheckpointStore(self, self.metrics, self.read_manifest)
        self.commits = self.checkpoints.commits
        self._lock: Any = None

    def create(self, config: Dict[str, Any]) -> None:
        """Create the folder of a new run and lock it. An existing folder is renamed, not deleted.

        Args:
            config: the contents of config.json, which is written first: from then on the run can
                be resumed.

        Raises:
            UsageError: it cannot be created, or another process has just started a run in it.
        """
        try:
            if _is_used(self.path):
                os.rename(self.path, f"{self.path}.{secrets.token_hex(2)}")
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self} cannot be created: {error.strerror}.") from None
        self.lock()
        if os.path.exists(self.file("manifest.json")):
            raise UsageError(f"Another process has started a run in {self}.")
        self.write_config(config)
        with self.writing():
            for name in (CHECKPOINTS, EVENTS):
                self.make_subfolder(name)
        self.is_new = False

    # --------------------------------------------------------------------- config.json, manifest

    def read_config(self) -> Dict[str, Any]:
        return manifest.read_json(self.file("config.json"))

    def write_config(self, values: Dict[str, Any]) -> None:
        self._write("config.json", values)

    def read_manifest(self) -> Dict[str, Any]:
        """The contents of manifest.json. Raises CheckpointError if it is missing or damaged."""
        return manifest.read(self.file("manifest.json"))

    def update_manifest(self, **values: Any) -> None:
        """Replace these values of the manifest, and keep the others."""
        exists = os.path.exists(self.file("manifest.json"))
        contents = self.read_manifest() if exists else {"format": manifest.FORMAT}
        contents.update(values)
        self._write("manifest.json", contents)

    def _write(self, name: str, values: Dict[str, Any]) -> None:
        with self.writing():
            os.stat(self.path)  # fails where the folder was removed: it must not be created again
            write_json(self.file(name), values)

    # --------------------------------------------------------------------------------------- lock

    def lock(self) -> None:
        """Lock the folder for this process until it ends, in whatever way.

        Raises:
            UsageError: another process is training in it.
        """
        if fcntl is None or self._lock is not None:
            return
        with self.writing():
            self._lock = open(self.file(LOCK), "a")  # noqa: SIM115 - open as long as the lock
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.unlock()
            raise UsageError(
                f"Another process is training in {self}.", hint="Wait for it, or stop it."
            ) from None
        for file in (self.commits, self.metrics, self.speed):
            file.invalidate_cache()  # another process may have appended until now

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


# ---------------------------------------------------------------------------------- create and open


def new_path(base: str, plugin: str) -> str:
    """`base/<plugin>/<UTC time>-<4 hex digits>`."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return os.path.join(base, plugin, now.strftime("%Y%m%d-%H%M%S") + "-" + secrets.token_hex(2))


def reserve(path: str, force: bool = False) -> RunFolder:
    """The folder of a new run; nothing is written until `create` is called.

    Args:
        path: of the folder.
        force: let `create` rename an existing folder that is not empty.

    Raises:
        UsageError: the folder is not empty, and `force` is not set.
    """
    folder = RunFolder(os.path.abspath(path), is_new=True)
    if _is_used(folder.path) and not force:
        raise UsageError(
            f"{folder} is not empty.",
            hint=f"Continue it (toolkit resume {folder}), choose another --run-dir, or rename the "
            "folder with --force.",
        )
    return folder


def open_run(path: str, allow_unstarted: bool = False) -> RunFolder:
    """An existing run.

    Args:
        path: of the folder.
        allow_unstarted: also open a run that ended before its first step; it is a new run with a
            config.json.

    Raises:
        UsageError: there is no run in the folder.
    """
    folder = RunFolder(os.path.abspath(path))
    if os.path.isfile(folder.file("manifest.json")) or folder.commits.entries():
        return folder
    if not os.path.isdir(folder.path):
        fault = "does not exist"
    elif os.path.isfile(folder.file("config.json")) and not _is_used(folder.path):
        if allow_unstarted:
            return RunFolder(folder.path, is_new=True)
        fault = f"ended before its first step; continue with: toolkit resume {path}"
    else:
        fault = "contains no run"
    raise UsageError(f"{path} {fault}.", hint="A run's folder has a manifest.json; see runs/.")


def _is_used(path: str) -> bool:
    """Whether a folder contains more than a run that ended before its first step leaves there."""
    if not os.path.isdir(path):
        return os.path.exists(path)
    for name in os.listdir(path):
        if name in (CHECKPOINTS, EVENTS):
            if _has_content(os.path.join(path, name)):
                return True
        elif name not in (LOCK, "config.json") and not name.startswith(TEMPORARY_PREFIX):
            return True
    return False


def _has_content(path: str) -> bool:
    return not os.path.isdir(path) or bool(os.listdir(path))
