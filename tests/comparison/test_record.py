"""The record of a run says how it is, whatever its folder contains."""

import os

import pytest
from file_fixtures import drop_line
from run_fixtures import set_state
from synthetic_runs import Session, write_run

from toolkit.comparison.record import find_runs, read_record
from toolkit.errors import CheckpointError
from toolkit.storage.folder_lock import FolderLock


def test_a_finished_run_has_its_end_options_and_metrics(here):
    record = read_record(write_run("a", metrics={"accuracy": 0.9}, learning_rate=0.1))
    assert (record.name, record.status) == ("a", "finished")
    assert (record.step, record.total_steps) == (100, 100)
    assert record.options["learning_rate"] == 0.1 and "folder" not in record.options
    assert record.origins["learning_rate"].saved == "flag"
    assert record.metrics == {"accuracy": 0.9}
    assert (record.plugin, record.extensions, record.seconds) == ("classifier", [], 12.5)


def test_a_run_without_an_end_is_running_at_its_last_record_while_it_is_locked_or_was_killed(here):
    write_run("a", [Session(0, {20: "a", 40: "b"})], records=[{"step": 40}, {"step": 51}])
    drop_line("a/commits.jsonl", -1)
    with open("a/metrics.jsonl", "a") as file:
        file.write("x" * 200 + '\n{"step": 6')
    lock = FolderLock("a")
    lock.acquire()
    assert (read_record("a").status, read_record("a").step) == ("running", 51)
    lock.release()
    assert (read_record("a").status, read_record("a").step) == ("killed", 40)
    assert read_record("a").reason == "" and read_record("a").exit_code is None


def test_a_run_that_was_trained_but_not_tested_was_killed(here):
    write_run("a")
    set_state("a", status="trained", exit_code=None)
    assert read_record("a").status == "killed"
    set_state("a", status="trained", exit_code=1)
    assert read_record("a").status == "trained"


def test_a_run_without_a_step_is_unstarted(here):
    os.mkdir("a")
    (here / "a/.lock").touch()
    (here / "a/config.json").write_text('{"plugin": "mine", "data": "x.npz", "steps": 3}')
    record = read_record("a")
    assert (record.status, record.plugin, record.data_name) == ("unstarted", "mine", "x.npz")
    assert record.options == {"data": "x.npz", "steps": 3}


@pytest.mark.parametrize("name", ["config.json", "commits.jsonl"])
def test_a_damaged_run_gives_one_sentence(here, name):
    write_run("a")
    (here / "a" / name).write_text("{\n")
    with pytest.raises(CheckpointError, match=name):
        read_record("a")
    os.remove(f"a/{name}")
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        read_record("a")


def test_metrics_of_another_type_are_left_out(here):
    write_run("a", metrics={"accuracy": "good", "loss": None, "ok": 1})
    record = read_record("a")
    assert set(record.metrics) == {"loss", "ok"} and record.metrics["loss"] != 0


def test_runs_are_found_in_their_order_and_not_within_runs(here):
    for path in ("b/2", "b/10", "a", "a/inner", ".hidden/c", "d/e/f"):
        write_run(path)
    os.makedirs("web")
    (here / "web/manifest.json").touch()
    assert [os.path.relpath(path) for path in find_runs(".")] == ["a", "b/10", "b/2", "d/e/f"]
    assert [os.path.relpath(path) for path in find_runs("a/inner")] == ["a/inner"]


def test_links_are_named_and_not_followed(here):
    write_run("elsewhere/a")
    os.makedirs("runs/b")
    os.symlink(os.path.abspath("elsewhere"), "runs/link")
    os.symlink(os.path.abspath("runs"), "runs/b/circle")
    notes = []
    assert list(find_runs("runs", notes.append)) == []
    assert [note.split(" is ")[0][-6:] for note in notes] == ["s/link", "circle"]
