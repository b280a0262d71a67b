"""A run's folder without any training: made, held, committed to, and read back when damaged."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from toolkit.errors import CheckpointError, RetryError, UsageError
from toolkit.storage import run_folder as module
from toolkit.storage.checkpoint_store import CheckpointStore
from toolkit.storage.jsonl import JsonLines
from toolkit.storage.run_folder import RunFolder, open_run, reserve

SPEC = {"shape": [4], "dtype": "uint8"}
DATA = {"sha256": {}, "stored": SPEC, "spec": SPEC, "ink": None}


@pytest.fixture
def run(tmp_path):
    """A run that was begun and has committed nothing."""
    made = reserve(str(tmp_path / "run"))
    made.create({"plugin": "p"})
    made.update_manifest(status="running", data=DATA)
    made.checkpoints.begin_session(None)
    yield made
    made.unlock()


@pytest.fixture
def committed(run):
    """The same after steps 2, 4 and 6, with a line of metrics before each."""
    for step in (2, 4, 6):
        commit(run, step)
    return run


def save(run, step):
    """What a Saver leaves: two files."""
    for ending in ("index", "data-00000-of-00001"):
        with open(f"{run.checkpoints.prefix(step)}.{ending}", "w") as file:
            file.write(f"{ending} of step {step}")


def commit(run, step, keep=lambda rows: [row.step for row in rows]):
    run.metrics.append({"step": step})
    save(run, step)
    run.checkpoints.commit(step, 100.0 + step, keep, "tensors")


def again(run):
    """The folder as another process would find it."""
    return RunFolder(run.path)


def steps(run):
    return [row.step for row in again(run).checkpoints.list()]


def files(run, *parts):
    return sorted(n for n in os.listdir(run.file("checkpoints", *parts)) if n.startswith("model"))


def damage(run, step):
    with open(run.checkpoints.prefix(step) + ".index", "a") as file:
        file.write("more")


def change_chain(run, old, new):
    with open(run.commits.path, "rb") as file:
        content = file.read()
    assert old in content
    with open(run.commits.path, "wb") as file:
        file.write(content.replace(old, new))


def keep_lines(run, count):
    with open(run.commits.path) as file:
        lines = file.readlines()
    with open(run.commits.path, "w") as file:
        file.writelines(lines[:count])


# ------------------------------------------------------------------------------------ make and find


def test_nothing_is_written_before_the_run_is_made(tmp_path):
    reserve(str(tmp_path / "run"))
    assert os.listdir(str(tmp_path)) == []


def test_a_folder_with_anything_in_it_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        reserve(str(tmp_path))


def test_what_was_there_is_moved_aside_where_that_is_asked_for(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    made = reserve(str(tmp_path / "run"), force=True)
    made.create({})
    made.unlock()
    (aside,) = [path for path in tmp_path.iterdir() if path.name != "run"]
    assert (aside / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "run" / "notes.txt").exists()


def begun(path, *names):
    """What a run may leave that was ended before it began."""
    path.mkdir()
    for name in names:
        if name in ("checkpoints", "events"):
            (path / name).mkdir()
        else:
            (path / name).write_text("{}")
    return str(path)


REMNANTS = [
    (),
    (".lock",),
    (".lock", ".writing-x1"),
    (".lock", "config.json"),
    (".lock", "config.json", "checkpoints", "events", ".writing-x1"),
]


@pytest.mark.parametrize("names", REMNANTS)
def test_a_run_is_made_over_the_remnants_of_one_that_was_ended_before_it_began(tmp_path, names):
    made = reserve(begun(tmp_path / "run", *names))
    made.create({"plugin": "new"})
    made.unlock()
    assert os.listdir(str(tmp_path)) == ["run"]  # nothing was moved aside
    assert made.read_config() == {"plugin": "new"}


@pytest.mark.parametrize("name", ["manifest.json", "metrics.jsonl", "commits.jsonl", "reports"])
def test_a_folder_that_holds_more_than_remnants_is_taken(tmp_path, name):
    path = begun(tmp_path / "run", ".lock", "config.json", name)
    with pytest.raises(UsageError, match="is not empty"):
        reserve(path)


@pytest.mark.parametrize("name", ["checkpoints", "events"])
def test_a_folder_with_a_checkpoint_or_an_event_is_taken(tmp_path, name):
    path = begun(tmp_path / "run", name)
    (tmp_path / "run" / name / "file").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        reserve(path)


def test_a_file_is_taken_and_no_run_can_be_made_in_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not empty"):
        reserve(str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot be created: Not a directory"):
        reserve(str(tmp_path / "file" / "run")).create({})


def test_two_runs_cannot_be_made_in_one_folder(run):
    other = RunFolder(run.path, is_new=True)
    run.unlock()
    shutil.rmtree(run.file("checkpoints"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_is_used", lambda path: False)  # as it was when it was looked at
        with pytest.raises(UsageError, match="Another process has started a run"):
            other.create({})
    other.unlock()
    assert again(run).read_config() == {"plugin": "p"}


@pytest.mark.parametrize("names", [n for n in REMNANTS if "config.json" in n])
def test_a_run_that_never_began_is_opened_as_a_new_one_where_that_will_do(tmp_path, names):
    path = begun(tmp_path / "run", *names)
    assert open_run(path, allow_unstarted=True).is_new
    with pytest.raises(UsageError, match="ended before its first step; continue with: toolkit"):
        open_run(path)


@pytest.mark.parametrize("names", [n for n in REMNANTS if "config.json" not in n])
@pytest.mark.parametrize("allow_unstarted", [True, False])
def test_remnants_without_a_configuration_hold_no_run(tmp_path, names, allow_unstarted):
    with pytest.raises(UsageError, match="contains no run"):
        open_run(begun(tmp_path / "run", *names), allow_unstarted)


@pytest.mark.parametrize("allow_unstarted", [True, False])
def test_a_folder_that_does_not_exist_holds_no_run(tmp_path, allow_unstarted):
    with pytest.raises(UsageError, match="does not exist"):
        open_run(str(tmp_path / "none"), allow_unstarted)


@pytest.mark.parametrize("allow_unstarted", [True, False])
@pytest.mark.parametrize("lost", [[], ["manifest.json"], ["commits.jsonl"]])
def test_a_run_with_a_manifest_or_a_chain_is_no_new_one(committed, allow_unstarted, lost):
    for name in lost:
        os.remove(committed.file(name))
    assert not open_run(committed.path, allow_unstarted).is_new


def test_a_run_that_lost_manifest_and_chain_is_not_taken_for_a_new_one(committed):
    os.remove(committed.file("manifest.json"))
    os.remove(committed.file("commits.jsonl"))
    with pytest.raises(UsageError, match="contains no run"):
        open_run(committed.path, allow_unstarted=True)


# ------------------------------------------------------------------------------------------- locks


def test_a_second_one_to_hold_the_folder_is_refused(run):
    assert again(run).is_locked()
    with pytest.raises(UsageError, match="Another process is training in"):
        again(run).lock()
    run.unlock()
    other = again(run)
    assert not other.is_locked()
    other.lock()
    other.unlock()


def test_to_hold_it_twice_is_to_hold_it(run):
    run.lock()
    assert again(run).is_locked()


HOLD = """
import sys, time
from toolkit.storage.run_folder import RunFolder
RunFolder(sys.argv[1]).lock()
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_process_that_was_killed_is_gone(run):
    run.unlock()
    holder = subprocess.Popen([sys.executable, "-c", HOLD, run.path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert again(run).is_locked()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert not again(run).is_locked()
    run.lock()


def test_what_another_process_committed_until_it_let_go_is_seen_by_the_next(committed):
    other = again(committed)
    assert len(other.commits.entries()) == 4  # as a resume looks at the options before it holds it
    commit(committed, 8)
    committed.unlock()
    other.lock()
    other.checkpoints.begin_session(other.checkpoints.newest())
    other.unlock()
    assert again(committed).commits.faults() == []
    assert steps(committed) == [2, 4, 6, 8]


# ----------------------------------------------------------------------------------------- commits


def test_a_commit_names_the_files_of_its_step_and_the_metrics_so_far(committed):
    row = committed.checkpoints.list()[0]
    assert sorted(row.files) == ["model.ckpt-2.data-00000-of-00001", "model.ckpt-2.index"]
    assert row.files["model.ckpt-2.index"].bytes == len("index of step 2")
    assert row.metrics.bytes == len('{"step": 2}\n')
    assert (row.time, row.tensors) == (102.0, "tensors")


def test_files_that_are_still_being_written_are_not_committed(run):
    with open(run.checkpoints.prefix(2) + ".index.tempstate123", "w") as file:
        file.write("x")
    commit(run, 2)
    assert len(run.checkpoints.list()[0].files) == 2


def test_what_is_not_kept_is_deleted_after_the_line(committed):
    commit(committed, 8, keep=lambda rows: [rows[-1].step, 2])
    assert steps(committed) == [2, 8]
    assert {name.split(".")[1] for name in files(committed)} == {"ckpt-2", "ckpt-8"}


def test_a_step_that_is_committed_is_kept_whatever_the_rule_says(committed):
    commit(committed, 8, keep=lambda rows: [])
    assert steps(committed) == [8]


def test_a_step_that_is_committed_again_takes_back_those_behind_it(committed):
    commit(committed, 4)
    assert steps(committed) == [2, 4]


class Crash(BaseException):
    """As if the process had ended there."""


def crashing(monkeypatch, owner, name, after=False):
    """Crash before (or after) what `name` does."""
    inner = getattr(owner, name)

    def crash(*arguments, **named):
        if after:
            inner(*arguments, **named)
        raise Crash

    monkeypatch.setattr(owner, name, crash)


@pytest.mark.parametrize(
    "owner, name, after, newest",
    [
        (CheckpointStore, "_make_durable", False, 6),  # nothing is on the disk for sure
        (CheckpointStore, "_make_durable", True, 6),
        (JsonLines, "make_durable", False, 6),
        (CheckpointStore, "add_commit", False, 6),
        (CheckpointStore, "add_commit", True, 8),
        (CheckpointStore, "_delete", False, 8),
        (CheckpointStore, "_delete", True, 8),
    ],
)
def test_a_crash_at_any_point_of_a_commit_leaves_a_whole_checkpoint(
    committed, monkeypatch, owner, name, after, newest
):
    with pytest.raises(Crash):
        committed.metrics.append({"step": 8})
        save(committed, 8)
        crashing(monkeypatch, owner, name, after)
        committed.checkpoints.commit(8, 108.0, lambda rows: [6], "tensors")
    monkeypatch.undo()
    committed.unlock()
    found = again(committed)
    found.lock()
    start = found.checkpoints.newest()
    assert start.step == newest
    assert found.checkpoints.begin_session(start) == []
    assert found.metrics.cut_back(start) == ""
    kept = {6: [2, 4, 6], 8: [6, 8]}[newest]
    assert steps(found) == kept
    assert {n.split(".")[1] for n in files(found)} == {f"ckpt-{step}" for step in kept}
    assert found.metrics.read()[-1] == {"step": newest}
    found.unlock()


def test_a_crash_within_the_line_is_as_one_before_it(committed):
    with open(committed.commits.path, "ab") as file:
        file.write(b'{"kind": "commit", "step": 8')
    assert steps(committed) == [2, 4, 6]
    assert again(committed).commits.faults() == []


# --------------------------------------------------------------------------------------- a session


def test_a_session_goes_on_from_a_step_and_takes_back_those_behind_it(committed):
    committed.checkpoints.begin_session(committed.checkpoints.list()[1], why="test")
    assert steps(committed) == [2, 4]
    assert committed.commits.sessions()[-1]["from"] == 4
    assert committed.commits.sessions()[-1]["why"] == "test"


def test_what_a_kill_left_of_a_save_is_removed_and_not_told(committed):
    save(committed, 8)
    committed.make_subfolder("checkpoints")
    with open(committed.file("checkpoints", ".writing-x"), "w") as file:
        file.write("x")
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == []
    assert {n.split(".")[1] for n in files(committed)} == {"ckpt-2", "ckpt-4", "ckpt-6"}
    assert ".writing-x" not in os.listdir(committed.file("checkpoints"))


def test_other_files_among_the_checkpoints_stay(committed):
    for name in ("checkpoint", "notes.txt"):
        with open(committed.file("checkpoints", name), "w") as file:
            file.write("x")
    committed.checkpoints.begin_session(committed.checkpoints.newest())
    assert {"checkpoint", "notes.txt"} <= set(os.listdir(committed.file("checkpoints")))


def test_a_damaged_checkpoint_is_put_aside_and_named(committed):
    damage(committed, 6)
    aside = committed.checkpoints.begin_session(committed.checkpoints.newest())
    assert aside == ["model.ckpt-6.data-00000-of-00001", "model.ckpt-6.index"]
    assert files(committed, "damaged") == aside
    assert steps(committed) == [2, 4]


def test_what_was_put_aside_before_is_not_overwritten(committed):
    for turn in ("first", "second"):
        with open(committed.checkpoints.prefix(6) + ".index", "w") as file:
            file.write(turn)
        committed.checkpoints.begin_session(committed.checkpoints.newest())
        commit(committed, 6)
    names = ["model.ckpt-6.index", "model.ckpt-6.index.1"]
    for name, text in zip(names, ("first", "second")):
        with open(committed.file("checkpoints", "damaged", name)) as file:
            assert file.read() == text


def test_all_is_put_aside_where_the_chain_is_damaged(committed):
    change_chain(committed, b'"step": 6', b'"step": 7')
    found = again(committed)
    start = found.checkpoints.newest()
    assert start.step == 4
    assert found.checkpoints.begin_session(start) == [
        "model.ckpt-6.data-00000-of-00001",
        "model.ckpt-6.index",
    ]
    assert files(found, "damaged") != []


def test_checkpoints_whose_lines_are_missing_are_put_aside(committed):
    keep_lines(committed, 2)  # the session and step 2; two steps' files cannot be left by one kill
    found = again(committed)
    assert len(found.checkpoints.begin_session(found.checkpoints.newest())) == 4
    assert len(files(found, "damaged")) == 4


def test_a_folder_with_the_name_of_a_checkpoint_is_put_aside(committed):
    committed.make_subfolder("checkpoints", "model.ckpt-9.copy")
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == [
        "model.ckpt-9.copy"
    ]


# -------------------------------------------------------------------------------------- the newest


def test_the_newest_falls_back_from_damage_to_damage_and_tells(committed):
    damage(committed, 6)
    os.remove(committed.checkpoints.prefix(4) + ".index")
    told = []
    assert committed.checkpoints.newest(told.append).step == 2
    assert told == [
        "the checkpoint of step 6 is damaged: model.ckpt-6.index has 19 bytes, expected 15",
        "the checkpoint of step 4 is damaged: model.ckpt-4.index is missing",
    ]


def test_a_byte_that_was_changed_in_place_is_damage(committed):
    with open(committed.checkpoints.prefix(6) + ".index", "w") as file:
        file.write("INDEX of step 6")
    expected = "model.ckpt-6.index has changed since it was written"
    assert committed.checkpoints.find_damage(committed.checkpoints.list()[-1]) == expected


def test_a_file_that_cannot_be_read_is_damage(committed):
    os.remove(committed.checkpoints.prefix(6) + ".index")
    os.mkdir(committed.checkpoints.prefix(6) + ".index")
    assert committed.checkpoints.newest().step == 4


def test_a_checkpoint_without_files_is_damaged(run):
    run.checkpoints.commit(2, 102.0, lambda rows: [], "tensors")
    with pytest.raises(
        CheckpointError, match="None of the 1 .* its commit log entry lists no files"
    ):
        run.checkpoints.newest()


def test_no_whole_checkpoint_is_an_error(committed):
    for step in (2, 4, 6):
        damage(committed, step)
    with pytest.raises(CheckpointError, match="None of the 3 checkpoints"):
        committed.checkpoints.newest()


def test_nothing_committed_is_no_checkpoint(run):
    assert run.checkpoints.newest() is None


def test_steps_that_were_never_committed_are_made_again_from_the_beginning(run):
    run.update_manifest(status="failed", step=3)
    assert run.checkpoints.newest() is None


@pytest.mark.parametrize("status", ["running", "failed", "finished"])
def test_a_lost_chain_is_an_error_and_never_a_fresh_start(committed, status):
    committed.update_manifest(status=status, step=6)
    os.remove(committed.commits.path)
    with pytest.raises(CheckpointError, match="commits.jsonl lists no checkpoint: it is missing"):
        again(committed).checkpoints.newest()


@pytest.mark.parametrize("status", ["finished", "trained", "stopped", "interrupted", "failed"])
def test_a_chain_that_lost_its_commits_is_an_error_and_never_a_fresh_start(committed, status):
    committed.update_manifest(status=status, step=7, committed=6)
    keep_lines(committed, 1)
    with pytest.raises(CheckpointError, match="entries are missing, as step 6 was committed"):
        again(committed).checkpoints.newest()


def test_a_best_checkpoint_of_which_the_chain_knows_nothing_is_an_error(committed):
    committed.update_manifest(best={"step": 4, "metric": "loss", "value": 1.0})
    keep_lines(committed, 1)
    with pytest.raises(CheckpointError, match="entries are missing, as step 4 was committed"):
        again(committed).checkpoints.newest()


def test_a_chain_with_no_sound_commit_is_an_error(committed):
    change_chain(committed, b'"kind": "commit"', b'"kind": "COMMIT"')
    with pytest.raises(CheckpointError, match="entry 2 has changed since it was written"):
        again(committed).checkpoints.newest()


@pytest.mark.parametrize("which", ["7", "x", "", "-2", "²", "2.0", "9" * 5000])
def test_a_checkpoint_that_there_is_not_is_told_with_those_that_there_are(committed, which):
    with pytest.raises(CheckpointError, match="has no checkpoint '") as told:
        committed.checkpoints.find(which)
    assert told.value.hint.endswith("the steps 2, 4, 6.")


def test_a_checkpoint_is_named_by_its_step_as_last_or_as_best(committed):
    committed.update_manifest(best={"step": 4})
    assert [committed.checkpoints.find(w).step for w in ("2", "last", "best")] == [2, 6, 4]
    damage(committed, 2)
    with pytest.raises(CheckpointError, match="The checkpoint of step 2 is damaged"):
        committed.checkpoints.find("2")


def test_a_best_checkpoint_that_is_gone_is_none(committed):
    committed.update_manifest(best={"step": 5})
    assert committed.checkpoints.best() is None
    with pytest.raises(CheckpointError, match="has no best checkpoint"):
        committed.checkpoints.find("best")


# ----------------------------------------------------------------------------------------- metrics


def test_metrics_are_cut_back_to_a_checkpoint(committed):
    assert committed.metrics.cut_back(committed.checkpoints.list()[0]) == ""
    assert committed.metrics.read() == [{"step": 2}]
    assert committed.metrics.cut_back(None) == ""
    assert committed.metrics.read() == []


def test_metrics_that_are_not_those_of_the_checkpoint_are_told_and_stay(committed):
    with open(committed.metrics.path, "r+b") as file:
        file.write(b"{'step'")
    fault = committed.metrics.cut_back(committed.checkpoints.list()[1])
    assert fault == "metrics.jsonl is not what it was at step 4"
    assert committed.metrics.read() == [{"step": 4}]  # the first line is no JSON any more


# ------------------------------------------------------------------------------------------ faults


def test_what_the_system_refuses_is_a_fault_of_the_machine(run):
    expected = "run cannot be written: No space left on device."
    with pytest.raises(RetryError, match=expected) as told, run.writing():
        raise OSError(28, "No space left on device")
    assert told.value.exit_code == 138
    assert told.value.hint == (
        "Nothing that was committed is lost. Free some space, or restore the write permission."
    )


def test_a_folder_that_was_removed_is_told_as_that(run):
    shutil.rmtree(run.path)
    with pytest.raises(CheckpointError, match="is gone: it was removed or moved") as told:
        run.metrics.append({"step": 1})
    assert told.value.exit_code == 5


def test_each_thing_that_is_written_is_within_writing(committed, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.storage.run_folder.write_json", full)
    monkeypatch.setattr("toolkit.storage.checkpoint_store.sync", full)
    monkeypatch.setattr("toolkit.storage.jsonl.JsonLines.append_line", full)
    monkeypatch.setattr("toolkit.storage.jsonl.atomic_write", full)
    for write in (
        lambda: committed.write_config({}),
        lambda: committed.update_manifest(status="failed"),
        lambda: committed.metrics.append({}),
        lambda: committed.metrics.append_line("{}"),
        lambda: committed.speed.append({}),
        lambda: committed.metrics.cut_back(None),
        lambda: committed.checkpoints.begin_session(None),
        lambda: commit(committed, 8),
    ):
        with pytest.raises(RetryError, match="No space left on device"):
            write()


# -------------------------------------------------------------------------------- what can be read


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": 1}', "[" * 100000, '{"a":' * 100000, b"\xff\xfe"],
)
def test_a_manifest_that_is_none_is_told(run, text):
    with open(run.file("manifest.json"), "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CheckpointError, match="manifest.json"):
        run.read_manifest()


@pytest.mark.parametrize("name", ["manifest.json", "config.json"])
def test_a_folder_in_place_of_a_file_is_told(run, name):
    os.remove(run.file(name))
    os.mkdir(run.file(name))
    with pytest.raises(CheckpointError, match=f"{name} cannot be read: Is a directory"):
        run.read_manifest() if name == "manifest.json" else run.read_config()


@pytest.mark.parametrize(
    "name, value",
    [
        ("status", []),
        ("step", "6"),
        ("step", True),
        ("step", -1),
        ("step", 10**400),
        ("total_steps", 1.5),
        ("reason", {}),
        ("xla", "no"),
        ("best", 4),
        ("best", {"step": "4"}),
        ("summary", "done"),
        ("data", []),
        ("data", dict(DATA, **{"spec": DATA["spec"], "sha256": "x"})),
        ("data", dict(DATA, **{"spec": {"shape": [4], "dtype": 1}, "sha256": {}})),
        ("data", dict(DATA, **{"spec": {"shape": ["4"], "dtype": "uint8"}, "sha256": {}})),
        ("data", dict(DATA, **{"spec": {"shape": 4, "dtype": "uint8"}, "sha256": {}})),
        ("data", dict(DATA, **{"spec": dict(DATA["spec"], class_names=[1]), "sha256": {}})),
        ("data", dict(DATA, **{"spec": dict(DATA["spec"], class_names=None), "sha256": {}})),
        ("data", dict(DATA, **{"spec": dict(DATA["spec"], other=1), "sha256": {}})),
        ("data", dict(DATA, **{"spec": {"shape": [4], "dtype": "uint9"}, "sha256": {}})),
        ("data", dict(DATA, ink={"border": float("nan"), "mean": 0.5})),
        ("best", {}),
        ("status", None),
    ],
)
def test_a_value_of_the_wrong_type_in_the_manifest_is_told_with_its_place(run, name, value):
    change_manifest(run, **{name: value})
    with pytest.raises(CheckpointError, match=f"manifest.json: '{name}"):
        run.read_manifest()


@pytest.mark.parametrize(
    "data, missing",
    [
        ({}, "data.sha256"),
        ({"sha256": {}}, "data.stored"),
        (dict(DATA, spec={"shape": []}), "data.spec.dtype"),
    ],
)
def test_a_value_that_is_missing_in_the_manifest_is_told(run, data, missing):
    change_manifest(run, data=data)
    with pytest.raises(CheckpointError, match=f"manifest.json: '{missing}' is missing"):
        run.read_manifest()


def change_manifest(run, **values):
    with open(run.file("manifest.json")) as file:
        manifest = dict(json.load(file), **values)
    with open(run.file("manifest.json"), "w") as file:
        json.dump(manifest, file)


def test_no_file_is_left_half_written_by_a_fault(run, monkeypatch):
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with contextlib.suppress(RetryError):
        run.update_manifest(status="failed")
    monkeypatch.undo()
    assert [n for n in os.listdir(run.path) if n.startswith(".writing-")] == []
    assert run.read_manifest()["status"] == "running"


def test_a_session_clears_away_what_a_kill_left_half_written(committed):
    with open(committed.file(".writing-abc"), "w") as file:
        file.write("half")
    committed.checkpoints.begin_session(committed.checkpoints.newest())
    assert not os.path.exists(committed.file(".writing-abc"))
