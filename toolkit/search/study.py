"""A study: its configurations, who trains which trial, and the results, for many processes.

All state is in the records of the storage. A process that is killed loses its claims, nothing else;
a process on another machine sees the same records in the same order, and comes to the same
configurations, continuations and results.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from ..errors import CheckpointError
from . import sampler
from .claims import BEAT_SECS, Claim, Watch, live_claims, release_record, this_process
from .definition import (
    CHOICE,
    DIVERGED,
    FAILED,
    FORMAT,
    INT,
    PAUSED,
    Configuration,
    Definition,
    Dimension,
    Trial,
    TrialResult,
    refuse_differences,
)
from .halving import Key, Standing, due_keys, final_results, standings
from .place import find_place, write_place
from .storage import Storage, View

RECORDS = ".records"  # the list of definition, batches, lengths and claims
RESULTS = ""  # the list of results, which Optuna shows as the trials of the study
# Kinds of records, besides claims. MORE_TRIALS: how many a study has that got more than it defined.
DEFINITION, BATCH, LENGTH, MORE_TRIALS = "definition", "batch", "length", "trials"
POLL_SECS = 1.0  # while others train what is due
TRIALS = "trials"  # the subfolder with the runs


class State(NamedTuple):
    """What the records say.

    Attributes:
        configurations: by number; those of all batches so far.
        lengths: the whole budget in steps by configuration, if it is on record.
        claims: those that hold, by trial.
        results: the first one of each trial.
    """

    configurations: Dict[int, Configuration]
    lengths: Dict[int, int]
    claims: Dict[Key, Claim]
    results: Dict[Key, TrialResult]


class Progress(NamedTuple):
    """How much of a study is done.

    Attributes:
        configurations: how many have come to their end, at whichever rung.
        total: how many there will be.
        trials: how many results there are: one per configuration, seed and rung.
    """

    configurations: int
    total: int
    trials: int


def stored_definition(folder: str, storage: Optional[str] = None) -> Optional[Definition]:
    """Return the definition of a study in a storage, so that another machine joins it.

    Args:
        folder: of the study on this machine; it need not exist.
        storage: see `Study`.

    Returns:
        None if the storage has no such study.

    Raises:
        UsageError: the storage is wrong or does not exist.
    """
    connection = Storage(find_place(folder, storage), _log_to_stderr, create=False)
    try:
        return _read_definition(connection) if connection.has(RECORDS) else None
    finally:
        connection.close()


class Study:
    """A study, as one process sees it. Its threads share it.

    Args:
        definition: what to search.
        folder: of the study on this machine, which exists.
        storage: a file or a URL with the records; None for those that the study has, at first a
            journal in its folder.
        log: called with sentences about the storage and about claims that were taken over.
        watch: decides which owners of claims are dead.

    Attributes:
        definition: of the study; its threads are those of the first process, and its trials are
            those that it has now.
        former_trials: how many trials it had before, from first to last.
        place: where the records are.
        failure: why this process cannot take part any longer; None while it can.

    Raises:
        UsageError: the storage is wrong, or has another study.
        RetryError: the storage does not answer.
    """

    def __init__(
        self,
        definition: Definition,
        folder: str,
        storage: Optional[str] = None,
        log: Optional[Callable[[str], None]] = None,
        watch: Optional[Watch] = None,
    ):
        self.failure: Optional[Exception] = None
        self._folder = folder
        self._log = log or _log_to_stderr
        self._watch = watch or Watch()
        self._owner = this_process()
        self._tokens = (f"{self._owner.name}-{number}" for number in itertools.count())
        self._owned: Dict[Key, Claim] = {}
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)
        self._is_closed = False
        self.place = find_place(folder, storage)
        self._storage = Storage(self.place, self._log)
        self._outages = 0
        self.former_trials: Tuple[int, ...] = ()
        self.definition = self._join(definition)
        write_place(folder, self.place)
        self._beats = itertools.count(1)
        self.on_loss: Callable[[Trial], None] = lambda trial: None
        self._heart = threading.Thread(target=self._beat_until_closed, daemon=True)
        self._beat()
        self._heart.start()

    def _join(self, definition: Definition) -> Definition:
        """Return the definition of the study, after creating it if it is new."""
        self._storage.create(RECORDS)
        self._storage.create(RESULTS, definition.direction)
        if _read_definition(self._storage) is None:
            record = {"kind": DEFINITION, DEFINITION: definition.as_json()}
            self._storage.append(RECORDS, record)
        current = _read_definition(self._storage) or definition
        self.former_trials = _former_trials(self._storage.read(RECORDS))
        if definition.trials in self.former_trials:
            definition = definition._replace(trials=current.trials)
        refuse_differences(current, definition, self.place.path, self._folder)
        return current

    def add_trials(self, trials: int) -> None:
        """Let the study have more trials, here and in all processes that share it.

        Args:
            trials: how many it has from now on in all; fewer than it has change nothing. A study
                with halving must not get more: see `planning.with_more_trials`.
        """
        with self._lock:
            if trials > self.definition.trials:
                self._storage.append(RECORDS, {"kind": MORE_TRIALS, "trials": trials})
                self._read()

    # ------------------------------------------------------------------------------------- claims

    def claim(self) -> Optional[Trial]:
        """Return the next trial for the calling thread; None if there is none left.

        Waits while other threads or processes train what it depends on.
        """
        with self._lock:
            while not self._is_closed:
                trial, is_complete = self.try_claim()
                if trial is not None or is_complete:
                    return trial
                self._change.wait(POLL_SECS)
        return None

    def try_claim(self) -> Tuple[Optional[Trial], bool]:
        """Return the next trial, or None if others train all that is due; and whether all is done.

        Raises:
            ToolkitError: this process cannot take part any longer.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            state = self._read()
            due = self._due_keys(state)
            return self._claim_first(due, state), not due

    def _claim_first(self, due: List[Key], state: State) -> Optional[Trial]:
        """Claim the first of the trials that nobody trains, those with a run in this folder first.

        Returns:
            None if others train all of them, or were faster.
        """
        self._release_dead(state)
        free = [key for key in due if key not in state.claims]
        trials = [_trial(key, state) for key in free]
        trials.sort(key=lambda trial: not self._has_run(trial))
        for trial in trials[:1]:
            claim = Claim(_key(trial), next(self._tokens), self._owner)
            self._storage.append(RECORDS, claim.as_record())
            state = self._read()
            if state.claims.get(claim.key) == claim and claim.key not in state.results:
                self._owned[claim.key] = claim
                return _trial(claim.key, state)
        return None

    def _release_dead(self, state: State) -> None:
        """Release the claims of processes that have ended, on record and in `state`."""
        self._observe()
        for key, claim in list(state.claims.items()):
            is_other = claim.owner.name != self._owner.name
            if is_other and key not in state.results and self._watch.is_dead(claim.owner):
                self._storage.append(RECORDS, release_record(claim.token))
                self._log(f"Trial {_trial(key, state).name} has lost its process; it continues.")
                del state.claims[key]

    def release(self, trial: Trial) -> None:
        """Let others train a trial that this process has claimed and does not train any longer."""
        with self._lock:
            claim = self._owned.pop(_key(trial), None)
            if claim is not None:
                self._storage.append(RECORDS, release_record(claim.token))
                self._change.notify_all()

    def record_length(self, trial: Trial, length: int) -> Trial:
        """Return the trial with the length of its configuration: the first one on record.

        Args:
            trial: without a length.
            length: in steps, to record if the configuration has none.
        """
        number = trial.configuration.number
        with self._lock:
            if number not in self._read().lengths:
                record = {"kind": LENGTH, "configuration": number, "length": length}
                self._storage.append(RECORDS, record)
            return trial._replace(length=self._read().lengths[number])

    def finish(self, trial: Trial, result: TrialResult) -> None:
        """Record the result of a trial, unless it has one."""
        with self._lock:
            if _key(trial) not in self._read().results:
                view = _view(self.definition, trial, result)
                self._storage.append(RESULTS, result.as_json(), view)
            self._owned.pop(_key(trial), None)
            self._change.notify_all()

    # ------------------------------------------------------------------------------------ results

    def results(self) -> List[TrialResult]:
        """Return the last result of each trial so far, by configuration and seed."""
        state = self._read()
        cohorts = sampler.batches(self.definition)
        return [
            result
            for cohort in cohorts
            for result in final_results(self.definition, cohort, state.results)
        ]

    def configurations(self) -> List[Configuration]:
        """Return all configurations so far, by number."""
        return [configuration for _, configuration in sorted(self._read().configurations.items())]

    def lengths(self) -> Dict[int, int]:
        """Return the whole budget in steps of each configuration that has it on record."""
        return self._read().lengths

    def history(self) -> List[Tuple[Configuration, Standing]]:
        """Return each configuration that has results with its standing, for `optuna_study`."""
        state = self._read()
        return self._history(state, sampler.batches(self.definition))

    def progress(self) -> Progress:
        """Return how much is done."""
        state = self._read()
        last = len(self.definition.rungs) - 1
        entries = self._history(state, sampler.batches(self.definition))
        ends = [s for _, s in entries if s.is_stopped or s.rung == last or s.value is None]
        return Progress(len(ends), self.definition.trials, len(state.results))

    def is_complete(self) -> bool:
        """Return whether all trials have their results."""
        with self._lock:
            return not self._due_keys(self._read())

    def close(self) -> None:
        """End the heartbeat: `claim` returns None in all threads."""
        with self._lock:
            self._is_closed = True
            self._change.notify_all()

    # -------------------------------------------------------------------------------------- state

    def _read(self) -> State:
        with self._lock:
            configurations: Dict[int, Configuration] = {}
            lengths: Dict[int, int] = {}
            records = self._storage.read(RECORDS)
            self.former_trials = _former_trials(records)
            self.definition = self.definition._replace(trials=_num_trials(records))
            for record in records:
                if record["kind"] == BATCH:
                    for values in record["configurations"]:
                        configuration = self._read_configuration(values)
                        configurations.setdefault(configuration.number, configuration)
                elif record["kind"] == LENGTH:
                    lengths.setdefault(record["configuration"], record["length"])
            results: Dict[Key, TrialResult] = {}
            for record in self._storage.read(RESULTS):
                result = TrialResult.from_json(record)
                results.setdefault((result.configuration, result.seed, result.rung), result)
            return State(configurations, lengths, live_claims(records), results)

    def _read_configuration(self, values: Dict[str, Any]) -> Configuration:
        """Return a configuration on record. Raises CheckpointError if the space has none such."""
        try:
            configuration = Configuration.from_json(values)
            names = [dimension.name for dimension in self.definition.space]
            is_valid = sorted(configuration.values) == sorted(names) and all(
                _has_value(dimension, configuration.values[dimension.name])
                for dimension in self.definition.space
            )
        except (AttributeError, TypeError):
            is_valid = False
        if not is_valid:
            raise CheckpointError(
                f"{self.place.path} has a configuration that is none of the study: {values}."
            )
        return configuration

    def _due_keys(self, state: State) -> List[Key]:
        """The trials without a result that can be trained now, after sampling what can be."""
        due: List[Key] = []
        cohorts = sampler.batches(self.definition)
        for index, numbers in enumerate(cohorts):
            if numbers[-1] not in state.configurations:
                if due and sampler.needs_results(self.definition, numbers):
                    break
                self._sample(index, numbers, cohorts, state)
            due += due_keys(self.definition, numbers, state.results)
        return due

    def _sample(
        self, index: int, numbers: List[int], cohorts: List[List[int]], state: State
    ) -> None:
        """Record the configurations of a batch, and add those on record to the state."""
        former = [state.configurations[n] for cohort in cohorts[:index] for n in cohort]
        history = self._history(state, cohorts[:index])
        known = [state.configurations[n] for n in numbers if n in state.configurations]
        batch = sampler.sample_batch(self.definition, numbers, former, history, known)
        record = {"kind": BATCH, "configurations": [c.as_json() for c in batch]}
        self._storage.append(RECORDS, record)
        state.configurations.update(self._read().configurations)

    def _history(
        self, state: State, cohorts: List[List[int]]
    ) -> List[Tuple[Configuration, Standing]]:
        return [
            (state.configurations[number], standing)
            for cohort in cohorts
            for number, standing in sorted(
                standings(self.definition, cohort, state.results).items()
            )
        ]

    def _has_run(self, trial: Trial) -> bool:
        return os.path.isdir(os.path.join(self._folder, TRIALS, trial.name))

    # -------------------------------------------------------------------------------------- beats

    def _beat_until_closed(self) -> None:
        while True:
            with self._lock:
                if self._change.wait_for(lambda: self._is_closed, BEAT_SECS):
                    return
            try:
                self._beat()
                self._notice_losses()
            except Exception as error:  # the next claim raises it
                self.failure = error
                return

    def _beat(self) -> None:
        self._storage.write_mark(RECORDS, f"beat {self._owner.name}", next(self._beats))

    def _observe(self) -> None:
        """Note the beats of others; after an outage, from the beginning."""
        marks = self._storage.read_marks(RECORDS)
        if self._storage.outages != self._outages:
            self._outages = self._storage.outages
            self._watch.forget()
        beats = {n[len("beat ") :]: v for n, v in marks.items() if n.startswith("beat ")}
        self._watch.observe(beats)

    def _notice_losses(self) -> None:
        """End the trials that other processes have taken over: they took this one for dead."""
        with self._lock:
            state = self._read() if self._owned else None
            for key, claim in list(self._owned.items()) if state else []:
                if state is not None and state.claims.get(key) != claim:
                    del self._owned[key]
                    self.on_loss(_trial(key, state))


# -------------------------------------------------------------------------------------- as records


def _key(trial: Trial) -> Key:
    return trial.configuration.number, trial.seed, trial.rung


def _trial(key: Key, state: State) -> Trial:
    number, seed, rung = key
    return Trial(state.configurations[number], seed, rung, state.lengths.get(number))


def _read_definition(storage: Storage) -> Optional[Definition]:
    """Return the definition on record, with the trials that the study has now."""
    records = storage.read(RECORDS)
    for record in records:
        if record["kind"] == DEFINITION:
            definition = _parse_definition(record[DEFINITION], storage.place.path)
            return definition._replace(trials=_num_trials(records))
    return None


def _all_trials(records: Sequence[Dict[str, Any]]) -> List[int]:
    """Return how many trials the study defined, and how many it has had since, in order."""
    first = [r[DEFINITION]["trials"] for r in records if r["kind"] == DEFINITION][:1]
    return first + [r["trials"] for r in records if r["kind"] == MORE_TRIALS]


def _num_trials(records: Sequence[Dict[str, Any]]) -> int:
    return max(_all_trials(records))


def _former_trials(records: Sequence[Dict[str, Any]]) -> Tuple[int, ...]:
    numbers = _all_trials(records)
    return tuple(n for n in numbers if n < max(numbers))


def _parse_definition(values: Dict[str, Any], place: str) -> Definition:
    if values.get("format") != FORMAT:
        raise CheckpointError(
            f"The study in {place} has format {values.get('format')!r}, not {FORMAT}.",
            hint="Continue it with the version of the toolkit that began it.",
        )
    try:
        return Definition.from_json(values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The definition of the study in {place} is damaged: {error}."
        ) from None


def _has_value(dimension: Dimension, value: Any) -> bool:
    """Whether a value is a choice of a list, or a number of a range within its limits."""
    if dimension.kind == CHOICE:
        return value in dimension.choices
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and dimension.low <= value <= dimension.high


def _view(definition: Definition, trial: Trial, result: TrialResult) -> View:
    """How Optuna shows a result."""
    params = {}
    distributions = {}
    for dimension in definition.space:
        value = trial.configuration.values[dimension.name]
        distribution = _distribution(dimension)
        is_text = isinstance(distribution, CategoricalDistribution)
        params[dimension.name] = json.dumps(value) if is_text else value
        distributions[dimension.name] = distribution
    state = TrialState.PRUNED if result.status == PAUSED else TrialState.COMPLETE
    if result.status in (DIVERGED, FAILED) or result.value is None:
        state = TrialState.FAIL
    return View(state, result.value, params, distributions)


def _distribution(dimension: Dimension) -> Any:
    if dimension.kind == CHOICE:
        return CategoricalDistribution([json.dumps(value) for value in dimension.choices])
    if dimension.kind == INT:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.is_log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.is_log)


def _log_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
