"""What a search says at its end, and while it trains."""

import json

import fake_trials
from fake_trials import open_study, train_next, undisturbed_rows
from search_fixtures import row, small_definition
from synthetic_runs import Session, write_run

from toolkit.search.definition import RANDOM
from toolkit.search.outcome import format_outcome, make_table, read_group, reporter
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


def test_of_several_seeds_the_best_has_their_deviation_and_no_brackets():
    band = {"value": 0.732, "low": 0.726, "high": 0.738, "deviation": 0.0085, "seeds": 2}
    table = {"rows": [row(0, "finished")._asdict()], "best": 0, "test": {"accuracy": band}}
    table.update(again="toolkit run", intervals="", verdict="")
    lines = format_outcome(small_definition(space=()), table)
    assert "test     accuracy 0.7320 (sd 0.0085, 0.7260 to 0.7380, 2 seeds)" in lines


def test_a_trial_that_was_trained_further_is_not_among_the_results(here):
    write_run("trials/0", [Session(0, {10: "a"})])
    one = row(0, "finished", 10, paths=["trials/0"])
    assert len(read_group(one, ".").records) == 1
    assert read_group(one._replace(step=5), ".").records == []
