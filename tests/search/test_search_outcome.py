"""What a search says at its end, and while it trains."""

import json

import fake_trials
import numpy as np
import pytest
from fake_trials import open_study, train_next, undisturbed_rows
from search_fixtures import row, small_definition

from toolkit.search import outcome
from toolkit.search.definition import RANDOM
from toolkit.search.outcome import Progress, explain_absence, format_outcome, make_table
from toolkit.search.training import find_due

HALVING = {"sampler": RANDOM, "rungs": (0.5, 1.0), "reduction": 2, "trials": 2, "seeds": (1,)}


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
    undisturbed_rows(definition, tmp_path)
    study = open_study(definition, tmp_path)
    find_due(study)
    table = make_table(study)
    assert "halving stopped 1 at step 50" in table["verdict"]
    text = "\n".join(format_outcome(definition, table))
    assert "verdict  None: only configuration" in text
    json.dumps(table)


def test_a_line_says_how_many_trials_have_come_to_which_rung(tmp_path, capsys):
    study = open_study(small_definition(**HALVING), tmp_path)
    progress = Progress(study)

    def train(study, trial):
        fake_trials.train(study, trial)
        find_due(study)
        progress.report(trial)

    while train_next(study, train):
        pass
    lines = capsys.readouterr().err.splitlines()
    starts = [line[: line.index("  000")] for line in lines]
    assert starts == ["rung 1/2  trial 1/2", "rung 1/2  trial 2/2", "rung 2/2  trial 1/1"]


def history(count, value):
    random = np.random.RandomState(0)
    rows = []
    for number in range(count):
        values = {
            "learning_rate": float(10 ** random.uniform(-4, -2)),
            "batch_size": int(random.choice([16, 32])),
        }
        rows.append(row(number, "finished", values=values, value=value(values)))
    return rows


def test_the_importance_finds_the_option_that_matters():
    rows = history(30, lambda values: np.log10(values["learning_rate"]))
    shares, note = outcome.measure_importance(small_definition(), rows)
    assert (list(shares), note) == (["learning_rate", "batch_size"], "")
    assert shares["learning_rate"] > 0.8 > 0.2 > shares["batch_size"]


@pytest.mark.parametrize(
    "count, value, note", [(9, lambda v: v["batch_size"], "needs 10"), (12, lambda v: 1.0, "same")]
)
def test_without_enough_evidence_there_is_no_importance(count, value, note):
    shares, text = outcome.measure_importance(small_definition(), history(count, value))
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
    table = {
        "rows": [row(0, "finished")._asdict()],
        "best": 0,
        "test": test,
        "again": "toolkit run",
    }
    table.update(intervals="", importance={}, importance_note="", verdict="")
    assert f"test     {text}" in format_outcome(small_definition(space=()), table)
