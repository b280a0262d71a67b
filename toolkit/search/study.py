"""A study as a folder: study.json, and the runs of its trials.

    DIR/study.json             the definition, and the configurations that were sampled so far
    DIR/trials/0003-s1/        the run of configuration 3 with seed 1, whose records are its result
    DIR/trials/0003-s1.log     what its processes wrote; who has locked it has claimed the trial
    DIR/trials/0003-s1.json    their processor time, and how they failed; see `trial_run`

Which configurations come next is a function of the definition and of results of whole batches, and
which trials are due is one of the definition and of results. So all processes that share the folder
come to the same table, whoever trains what. The kernel frees the lock of a process that dies, also
on another machine, where the file system has locks; a lock is passed on to the process that trains.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

from ..errors import CheckpointError, RetryError, UsageError
from ..storage.folder_lock import is_locked, lock_file
from . import sampler
from .definition import (
    DEFINITION_FILE,
    Configuration,
    Definition,
    Stored,
    Trial,
    TrialResult,
    read_study,
    refuse_differences,
    write_study,
)
from .halving import Key, Standing, due_keys, final_results, standings
from .results import read_result
from .trial_options import run_path

LOCK_FILE = ".lock"
POLL_SECS = 1.0  # from one look at the folder to the next, while others train what is due
LOCK_SECS = 0.02  # from one look at the lock to the next, while another process samples


class Study:
    """A study, as one process sees it. Its threads share it.

    Args:
        definition: what to search; that of the study, or with more trials.
        folder: of the study, which exists.
        find_length: returns the whole budget in steps of a configuration's values.

    Attributes:
        definition: of the study; its threads are those of the first process, and its trials are
            those that it has now.

    Raises:
        UsageError: the folder has another study.
    """

    def __init__(
        self, definition: Definition, folder: str, find_length: Callable[[Mapping[str, Any]], int]
    ):
        self.definition = definition
        self._folder = folder
        self._find_length = find_length
        self._configurations: Dict[int, Configuration] = {}
        self._results: Dict[Key, TrialResult] = {}
        self._file: Tuple[int, ...] = ()  # which study.json was read
        self._change = threading.Condition(threading.RLock())
        self._is_closed = False
        with self._locked():
            stored = read_study(folder) or Stored(definition, {})
            now = stored.definition._replace(
                trials=max(stored.definition.trials, definition.trials)
            )
            refuse_differences(now, definition._replace(trials=now.trials), folder)
            write_study(folder, stored._replace(definition=now))

    def train_next(self, train: Callable[[Trial, int], None]) -> bool:
        """Claim a trial and train it; wait while others train what it depends on.

        Args:
            train: trains the trial up to its rung; it gets a descriptor of its log, which is
                locked as long as this process, or one to which it is passed, has it.

        Returns:
            False if no trial is left, or the study is closed.
        """
        while True:
            due = self.find_due()
            if self._is_closed or not due:
                return False
            for trial in due:
                with self._claim(trial) as log:
                    if log >= 0:
                        train(trial, log)
                        break
            else:
                with self._change:
                    self._change.wait_for(lambda: self._is_closed, POLL_SECS)
                continue
            with self._change:
                self._change.notify_all()
            return True

    @contextlib.contextmanager
    def _claim(self, trial: Trial) -> Iterator[int]:
        """Lock the log of a trial for the block; -1 if another one has it, or has trained it."""
        path = run_path(self._folder, trial) + ".log"
        with contextlib.ExitStack() as stack:
            log = -1
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if not is_locked(path):
                    log = stack.enter_context(lock_file(path))
            except BlockingIOError:  # somebody was faster
                pass
            except OSError as error:
                raise RetryError(f"{path} cannot be written: {error.strerror}.") from None
            if log >= 0 and read_result(self.definition, trial, self._folder) is not None:
                log = -1
            yield log

    def find_due(self) -> List[Trial]:
        """Return the trials that can be trained now, after sampling the configurations that can be.

        Raises:
            CheckpointError: study.json is damaged.
        """
        with self._change:
            self._read()
            due: List[Trial] = []
            for numbers in sampler.batches(self.definition):
                if any(number not in self._configurations for number in numbers):
                    if due and sampler.needs_results(self.definition, numbers):
                        break
                    if not self._sample(numbers):
                        return self.find_due()
                due += self._read_results(numbers)
            return due

    def close(self) -> None:
        """Let `train_next` return False in all threads."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()

    # ------------------------------------------------------------------------------------ results

    @property
    def num_results(self) -> int:
        """How many results there are: one per configuration, seed and rung."""
        return len(self._results)

    def result(self, trial: Trial) -> TrialResult:
        """Return the result of a trial that was trained."""
        with self._change:
            self.find_due()
            return self._results[trial.configuration.number, trial.seed, trial.rung]

    def results(self) -> List[TrialResult]:
        """Return the last result of each trial so far, by configuration and seed."""
        return [
            result
            for cohort in sampler.batches(self.definition)
            for result in final_results(self.definition, cohort, self._results)
        ]

    def configurations(self) -> List[Configuration]:
        """Return all configurations so far, by number."""
        return [configuration for _, configuration in sorted(self._configurations.items())]

    def history(self) -> List[Tuple[Configuration, Standing]]:
        """Return each configuration that has results with its standing."""
        return self._history(sampler.batches(self.definition))

    # --------------------------------------------------------------------------------- the folder

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock study.json for the block."""
        path = os.path.join(self._folder, LOCK_FILE)
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

    def _read(self) -> None:
        """Read study.json, if it is another one than before: another process may have sampled."""
        try:
            state = os.stat(os.path.join(self._folder, DEFINITION_FILE))
        except FileNotFoundError:
            raise CheckpointError(
                f"The study is no longer in {self._folder}.",
                hint="Restore it, or begin another one with another --search-dir.",
            ) from None
        stored = (
            read_study(self._folder) if self._file != (state.st_ino, state.st_mtime_ns) else None
        )
        if stored is not None:
            self.definition, self._configurations = stored
            self._file = (state.st_ino, state.st_mtime_ns)

    def _sample(self, numbers: List[int]) -> bool:
        """Sample a batch, unless another process has, and write it into study.json.

        Returns:
            False if the study has other batches by now: it got more trials.
        """
        with self._locked():
            self._read()
            cohorts = sampler.batches(self.definition)
            if numbers not in cohorts:
                return False
            earlier = cohorts[: cohorts.index(numbers)]
            former = [self._configurations[n] for cohort in earlier for n in cohort]
            known = [self._configurations[n] for n in numbers if n in self._configurations]
            if len(known) < len(numbers):
                history = self._history(earlier)
                batch = sampler.sample_batch(self.definition, numbers, former, history, known)
                for each in batch[len(known) :]:
                    length = self._find_length(each.values)
                    self._configurations[each.number] = each._replace(length=length)
                write_study(self._folder, Stored(self.definition, self._configurations))
            return True

    def _read_results(self, numbers: Sequence[int]) -> List[Trial]:
        """Read the new results of a batch; return its trials that are due."""
        while True:
            keys = due_keys(self.definition, numbers, self._results)
            due = []
            for number, seed, rung in keys:
                trial = Trial(self._configurations[number], seed, rung)
                result = read_result(self.definition, trial, self._folder)
                if result is None:
                    due.append(trial)
                else:
                    self._results[number, seed, rung] = result
            if len(due) == len(keys):
                return due

    def _history(self, cohorts: Sequence[Sequence[int]]) -> List[Tuple[Configuration, Standing]]:
        return [
            (self._configurations[number], standing)
            for cohort in cohorts
            for number, standing in sorted(
                standings(self.definition, cohort, self._results).items()
            )
        ]
