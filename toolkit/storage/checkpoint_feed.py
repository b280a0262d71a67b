"""The checkpoints of a run in the order in which another process commits them.

That process may be on another machine that has the folder, too. It is not hindered: files are only
read, and the folder is not locked. Retention may delete a checkpoint at any moment; the run may be
killed and resumed.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..errors import CheckpointError, RetryError, UsageError
from .commit_log import Checkpoint, Entry, FormatError
from .entries import has_ended
from .run_folder import RunFolder, is_used

# The file that the feed reads, and those that training changes again and again.
_FILES = ("commits.jsonl", "metrics.jsonl", "speed.jsonl")
_POLL_SECS = 0.5
_PATIENCE_SECS = 5.0  # a network file system may show a file later than the entry that names it


class FeedSettings(NamedTuple):
    """Which checkpoints a feed has, and how long it waits."""

    every: bool = False  # every checkpoint that exists, oldest first; otherwise the newest one
    idle_secs: float = 300.0  # after so long without a change in the folder of the run it ends
    start_secs: float = 300.0  # how long to wait for the run to begin
    # Whether the run that is there at the start is about to be continued or replaced: the wait for
    # a run goes on until it changes, or for `start_secs`.
    awaits_change: bool = False


class NextCheckpoint(NamedTuple):
    """A checkpoint of the feed."""

    checkpoint: Checkpoint  # whose files are intact, or were a moment ago
    number: int  # of its entry in the commit log
    session: int  # how many sessions and branches the commit log has up to the entry


class CheckpointFeed:
    """Waits for the checkpoints of a run, until the run ends. Its folder need not exist yet. `warn`
    is called with a message for each checkpoint that is damaged.
    """

    def __init__(
        self,
        path: str,
        settings: FeedSettings,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.folder = RunFolder(os.path.abspath(path))
        # Whether a checkpoint was evaluated before, and is not in the feed.
        self.is_known: Callable[[Checkpoint], bool] = lambda checkpoint: False
        self._settings = settings
        self._warn, self._clock, self._sleep = warn, clock, sleep
        self._start = self._changed_at = clock()
        self._signs: List[Any] = []
        self._is_outdated = True  # what was read, although no sign may show it
        self._state: Dict[str, Any] = {}  # of the run; {} before it has begun
        self._entries: List[Entry] = []
        self._error: Optional[CheckpointError] = None  # of the last read, if it failed
        self._created: Any = None  # when the run began that has been fed from
        self._position = 0  # the number of the last entry that is done with
        self._read()

    def has_begun(self) -> bool:
        """Whether there is a run in the folder."""
        self._read()
        return bool(self._state)

    def wait_for_run(self) -> None:
        """Wait until a run in the folder trains, or has ended. For errors, see `next`."""
        former = self._state if self._settings.awaits_change else {}
        while former and self._state == former:
            if self.end is None and self.folder.is_locked():  # it is the new one
                break
            if self._clock() - self._start >= self._settings.start_secs:
                break
            self._sleep(_POLL_SECS)
            self._read()
        while not (self.has_begun() and (self.session or self.end)):
            self._wait()

    @property
    def session(self) -> int:
        """How many sessions and branches the commit log has, as far as the feed has read."""
        return sum(map(_begins_session, self._entries))

    @property
    def end(self) -> Optional[Dict[str, Any]]:
        """The state of the run at its end; None before that, as far as the feed has read."""
        return self._state if has_ended(self._state) else None

    def next(self) -> Optional[NextCheckpoint]:
        """Wait for the next checkpoint; the same one until `complete` is called for it; None if the
        run has ended, and the feed has no more of its checkpoints.

        Raises RetryError if no run has begun, nothing changes any more, or another run has begun;
        CheckpointError if the run has ended, and its last checkpoint is damaged, or if the folder
        is gone or cannot be read; UsageError if it is no folder, or has something else than a run.
        """
        while True:
            self._read()
            item, fault = self._find_next()
            if item is not None:
                self._created = self._created or self._state.get("created")
                return item
            if self.end is not None and not self._is_outdated:
                return None
            is_late = self._clock() - self._changed_at >= _PATIENCE_SECS
            if fault and self.end is not None and is_late:
                hint = f"For advice: toolkit doctor {self.folder.argument}"
                raise CheckpointError(fault, hint=hint)
            self._wait()

    def complete(self, item: NextCheckpoint) -> None:
        """Go on to the checkpoints after this one. Raises RetryError if it is another run's."""
        self._position = max(self._position, item.number)
        self._is_outdated = True
        self._read()

    def _read(self) -> None:
        """Read the commit log, if a file of the run has changed or the last reading failed."""
        signs = [_sign(self.folder.file(name)) for name in _FILES]
        if signs != self._signs:
            self._signs, self._changed_at, self._is_outdated = signs, self._clock(), True
        if not self._is_outdated:
            return
        self._error, self._is_outdated = None, False
        self.folder.commits.invalidate_cache()
        try:
            if signs[0] is not None or self._state:
                self._state, self._entries = self.folder.state(), self.folder.commits.entries()
        except FormatError:
            raise
        except CheckpointError as error:  # perhaps for a moment only
            self._error, self._is_outdated = error, True
        if self._created is not None and self._state.get("created") != self._created:
            raise RetryError(
                f"Another run has begun in {self.folder}, in place of the one that was evaluated.",
                hint="Repeat the command for it.",
            )

    def _find_next(self) -> Tuple[Optional[NextCheckpoint], str]:
        """The next checkpoint whose files are intact now, if there is one; else what is wrong with
        the one that should be, as a sentence, "" if there is none.
        """
        faults: List[str] = []
        checkpoints, session = self.folder.checkpoints, 0
        found: List[NextCheckpoint] = []
        try:
            existing = [] if self._error else checkpoints.list()
            for entry in self._entries if existing else ():
                session += _begins_session(entry)
                if entry.kind == "commit" and entry.number > self._position:
                    checkpoint = self.folder.commits.checkpoint(entry)
                    if self.is_known(checkpoint):
                        found = found if self._settings.every else []  # those before are older
                    elif checkpoint in existing:
                        found.append(NextCheckpoint(checkpoint, entry.number, session))
            for item in found if self._settings.every else found[-1:]:
                step, fault = item.checkpoint.step, checkpoints.find_damage(item.checkpoint)
                if not fault:
                    for text in faults:
                        self._warn(text)
                    return item, ""
                self._is_outdated = True
                self.folder.commits.invalidate_cache()
                if item.checkpoint in checkpoints.list():  # else retention has deleted it
                    faults.append(f"The checkpoint of step {step} is damaged: {fault}.")
        except CheckpointError as error:
            self._error, self._is_outdated = error, True
        return None, faults[-1] if faults else ""

    def _wait(self) -> None:
        """Wait a moment. Raises an error if the run gives no sign of life for too long."""
        folder, settings, now = self.folder, self._settings, self._clock()
        if not self._state:
            is_run = os.path.lexists(folder.commits.path)
            if not is_run and not settings.awaits_change and is_used(folder.path):
                fault = "contains no run" if os.path.isdir(folder.path) else "is a file"
                raise UsageError(f"{folder} {fault}.", hint="Name the folder of a run.")
            if now - self._start >= settings.start_secs:
                raise self._error or RetryError(
                    f"No run has begun in {folder} within {settings.start_secs:g} s.",
                    hint="Start the run, or name its folder.",
                )
        elif now - self._changed_at >= settings.idle_secs:
            if not os.path.isdir(folder.path):
                raise folder.loss_error()
            if not folder.is_locked():
                raise self._error or RetryError(
                    f"{folder} has recorded no end, nothing in it has changed for "
                    f"{settings.idle_secs:g} s, and no process trains it.",
                    hint=f"Continue it: toolkit resume {folder.argument}",
                )
            self._changed_at = now  # a process trains, perhaps one long step
        self._sleep(_POLL_SECS)


def _begins_session(entry: Entry) -> bool:
    return entry.kind in ("session", "branch")


def _sign(path: str) -> Optional[Tuple[int, int, int]]:
    """What differs once a file has changed; None if it cannot be read.

    The file is opened: a network file system then asks the server for its state.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        return status.st_ino, status.st_size, status.st_mtime_ns
    finally:
        os.close(descriptor)
