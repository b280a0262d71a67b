"""What a search says at its end, and while it trains."""

import json

import fake_trials
import numpy as np
import pytest
from fake_trials import open_study, undisturbed_results
from search_fixtures import small_definition

from toolkit.search.definition import RANDOM, Configuration
from toolkit.search.halving import Standing
from toolkit.search.outcome import (
    Outcome,
    explain_absence,
    format_outcome,
    measure_importance,
    read_outcome,
)
from toolkit.search.progress import ProgressLines
from toolkit.search.table import Row

HALVING = {"sampler": RANDOM, "rungs": (0.5, 1.0), "reduction": 2, "trials": 2, "seeds": (1,)}


def row(number, status, step=64):
    return Row(number, {}, status, "", 0.5, None, None, "", 1, 0, step, 1.0, 1.0, ["trials/x"])


@pytest.mark.parametrize(
    "others, sentence",
    [
        ([], "None: there is only one configuration."),
        (
            [row(0, "stopped", 32), row(2, "stopped", 16), row(3, "stopped", 16)],
            "None: only configuration 1 trained to its end; halving stopped 3 at steps 16 and 32.",
        ),
        (
            [row(0, "stopped", 16), row(2, "diverged", 3)],
            "None: only configuration 1 trained to its end; halving stopped 1 at step 16, 1 "
            "diverged or failed.",
        ),
    ],
)
def test_a_best_configuration_without_a_second_has_a_reason_for_the_missing_verdict(
    others, sentence
):
    assert explain_absence([row(1, "finished"), *others]) == sentence


def test_a_study_in_which_one_trained_to_its_end_says_why_it_has_no_verdict(tmp_path):
    definition = small_definition(**HALVING)
    undisturbed_results(definition, tmp_path)
    study = open_study(definition, tmp_path)
    study.find_due()
    outcome = read_outcome(study, str(tmp_path))
    assert "halving stopped 1 at step 50" in outcome.verdict
    text = "\n".join(format_outcome(outcome, str(tmp_path)))
    assert "verdict  None: only configuration" in text
    json.dumps(outcome.as_json())


def test_a_line_says_how_many_trials_have_come_to_which_rung(tmp_path, capsys):
    definition = small_definition(**HALVING)
    study = open_study(definition, tmp_path)
    progress = ProgressLines(study)

    def train(trial, log):
        fake_trials.train(definition, trial, str(tmp_path))
        progress.report(trial, study.result(trial))

    while study.train_next(train):
        pass
    lines = capsys.readouterr().err.splitlines()
    starts = [line[: line.index("  000")] for line in lines]
    assert starts == ["rung 1/2  trial 1/2", "rung 1/2  trial 2/2", "rung 2/2  trial 1/1"]


def history(count, value):
    random = np.random.RandomState(0)
    entries = []
    for number in range(count):
        values = {
            "learning_rate": float(10 ** random.uniform(-4, -2)),
            "batch_size": int(random.choice([16, 32])),
        }
        entries.append((Configuration(number, values), Standing(0, value(values), False)))
    return entries


def test_the_importance_finds_the_option_that_matters():
    entries = history(30, lambda values: np.log10(values["learning_rate"]))
    shares, note = measure_importance(small_definition(), entries)
    assert (list(shares), note) == (["learning_rate", "batch_size"], "")
    assert shares["learning_rate"] > 0.8 > 0.2 > shares["batch_size"]


@pytest.mark.parametrize(
    "count, value, note", [(9, lambda v: v["batch_size"], "needs 10"), (12, lambda v: 1.0, "same")]
)
def test_without_enough_evidence_there_is_no_importance(count, value, note):
    shares, text = measure_importance(small_definition(), history(count, value))
    assert shares == {}
    assert note in text


@pytest.mark.parametrize(
    "band, text",
    [
        ((0.73, 0.7, 0.76, None, 1), "accuracy 0.7300 [0.7000, 0.7600]"),
        ((0.73, None, None, None, 1), "accuracy 0.7300"),
        (
            (0.732, 0.726, 0.738, 0.0085, 2),
            "accuracy 0.7320 (sd 0.0085, 0.7260 to 0.7380, 2 seeds)",
        ),
    ],
)
def test_brackets_are_for_intervals_alone(band, text):
    test = {"accuracy": dict(zip(("value", "low", "high", "deviation", "seeds"), band))}
    definition = small_definition(space=())
    outcome = Outcome(definition, [row(0, "finished")], {}, "", test, "", "toolkit run")
    assert f"test     {text}" in format_outcome(outcome, "study")
