"""A study as a folder: study.json, and the runs of its trials.

    DIR/study.json             the definition, and the configurations that were sampled so far
    DIR/options.json           the options that files and variables set for all trials
    DIR/trials/0003-s1/        the run of configuration 3 with seed 1, whose records are its result
    DIR/trials/0003-s1.log     what its processes wrote; who has locked it has claimed the trial
    DIR/trials/0003-s1.json    their processor time, and how they failed; see `results`

The kernel frees the lock of a process that dies, also on another machine, where the file system has
locks; a lock is passed on to the process that trains.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

from ..errors import CheckpointError, RetryError, UsageError
from ..files import write_json
from ..storage.folder_lock import LOCK, is_locked, lock_file
from ..storage.jsonl import read_json
from .definition import Configuration, Definition, Key, Result, Trial

STUDY_FILE, OPTIONS_FILE = "study.json", "options.json"
TRIALS = "trials"  # the subfolder with the runs
LOCK_SECS = 0.02  # from one look at the lock to the next, while another process samples
Stored = Tuple[Definition, Dict[int, Configuration]]  # with the configurations by number


class Study:
    """A study, as one process sees it: a definition, that of the study or with more trials, in a
    folder that exists. `find_length` returns the whole budget in steps of a configuration's values.
    Raises UsageError if the folder has another study.
    """

    def __init__(
        self, definition: Definition, folder: str, find_length: Callable[[Mapping[str, Any]], int]
    ):
        self.folder = folder
        self.find_length = find_length
        self.results: Dict[Key, Result] = {}  # of the trials that ended, as far as they were read
        with self.locked():
            # The threads are those of the first process, and the trials those that it has now.
            former, self.configurations = read_study(folder) or (definition, {})
            former.refuse_difference(definition, folder)
            self.definition = former._replace(trials=max(former.trials, definition.trials))
            self.write()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock study.json for the block."""
        path = os.path.join(self.folder, LOCK)
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(lock_file(path))
                    break
                except BlockingIOError:  # another process samples
                    time.sleep(LOCK_SECS)
                except OSError as error:
                    raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
            yield

    def read(self) -> None:
        """Read study.json, which another process may have changed; CheckpointError if gone or
        damaged.
        """
        stored = read_study(self.folder)
        if stored is None:
            raise CheckpointError(
                f"The study is no longer in {self.folder}.",
                hint="Restore it, or begin another one with another --search-dir.",
            )
        self.definition, self.configurations = stored

    def write(self) -> None:
        """Write study.json and options.json, under the lock of the study. Raises RetryError."""
        entries = [each._asdict() for _, each in sorted(self.configurations.items())]
        values = dict(self.definition.as_json(), configurations=entries)
        files = {STUDY_FILE: values, OPTIONS_FILE: self.definition.options_of_files}
        for name, contents in files.items():
            path = os.path.join(self.folder, name)
            if contents:
                with writing(path):
                    write_json(path, contents)

    def path(self, trial: Trial) -> str:
        """Return the folder of a trial's run."""
        return os.path.join(self.folder, TRIALS, trial.name)

    @contextlib.contextmanager
    def claim(self, trial: Trial) -> Iterator[Optional[int]]:
        """Lock the log of a trial for the block, which gets its descriptor; this has the lock as
        long as this process, or one to which it is passed, has it. None if another process has it.
        """
        path = self.path(trial) + ".log"
        with contextlib.ExitStack() as stack:
            log = None
            with writing(path), contextlib.suppress(BlockingIOError):  # somebody was faster
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if not is_locked(path):
                    log = stack.enter_context(lock_file(path))
            yield log


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Raise an OSError in the block as a RetryError that names the file."""
    try:
        yield
    except OSError as error:
        raise RetryError(
            f"{path} cannot be written: {error.strerror}.",
            hint="Free some space, then continue with the same command.",
        ) from None


def read_study(folder: str) -> Optional[Stored]:
    """Return what the study.json of a folder has; None if there is none. Raises CheckpointError if
    it is damaged, or has a configuration that the space does not have.
    """
    path = os.path.join(folder, STUDY_FILE)
    if not os.path.lexists(path):
        return None
    try:
        values = read_json(path)
        definition = Definition.from_json(values)
        configurations = [Configuration(**each) for each in values["configurations"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"has no entry {error}" if isinstance(error, KeyError) else f"is not valid: {error}"
        raise CheckpointError(f"{path} {text}.", path=path) from None
    for each in configurations:
        if not definition.has(each):
            raise CheckpointError(
                f"{path} has a configuration that is none of the study: {each.values}.", path=path
            )
    return definition, {each.number: each for each in configurations}
