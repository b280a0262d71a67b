"""`--with lr-finder`: the rates, the proposal, the end of the run, and its weights are refused."""

import csv
import io
import math

import matplotlib
import numpy as np
import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR
from run_fixtures import records
from toolkit_extensions import rate_recorder, rate_search
from toolkit_extensions.lr_finder import MIN_STEPS

import toolkit
from toolkit import UsageError, testing
from toolkit.display.console import Console
from toolkit.storage.run_folder import RunFolder

RATES = np.geomspace(1e-5, 10, 60)


def falling_and_rising():
    """A loss that falls most steeply around 1e-2, is lowest at 0.3, and then explodes."""
    x = np.log10(RATES)
    return list(2 - 1.5 / (1 + np.exp(-4 * (x + 2))) + np.exp(5 * (x - 0.2)))


def test_the_moving_average_has_no_bias():
    assert rate_search.smooth([3.0, 3.0, 3.0]) == pytest.approx([3.0, 3.0, 3.0])
    assert rate_search.smooth([1.0, 2.0]) == pytest.approx([1.0, (0.09 + 0.2) / 0.19])
    assert rate_search.smooth([1.0, math.nan])[1] == math.inf


def test_the_proposal_is_where_the_smoothed_loss_falls_most_steeply():
    proposal = rate_search.propose(RATES, falling_and_rising())
    assert 2e-3 < proposal.learning_rate < 3e-2 and 0.1 < proposal.lowest < 2


def test_neither_noise_at_low_rates_nor_few_steps_mislead():
    noise = 0.2 * np.random.RandomState(0).standard_normal(60)
    proposal = rate_search.propose(RATES, list(np.array(falling_and_rising()) + noise))
    assert 1e-3 < proposal.learning_rate < 1e-1
    rates = np.geomspace(1e-7, 10, MIN_STEPS)
    losses = 2 - 1.5 / (1 + np.exp(-4 * (np.log10(rates) + 2)))
    assert 1e-3 < rate_search.propose(rates, list(losses)).learning_rate < 1e-1


def test_a_loss_that_never_falls_and_too_few_losses_give_no_proposal():
    assert rate_search.propose(RATES, list(np.arange(60.0))).learning_rate is None
    assert rate_search.propose(RATES[:9], falling_and_rising()[:9]) is None
    assert rate_search.propose(RATES, [math.nan] * 60) is None
    assert "the loss diverged within 10 steps" in rate_recorder.sentence(None, "rates.png")


def test_the_loss_has_diverged_where_it_is_many_times_its_minimum():
    losses = falling_and_rising()
    ends = [n for n in range(1, 61) if rate_search.has_diverged(losses[:n], 4)]
    assert ends and RATES[ends[0] - 1] > 1
    assert rate_search.has_diverged([1.0, math.inf], 4)
    assert not rate_search.has_diverged([1.0] * 50, 4)
    assert not rate_search.has_diverged([-1.0 - n for n in range(50)], 4)


def search(tmp_path, data, log=None, name="run", **options):
    values = dict({"data": data, "steps": 100, "batch_size": 8}, **options)
    console = Console(log or io.StringIO())
    testing.train(LINEAR, str(tmp_path / name), ["lr-finder"], console=console, **values)
    return tmp_path / name


def rows(run):
    with open(str(run / "samples" / "rates.csv"), newline="") as file:
        return list(csv.DictReader(file))


def test_a_search_writes_a_table_a_figure_and_a_proposal(data, tmp_path):
    log = io.StringIO()
    run = search(tmp_path, data, log, optimizer="sgd", optimizer_args="", lr_high=1000, lr_low=1e-3)
    proposal = read_json(run, "samples", "rates.json")
    assert 1e-3 <= proposal["learning_rate"] < proposal["lowest"] < 1000
    flag = f"--learning-rate {proposal['learning_rate']:.2g}"
    for text in (f"{flag} is where the loss falls", "export and sample will refuse this run"):
        assert text in log.getvalue()
    assert (run / "samples" / "rates.png").read_bytes()[:4] == b"\x89PNG"
    table = rows(run)
    assert float(table[0]["learning_rate"]) == pytest.approx(1e-3)
    assert records(run)
    for record in records(run):
        rate = float(table[record["step"] - 1]["learning_rate"])
        assert record["learning_rate"] == pytest.approx(rate, rel=1e-4)


def test_a_search_ends_where_the_loss_diverges(data, tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)  # as of a matplotlibrc
    log = io.StringIO()
    more = {"optimizer": "sgd", "optimizer_args": "", "clip": "none"}
    run = search(tmp_path, data, log, lr_low=1e-3, lr_high=1e9, **more)
    assert len(rows(run)) < 100
    assert "the loss diverged at the learning rate" in log.getvalue()


def test_the_weights_of_a_search_are_refused(data, tmp_path):
    run = search(tmp_path, data)
    with toolkit.open_trained(str(run)) as trained, pytest.raises(UsageError) as error:
        trained.predict(np.zeros([1, 6, 6, 1], np.uint8))
    assert "are no model: its learning rate rose until the loss diverged" in str(error.value)


def test_a_resumed_search_has_the_table_of_an_uninterrupted_one(data, tmp_path):
    whole = search(tmp_path, data, checkpoint_steps=7)
    search(tmp_path, data, name="paused", checkpoint_steps=7, pause_at=15)
    assert not (tmp_path / "paused" / "samples" / "rates.csv").exists()
    paused = search(tmp_path, data, name="paused", checkpoint_steps=7)
    assert rows(paused) == rows(whole)
    assert testing.fingerprint(str(paused)) == testing.fingerprint(str(whole))


def test_a_search_keeps_its_rates_and_its_proposal(data, tmp_path):
    search(tmp_path, data)
    with pytest.raises(UsageError, match="rise from 1e-07 to 10 over 100 steps"):
        search(tmp_path, data, steps=150)
    assert RunFolder(str(tmp_path / "run")).state()["step"] == 100
    table = [float(row["learning_rate"]) for row in rows(tmp_path / "run")]
    assert len(table) == 100 and (table[0], table[-1]) == pytest.approx((1e-7, 10))


def test_the_state_of_a_search_of_an_earlier_version_is_taken():
    recorder = rate_recorder.RateRecorder("", "loss", None, (1e-7, 10.0, 100), 4)
    recorder.set_state({"losses": ["1.5"]})
    assert recorder.state() == {"losses": ["1.5"], "rates": [1e-7, 10.0, 100]}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"lr_low": 1.0, "lr_high": 1.0}, "lr_low is 1 and lr_high 1; the rate has to rise"),
        ({"steps": 99}, "lr-finder needs 100 steps or more, and the run has 99"),
        ({"evaluate": "yes"}, "trains no model that could be evaluated"),
    ],
    ids=str,
)
def test_impossible_searches_are_refused(data, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        search(tmp_path, data, **options)
