"""The seconds of all sessions of a run."""

import os

import pytest
from file_fixtures import drop_line, read_json
from linear_fixtures import Linear
from run_fixtures import set_state
from synthetic_runs import Session, write_run

from toolkit import testing
from toolkit.comparison.record import read_record
from toolkit.storage.run_folder import RunFolder

START = 1.7e9  # the commit of step N of a synthetic run is N seconds later


@pytest.mark.parametrize(
    "start, end, seconds",
    [
        (START, {"seconds": 70.0}, 70),  # it ended: nothing is to be added
        (START, {}, 40 + 100),
        (START + 70, {}, 40 + 30),
        (START + 500, {}, 40),  # no commit
    ],
)
def test_a_killed_session_counts_up_to_its_last_commit(tmp_path, start, end, seconds):
    facts = {"seconds_before": 40.0, "session_start": start}
    sessions = [Session(0, {50: "a" * 64, 100: "b" * 64}, facts=facts)]
    run = write_run(str(tmp_path / "run"), sessions, manifest=end)
    if not end:
        drop_line(os.path.join(run, "commits.jsonl"), -1)
    assert RunFolder(run).state()["seconds"] == pytest.approx(seconds)


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
