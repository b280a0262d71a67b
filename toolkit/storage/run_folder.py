"""The folder of a run.

    report.html        the page of the run
    config.json        options, to run it again
    journal.bin        of a run whose steps a driver makes: what its program was given
    manifest.json      what the commit log says of the run now, for people
    metrics.jsonl      losses and metrics by step
    checkpoints/       variables and the state of session hooks: model.ckpt-STEP.*
    commits.jsonl      the commit log, of which all else is read
    reports/           of evaluations, and of a divergence
    samples/           images and other output of plugins
    events/            for TensorBoard
    speed.jsonl        timings by step
    evaluations.jsonl  metrics by checkpoint, of processes that follow the run
    sources/           copies of the plugins' code
    data.sha256        hashes of many data files
    console.log        what the console showed

Only relative paths are stored.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import shlex
import stat
from typing import Any, Dict, Iterable, Iterator, List, Optional

from ..errors import CheckpointError, RetryError, ToolkitError, UsageError, join_names, suggest_path
from ..files import TEMPORARY_PREFIX, make_folders, open_regular_file, write_json
from . import folder_lock
from .checkpoint_store import CHECKPOINTS, CheckpointStore
from .folder_lock import LOCK, FolderLock
from .jsonl import read_json
from .own_folders import COMMITS, CONFIG, MANIFEST, is_run
from .record_log import RecordLog

EVENTS = "events"
DRIVER = "driver"  # the key in CONFIG of who makes the steps, if it is not the training loop


class RunFolder:
    """The folder of one run, from `reserve` or `open_run`; as text, the shortest path that a user
    can type. While it `is_new`, `create` is still to be called, and the files belong to another
    run.
    """

    def __init__(self, path: str, is_new: bool = False, force: bool = False):
        self.path, self.is_new, self._force = path, is_new, force
        # The first is a function of seed and step: a resumed run has the same records. The other
        # depends on the machine, and is never cut back.
        self.metrics = RecordLog(self, "metrics.jsonl")
        self.speed = RecordLog(self, "speed.jsonl")
        self.checkpoints = CheckpointStore(self, self.metrics)
        self.commits = self.checkpoints.commits
        self._lock: Optional[FolderLock] = None

    def __str__(self) -> str:
        try:
            relative = os.path.relpath(self.path)
        except FileNotFoundError:  # of the working directory, which is gone
            return self.path
        return self.path if relative.startswith("..") else relative

    @property
    def argument(self) -> str:
        """The folder as an argument of a command in a shell: quoted, and never taken for a flag."""
        return shell_argument(str(self))

    def file(self, *parts: str) -> str:
        """The path of a file in the folder, such as file("checkpoints", NAME)."""
        return os.path.join(self.path, *parts)

    def make_subfolder(self, *parts: str) -> str:
        """Create a subfolder unless it exists, and return its path. Raises UsageError if a symbolic
        link is in its place, or in that of a folder above it.
        """
        path = self.path
        for name in os.path.join(*parts).split(os.sep):
            path = os.path.join(path, name)
            if os.path.islink(path):
                raise self._link_error(path)
        os.makedirs(path, exist_ok=True)
        return path

    def refuse_links(self) -> None:
        """Raise UsageError if there is a symbolic link in the folder or below it.

        What is written to a link changes a file that is not the run's.
        """
        for path, folders, files in os.walk(self.path):
            for name in folders + files:
                if os.path.islink(os.path.join(path, name)):
                    raise self._link_error(os.path.join(path, name))

    def _link_error(self, path: str) -> UsageError:
        return UsageError(
            f"{os.path.join(str(self), os.path.relpath(path, self.path))} is a symbolic link, and "
            "a run writes only to its own folder.",
            hint="Remove the link, or replace it by a copy of the file or folder.",
        )

    def create(self, config: Dict[str, Any]) -> None:
        """Create the folder of a new run and lock it, before anything is written to it. With
        `force`, a folder that is not empty is renamed.

        config.json is written first: from then on the run can be resumed. Raises UsageError if the
        folder cannot be created, or another process trains or has started a run in it.
        """
        with self.creating():
            if self._force and is_used(self.path):
                if self.is_locked():
                    raise self.lock_error()
                os.rename(self.path, f"{self.path}.{secrets.token_hex(2)}")
            make_folders(self.path)
        self.lock()
        if is_used(self.path):
            self.unlock()
            raise UsageError(
                f"Another process has started a run in {self}, or a plugin has written to it.",
                hint="A plugin can write to run.folder from the 'begin' of its session hooks on.",
            )
        self.write_config(config)
        with self.writing():
            for name in (CHECKPOINTS, EVENTS):
                self.make_subfolder(name)
        self.is_new = False

    @contextlib.contextmanager
    def creating(self) -> Iterator[None]:
        """Raise an OSError in the block, which creates the folder, as a UsageError."""
        try:
            yield
        except OSError as error:
            raise UsageError(
                f"{self} cannot be created: {error.strerror}.",
                hint="Name a folder where none is and where you may write: --run-dir DIR",
            ) from None

    @property
    def is_run(self) -> bool:
        """Whether there is a run in the folder that has taken a step, or has begun to."""
        if not os.path.isdir(self.path):
            return False
        return os.path.isfile(self.file(MANIFEST)) or bool(self.commits.entries())

    # ------------------------------------------------------------------------- config.json, state

    def read_config(self) -> Dict[str, Any]:
        return read_json(self.file(CONFIG))

    def write_config(self, values: Dict[str, Any]) -> None:
        with self.writing():
            os.stat(self.path)  # fails where the folder was removed: it must not be created again
            write_json(self.file(CONFIG), values)

    def state(self) -> Dict[str, Any]:
        """See `CommitLog.state`."""
        return self.commits.state()

    def stopped_early(self) -> bool:
        """Whether the run, which is finished, ended by --early-stopping before its last step."""
        state = self.state()
        is_early = state["step"] < (state.get("total_steps") or 0)
        return is_early and bool(self.read_config().get("early_stopping"))

    def record(self, kind: str, **values: Any) -> None:
        """Add an entry to the commit log; see `CommitLog.add`."""
        with self.writing():
            self.commits.add(kind, **values)

    # --------------------------------------------------------------------------------------- lock

    def lock(self) -> None:
        """Lock the folder for this process until it ends, in whatever way. Raises UsageError if
        another process is training in it, or there is a symbolic link in it.
        """
        if self._lock is not None:
            return
        self.refuse_links()
        lock = FolderLock(self.path)
        with self.writing():
            try:
                lock.acquire()
            except BlockingIOError:
                raise self.lock_error() from None
        self._lock = lock
        for file in (self.commits, self.metrics, self.speed):
            file.invalidate_cache()  # another process may have appended until now

    def lock_error(self) -> RetryError:
        """The error to raise when another process has the lock."""
        return RetryError(
            f"Another process is training in {self}.", hint="Wait for it, or stop it."
        )

    @property
    def has_lock(self) -> bool:
        """Whether this process has locked the folder, and the file system has locks."""
        return self._lock is not None and self._lock.is_effective

    def is_locked(self) -> bool:
        """Whether a process is training in the folder now."""
        return folder_lock.is_locked(self.path)

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # ---------------------------------------------------------------------------- errors of writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Raise the folder's `write_error` for an OSError in the block, and before it if the folder
        that was locked is no longer at its path.
        """
        if self._lock is not None and not self._lock.is_in_place():
            raise self.loss_error()
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            if isinstance(error, PermissionError) and isinstance(error.filename, str):
                name = os.path.relpath(error.filename, self.path)
                reason = reason if name == "." else f"{name}: {reason}"
            raise self.write_error(reason) from error

    def write_error(self, reason: str) -> ToolkitError:
        """The error to raise when the system refuses a write: a RetryError, or a CheckpointError
        if the folder is gone.
        """
        if not os.path.isdir(self.path):
            return self.loss_error()
        return RetryError(
            f"{self} cannot be written: {reason.rstrip('.')}.",
            hint="Nothing that was committed is lost. Free some space, or restore the write "
            "permission.",
        )

    def loss_error(self) -> CheckpointError:
        """The error to raise when the folder is no longer at its path."""
        return CheckpointError(
            f"{self} is gone: it was removed or moved during training.",
            hint="If it was moved, continue there with: toolkit resume RUN",
        )


# ---------------------------------------------------------------------------------- create and open


def new_path(base: str, plugin: str) -> str:
    """`base/<plugin>/<UTC time>-<4 hex digits>`."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return os.path.join(base, plugin, now.strftime("%Y%m%d-%H%M%S") + "-" + secrets.token_hex(2))


def reserve(path: str, force: bool = False, inputs: Iterable[str] = ()) -> RunFolder:
    """The folder of a new run; nothing is written until `create` is called, which with `force`
    renames a folder that is not empty. Raises UsageError if it is not empty, and `force` is not set
    or would rename the working directory or one of the `inputs`, which the run reads; or if it is a
    file.
    """
    folder = RunFolder(os.path.abspath(os.path.expanduser(path)), is_new=True, force=force)
    if is_used(folder.path):
        if not os.path.isdir(folder.path):
            raise UsageError(
                f"{folder} is a file, and a run needs a folder.", hint="Choose another --run-dir."
            )
        if not force:
            way = f"Continue it (toolkit resume {folder.argument}), c" if folder.is_run else "C"
            raise UsageError(
                f"{folder} is not empty.",
                hint=f"{way}hoose another folder, or rename this one (flag --force).",
            )
        real_path = os.path.join(os.path.realpath(folder.path), "")
        for place in (os.curdir, *inputs):
            if os.path.join(os.path.realpath(place), "").startswith(real_path):
                what = f"{place}, which the run reads,"
                what = "the working directory" if place == os.curdir else what
                raise UsageError(
                    f"--force cannot rename {folder}: {what} is in it.",
                    hint="Choose another --run-dir.",
                )
    if folder.is_locked():
        raise folder.lock_error()
    return folder


def driver_of(path: str) -> str:
    """The name of the driver of the run in a folder; "" if it has none, or if there is no run."""
    try:
        config = read_json(os.path.join(path, CONFIG))
    except CheckpointError:
        return ""
    name = config.get(DRIVER) if isinstance(config, dict) else None
    return name if isinstance(name, str) else ""


def open_run(path: str, allow_unstarted: bool = False) -> RunFolder:
    """An existing run; if asked, also one that ended before its first step, which is a new run with
    a config.json. Raises UsageError if there is none in the folder.
    """
    folder = RunFolder(os.path.abspath(path))
    if not os.path.isdir(folder.path):
        fault = "is a file" if os.path.lexists(folder.path) else "does not exist"
    elif folder.is_run:
        return folder
    elif os.path.isfile(folder.file(CONFIG)) and not is_used(folder.path):
        if allow_unstarted:
            return RunFolder(folder.path, is_new=True)
        fault = f"ended before its first step; continue with: toolkit resume {shell_argument(path)}"
    else:
        fault = "contains no run"
    hint = suggest_path(path) or "'toolkit runs DIR' lists the runs below a folder."
    with contextlib.suppress(OSError):
        places = (os.path.join(path, name) for name in sorted(os.listdir(path)))
        runs = [place for place in places if is_run(place)]
        hint = f"Runs in it: {join_names(runs, 3)}." if runs else hint
    parent = RunFolder(os.path.dirname(folder.path))
    if is_run(parent.path):
        hint = f"Give the run's folder, {parent}."
    raise UsageError(f"{path or repr(path)} {fault}.", hint=hint)


def is_used(path: str) -> bool:
    """Whether a folder contains more than a run that ended before its first step leaves there."""
    if not os.path.isdir(path):
        return os.path.exists(path)
    try:
        names = os.listdir(path)
        return not all(_is_remnant(path, name, names) for name in names)
    except FileNotFoundError:  # something in it was removed just now
        return is_used(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", hint="Choose another --run-dir."
        ) from None


def _is_remnant(folder: str, name: str, names: List[str]) -> bool:
    """Whether a run that ended before its first step leaves a file among others in its folder. A
    config.json without the file .lock, which a run writes first, is the user's.
    """
    path = os.path.join(folder, name)
    if name in (CHECKPOINTS, EVENTS):
        return os.path.isdir(path) and not os.listdir(path)
    if name == LOCK:
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and status.st_size == 0
    if name == CONFIG:
        return LOCK in names
    if name == COMMITS:
        return LOCK in names and _is_cut_off(path)
    return name.startswith(TEMPORARY_PREFIX)


def _is_cut_off(path: str) -> bool:
    """Whether a commit log ends within its first entry, whose writing was killed."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with open_regular_file(path) as file:
        line, start = file.readline(), b'{"kind": "run"'
    return not line.endswith(b"\n") and start.startswith(line[: len(start)])


def shell_argument(path: str) -> str:
    """A path as an argument of a command in a shell: quoted, and never taken for a flag."""
    return shlex.quote(os.path.join(".", path) if path.startswith("-") else path)
