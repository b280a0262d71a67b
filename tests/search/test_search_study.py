"""A study has the same results whoever trains its trials, and whoever is killed."""

import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading

import fake_trials
import process_fixtures
import pytest
from fake_trials import LENGTH, open_study, rows_of, train_next, undisturbed_rows
from search_fixtures import small_definition

from toolkit.errors import CheckpointError, UsageError
from toolkit.search.definition import GRID, RANDOM, TPE, Dimension
from toolkit.search.study import Study
from toolkit.search.training import find_due
from toolkit.storage.folder_lock import is_locked, lock_file

HALVING = {"rungs": (1 / 9, 1 / 3, 1.0), "reduction": 3}
STUDIES = {
    "tpe": {"trials": 21, "sampler": TPE},
    "random": {"trials": 12, "sampler": RANDOM},
    "grid": {
        "trials": 6,
        "sampler": GRID,
        "space": (
            Dimension("learning_rate", "choice", choices=(1e-4, 1e-3, 1e-2)),
            Dimension("batch_size", "int", 16, 32, 16),
        ),
    },
    "halving": {"trials": 27, "sampler": RANDOM, **HALVING},
    "tpe with halving": {"trials": 18, "sampler": TPE, **HALVING},
}


class Killed(Exception):
    """In place of the death of a process: it leaves what it has written, and its locks end."""


class Workers:
    """Threads, each as a process with a study of its own, that are killed at random moments."""

    def __init__(self, definition, folder):
        self.trainings = collections.Counter()  # how often each trial was begun
        self.kills = 0
        self._definition = definition
        self._folder = folder
        self._random = random.Random(1)
        self._lock = threading.Lock()
        self._present = set()

    def run(self, count):
        """Train all trials with so many workers; return the results."""
        process_fixtures.run_threads([self._work] * count)
        return read_rows(self._definition, self._folder)

    def _work(self):
        is_left = True
        while is_left:
            with contextlib.suppress(Killed):
                study = open_study(self._definition, self._folder)
                while is_left:
                    is_left = train_next(study, self._train)

    def _train(self, study, trial):
        with self._lock:
            assert trial.name not in self._present, "it is trained twice at once"
            self._present.add(trial.name)
            self.trainings[trial.name, trial.rung] += 1
        try:
            self._die_at_times()
            fake_trials.train(study, trial)
        finally:
            with self._lock:
                self._present.remove(trial.name)
        self._die_at_times()

    def _die_at_times(self):
        with self._lock:
            if self._random.random() < 0.3:
                self.kills += 1
                raise Killed


@pytest.mark.parametrize("name", ["random", "grid", "tpe with halving"])
def test_kills_and_the_number_of_workers_change_no_result(name, tmp_path):
    definition = small_definition(**STUDIES[name])
    expected = undisturbed_rows(definition, tmp_path / "one")
    assert sum(len(row.paths) for row in expected) == definition.trials * len(definition.seeds)
    workers = Workers(definition, tmp_path / "many")
    assert workers.run(4) == expected
    assert workers.kills > 5
    assert sum(workers.trainings.values()) - len(workers.trainings) <= workers.kills


TRAIN = """
import os, signal, sys
import fake_trials
from test_search_study import SIX

folder, moment = sys.argv[1], int(sys.argv[2])
left = [moment]

def pass_moment():
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

def train(study, trial):
    pass_moment()
    with open(os.path.join(folder, "trainings"), "a") as file:
        file.write(f"{trial.name} {trial.rung}\\n")
    fake_trials.train(study, trial)
    pass_moment()

study = fake_trials.open_study(SIX, folder)
while fake_trials.train_next(study, train):
    pass
"""
SIX = small_definition(trials=6, seeds=(1,), sampler=RANDOM, rungs=(0.5, 1.0), reduction=2)


def read_rows(definition, folder):
    """The table of a study that is complete."""
    study = open_study(definition, folder)
    assert find_due(study) == []
    return rows_of(study)


def test_a_search_of_six_trials_that_is_killed_thirty_times_has_the_same_results(tmp_path):
    expected = undisturbed_rows(SIX, tmp_path / "one")
    for number in range(30):  # at the first moment, so that none comes further, or at the second
        moment = 2 if number % 5 == 4 else 1
        process = process_fixtures.start(tmp_path / "many", moment, statements=TRAIN)
        assert process.wait(process_fixtures.PATIENCE) in (-signal.SIGKILL, 0)
    assert process_fixtures.run(tmp_path / "many", 0, statements=TRAIN).code == 0
    assert read_rows(SIX, tmp_path / "many") == expected


def test_two_processes_on_one_folder_train_no_trial_twice(tmp_path):
    processes = [process_fixtures.start(tmp_path / "two", 0, statements=TRAIN) for _ in range(2)]
    assert [each.wait(process_fixtures.PATIENCE) for each in processes] == [0, 0]
    trainings = (tmp_path / "two" / "trainings").read_text().splitlines()
    assert len(trainings) == len(set(trainings)) >= 6
    assert read_rows(SIX, tmp_path / "two") == undisturbed_rows(SIX, tmp_path / "one")


def test_a_claim_lasts_as_long_as_the_process_that_trains(tmp_path):
    path = str(tmp_path / "log")
    words = [sys.executable, "-c", "import signal; signal.pause()"]
    with contextlib.suppress(Killed), lock_file(path) as log:
        process = process_fixtures.end_with_test(subprocess.Popen(words, stdout=log))
        raise Killed
    assert is_locked(path)
    process_fixtures.kill(process)
    assert not is_locked(path)


def test_the_best_third_of_each_rung_continues(tmp_path):
    definition = small_definition(**STUDIES["halving"], seeds=(1,))
    rows = undisturbed_rows(definition, tmp_path)
    by_rung = collections.Counter(row.rung for row in rows)
    assert by_rung == {0: 18, 1: 6, 2: 3}
    number = sum(row.value is not None for row in rows if row.rung == 0)
    assert number < 18  # a failed trial does not continue


def test_a_trial_whose_run_was_deleted_is_trained_again(tmp_path):
    definition = small_definition(**STUDIES["grid"], seeds=(1,))
    undisturbed_rows(definition, tmp_path)
    (path,) = tmp_path.glob("trials/0003-s1")
    os.rename(str(path), str(tmp_path / "elsewhere"))
    assert [trial.name for trial in find_due(open_study(definition, tmp_path))] == ["0003-s1"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        Study(small_definition(), str(tmp_path / "missing"), len)


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rate": 1e-3, "batch_size": 16, "with": "/tmp/evil.py"},
        {"learning_rate": 1e-3, "with": "/tmp/evil.py"},
        {"learning_rate": 1e-3, "batch_size": 17},
        {"learning_rate": 1.0, "batch_size": 16},
        {"learning_rate": "--trust", "batch_size": 16},
        None,
    ],
)
def test_a_configuration_on_record_that_the_space_does_not_have_is_refused(tmp_path, values):
    open_study(small_definition(), tmp_path)
    contents = json.loads((tmp_path / "study.json").read_text())
    contents["configurations"] = [{"number": 0, "values": values, "length": 1}]
    (tmp_path / "study.json").write_text(json.dumps(contents))
    with pytest.raises(CheckpointError, match="has a configuration that is none of the study"):
        open_study(small_definition(), tmp_path)


@pytest.mark.parametrize("name, count", [("tpe", 12), ("tpe", 3), ("random", 5)])
def test_a_study_that_gets_more_trials_is_one_that_had_them_from_the_start(name, count, tmp_path):
    large = small_definition(**STUDIES[name])
    small = large._replace(trials=count)
    expected = undisturbed_rows(large, tmp_path / "large")
    few = undisturbed_rows(small, tmp_path)
    assert few == expected[: len(few)]
    assert undisturbed_rows(large, tmp_path) == expected
    assert undisturbed_rows(small, tmp_path) == expected  # one that knows the former study


def test_a_part_of_a_grid_that_gets_more_trials_has_each_combination_once(tmp_path):
    whole = small_definition(**STUDIES["grid"])
    few = undisturbed_rows(whole._replace(trials=3), tmp_path)
    assert undisturbed_rows(whole, tmp_path)[: len(few)] == few
    configurations = open_study(whole, tmp_path).configurations.values()
    points = [tuple(each.values.values()) for each in configurations]
    assert len(points) == len(set(points)) == 6


def test_a_process_takes_part_in_the_trials_that_another_one_adds(tmp_path):
    small = small_definition(**STUDIES["random"])._replace(trials=1)
    first = open_study(small, tmp_path)
    open_study(small._replace(trials=2), tmp_path)
    numbers = []

    def train(study, trial):
        numbers.append(trial.configuration.number)
        assert trial.configuration.length == LENGTH
        fake_trials.train(study, trial)

    while train_next(first, train):
        pass
    assert numbers == [0, 0, 1, 1]
    assert first.definition.trials == 2
