"""The manifest has the seconds of all sessions of a run."""

import pytest
from file_fixtures import read_json
from linear_fixtures import Linear, write_bars
from run_fixtures import set_state
from synthetic_runs import Session, write_run

from toolkit import DivergedError, hookimpl, testing, tf
from toolkit.comparison.record import read_record
from toolkit.storage.run_folder import RunFolder
from toolkit.training.duration import seconds_before

START = 1.7e9  # the commit of step N of a synthetic run is N seconds later


def before(path, **manifest):
    write_run(str(path), [Session(0, {50: "a" * 64, 100: "b" * 64})], manifest=manifest)
    return seconds_before(RunFolder(str(path)))


@pytest.mark.parametrize(
    "manifest, seconds",
    [
        ({"seconds": 40.0}, 40),
        ({"seconds": 40.0, "session_start": START}, 40),  # it ended: nothing is to be added
        ({"seconds": 40.0, "session_start": START, "status": "running"}, 40 + 100),
        ({"seconds": 40.0, "session_start": START + 70, "status": "running"}, 40 + 30),
        ({"seconds": 40.0, "session_start": START + 500, "status": "running"}, 40),  # no commit
        ({}, 0),
        ({"seconds": -3}, 0),
    ],
)
def test_a_killed_session_counts_up_to_its_last_commit(tmp_path, manifest, seconds):
    assert before(tmp_path / "run", **manifest) == pytest.approx(seconds)


@pytest.fixture()
def data(here):
    return write_bars(here / "bars.npz")


def test_a_resume_adds_its_seconds_to_those_before(data, here):
    testing.train(Linear, "run", data=data, steps=6, pause_at=3)
    manifest = read_json("run", "manifest.json")
    assert manifest["seconds"] == manifest["summary"]["seconds"]
    first = manifest["seconds"] + 1000
    set_state(here / "run", seconds=first)
    summary = testing.train(Linear, "run", data=data, steps=6)
    seconds = read_record("run").seconds
    assert seconds == pytest.approx(first + summary["seconds"], abs=0.02)
    assert summary["seconds"] < 1000 and read_json("run", "manifest.json")["seconds"] == seconds


class Diverging(Linear):
    @hookimpl
    def loss(self, labels, outputs):
        return Linear.loss(self, labels, outputs) / tf.constant(0.0)


def test_a_run_that_diverges_has_its_seconds(data):
    with pytest.raises(DivergedError):
        testing.train(Diverging, "run", data=data, steps=6)
    assert read_record("run").seconds == read_json("run", "manifest.json")["seconds"] > 0
