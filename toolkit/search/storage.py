"""The records of a study, through Optuna: in a journal file or in SQLite.

Records are JSON values that are appended and never changed. The storage puts them in one order that
all processes see, and whatever two processes could disagree about is decided by the first record in
that order. Each record is a finished trial of Optuna, which its storages append in one transaction.

The default is a journal, a file to which each process appends lines under a lock. A kill in the
middle of a write leaves a part of the last line, which is cut off before the next one is appended.
The kernel releases the lock of a process that was killed (that of Optuna's own journal remains for
30 seconds, and a part of a line in it is fatal). Network file systems have this lock if they have
any. No database library is imported for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError, OptunaError
from optuna.storages import RDBStorage
from optuna.storages.journal import (
    JournalFileBackend,
    JournalFileSymlinkLock,
    JournalStorage,
)
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from ..errors import CheckpointError, RetryError, ToolkitError, UsageError
from .place import JOURNAL, Place

PATIENCE_SECS = 300.0  # with a storage that does not answer
PAUSE_SECS = 2.0  # between two attempts
LOCK_SECS = 60.0  # for the lock of a journal, which each process has for milliseconds
RECORD = "record"  # the attribute of Optuna's trial that has the value
CREATIONS = 5  # attempts to create the tables: another process may do so at the same time
STUDY = "study"  # the beginning of the names of Optuna's studies: a file has one study of ours
_SQLITE_ARGUMENTS = {"timeout": 60.0, "check_same_thread": False}
T = TypeVar("T")

logging.getLogger("optuna").setLevel(logging.ERROR)


class View(NamedTuple):
    """How Optuna shows a record, as one of its trials.

    Attributes:
        state: of the trial; a finished one.
        value: of the metric, for a complete or a pruned trial.
        params: the values of the options that vary.
        distributions: of these options.
    """

    state: TrialState = TrialState.FAIL
    value: Optional[float] = None
    params: Optional[Dict[str, Any]] = None
    distributions: Optional[Dict[str, BaseDistribution]] = None


class _KernelLock(JournalFileSymlinkLock):
    """The lock of a journal, which the kernel releases when its process ends.

    Where the file system has no such locks, it is Optuna's.
    """

    def __init__(self, path: str):
        super().__init__(path)
        self._path = path
        self._descriptor = -1
        self._is_kernel = True

    def acquire(self) -> bool:
        """Lock the journal, and cut off what a killed process has left of a line."""
        self._descriptor = os.open(self._path, os.O_RDWR)  # it exists, or the study is gone
        try:
            self._is_kernel = _wait_for_lock(self._descriptor)
            if not self._is_kernel:
                super().acquire()
            _cut_torn_line(self._descriptor)
        except BaseException:
            os.close(self._descriptor)
            raise
        return True

    def release(self) -> None:
        """Unlock the journal."""
        os.close(self._descriptor)
        if not self._is_kernel:
            super().release()


def _wait_for_lock(descriptor: int) -> bool:
    """Lock an open file; False if its file system has no locks."""
    end = time.monotonic() + LOCK_SECS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.002)
        except OSError:  # ENOTSUP or ENOLCK
            return False


def _cut_torn_line(descriptor: int) -> None:
    """Cut off what follows the last newline of a file."""
    size = end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - (1 << 16))
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)


class Storage:
    """Reads and appends the records of one study. Threads may share it.

    Args:
        place: where they are.
        log: called with a sentence when the storage fails, and when it answers again.
        create: whether to create what does not exist.

    Attributes:
        place: where the records are.
        outages: how often the storage has failed so far.

    Raises:
        UsageError: the place is wrong.
        CheckpointError: the file is damaged.
        RetryError: the file cannot be opened now.
    """

    def __init__(self, place: Place, log: Callable[[str], None], create: bool = True):
        self.place = place
        self.outages = 0
        self._log = log
        self._lock = threading.RLock()
        self._is_closing = threading.Event()
        self._studies: Dict[str, int] = {}  # Optuna's numbers of the studies, by name
        self._storage = _open(place, create)

    def append(self, log: str, value: Dict[str, Any], view: View = View()) -> None:  # noqa: B008
        """Append a record, durably. After an outage it may be there twice.

        Args:
            log: the name of the list of records; see `read`.
            value: a JSON value.
            view: how Optuna shows it.
        """
        has_value = view.state in (TrialState.COMPLETE, TrialState.PRUNED)
        trial = create_trial(
            state=view.state,
            value=view.value if has_value else None,
            params=view.params,
            distributions=view.distributions,
            user_attrs={RECORD: json.loads(json.dumps(value))},
        )
        self._call(lambda storage: storage.create_new_trial(self._study(log), trial))

    def read(self, log: str) -> List[Dict[str, Any]]:
        """Return all records of a list in their order."""
        trials = self._call(
            lambda storage: storage.get_all_trials(self._study(log), deepcopy=False)
        )
        return [trial.user_attrs[RECORD] for trial in trials if RECORD in trial.user_attrs]

    def write_mark(self, log: str, name: str, value: Any) -> None:
        """Write a value that may change; each name has one writer."""
        self._call(lambda storage: storage.set_study_user_attr(self._study(log), name, value))

    def read_marks(self, log: str) -> Dict[str, Any]:
        """Return the values that `write_mark` has written, by name."""
        return self._call(lambda storage: storage.get_study_user_attrs(self._study(log)))

    def create(self, log: str, direction: str = "min") -> None:
        """Create a list of records if it does not exist.

        Args:
            log: its name.
            direction: of the metric, "min" or "max".
        """
        directions = [StudyDirection.MINIMIZE if direction == "min" else StudyDirection.MAXIMIZE]
        with contextlib.suppress(DuplicatedStudyError):
            self._call(lambda storage: storage.create_new_study(directions, self._full_name(log)))

    def has(self, log: str) -> bool:
        """Return whether a list of records exists."""
        name = self._full_name(log)
        return any(s.study_name == name for s in self._call(lambda s: s.get_all_studies()))

    def give_up(self) -> None:
        """Raise RetryError at the next failure, without further attempts."""
        self._is_closing.set()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            _close(self._storage)

    def _full_name(self, log: str) -> str:
        return f"{STUDY}{log}"

    def _study(self, log: str) -> int:
        if log not in self._studies:
            name = self._full_name(log)
            self._studies[log] = self._storage.get_study_id_from_name(name)
        return self._studies[log]

    def _call(self, operation: Callable[[Any], T]) -> T:
        """Return what an operation returns; repeat it while the storage fails."""
        start: Optional[float] = None
        while True:
            try:
                with self._lock:
                    result = operation(self._storage)
            except DuplicatedStudyError:
                raise
            except Exception as error:
                now = time.monotonic()
                if start is None:
                    self.outages += 1
                self._check_failure(error, now - (now if start is None else start))
                if start is None:
                    start = now
                    self._log(
                        f"{_summary(error, self.place)} Trying again for {PATIENCE_SECS:.0f} s."
                    )
                self._is_closing.wait(PAUSE_SECS)
                self._reopen()
            else:
                if start is not None:
                    self._log(f"{self.place.path} answers again.")
                return result

    def _check_failure(self, error: Exception, secs: float) -> None:
        """Raise what a repetition would not change."""
        if isinstance(error, (KeyError, FileNotFoundError)):
            raise CheckpointError(
                f"The study is no longer in {self.place.path}.",
                hint="Restore it, or begin another study with another --search-dir: the trials of "
                "this one are still in its folder.",
            ) from error
        if isinstance(error, ValueError):
            raise CheckpointError(
                f"{self.place.path} is damaged: {error}.", path=self.place.path
            ) from error
        if not is_storage_failure(error):
            raise error
        if secs > PATIENCE_SECS or self._is_closing.is_set():
            raise RetryError(
                f"{_summary(error, self.place)} It has not for {secs:.0f} s.",
                hint="Continue with the same command when it answers: no trial is lost.",
            ) from error

    def _reopen(self) -> None:
        """Connect again; the next call says whether that has helped."""
        if self.place.kind == JOURNAL:
            return
        with self._lock, contextlib.suppress(Exception):
            storage = _open(self.place, create=False)
            _close(self._storage)
            self._storage = storage


def is_storage_failure(error: BaseException) -> bool:
    """Whether an error is one of the storage, which may work again later."""
    kinds: List[type] = [OSError, OptunaError]
    with contextlib.suppress(ImportError):
        from sqlalchemy.exc import SQLAlchemyError

        kinds.append(SQLAlchemyError)
    return isinstance(error, tuple(kinds))


# ------------------------------------------------------------------------------------------- open


def _open(place: Place, create: bool) -> Any:
    if place.kind == JOURNAL:
        return _open_journal(place, create)
    try:
        return _open_database(place, create)
    except ToolkitError:
        raise
    except Exception as error:
        raise _opening_error(error, place) from None


def _open_journal(place: Place, create: bool) -> JournalStorage:
    try:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        os.close(os.open(place.path, flags, 0o666))
        backend = JournalFileBackend(place.path, lock_obj=_KernelLock(place.path))
        return JournalStorage(backend)
    except OSError as error:
        raise UsageError(
            f"The study cannot keep its records in {place.path}: {error.strerror}.",
            hint="Name another file with --storage.",
        ) from None
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise CheckpointError(
            f"{place.path} is damaged: {error}.",
            hint="Move it away and repeat the command: trials with a run in the folder of the "
            "search are not trained again.",
            path=place.path,
        ) from None


def check_storage(place: Place) -> None:
    """Check that records can be kept in a place; no file is created.

    Raises:
        UsageError: they cannot.
    """
    target = place.path if os.path.exists(place.path) else os.path.dirname(place.path)
    if not os.access(target, os.W_OK):
        fault = "cannot be written" if os.path.exists(target) else "does not exist"
        raise UsageError(f"{target}, of --storage, {fault}.", hint="Name another file.")


def _open_database(place: Place, create: bool) -> Any:
    from sqlalchemy.exc import IntegrityError, OperationalError

    if not create and not os.path.isfile(place.path):
        raise UsageError(f"{place.path} does not exist.")
    engine = {"connect_args": dict(_SQLITE_ARGUMENTS)}
    for attempt in range(CREATIONS):
        try:
            storage = RDBStorage(f"sqlite:///{place.path}", engine_kwargs=engine)
            return optuna.storages.get_storage(storage)
        except (IntegrityError, OperationalError, OptunaError) as error:
            is_last = attempt == CREATIONS - 1
            if is_last or not _is_race(error):
                raise
        time.sleep(0.2 * (attempt + 1))
    raise AssertionError


def _is_race(error: Exception) -> bool:
    """Whether another process has created the tables at the same time."""
    text = str(error.__cause__ or error).lower()
    return any(part in text for part in ("already exists", "unique constraint"))


def _close(storage: Any) -> None:
    backend = getattr(storage, "_backend", None)
    engine = getattr(backend, "engine", None)
    if engine is not None:
        with contextlib.suppress(Exception):
            engine.dispose()


def _opening_error(error: Exception, place: Place) -> ToolkitError:
    """What a user sees of an error of a database at the start."""
    text = _database_text(error)
    if isinstance(error, RuntimeError) and "alembic" in text or "optuna storage upgrade" in text:
        return UsageError(
            f"The tables in {place.path} are those of another version of Optuna than "
            f"{optuna.__version__}.",
            hint="Name another file, or install the version that created them.",
        )
    if "not a database" in text or "malformed" in text:
        return CheckpointError(f"{place.path} is damaged: {text}.", path=place.path)
    if "unable to open database file" in text or "readonly" in text:
        return UsageError(f"{place.path} cannot be opened: {text}.")
    return RetryError(
        f"{place.path} does not answer: {text}.", hint="Repeat the command when it does."
    )


def _summary(error: Exception, place: Place) -> str:
    text = error.strerror if isinstance(error, OSError) else _database_text(error)
    return f"{place.path} does not answer: {text}."


def _database_text(error: BaseException) -> str:
    """The first line of what a database says, without the statement and its values."""
    while error.__cause__ is not None and isinstance(error, OptunaError):
        error = error.__cause__
    text = str(getattr(error, "orig", None) or error).strip().splitlines() or [repr(error)]
    return text[0].strip().rstrip(".")
