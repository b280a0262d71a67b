"""A study has the same results whoever trains its trials, and whoever is killed."""

import collections
import os
import random

import pytest
from fake_trials import Deaths, result_of, undisturbed_results
from search_fixtures import small_definition

from toolkit.errors import CheckpointError, UsageError
from toolkit.search.definition import GRID, RANDOM, STOPPED, TPE, Dimension
from toolkit.search.study import BATCH, RECORDS, Study, stored_definition

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


class Simulation:
    """Processes that claim, train, are killed at random moments, and start again.

    Attributes:
        trainings: how often each trial was begun.
        kills: how many processes were killed.
    """

    def __init__(self, definition, folder, seed, processes, kill_rate):
        self.trainings = collections.Counter()
        self.kills = 0
        self._definition = definition
        self._folder = folder
        self._random = random.Random(seed)
        self._deaths = Deaths()
        self._kill_rate = kill_rate
        self._studies = [self._start() for _ in range(processes)]
        self._trials = [None] * processes

    def _start(self):
        return Study(self._definition, str(self._folder), log=lambda text: None, watch=self._deaths)

    def run(self):
        """Let random processes act until all trials are done; return the results."""
        is_complete = False
        while not is_complete:
            index = self._random.randrange(len(self._studies))
            if self._random.random() < self._kill_rate:
                self._kill(index)
            elif self._trials[index] is None:
                is_complete = self._claim(index)
            else:
                self._finish(index)
        results = self._studies[0].results()
        for study in self._studies:
            study.close()
        return results

    def _claim(self, index):
        trial, is_complete = self._studies[index].try_claim()
        if trial is not None:
            assert trial[:3] not in [other[:3] for other in self._trials if other is not None]
            self.trainings[trial.configuration.number, trial.seed, trial.rung] += 1
            if trial.length is None:
                length = 100 + self._random.randrange(10)  # as of a probe, which varies
                trial = self._studies[index].record_length(trial, length)
        self._trials[index] = trial
        return is_complete

    def _finish(self, index):
        trial, self._trials[index] = self._trials[index], None
        self._studies[index].finish(trial, result_of(self._definition, trial))

    def _kill(self, index):
        """Kill a process, at times after it has recorded a result, and start another one."""
        if self._trials[index] is not None and self._random.random() < 0.3:
            self._finish(index)
        self.kills += 1
        self._trials[index] = None
        self._deaths.names.add(self._studies[index]._owner.name)
        self._studies[index].close()
        self._studies[index] = self._start()


@pytest.mark.parametrize("name", STUDIES)
def test_kills_and_the_number_of_processes_change_no_result(name, tmp_path):
    definition = small_definition(**STUDIES[name])
    (tmp_path / "one").mkdir()
    expected = undisturbed_results(definition, tmp_path / "one")
    assert len(expected) == definition.trials * len(definition.seeds)
    kills = 0
    for seed in range(3):
        folder = tmp_path / f"many-{seed}"
        folder.mkdir()
        simulation = Simulation(definition, folder, seed, processes=4, kill_rate=0.4)
        assert simulation.run() == expected
        kills += simulation.kills
    assert kills > 20


def test_a_kill_repeats_only_the_trial_that_it_hit(tmp_path):
    definition = small_definition(**STUDIES["tpe"])
    simulation = Simulation(definition, tmp_path, 2, processes=3, kill_rate=0.1)
    simulation.run()
    assert simulation.kills > 0
    assert sum(simulation.trainings.values()) - len(simulation.trainings) <= simulation.kills


def test_the_first_result_of_a_trial_holds(tmp_path):
    definition = small_definition()
    study = Study(definition, str(tmp_path))
    trial = study.claim()
    result = result_of(definition, trial)._replace(value=0.5)
    study.finish(trial, result)
    study.finish(trial, result._replace(value=0.9))
    assert [r.value for r in study.results()] == [0.5]
    study.close()


def test_the_first_length_of_a_configuration_holds_for_its_seeds(tmp_path):
    definition = small_definition()
    one, other = (Study(definition, str(tmp_path)) for _ in range(2))
    first, second = one.claim(), other.claim()
    assert first.configuration == second.configuration
    assert (first.length, second.length) == (None, None)
    assert one.record_length(first, 700).length == 700
    assert other.record_length(second, 800).length == 700
    for study in (one, other):
        study.close()


def test_a_process_that_was_taken_for_dead_ends_its_trial(tmp_path):
    deaths = Deaths()
    definition = small_definition(seeds=(1,), trials=1)
    sleeper = Study(definition, str(tmp_path))
    lost = []
    sleeper.on_loss = lost.append
    trial = sleeper.claim()
    deaths.names.add(sleeper._owner.name)
    texts = []
    other = Study(definition, str(tmp_path), log=texts.append, watch=deaths)
    assert other.claim() == trial
    sleeper._notice_losses()
    assert lost == [trial]
    assert texts == ["Trial 0000-s1 has lost its process; it continues."]
    for study in (sleeper, other):
        study.close()


def test_the_best_third_of_each_rung_continues(tmp_path):
    definition = small_definition(**STUDIES["halving"], seeds=(1,))
    results = undisturbed_results(definition, tmp_path)
    by_rung = collections.Counter(result.rung for result in results)
    assert by_rung == {0: 18, 1: 6, 2: 3}
    stopped = [r for r in results if r.status == STOPPED and r.rung == 0]
    assert stopped[0].reason == (
        "stopped at rung 1 of 3 (step 11): 9 of 27 configurations continued"
    )
    number = sum(r.value is not None for r in results if r.rung == 0)
    assert number < 18  # a failed trial does not continue


def test_a_run_in_this_folder_is_continued_before_others(tmp_path):
    definition = small_definition(**STUDIES["halving"])
    study = Study(definition, str(tmp_path))
    os.makedirs(str(tmp_path / "trials" / "0007-s2"))
    assert study.claim().name == "0007-s2"
    study.close()


def test_another_machine_joins_by_the_storage_alone(tmp_path):
    storage = str(tmp_path / "shared.journal")
    definition = small_definition(**STUDIES["random"])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first = Study(definition, str(tmp_path / "a"), storage)
    joined = stored_definition(str(tmp_path / "b"), storage)
    assert joined == definition
    second = Study(joined, str(tmp_path / "b"), storage)
    assert first.claim()[:3] != second.claim()[:3]
    for study in (first, second):
        study.close()


def test_a_study_of_another_definition_is_refused_with_the_difference(tmp_path):
    Study(small_definition(), str(tmp_path)).close()
    with pytest.raises(UsageError, match="trials was 4, now 9"):
        Study(small_definition(trials=9), str(tmp_path))


def test_optuna_reads_the_results_as_its_trials(tmp_path):
    import optuna

    storage = tmp_path / "study.sqlite"
    definition = small_definition(**STUDIES["tpe"])
    study = Study(definition, str(tmp_path), str(storage))
    for _ in range(5):
        trial = study.claim()
        study.finish(trial, result_of(definition, trial))
    study.close()
    trials = optuna.load_study(study_name="study", storage=f"sqlite:///{storage}").trials
    assert [sorted(trial.params) for trial in trials] == [["batch_size", "learning_rate"]] * 5
    assert [t.value for t in trials] == [result.value for result in study.results()]


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
    study = Study(small_definition(), str(tmp_path))
    record = {"kind": BATCH, "configurations": [{"number": 0, "values": values}]}
    study._storage.append(RECORDS, record)
    with pytest.raises(CheckpointError, match="has a configuration that is none of the study"):
        study.try_claim()
    study.close()


MORE_TRIALS = {
    "tpe": (12, STUDIES["tpe"]),
    "tpe, few": (3, STUDIES["tpe"]),
    "random": (5, STUDIES["random"]),
}


@pytest.mark.parametrize("name", MORE_TRIALS)
def test_a_study_that_gets_more_trials_is_one_that_had_them_from_the_start(name, tmp_path):
    count, values = MORE_TRIALS[name]
    large = small_definition(**values)
    small = large._replace(trials=count)
    (tmp_path / "large").mkdir()
    expected = undisturbed_results(large, tmp_path / "large")
    few = undisturbed_results(small, tmp_path)
    assert few == expected[: len(few)]
    study = Study(small, str(tmp_path))
    study.add_trials(large.trials)
    assert study.definition == large
    study.close()
    assert undisturbed_results(large, tmp_path) == expected
    assert undisturbed_results(small, tmp_path) == expected  # a machine that knows the former one


def test_a_part_of_a_grid_that_gets_more_trials_has_each_combination_once(tmp_path):
    whole = small_definition(**STUDIES["grid"])
    few = undisturbed_results(whole._replace(trials=3), tmp_path)
    study = Study(whole._replace(trials=3), str(tmp_path))
    study.add_trials(whole.trials)
    study.close()
    assert undisturbed_results(whole, tmp_path)[: len(few)] == few
    study = Study(whole, str(tmp_path))
    points = [tuple(each.values.values()) for each in study.configurations()]
    study.close()
    assert len(points) == len(set(points)) == 6


def test_a_process_takes_part_in_the_trials_that_another_one_adds(tmp_path):
    small = small_definition(**STUDIES["random"])._replace(trials=1)
    first, second = Study(small, str(tmp_path)), Study(small, str(tmp_path))
    second.add_trials(2)
    numbers = []
    for _ in range(4):
        trial = first.claim()
        first.finish(trial, result_of(small, trial))
        numbers.append(trial.configuration.number)
    assert numbers == [0, 0, 1, 1]
    assert first.definition.trials == 2 and first.is_complete()
    first.close()
    second.close()
