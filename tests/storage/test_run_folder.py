"""A run's folder without any training: create, lock, commit, and read back after damage."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import process_fixtures
import pytest
from file_fixtures import sha256s
from run_fixtures import set_manifest

from toolkit.data.column import Component
from toolkit.data.spec import DataSpec
from toolkit.errors import CheckpointError, RetryError, UsageError
from toolkit.storage import folder_lock
from toolkit.storage.checkpoint_store import CheckpointStore
from toolkit.storage.jsonl import JsonLines
from toolkit.storage.run_folder import RunFolder, open_run, reserve

SPEC = {"shape": [4], "dtype": "uint8"}
DATA = {"sha256": {}, "stored": SPEC, "spec": SPEC, "ink": None}


@pytest.fixture
def run(tmp_path):
    """A run that was started and has committed nothing."""
    folder = reserve(str(tmp_path / "run"))
    folder.create({"plugin": "p"})
    folder.update_manifest(status="running", data=DATA)
    folder.checkpoints.begin_session(None)
    yield folder
    folder.unlock()


def create(path, force=False, **config):
    """Begin a run, and end it before its first step."""
    folder = reserve(str(path), force)
    folder.create(config)
    folder.unlock()
    return folder


def write(text, *path):
    with open(os.path.join(*map(str, path)), "w") as file:
        file.write(text)


@pytest.fixture
def committed(run):
    """The same run after commits of steps 2, 4 and 6, each with a record of metrics."""
    for step in (2, 4, 6):
        commit(run, step)
    return run


def save(run, step):
    """Write two files, as a Saver does."""
    for ending in ("index", "data-00000-of-00001"):
        write(f"{ending} of step {step}", f"{run.checkpoints.prefix(step)}.{ending}")


def commit(run, step, retain=lambda checkpoints: [c.step for c in checkpoints]):
    run.metrics.append({"step": step})
    save(run, step)
    run.checkpoints.commit(step, 100.0 + step, retain, "tensors")


def reopen(run):
    """The folder as another process would open it."""
    return RunFolder(run.path)


def steps(run):
    return [c.step for c in reopen(run).checkpoints.list()]


def files(run, *parts):
    return sorted(n for n in os.listdir(run.file("checkpoints", *parts)) if n.startswith("model"))


def damage(run, step):
    with open(run.checkpoints.prefix(step) + ".index", "a") as file:
        file.write("more")


def edit_commit_log(run, old, new):
    with open(run.commits.path, "rb") as file:
        content = file.read()
    assert old in content
    with open(run.commits.path, "wb") as file:
        file.write(content.replace(old, new))


def truncate_commit_log(run, count):
    with open(run.commits.path) as file:
        lines = file.readlines()
    with open(run.commits.path, "w") as file:
        file.writelines(lines[:count])


# ------------------------------------------------------------------------------------ create, open


def test_nothing_is_written_before_the_run_is_created(tmp_path):
    reserve(str(tmp_path / "run"))
    assert os.listdir(str(tmp_path)) == []


def remnants_at(path, *names):
    """A folder with files that a run leaves which ended before its first step."""
    path.mkdir()
    for name in names:
        if name in ("checkpoints", "events"):
            (path / name).mkdir()
        else:
            write("" if name == ".lock" else "{}", path, name)
    return str(path)


REMNANTS = [
    (),
    (".lock",),
    (".lock", ".writing-x1"),
    (".lock", "config.json"),
    (".lock", "config.json", "checkpoints", "events", ".writing-x1"),
]


@pytest.mark.parametrize("names", REMNANTS)
def test_a_run_replaces_the_remnants_of_one_that_ended_before_its_first_step(tmp_path, names):
    folder = create(remnants_at(tmp_path / "run", *names), plugin="new")
    assert os.listdir(str(tmp_path)) == ["run"]  # nothing was renamed
    assert folder.read_config() == {"plugin": "new"}


@pytest.mark.parametrize("name", ["config.json", ".lock", "checkpoints", "events", "notes.txt"])
def test_a_file_of_the_user_is_not_taken_for_one_of_a_run(tmp_path, name):
    run = tmp_path / "run"
    run.mkdir()
    write("mine", run, name)
    with pytest.raises(UsageError, match="is not empty"):
        reserve(str(run))
    with pytest.raises(UsageError, match="contains no run"):
        open_run(str(run), allow_unstarted=True)
    assert (run / name).read_text() == "mine"
    create(run, force=True)
    (path,) = [path for path in tmp_path.iterdir() if path.name != "run"]
    assert os.listdir(str(path)) == [name] and (path / name).read_text() == "mine"


def test_an_edited_configuration_of_an_unstarted_run_is_renamed(tmp_path):
    path = remnants_at(tmp_path / "run", ".lock", "config.json")
    write('{"plugin": "edited"}', path, "config.json")
    for _ in range(2):  # the second time, nothing differs
        create(path, plugin="new")
        for name in ("checkpoints", "events"):
            os.rmdir(os.path.join(path, name))
    (name,) = set(os.listdir(path)) - {".lock", "config.json"}
    assert (tmp_path / "run" / name).read_text() == '{"plugin": "edited"}'


def test_the_parents_of_a_new_run_are_on_the_disk(tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr("toolkit.files.sync", paths.append)
    create(tmp_path / "a" / "b")
    assert paths[:2] == [str(tmp_path), str(tmp_path / "a")]


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "metrics.jsonl", "commits.jsonl", "reports", "checkpoints/x", "events/x"],
)
def test_a_folder_with_more_than_remnants_is_refused(tmp_path, name):
    path = remnants_at(tmp_path / "run", ".lock", "config.json", "checkpoints", "events")
    write("{}", path, name)
    with pytest.raises(UsageError, match="is not empty"):
        reserve(path)


def test_a_file_in_place_of_a_parent_is_refused(tmp_path):
    write("", tmp_path, "file")
    with pytest.raises(UsageError, match="cannot be created: Not a directory"):
        reserve(str(tmp_path / "file" / "run")).create({})


def test_two_processes_cannot_create_runs_in_one_folder(run):
    before = sha256s(run.path)
    other = RunFolder(run.path, is_new=True)  # reserved before the first process created its run
    with pytest.raises(UsageError, match="Another process is training in"):
        other.create({})
    run.unlock()
    with pytest.raises(UsageError, match="Another process has started a run"):
        other.create({})
    assert sha256s(run.path) == before
    assert not reopen(run).is_locked()


@pytest.mark.parametrize("names", REMNANTS)
def test_an_unstarted_run_with_its_configuration_is_opened_as_a_new_one_if_allowed(tmp_path, names):
    path = remnants_at(tmp_path / "run", *names)
    if "config.json" in names:
        assert open_run(path, allow_unstarted=True).is_new
        with pytest.raises(UsageError, match="ended before its first step; continue with: toolkit"):
            open_run(path)
    else:
        for allow_unstarted in (True, False):
            with pytest.raises(UsageError, match="contains no run"):
                open_run(path, allow_unstarted)


def test_a_run_with_a_manifest_or_a_commit_log_is_not_new(committed):
    for moved in ("commits.jsonl", "manifest.json"):
        assert not open_run(committed.path, True).is_new
        os.rename(committed.file(moved), committed.file(moved) + ".away")
        assert not open_run(committed.path, True).is_new
        assert not open_run(committed.path, False).is_new
        os.rename(committed.file(moved) + ".away", committed.file(moved))
    os.remove(committed.file("manifest.json"))
    os.remove(committed.file("commits.jsonl"))
    with pytest.raises(UsageError, match="contains no run"):
        open_run(committed.path, allow_unstarted=True)


# ------------------------------------------------------------------------------------------- locks


def test_a_second_lock_of_the_folder_is_refused(run):
    run.lock()  # which it has already
    assert reopen(run).is_locked()
    with pytest.raises(UsageError, match="Another process is training in"):
        reopen(run).lock()
    run.unlock()
    other = reopen(run)
    assert not other.is_locked()
    other.lock()
    other.unlock()


def test_a_run_that_is_alive_is_not_renamed_with_force(run):
    before = sha256s(run.path)
    with pytest.raises(UsageError, match="Another process is training in"):
        reserve(run.path, force=True)
    with pytest.raises(UsageError, match="Another process is training in"):
        RunFolder(run.path, is_new=True, force=True).create({})  # reserved before it was alive
    assert sha256s(run.path) == before and len(os.listdir(os.path.dirname(run.path))) == 1


def test_a_deleted_lock_file_lets_no_other_process_in(run):
    os.remove(run.file(".lock"))
    assert reopen(run).is_locked()
    with pytest.raises(UsageError, match="Another process is training in"):
        reopen(run).lock()


@contextlib.contextmanager
def flock_raising(monkeypatch, code, is_refused=lambda descriptor: True):
    """Let flock raise an error in the block, for some descriptors."""
    flock = fcntl.flock

    def refuse(descriptor, mode):
        if is_refused(descriptor):
            raise OSError(code, os.strerror(code))
        flock(descriptor, mode)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        yield


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOLCK, errno.EBADF])
def test_a_file_system_without_locks_is_not_taken_for_a_locked_folder(run, monkeypatch, code):
    run.unlock()
    with flock_raising(monkeypatch, code):
        run.lock()
        assert not run.has_lock
        assert not reopen(run).is_locked()
        run.update_manifest(status="running")
    run.unlock()
    run.lock()
    assert run.has_lock


def is_folder(descriptor):
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def test_where_only_files_are_locked_a_deleted_lock_file_ends_the_run(run, monkeypatch):
    run.unlock()
    with flock_raising(monkeypatch, errno.EBADF, is_folder):
        run.lock()
        assert run.has_lock and reopen(run).is_locked()
        os.remove(run.file(".lock"))
        with pytest.raises(CheckpointError, match="is gone"):
            run.metrics.append({"step": 1})
    assert not os.path.exists(run.file("metrics.jsonl"))


def test_nothing_is_written_to_a_folder_that_replaces_the_run(run):
    os.rename(run.path, run.path + "-moved")
    other = reserve(run.path)
    other.create({"plugin": "other"})
    before = sha256s(run.path)
    for write in (
        lambda: run.metrics.append({"step": 1}),
        lambda: run.write_config({}),
        lambda: run.checkpoints.begin_session(None),
    ):
        with pytest.raises(CheckpointError, match="is gone: it was removed or moved"):
            write()
    assert sha256s(run.path) == before
    other.unlock()


@pytest.mark.parametrize(
    "name", [".lock", "speed.jsonl", "metrics.jsonl", "checkpoints", "reports", "samples/0.png"]
)
def test_a_run_with_a_symbolic_link_is_not_continued(committed, tmp_path, name):
    committed.unlock()
    path = committed.file(name)
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(str(tmp_path / "outside"), path)
    with pytest.raises(UsageError, match=name + " is a symbolic link"):
        reopen(committed).lock()
    assert not (tmp_path / "outside").exists()


def test_a_link_that_comes_later_is_not_followed_either(run, tmp_path):
    os.symlink(str(tmp_path / "outside"), run.file("speed.jsonl"))
    with pytest.raises(RetryError, match="speed.jsonl is a symbolic link"):
        run.speed.append({"step": 1})
    os.symlink(str(tmp_path / "outside"), run.file("reports"))
    with pytest.raises(UsageError, match="reports is a symbolic link"):
        run.make_subfolder("reports", "test-2")
    assert not (tmp_path / "outside").exists()


def test_a_run_that_is_reached_through_a_link_is_written(run, tmp_path):
    run.unlock()
    os.symlink(run.path, str(tmp_path / "link"))
    other = RunFolder(str(tmp_path / "link"))
    other.lock()
    other.metrics.append({"step": 1})
    assert reopen(run).is_locked() and reopen(run).metrics.read() == [{"step": 1}]
    other.unlock()


LOCK = """
import signal, sys
from toolkit.storage.run_folder import RunFolder
RunFolder(sys.argv[1]).lock()
open(sys.argv[1] + ".locked", "w").close()
signal.pause()
"""


def test_a_kill_releases_the_lock(run):
    run.unlock()
    process = process_fixtures.start(run.path, statements=LOCK)
    process_fixtures.wait_for_file(run.path + ".locked", among=[process])
    assert reopen(run).is_locked()
    process_fixtures.kill(process)
    assert not reopen(run).is_locked()
    run.lock()


def test_commits_of_another_process_are_seen_after_locking(committed):
    other = reopen(committed)
    assert len(other.commits.entries()) == 4  # as a resume reads the options before it locks
    commit(committed, 8)
    committed.unlock()
    other.lock()
    other.checkpoints.begin_session(other.checkpoints.newest())
    other.unlock()
    assert reopen(committed).commits.faults() == []
    assert steps(committed) == [2, 4, 6, 8]


# ----------------------------------------------------------------------------------------- commits


def test_a_commit_lists_the_files_of_its_step_and_the_metrics_so_far(committed):
    checkpoint = committed.checkpoints.list()[0]
    assert sorted(checkpoint.files) == ["model.ckpt-2.data-00000-of-00001", "model.ckpt-2.index"]
    assert checkpoint.files["model.ckpt-2.index"].bytes == len("index of step 2")
    assert checkpoint.metrics.bytes == len('{"step": 2}\n')
    assert (checkpoint.time, checkpoint.tensors) == (102.0, "tensors")


def test_temporary_files_of_tensorflow_are_not_committed(run):
    write("x", run.checkpoints.prefix(2) + ".index.tempstate123")
    commit(run, 2)
    assert len(run.checkpoints.list()[0].files) == 2


@pytest.mark.parametrize("retained, left", [([8, 2], [2, 8]), ([], [8])])
def test_checkpoints_that_are_not_retained_are_deleted_but_the_new_one(committed, retained, left):
    commit(committed, 8, retain=lambda checkpoints: retained)
    assert steps(committed) == left
    assert {name.split(".")[1] for name in files(committed)} == {f"ckpt-{n}" for n in left}


class Crash(BaseException):
    """Simulates the end of the process."""


def crashing(monkeypatch, owner, name, after=False):
    """Let the method `name` crash before (or after) its work."""
    inner = getattr(owner, name)

    def crash(*arguments, **named):
        if after:
            inner(*arguments, **named)
        raise Crash

    monkeypatch.setattr(owner, name, crash)


@pytest.mark.parametrize(
    "owner, name, after, newest",
    [
        (CheckpointStore, "_make_durable", False, 6),  # nothing is certain to be on the disk
        (CheckpointStore, "_make_durable", True, 6),
        (JsonLines, "make_durable", False, 6),
        (CheckpointStore, "add_commit", False, 6),
        (CheckpointStore, "add_commit", True, 8),
        (CheckpointStore, "_delete", False, 8),
        (CheckpointStore, "_delete", True, 8),
    ],
)
def test_a_crash_at_any_point_of_a_commit_leaves_an_intact_checkpoint(
    committed, monkeypatch, owner, name, after, newest
):
    with pytest.raises(Crash):
        committed.metrics.append({"step": 8})
        save(committed, 8)
        crashing(monkeypatch, owner, name, after)
        committed.checkpoints.commit(8, 108.0, lambda checkpoints: [6], "tensors")
    monkeypatch.undo()
    committed.unlock()
    other = reopen(committed)
    other.lock()
    start = other.checkpoints.newest()
    assert start.step == newest
    assert other.checkpoints.begin_session(start) == []
    assert other.metrics.cut_back(start) == ""
    steps_after = {6: [2, 4, 6], 8: [6, 8]}[newest]
    assert steps(other) == steps_after
    assert {n.split(".")[1] for n in files(other)} == {f"ckpt-{step}" for step in steps_after}
    assert other.metrics.read()[-1] == {"step": newest}
    other.unlock()


# --------------------------------------------------------------------------------------- a session


def test_a_session_or_a_second_commit_of_a_step_discards_later_ones(committed):
    commit(committed, 4)
    assert steps(committed) == [2, 4]
    committed.checkpoints.begin_session(committed.checkpoints.list()[0], why="test")
    assert steps(committed) == [2]
    assert committed.commits.sessions()[-1]["from"] == 2
    assert committed.commits.sessions()[-1]["why"] == "test"


def test_files_of_an_interrupted_save_are_removed_without_a_report(committed):
    save(committed, 8)
    for path in (("checkpoints", ".writing-x"), (".writing-abc",)):
        write("x", committed.file(*path))
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == []
    assert {n.split(".")[1] for n in files(committed)} == {"ckpt-2", "ckpt-4", "ckpt-6"}
    assert ".writing-x" not in os.listdir(committed.file("checkpoints"))
    assert ".writing-abc" not in os.listdir(committed.path)


def test_other_files_in_the_checkpoints_folder_stay(committed):
    for name in ("checkpoint", "notes.txt"):
        write("x", committed.file("checkpoints", name))
    committed.checkpoints.begin_session(committed.checkpoints.newest())
    assert {"checkpoint", "notes.txt"} <= set(os.listdir(committed.file("checkpoints")))


def test_a_damaged_checkpoint_is_quarantined_and_named(committed):
    damage(committed, 6)
    names = committed.checkpoints.begin_session(committed.checkpoints.newest())
    assert names == ["model.ckpt-6.data-00000-of-00001", "model.ckpt-6.index"]
    assert files(committed, "damaged") == names
    assert steps(committed) == [2, 4]


def test_files_in_quarantine_are_not_overwritten(committed):
    for turn in ("first", "second"):
        write(turn, committed.checkpoints.prefix(6) + ".index")
        committed.checkpoints.begin_session(committed.checkpoints.newest())
        commit(committed, 6)
    for name, text in (("model.ckpt-6.index", "first"), ("model.ckpt-6.index.1", "second")):
        with open(committed.file("checkpoints", "damaged", name)) as file:
            assert file.read() == text


def test_all_unlisted_files_are_quarantined_if_the_commit_log_is_damaged(committed):
    edit_commit_log(committed, b'"step": 6', b'"step": 7')
    other = reopen(committed)
    start = other.checkpoints.newest()
    assert start.step == 4
    names = other.checkpoints.begin_session(start)
    assert names == ["model.ckpt-6.data-00000-of-00001", "model.ckpt-6.index"]
    assert files(other, "damaged") == names


def test_checkpoints_with_missing_entries_are_quarantined(committed):
    # The session and step 2 remain; one kill cannot leave the files of two steps.
    truncate_commit_log(committed, 2)
    other = reopen(committed)
    assert len(other.checkpoints.begin_session(other.checkpoints.newest())) == 4
    assert len(files(other, "damaged")) == 4


def test_a_folder_with_the_name_of_a_checkpoint_is_quarantined(committed):
    name = "model.ckpt-9.copy"
    committed.make_subfolder("checkpoints", name)
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == [name]


def test_the_newest_intact_checkpoint_is_found_with_a_warning_for_each_damaged_one(committed):
    damage(committed, 6)
    os.remove(committed.checkpoints.prefix(4) + ".index")
    warnings = []
    assert committed.checkpoints.newest(warnings.append).step == 2
    assert warnings == [
        "the checkpoint of step 6 is damaged: model.ckpt-6.index has 19 bytes, expected 15",
        "the checkpoint of step 4 is damaged: model.ckpt-4.index is missing",
    ]


def test_a_changed_byte_or_a_folder_in_place_of_a_file_is_damage(committed):
    path = committed.checkpoints.prefix(6) + ".index"
    write("INDEX of step 6", path)
    expected = "model.ckpt-6.index has changed since it was written"
    assert committed.checkpoints.find_damage(committed.checkpoints.list()[-1]) == expected
    os.remove(path)
    os.mkdir(path)
    assert committed.checkpoints.newest().step == 4


def test_a_checkpoint_without_files_is_damaged(run):
    run.checkpoints.commit(2, 102.0, lambda checkpoints: [], "tensors")
    expected = "None of the 1 .* its commit log entry lists no files"
    with pytest.raises(CheckpointError, match=expected):
        run.checkpoints.newest()


def test_no_intact_checkpoint_is_an_error(committed):
    for step in (2, 4, 6):
        damage(committed, step)
    with pytest.raises(CheckpointError, match="None of the 3 checkpoints"):
        committed.checkpoints.newest()


def test_a_run_that_failed_before_its_first_commit_starts_from_the_beginning(run):
    assert run.checkpoints.newest() is None
    run.update_manifest(status="failed", step=3)
    assert run.checkpoints.newest() is None


@pytest.mark.parametrize("status", ["running", "finished"])
def test_a_lost_commit_log_is_an_error_and_never_a_fresh_start(committed, status):
    committed.update_manifest(status=status, step=6)
    os.remove(committed.commits.path)
    with pytest.raises(CheckpointError, match="commits.jsonl lists no checkpoint: it is missing"):
        reopen(committed).checkpoints.newest()


@pytest.mark.parametrize(
    "values, step",
    [
        ({"status": "finished", "step": 7, "committed": 6}, 6),
        ({"status": "failed", "step": 7, "committed": 6}, 6),
        ({"best": {"step": 4, "metric": "loss", "value": 1.0}}, 4),
    ],
)
def test_a_commit_log_without_its_commits_is_an_error_and_never_a_fresh_start(
    committed, values, step
):
    committed.update_manifest(**values)
    truncate_commit_log(committed, 1)
    with pytest.raises(CheckpointError, match=f"missing, as step {step} was committed"):
        reopen(committed).checkpoints.newest()


def test_a_commit_log_without_a_valid_commit_is_an_error(committed):
    edit_commit_log(committed, b'"kind": "commit"', b'"kind": "COMMIT"')
    with pytest.raises(CheckpointError, match="entry 2 has changed since it was written"):
        reopen(committed).checkpoints.newest()


@pytest.mark.parametrize("which", ["7", "", "-2", "²", "2.0", "9" * 5000])
def test_the_error_for_an_unknown_checkpoint_lists_the_existing_ones(committed, which):
    with pytest.raises(CheckpointError, match="has no checkpoint '") as raised:
        committed.checkpoints.find(which)
    assert raised.value.hint.endswith("the steps 2, 4, 6.")


def test_a_checkpoint_is_found_by_its_step_as_last_or_as_best(committed):
    committed.update_manifest(best={"step": 4})
    assert [committed.checkpoints.find(w).step for w in ("2", "last", "best")] == [2, 6, 4]
    damage(committed, 2)
    with pytest.raises(CheckpointError, match="The checkpoint of step 2 is damaged"):
        committed.checkpoints.find("2")
    committed.update_manifest(best={"step": 5})  # which is deleted
    assert committed.checkpoints.best() is None
    with pytest.raises(CheckpointError, match="has no best checkpoint"):
        committed.checkpoints.find("best")


def test_a_reader_follows_a_process_that_commits_and_deletes(committed):
    reader = reopen(committed).checkpoints
    assert [c.step for c in reader.list()] == [2, 4, 6]
    commit(committed, 8, lambda checkpoints: [])
    warnings = []
    assert reader.newest(warnings.append).step == 8 and warnings == []
    commit(committed, 10, lambda checkpoints: [])
    with pytest.raises(
        CheckpointError, match="has no checkpoint '8'.\nIt has last and the steps 10"
    ):
        reader.find("8")
    commit(committed, 12, lambda checkpoints: [])
    assert reader.find("last").step == 12


def test_metrics_are_cut_back_to_a_checkpoint(committed):
    assert committed.metrics.cut_back(committed.checkpoints.list()[0]) == ""
    assert committed.metrics.read() == [{"step": 2}]
    assert committed.metrics.cut_back(None) == ""
    assert committed.metrics.read() == []


def test_metrics_that_contradict_the_checkpoint_are_reported_and_stay(committed):
    with open(committed.metrics.path, "r+b") as file:
        file.write(b"{'step'")
    fault = committed.metrics.cut_back(committed.checkpoints.list()[1])
    assert fault == "metrics.jsonl is not what it was at step 4"
    assert committed.metrics.read() == [{"step": 4}]  # the first line is no JSON any more


def test_a_refused_write_is_an_error_that_allows_a_retry(run):
    expected = "run cannot be written: No space left on device."
    with pytest.raises(RetryError, match=expected) as raised, run.writing():
        raise OSError(28, "No space left on device")
    assert raised.value.exit_code == 138
    assert raised.value.hint.startswith("Nothing that was committed is lost. Free some space, or")


def test_a_folder_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(UsageError, match=r"run cannot be read: Permission denied"):
        reserve(str(tmp_path / "run"))


def test_a_file_that_is_removed_while_a_folder_is_read_does_not_count(tmp_path, monkeypatch):
    listdir, names = os.listdir, [".lock"]
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, "listdir", lambda path: [names.pop()] if names else listdir(path))
    assert reserve(str(tmp_path / "run")).is_new and not names


def test_the_error_for_a_removed_folder_says_so(run):
    shutil.rmtree(run.path)
    with pytest.raises(CheckpointError, match="is gone: it was removed or moved") as raised:
        run.metrics.append({"step": 1})
    assert raised.value.exit_code == 5 and raised.value.hint.endswith("toolkit resume RUN")


def test_each_write_raises_the_error_of_the_folder(committed, monkeypatch):
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


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', "[" * 100000, '{"a":' * 100000])
def test_a_file_that_is_no_manifest_is_an_error(run, text):
    write(text, run.file("manifest.json"))
    with pytest.raises(CheckpointError, match="manifest.json"):
        run.read_manifest()


@pytest.mark.parametrize(
    "name, read",
    [("manifest.json", RunFolder.read_manifest), ("config.json", RunFolder.read_config)],
)
def test_a_folder_in_place_of_a_file_is_an_error(run, name, read):
    os.remove(run.file(name))
    os.mkdir(run.file(name))
    with pytest.raises(CheckpointError, match=f"{name} cannot be read: Is a directory"):
        read(run)


@pytest.mark.parametrize(
    "name, value",
    [
        ("status", None),
        ("step", True),
        ("step", -1),
        ("step", 10**400),
        ("total_steps", 1.5),
        ("reason", {}),
        ("xla", "no"),
        ("best", {}),
        ("best", {"step": "4"}),
        ("summary", "done"),
        ("data", []),
        ("data", dict(DATA, sha256="x")),
        ("data", dict(DATA, spec=dict(SPEC, dtype="uint9"))),
        ("data", dict(DATA, spec=dict(SPEC, shape=["4"]))),
        ("data", dict(DATA, spec=dict(SPEC, shape=4))),
        ("data", dict(DATA, spec=dict(SPEC, class_names=[1]))),
        ("data", dict(DATA, spec=dict(SPEC, class_names=None))),
        ("data", dict(DATA, spec=dict(SPEC, other=1))),
        ("data", dict(DATA, ink={"border": float("nan"), "mean": 0.5})),
    ],
)
def test_the_error_for_a_value_of_the_wrong_type_has_its_place(run, name, value):
    set_manifest(Path(run.path), **{name: value})
    with pytest.raises(CheckpointError, match=f"manifest.json: '{name}"):
        run.read_manifest()


COMPONENT = [[None, 3], "float32", "value", 0, [], 0, []]


@pytest.mark.parametrize(
    "row",
    [
        [],
        ["features/a", []],
        ["features/a", COMPONENT, 1],
        [1, COMPONENT],
        *(
            ["features/a", COMPONENT[:place] + [value] + COMPONENT[place + 1 :]]
            for place, value in enumerate([["3"], "float33", "picture", -1, [1], None, [-1]])
        ),
    ],
    ids=str,
)
def test_the_error_for_a_damaged_component_has_its_place(run, row):
    set_manifest(Path(run.path), data=dict(DATA, stored=dict(SPEC, components=[row])))
    expected = "manifest.json: 'data.stored.components' is"
    with pytest.raises(CheckpointError, match=expected) as error:
        run.read_manifest()
    assert error.value.exit_code == 5


@pytest.mark.parametrize("padding", [-1, 0.5, -np.inf, np.nan, True, "<pad>"])
def test_a_component_is_read_as_it_was_written(run, padding):
    component = Component((None, 3), "float32", "value", 2, ("a", "b"), padding, (4, 8))
    components = [("features/a", component)]
    set_manifest(Path(run.path), data=dict(DATA, spec=dict(SPEC, components=components)))
    result = DataSpec.from_json(run.read_manifest()["data"]["spec"])
    assert repr(result.flat) == repr(dict(components))


@pytest.mark.parametrize(
    "data, missing",
    [
        ({}, "data.sha256"),
        ({"sha256": {}}, "data.stored"),
        (dict(DATA, spec={"shape": []}), "data.spec.dtype"),
    ],
)
def test_the_error_for_a_missing_value_has_its_place(run, data, missing):
    set_manifest(Path(run.path), data=data)
    with pytest.raises(CheckpointError, match=f"manifest.json: '{missing}' is missing"):
        run.read_manifest()


def test_a_failed_write_leaves_no_temporary_file(run, monkeypatch):
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with contextlib.suppress(RetryError):
        run.update_manifest(status="failed")
    monkeypatch.undo()
    assert [n for n in os.listdir(run.path) if n.startswith(".writing-")] == []
    assert run.read_manifest()["status"] == "running"


def test_a_process_that_only_tries_the_lock_does_not_make_a_run_fail(run, monkeypatch):
    run.unlock()
    descriptor = os.open(run.path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as `is_locked` does
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda secs: os.close(descriptor))
    monkeypatch.setattr(folder_lock, "time", clock)
    run.lock()
    assert run.has_lock


@pytest.mark.parametrize("depth", [300, 600])
def test_a_manifest_that_is_nested_too_deeply_is_damaged(run, depth):
    text = json.dumps(dict(run.read_manifest(), note="NOTE"))
    write(text.replace('"NOTE"', "[" * depth + "]" * depth), run.file("manifest.json"))
    with pytest.raises(CheckpointError, match="manifest.json is not valid: .* nested too deeply"):
        run.update_manifest(status="running")
