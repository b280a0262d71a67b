"""What a search says at its end, and while it trains."""

import json

import pytest
from fake_trials import result_of
from search_fixtures import small_definition

from toolkit.search.definition import RANDOM
from toolkit.search.outcome import Outcome, explain_absence, format_outcome, read_outcome
from toolkit.search.progress import ProgressLines
from toolkit.search.study import Study
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
    study = Study(definition, str(tmp_path), log=lambda text: None)
    for trial in iter(study.claim, None):
        study.finish(trial, result_of(definition, trial))
    outcome = read_outcome(study, str(tmp_path))
    study.close()
    assert "halving stopped 1 at step 50" in outcome.verdict
    text = "\n".join(format_outcome(outcome, str(tmp_path)))
    assert "verdict  None: only configuration" in text
    json.dumps(outcome.as_json())


def test_a_line_says_how_many_trials_have_come_to_which_rung(tmp_path, capsys):
    definition = small_definition(**HALVING)
    study = Study(definition, str(tmp_path), log=lambda text: None)
    progress = ProgressLines(study, 1)
    for trial in iter(study.claim, None):
        result = result_of(definition, trial)
        study.finish(trial, result)
        progress.report(trial, result)
    study.close()
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
    definition = small_definition(space=())
    outcome = Outcome(definition, [row(0, "finished")], [], "", test, "", "toolkit run")
    assert f"test     {text}" in format_outcome(outcome, "study")
