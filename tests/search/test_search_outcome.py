"""What a search says at its end, and while it trains."""

import json

import fake_trials
import pytest
from fake_trials import open_study, train_next, undisturbed_rows
from search_fixtures import row, small_definition

from toolkit.search.definition import RANDOM
from toolkit.search.outcome import format_outcome, make_table, reporter
from toolkit.search.training import find_due

HALVING = {"sampler": RANDOM, "rungs": (0.5, 1.0), "reduction": 2, "trials": 2, "seeds": (1,)}


def test_a_study_in_which_one_trained_to_its_end_says_why_it_has_no_verdict(tmp_path):
    definition = small_definition(**HALVING)
    undisturbed_rows(definition, tmp_path)
    study = open_study(definition, tmp_path)
    find_due(study)
    table = make_table(study)
    text = "\n".join(format_outcome(definition, table))
    assert "verdict  None: no second configuration trained to its end." in text
    json.dumps(table)


def test_a_line_says_how_many_trials_have_come_to_which_rung(tmp_path, capsys):
    study = open_study(small_definition(**HALVING), tmp_path)
    report = reporter(study)

    def train(study, trial):
        fake_trials.train(study, trial)
        find_due(study)
        report(trial)

    while train_next(study, train):
        pass
    lines = capsys.readouterr().err.splitlines()
    starts = [line[: line.index("  000")] for line in lines]
    assert starts == ["rung 1/2  trial 1/2", "rung 1/2  trial 2/2", "rung 2/2  trial 1/1"]


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
    table.update(intervals="", verdict="")
    assert f"test     {text}" in format_outcome(small_definition(space=()), table)
