"""The length of a run in steps and in seconds, and what differs in a later session."""

import os

import pytest
from file_fixtures import drop_line, read_json
from linear_fixtures import Linear
from run_fixtures import set_state
from synthetic_runs import Session, write_run

from toolkit import testing
from toolkit.comparison.record import read_record
from toolkit.errors import UsageError
from toolkit.options import CoreOptions
from toolkit.storage.run_folder import RunFolder
from toolkit.storage.session_changes import find_session_changes
from toolkit.training import provenance
from toolkit.training.setup import total_steps
from toolkit.training.step_mode import check_accumulation

START = 1.7e9  # the commit of step N of a synthetic run is N seconds later


def options(**values):
    return CoreOptions(**dict({"learning_rate": 0.5}, **values))


@pytest.mark.parametrize(
    "values, num_examples, total",
    [
        ({"steps": 7}, 100, 7),
        ({"epochs": 2, "batch_size": 10}, 100, 20),
        ({"epochs": 15, "batch_size": 60}, 1000, 250),
        ({"epochs": 0.001, "batch_size": 64}, 100, 1),
        ({"epochs": 0.05, "batch_size": 64}, 4000, 4),  # 3.125
        ({"epochs": 1.1, "batch_size": 50}, 50000, 1100),  # 1.1 * 50000 is above 55000
        ({"epochs": 1e12, "batch_size": 1}, 10, 10**13),
        ({"steps": 2**63 - 1}, 100, 2**63 - 1),
    ],
)
def test_the_length_is_that_of_the_steps_or_of_the_epochs_rounded_up(values, num_examples, total):
    assert total_steps(options(**values), num_examples) == total


@pytest.mark.parametrize(
    "total, update_counts, steps",
    [
        (7, {"": 1}, "7 steps"),
        (1, {"": 1}, "1 step"),
        (3, {"a": 2, "b": 1}, "3 steps"),  # at most six gradients of one name
        (8, {"": 1}, None),
        (4, {"a": 2, "b": 1}, None),
        (1, {"a": 8}, None),
        (1, {}, None),
    ],
)
def test_an_accumulation_that_is_longer_than_the_run_is_refused(total, update_counts, steps):
    if steps is None:
        check_accumulation(options(accumulate=8), total, update_counts)
        return
    with pytest.raises(UsageError, match=f"^--accumulate is 8, but the run has {steps}: no weight"):
        check_accumulation(options(accumulate=8), total, update_counts)


@pytest.mark.parametrize(
    "before, now, changes",
    [
        (False, True, ["compiled by XLA was no, now yes"]),
        (True, False, ["compiled by XLA was yes, now no"]),
        (True, True, []),
        (None, True, []),  # it is not recorded
    ],
)
def test_a_session_that_is_compiled_unlike_the_one_before_is_not_exact(before, now, changes):
    facts = {"versions": {}, "machine": {}, "plugins": {}, "data": {}, "partition": ""}
    session = facts if before is None else dict(facts, compiled=before)
    assert find_session_changes(session, dict(facts, compiled=now)) == changes


def test_the_cores_of_a_session_are_those_that_its_process_may_use(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5})
    assert provenance.machine()["cores"] == 3


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
