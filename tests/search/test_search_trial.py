"""One trial: the command that trains it, and what becomes of each end of its process."""

import json
import os

import pytest
from search_fixtures import small_definition
from synthetic_runs import Session, write_run

from toolkit.comparison.record import read_record
from toolkit.errors import RetryError
from toolkit.options import Layer, resolve, variable_name
from toolkit.plugins import Plugins
from toolkit.search.definition import Configuration, Trial
from toolkit.search.results import choose_evaluation, find_best, find_ends, read_result
from toolkit.search.trial_options import (
    again_command,
    resolve_trial,
    shared_options,
    trial_environment,
    trial_words,
)
from toolkit.search.trial_run import run_trial
from toolkit.storage.folder_lock import lock_file

VALUES = {"learning_rate": 0.001, "hidden": [64, 32], "normalize": True}
CONFIGURATION = Configuration(7, VALUES, 90)


class FakeChildren:
    """Ends each process at once with the next of some exit codes, and writes to its log."""

    def __init__(self, *codes, text=""):
        self.codes = list(codes)
        self.text = text
        self.words = []
        self.waits = []

    def run(self, words, log, environment, count_time):
        self.words.append(list(words))
        os.write(log, self.text.encode())
        count_time(1.5)
        return self.codes.pop(0)

    def wait(self, secs):
        self.waits.append(secs)


@pytest.fixture
def train(tmp_path):
    def call(*codes, text="", **values):
        children = FakeChildren(*codes, text=text)
        trial, definition = Trial(CONFIGURATION, 2, 0), small_definition(**values)
        (tmp_path / "trials").mkdir()
        with lock_file(str(tmp_path / "trials" / "0007-s2.log")) as log:
            run_trial(definition, trial, str(tmp_path), log, children)
        return read_result(definition, trial, str(tmp_path)), children

    return call


def test_the_words_of_a_trial(tmp_path):
    study = small_definition(rungs=(1 / 3, 1.0), reduction=3)
    words = trial_words(study, Trial(CONFIGURATION, 2, 0), str(tmp_path))
    text = " ".join(words).replace(str(tmp_path), "DIR")
    assert text == (
        "run --resume --run-dir DIR/trials/0007-s2 --plugin classifier --config DIR/options.json "
        "--network mlp --learning-rate 0.001 --hidden 64,32 --set normalize=true --seed 2 "
        "--steps 90 --evaluate-steps 30 --intra-op-threads 1 --inter-op-threads 1 --pause-at 30"
    )
    assert json.loads((tmp_path / "options.json").read_text()) == {"normalize": True}


def test_the_command_of_a_configuration_and_its_environment_set_the_options_of_the_study(tmp_path):
    text = again_command(small_definition(), {"clip": "a b"}, 1, 90, str(tmp_path))
    assert text.startswith("toolkit run --plugin classifier --config ")
    assert "--network mlp --clip 'a b' --seed 1 --steps 90" in text
    # With other threads, sums have other last bits.
    assert text.endswith("--intra-op-threads 1 --inter-op-threads 1")
    outside = {"TOOLKIT_STEPS": "5", "TF_CONFIG": "{}", "PATH": "/bin", "TOOLKIT_CACHE": "c"}
    assert trial_environment(outside) == {"PATH": "/bin", "TOOLKIT_CACHE": "c"}


@pytest.mark.parametrize("place", ["flag", "variable", "file"])
def test_what_a_command_sets_holds_in_all_trials(here, place):
    plugins = Plugins.load("classifier")
    values = {"clip_limit": "2", "init_from": "w.npz", "steps": "7"}
    variables = {variable_name(name): text for name, text in values.items()}
    resolved = resolve(
        plugins.options(),
        [Layer("base.toml", values)] if place == "file" else [],
        variables if place == "variable" else {},
        values if place == "flag" else {},
    )
    options, flags = shared_options(resolved)
    assert options == {"clip_limit": 2.0, "init_from": str(here / "w.npz")}
    assert flags == (tuple(options) if place == "flag" else ())
    trial = resolve_trial(plugins, small_definition(options=options, flags=flags), {}, 9).options
    assert (trial.clip_limit, trial.init_from, trial.steps) == (2.0, options["init_from"], 9)


def test_a_preset_that_varies_replaces_values_of_a_file_and_none_of_a_flag():
    plugins = Plugins.load("classifier")
    preset, name = next(
        (preset, name)
        for _, cls in plugins.options()
        for preset, each in cls.presets.items()
        for name, value in each.items()
        if isinstance(value, float)
    )
    option = next(cls.preset_option for _, cls in plugins.options() if cls.presets)
    for flags, is_kept in [((name,), True), ((), False)]:
        study = small_definition(options={name: 0.25}, flags=flags)
        value = getattr(resolve_trial(plugins, study, {option: preset}).options, name)
        assert (value == 0.25) == is_kept


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


def test_a_process_that_is_killed_is_tried_again_until_it_comes_no_further(train):
    result, children = train(137, 137, 137)
    assert result.status == "failed"
    assert "killed, perhaps for lack of memory, 3 times after step 0" in result.reason
    assert len(children.words) == 3
    assert children.waits == [5.0, 30.0]  # another process may free its memory
    assert result.cpu_secs == 4.5


def test_a_fault_of_the_machine_ends_the_search(train):
    with pytest.raises(RetryError, match="The disk is full"):
        train(138, 138, 138, text="Error: The disk is full.\n")


def test_a_refusal_because_another_process_trains_the_run_is_no_failure(train, monkeypatch):
    # Two looks at the folder: before the process starts, and after it was refused.
    looks = iter([False, True, True, False, False])
    monkeypatch.setattr("toolkit.search.trial_run.is_locked", lambda path: next(looks))
    result, children = train(2, 4, text="Error: No such data\n")
    assert (result.reason, len(children.words)) == ("No such data.", 2)


def test_the_value_is_that_of_the_checkpoint_that_is_tested():
    values = {step: {"accuracy": value} for step, value in [(10, 0.5), (20, 0.9), (30, 0.7)]}
    last, best = small_definition(moment="last"), small_definition(moment="best")
    assert choose_evaluation(last, values, {"step": 20}) == (30, 0.7)
    assert choose_evaluation(best, values, {"step": 20}) == (20, 0.9)
    assert choose_evaluation(best, values, None) == (30, 0.7)
    assert choose_evaluation(best, {}, None) == (0, None)
    assert choose_evaluation(last, {**values, 40: {"accuracy": None}}, None) == (40, None)


@pytest.mark.parametrize(
    "moment, rung, expected",
    [
        ("last", 0, ("paused", 30, 0.6)),  # not the 0.9 with which the run ended
        ("best", 0, ("paused", 30, 0.7)),
        ("last", 1, ("finished", 90, 0.9)),
    ],
)
def test_a_run_that_came_past_a_rung_has_the_value_of_the_rung(tmp_path, moment, rung, expected):
    study = small_definition(rungs=(1 / 3, 1.0), reduction=3, moment=moment)
    evaluations = [
        {"step": step, "kind": "eval", "split": "validation", "accuracy": value}
        for step, value in [(15, 0.7), (30, 0.6), (60, 0.8), (90, 0.9)]
    ]
    write_run(
        str(tmp_path / "trials" / "0007-s2"),
        [Session(0, {30: "a" * 64, 90: "b" * 64})],
        records=evaluations,
        manifest={"best": {"step": 90, "metric": "accuracy", "direction": "max", "value": 0.9}},
    )
    result = read_result(study, Trial(CONFIGURATION, 2, rung), str(tmp_path))
    assert (result.status, result.step, result.value) == expected


def test_of_a_metric_with_noise_the_newest_within_it_counts_at_a_rung():
    values = {15: 0.7, 30: 0.66, 60: 0.655, 90: 0.9}
    records = {n: {"accuracy": value, "accuracy_noise": 0.05} for n, value in values.items()}
    best = {"step": 90, "metric": "accuracy", "direction": "max", "value": 0.9}
    assert find_best(best, {n: records[n] for n in (15, 30)})["step"] == 30
    assert find_best(best, {n: records[n] for n in (15, 30, 60)})["step"] == 60
    assert find_best(best, {}) is None


def evaluation(step, low, high, level=0.95):
    interval = {"low": low, "high": high, "level": level, "method": "Wilson"}
    return {"step": step, "examples": 9, "metrics": {}, "intervals": {"accuracy": interval}}


@pytest.mark.parametrize(
    "evaluations, step, ends",
    [
        ({"last": evaluation(30, 0.5, 0.7), "best": evaluation(20, 0.6, 0.9)}, 30, (0.5, 0.7)),
        ({"last": evaluation(30, 0.5, 0.7), "best": evaluation(20, 0.6, 0.9)}, 20, (0.6, 0.9)),
        ({"last": evaluation(30, 0.5, 0.7), "best": None}, 20, (None, None)),
        ({"last": evaluation(30, 0.5, 0.7, 0.9), "best": None}, 30, (None, None)),
        ({"last": evaluation(30, None, "x"), "best": None}, 30, (None, None)),
        (None, 30, (None, None)),
    ],
)
def test_the_interval_is_that_of_the_evaluation_that_counts(here, evaluations, step, ends):
    path = write_run("a", manifest={"validation": evaluations})
    assert find_ends(read_record(path), step, "accuracy") == ends
    assert find_ends(read_record(path), step, "loss") == (None, None)
