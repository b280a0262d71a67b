"""One trial: the command that trains it, and what becomes of each end of its process."""

import contextlib
import json
import os
from unittest import mock

import pytest
from fake_trials import make_evaluations, open_study
from search_fixtures import small_definition
from synthetic_runs import Session, write_run

from toolkit.errors import DataError, RetryError, UsageError
from toolkit.options import Config, resolve, variable_name
from toolkit.plugins import Plugins
from toolkit.search.definition import Budget, Configuration, Result, Trial
from toolkit.search.results import read_result, write_notes
from toolkit.search.training import train_trial
from toolkit.search.trial_options import (
    again_command,
    find_length,
    resolve_trial,
    shared_options,
    trial_environment,
    trial_words,
)

VALUES = {"learning_rate": 0.001, "hidden": [64, 32], "normalize": True}
TRIAL = Trial(Configuration(7, VALUES, 90), 2, 0)


class FakeProcesses:
    """Ends each process at once with the next of some exit codes, and writes to its log."""

    signum = 0

    def __init__(self, *codes, text=""):
        self.codes = list(codes)
        self.text = text
        self.words = []
        self.waits = []

    def run(self, words, log, environment):
        self.words.append(list(words))
        os.write(log, self.text.encode())
        yield
        return self.codes.pop(0), 1.5

    def wait(self, secs):
        self.waits.append(secs)
        yield


@pytest.fixture
def train(tmp_path):
    def call(*codes, text=""):
        processes = FakeProcesses(*codes, text=text)
        study = open_study(small_definition(), tmp_path)
        with study.claim(TRIAL) as log:
            list(train_trial(study, TRIAL, log, processes))
        return read_result(study, TRIAL), processes

    return call


def test_the_words_of_a_trial(tmp_path):
    study = open_study(small_definition(rungs=(1 / 3, 1.0), reduction=3), tmp_path)
    text = " ".join(trial_words(study, TRIAL)).replace(str(tmp_path), "DIR")
    assert text == (
        "run --resume --run-dir DIR/trials/0007-s2 --plugin classifier --config DIR/options.json "
        "--network mlp --learning-rate 0.001 --hidden 64,32 --normalize --seed 2 "
        "--steps 90 --evaluate-steps 30 --intra-op-threads 1 --inter-op-threads 1 --pause-at 30"
    )
    assert json.loads((tmp_path / "options.json").read_text()) == {"normalize": True}


def test_the_command_of_a_configuration_and_its_environment_set_the_options_of_the_study(tmp_path):
    trial = Trial(Configuration(0, {"clip": "a b"}, 90), 1, 0)
    text = again_command(open_study(small_definition(), tmp_path), trial)
    assert text.startswith("toolkit run --plugin classifier --config ")
    assert "--network mlp --clip 'a b' --seed 1 --steps 90" in text
    # With other threads, sums have other last bits.
    assert text.endswith("--intra-op-threads 1 --inter-op-threads 1")
    outside = {"TOOLKIT_STEPS": "5", "TF_CONFIG": "{}", "PATH": "/bin", "TOOLKIT_CACHE": "c"}
    kept = {"PATH": "/bin", "TOOLKIT_CACHE": "c"}
    # Alone, also in a step of Slurm.
    assert trial_environment(outside) == {**kept, "TOOLKIT_CLUSTER": "{}"}


@pytest.mark.parametrize("place", ["flag", "variable", "file"])
def test_what_a_command_sets_holds_in_all_trials(here, place):
    plugins = Plugins.load("classifier")
    values = {"clip_limit": "2", "init_from": "w.npz", "steps": "7"}
    variables = {variable_name(name): text for name, text in values.items()}
    resolved = resolve(
        plugins.options(),
        [Config("base.toml", values)] if place == "file" else [],
        variables if place == "variable" else {},
        values if place == "flag" else {},
    )
    options, flags = shared_options(resolved)
    assert options == {"clip_limit": 2.0, "init_from": str(here / "w.npz")}
    assert flags == (tuple(options) if place == "flag" else ())
    trial = resolve_trial(plugins, small_definition(options=options, flags=flags), {}, 9).options
    assert (trial.clip_limit, trial.init_from, trial.steps) == (2.0, options["init_from"], 9)


@pytest.mark.parametrize("flags, zoom", [(("zoom",), 0.25), ((), 0.1)])
def test_a_preset_that_varies_replaces_values_of_a_file_and_none_of_a_flag(flags, zoom):
    study = small_definition(options={"zoom": 0.25}, flags=flags)
    resolved = resolve_trial(Plugins.load("classifier"), study, {"augment": "digits"})
    assert resolved.options.zoom == zoom


@pytest.mark.parametrize(
    "code, text, status, reason",
    [
        (3, "Error: Training diverged.\nStep 1 is kept.\n", "diverged", "Training diverged."),
        (4, "Error: No such data\nhint\n", "failed", "No such data."),
        (2, "warning: x\nError: Wrong.\n", "failed", "Wrong."),
        (1, "Traceback ...\nValueError: 3\n", "failed", "ValueError: 3."),
    ],
)
def test_a_failure_is_a_result_with_its_reason(train, code, text, status, reason):
    result, _ = train(code, text=text)
    assert (result.status, result.reason, result.value) == (status, reason, None)
    assert result.cpu_secs == 1.5


def test_a_trial_is_trained_in_a_folder_whose_name_is_no_text(tmp_path):
    study = open_study(small_definition(), tmp_path / "\udcff")
    with study.claim(TRIAL) as log:
        list(train_trial(study, TRIAL, log, FakeProcesses(4)))
    assert read_result(study, TRIAL).status == "failed"


def test_a_process_that_is_killed_is_tried_again_until_it_comes_no_further(train):
    result, processes = train(137, 137, 137)
    assert result.status == "failed"
    assert "killed, perhaps for lack of memory, 3 times after step 0" in result.reason
    assert len(processes.words) == 3
    assert processes.waits == [5.0, 30.0]  # another process may free its memory
    assert result.cpu_secs == 4.5


def test_a_fault_of_the_machine_ends_the_search(train):
    with pytest.raises(RetryError, match="The disk is full"):
        train(138, 138, 138, text="Error: The disk is full.\n")


def test_a_refusal_because_another_process_trains_the_run_is_no_failure(train, monkeypatch):
    # Two looks at the folder: before the process starts, and after it was refused.
    looks = iter([False, True, True, False, False])
    monkeypatch.setattr("toolkit.search.training.is_locked", lambda path: next(looks))
    result, processes = train(2, 4, text="Error: No such data\n")
    assert (result.reason, len(processes.words)) == ("No such data.", 2)


@pytest.fixture
def read(tmp_path):
    def call(evaluations, has_best=False, rung=1, moment="best", level=0.95):
        """The result at a rung, of 30 and 90 steps, of a finished run with values at some steps."""
        study = small_definition(rungs=(1 / 3, 1.0), reduction=3, moment=moment)
        path = str(tmp_path / "trials" / "0007-s2")
        entries = make_evaluations(evaluations, has_best, level)
        write_run(path, [Session(0, {30: "a" * 64, 90: "b" * 64})], evaluations=entries)
        return read_result(open_study(study, tmp_path), TRIAL._replace(rung=rung))

    return call


VALUES_BY_STEP = {15: 0.7, 30: 0.6, 60: 0.8, 90: 0.75}


@pytest.mark.parametrize(
    "moment, has_best, rung, expected",
    [
        ("last", True, 1, ("finished", 90, 0.75)),
        ("best", True, 1, ("finished", 90, 0.8)),  # of the checkpoint that is tested
        ("best", False, 1, ("finished", 90, 0.75)),  # the run has none
        ("last", True, 0, ("paused", 30, 0.6)),  # not the 0.75 with which the run ended
        ("best", True, 0, ("paused", 30, 0.7)),  # which was the best until then
    ],
)
def test_the_value_of_a_run_is_that_of_the_checkpoint_which_counted_at_the_rung(
    read, moment, has_best, rung, expected
):
    result = read(VALUES_BY_STEP, has_best, rung, moment)
    assert (result.status, result.step, result.value) == expected
    assert (result.low, result.high) == pytest.approx((result.value - 0.1, result.value + 0.1))


def test_a_failure_after_a_rung_keeps_the_value_of_the_rung(tmp_path):
    study = small_definition(rungs=(1 / 3, 1.0), reduction=3, moment="last")
    path = str(tmp_path / "trials" / "0007-s2")
    # A resume repeated the evaluation before the rung, and died before that of the rung.
    entries = make_evaluations({15: 0.7, 30: 0.6})
    entries.append(dict(entries[0], step=30))
    sessions = [Session(0, {30: "a" * 64}), Session(30, {})]
    write_run(path, sessions, evaluations=entries, manifest={"status": "failed", "step": 30})
    write_notes(path, Result("failed", "It was killed."))
    results = [
        read_result(open_study(study, tmp_path), TRIAL._replace(rung=rung)) for rung in (0, 1)
    ]
    assert [(each.status, each.step, each.value) for each in results] == [
        ("paused", 30, 0.6),
        ("failed", 30, None),
    ]


@pytest.mark.parametrize("error, length", [(UsageError, 1), (DataError, None)])
def test_data_that_cannot_be_opened_are_no_configuration_of_one_step(monkeypatch, error, length):
    choose = mock.Mock(side_effect=error("the share is not mounted"))
    monkeypatch.setattr("toolkit.search.trial_options.choose_by_data", choose)
    study = small_definition(budget=Budget("examples", 300))
    with contextlib.nullcontext() if length else pytest.raises(error):
        assert find_length(Plugins.load("classifier"), study, {}) == length


@pytest.mark.parametrize("evaluations, place", [({30: 0.5, 90: None}, " at step 90"), ({}, "")])
def test_a_run_without_a_finite_value_has_failed(read, evaluations, place):
    result = read(evaluations)
    assert (result.status, result.value) == ("failed", None)
    assert result.reason == f"accuracy of the validation split is not finite{place}."


def test_an_interval_at_another_level_is_none_of_the_table(read):
    assert read(VALUES_BY_STEP, level=0.9).low is None
