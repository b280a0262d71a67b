"""A run's folder without any training: create, lock, commit, and read back after damage."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
from types import SimpleNamespace

import numpy as np
import process_fixtures
import pytest
from file_fixtures import sha256s
from lock_fixtures import lock_in_a_process

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


@pytest.fixture
def committed(run):
    """The same run after commits of steps 2, 4 and 6, each with a record of metrics."""
    for step in (2, 4, 6):
        commit(run, step)
    return run


def save(run, step):
    """Write two files, as a Saver does."""
    for ending in ("index", "data-00000-of-00001"):
        with open(f"{run.checkpoints.prefix(step)}.{ending}", "w") as file:
            file.write(f"{ending} of step {step}")


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


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        reserve(str(tmp_path))


def test_an_existing_folder_is_renamed_with_force(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    folder = reserve(str(tmp_path / "run"), force=True)
    folder.create({})
    folder.unlock()
    (renamed,) = [path for path in tmp_path.iterdir() if path.name != "run"]
    assert (renamed / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "run" / "notes.txt").exists()


def remnants_at(path, *names):
    """A folder with files that a run leaves which ended before its first step."""
    path.mkdir()
    for name in names:
        if name in ("checkpoints", "events"):
            (path / name).mkdir()
        else:
            (path / name).write_text("" if name == ".lock" else "{}")
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
    folder = reserve(remnants_at(tmp_path / "run", *names))
    folder.create({"plugin": "new"})
    folder.unlock()
    assert os.listdir(str(tmp_path)) == ["run"]  # nothing was renamed
    assert folder.read_config() == {"plugin": "new"}


@pytest.mark.parametrize("name", ["config.json", ".lock", "checkpoints", "events"])
@pytest.mark.parametrize("force", [False, True])
def test_a_file_of_the_user_is_not_taken_for_one_of_a_run(tmp_path, name, force):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("mine")
    if force:
        folder = reserve(str(tmp_path / "run"), force)
        folder.create({})
        folder.unlock()
        (path,) = [path for path in tmp_path.iterdir() if path.name != "run"]
        assert os.listdir(str(path)) == [name] and (path / name).read_text() == "mine"
    else:
        with pytest.raises(UsageError, match="is not empty"):
            reserve(str(tmp_path / "run"))
        with pytest.raises(UsageError, match="contains no run"):
            open_run(str(tmp_path / "run"), allow_unstarted=True)
        assert (tmp_path / "run" / name).read_text() == "mine"


def test_an_edited_configuration_of_an_unstarted_run_is_renamed(tmp_path):
    path = remnants_at(tmp_path / "run", ".lock", "config.json")
    (tmp_path / "run" / "config.json").write_text('{"plugin": "edited"}')
    for _ in range(2):  # the second time, nothing differs
        folder = reserve(path)
        folder.create({"plugin": "new"})
        folder.unlock()
        for name in ("checkpoints", "events"):
            os.rmdir(os.path.join(path, name))
    (name,) = set(os.listdir(path)) - {".lock", "config.json"}
    assert (tmp_path / "run" / name).read_text() == '{"plugin": "edited"}'


def test_the_parents_of_a_new_run_are_on_the_disk(tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr("toolkit.files.sync", paths.append)
    folder = reserve(str(tmp_path / "a" / "b"))
    folder.create({})
    folder.unlock()
    assert paths[:2] == [str(tmp_path), str(tmp_path / "a")]


@pytest.mark.parametrize("name", ["manifest.json", "metrics.jsonl", "commits.jsonl", "reports"])
def test_a_folder_with_more_than_remnants_is_refused(tmp_path, name):
    path = remnants_at(tmp_path / "run", ".lock", "config.json", name)
    with pytest.raises(UsageError, match="is not empty"):
        reserve(path)


@pytest.mark.parametrize("name", ["checkpoints", "events"])
def test_a_folder_with_a_checkpoint_or_an_event_is_refused(tmp_path, name):
    path = remnants_at(tmp_path / "run", name)
    (tmp_path / "run" / name / "file").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        reserve(path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        reserve(str(tmp_path / "file"))
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


@pytest.mark.parametrize("names", [n for n in REMNANTS if "config.json" in n])
def test_an_unstarted_run_is_opened_as_a_new_one_if_that_is_allowed(tmp_path, names):
    path = remnants_at(tmp_path / "run", *names)
    assert open_run(path, allow_unstarted=True).is_new
    with pytest.raises(UsageError, match="ended before its first step; continue with: toolkit"):
        open_run(path)


@pytest.mark.parametrize("names", [n for n in REMNANTS if "config.json" not in n])
@pytest.mark.parametrize("allow_unstarted", [True, False])
def test_remnants_without_a_configuration_are_no_run(tmp_path, names, allow_unstarted):
    with pytest.raises(UsageError, match="contains no run"):
        open_run(remnants_at(tmp_path / "run", *names), allow_unstarted)


@pytest.mark.parametrize("allow_unstarted", [True, False])
def test_a_folder_that_does_not_exist_is_no_run(tmp_path, allow_unstarted):
    with pytest.raises(UsageError, match="does not exist"):
        open_run(str(tmp_path / "none"), allow_unstarted)


@pytest.mark.parametrize("allow_unstarted", [True, False])
@pytest.mark.parametrize("missing", [[], ["manifest.json"], ["commits.jsonl"]])
def test_a_run_with_a_manifest_or_a_commit_log_is_not_new(committed, allow_unstarted, missing):
    for name in missing:
        os.remove(committed.file(name))
    assert not open_run(committed.path, allow_unstarted).is_new


def test_a_run_without_manifest_and_commit_log_is_not_opened_as_a_new_one(committed):
    os.remove(committed.file("manifest.json"))
    os.remove(committed.file("commits.jsonl"))
    with pytest.raises(UsageError, match="contains no run"):
        open_run(committed.path, allow_unstarted=True)


# ------------------------------------------------------------------------------------------- locks


def test_a_second_lock_of_the_folder_is_refused(run):
    assert reopen(run).is_locked()
    with pytest.raises(UsageError, match="Another process is training in"):
        reopen(run).lock()
    run.unlock()
    other = reopen(run)
    assert not other.is_locked()
    other.lock()
    other.unlock()


def test_locking_twice_is_locking_once(run):
    run.lock()
    assert reopen(run).is_locked()


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


def test_a_kill_releases_the_lock(run):
    run.unlock()
    process = lock_in_a_process(run.path)
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
    with open(run.checkpoints.prefix(2) + ".index.tempstate123", "w") as file:
        file.write("x")
    commit(run, 2)
    assert len(run.checkpoints.list()[0].files) == 2


def test_checkpoints_that_are_not_retained_are_deleted(committed):
    commit(committed, 8, retain=lambda checkpoints: [checkpoints[-1].step, 2])
    assert steps(committed) == [2, 8]
    assert {name.split(".")[1] for name in files(committed)} == {"ckpt-2", "ckpt-8"}


def test_the_new_checkpoint_is_kept_whatever_the_rule_returns(committed):
    commit(committed, 8, retain=lambda checkpoints: [])
    assert steps(committed) == [8]


def test_committing_a_step_again_discards_later_ones(committed):
    commit(committed, 4)
    assert steps(committed) == [2, 4]


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


def test_a_crash_while_writing_an_entry_is_like_one_before_it(committed):
    with open(committed.commits.path, "ab") as file:
        file.write(b'{"kind": "commit", "step": 8')
    assert steps(committed) == [2, 4, 6]
    assert reopen(committed).commits.faults() == []


# --------------------------------------------------------------------------------------- a session


def test_a_session_starts_from_a_step_and_discards_later_ones(committed):
    committed.checkpoints.begin_session(committed.checkpoints.list()[1], why="test")
    assert steps(committed) == [2, 4]
    assert committed.commits.sessions()[-1]["from"] == 4
    assert committed.commits.sessions()[-1]["why"] == "test"


def test_files_of_an_interrupted_save_are_removed_without_a_report(committed):
    save(committed, 8)
    committed.make_subfolder("checkpoints")
    with open(committed.file("checkpoints", ".writing-x"), "w") as file:
        file.write("x")
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == []
    assert {n.split(".")[1] for n in files(committed)} == {"ckpt-2", "ckpt-4", "ckpt-6"}
    assert ".writing-x" not in os.listdir(committed.file("checkpoints"))


def test_other_files_in_the_checkpoints_folder_stay(committed):
    for name in ("checkpoint", "notes.txt"):
        with open(committed.file("checkpoints", name), "w") as file:
            file.write("x")
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
        with open(committed.checkpoints.prefix(6) + ".index", "w") as file:
            file.write(turn)
        committed.checkpoints.begin_session(committed.checkpoints.newest())
        commit(committed, 6)
    names = ["model.ckpt-6.index", "model.ckpt-6.index.1"]
    for name, text in zip(names, ("first", "second")):
        with open(committed.file("checkpoints", "damaged", name)) as file:
            assert file.read() == text


def test_all_unlisted_files_are_quarantined_if_the_commit_log_is_damaged(committed):
    edit_commit_log(committed, b'"step": 6', b'"step": 7')
    other = reopen(committed)
    start = other.checkpoints.newest()
    assert start.step == 4
    assert other.checkpoints.begin_session(start) == [
        "model.ckpt-6.data-00000-of-00001",
        "model.ckpt-6.index",
    ]
    assert files(other, "damaged") != []


def test_checkpoints_with_missing_entries_are_quarantined(committed):
    # The session and step 2 remain; one kill cannot leave the files of two steps.
    truncate_commit_log(committed, 2)
    other = reopen(committed)
    assert len(other.checkpoints.begin_session(other.checkpoints.newest())) == 4
    assert len(files(other, "damaged")) == 4


def test_a_folder_with_the_name_of_a_checkpoint_is_quarantined(committed):
    committed.make_subfolder("checkpoints", "model.ckpt-9.copy")
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == [
        "model.ckpt-9.copy"
    ]


# -------------------------------------------------------------------------------------- the newest


def test_the_newest_intact_checkpoint_is_found_with_a_warning_for_each_damaged_one(committed):
    damage(committed, 6)
    os.remove(committed.checkpoints.prefix(4) + ".index")
    warnings = []
    assert committed.checkpoints.newest(warnings.append).step == 2
    assert warnings == [
        "the checkpoint of step 6 is damaged: model.ckpt-6.index has 19 bytes, expected 15",
        "the checkpoint of step 4 is damaged: model.ckpt-4.index is missing",
    ]


def test_a_changed_byte_is_damage(committed):
    with open(committed.checkpoints.prefix(6) + ".index", "w") as file:
        file.write("INDEX of step 6")
    expected = "model.ckpt-6.index has changed since it was written"
    assert committed.checkpoints.find_damage(committed.checkpoints.list()[-1]) == expected


def test_an_unreadable_file_is_damage(committed):
    os.remove(committed.checkpoints.prefix(6) + ".index")
    os.mkdir(committed.checkpoints.prefix(6) + ".index")
    assert committed.checkpoints.newest().step == 4


def test_a_checkpoint_without_files_is_damaged(run):
    run.checkpoints.commit(2, 102.0, lambda checkpoints: [], "tensors")
    with pytest.raises(
        CheckpointError, match="None of the 1 .* its commit log entry lists no files"
    ):
        run.checkpoints.newest()


def test_no_intact_checkpoint_is_an_error(committed):
    for step in (2, 4, 6):
        damage(committed, step)
    with pytest.raises(CheckpointError, match="None of the 3 checkpoints"):
        committed.checkpoints.newest()


def test_a_run_without_commits_has_no_newest_checkpoint(run):
    assert run.checkpoints.newest() is None


def test_a_run_that_failed_before_its_first_commit_starts_from_the_beginning(run):
    run.update_manifest(status="failed", step=3)
    assert run.checkpoints.newest() is None


@pytest.mark.parametrize("status", ["running", "failed", "finished"])
def test_a_lost_commit_log_is_an_error_and_never_a_fresh_start(committed, status):
    committed.update_manifest(status=status, step=6)
    os.remove(committed.commits.path)
    with pytest.raises(CheckpointError, match="commits.jsonl lists no checkpoint: it is missing"):
        reopen(committed).checkpoints.newest()


@pytest.mark.parametrize("status", ["finished", "trained", "stopped", "interrupted", "failed"])
def test_a_commit_log_without_its_commits_is_an_error_and_never_a_fresh_start(committed, status):
    committed.update_manifest(status=status, step=7, committed=6)
    truncate_commit_log(committed, 1)
    with pytest.raises(CheckpointError, match="entries are missing, as step 6 was committed"):
        reopen(committed).checkpoints.newest()


def test_a_best_checkpoint_that_the_commit_log_does_not_list_is_an_error(committed):
    committed.update_manifest(best={"step": 4, "metric": "loss", "value": 1.0})
    truncate_commit_log(committed, 1)
    with pytest.raises(CheckpointError, match="entries are missing, as step 4 was committed"):
        reopen(committed).checkpoints.newest()


def test_a_commit_log_without_a_valid_commit_is_an_error(committed):
    edit_commit_log(committed, b'"kind": "commit"', b'"kind": "COMMIT"')
    with pytest.raises(CheckpointError, match="entry 2 has changed since it was written"):
        reopen(committed).checkpoints.newest()


@pytest.mark.parametrize("which", ["7", "x", "", "-2", "²", "2.0", "9" * 5000])
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


def test_a_deleted_best_checkpoint_is_none(committed):
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


def test_metrics_that_contradict_the_checkpoint_are_reported_and_stay(committed):
    with open(committed.metrics.path, "r+b") as file:
        file.write(b"{'step'")
    fault = committed.metrics.cut_back(committed.checkpoints.list()[1])
    assert fault == "metrics.jsonl is not what it was at step 4"
    assert committed.metrics.read() == [{"step": 4}]  # the first line is no JSON any more


# ------------------------------------------------------------------------------------------ faults


def test_a_refused_write_is_an_error_that_allows_a_retry(run):
    expected = "run cannot be written: No space left on device."
    with pytest.raises(RetryError, match=expected) as raised, run.writing():
        raise OSError(28, "No space left on device")
    assert raised.value.exit_code == 138
    assert raised.value.hint == (
        "Nothing that was committed is lost. Free some space, or restore the write permission."
    )


def test_a_folder_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(UsageError, match=r"run cannot be read: Permission denied"):
        reserve(str(tmp_path / "run"))


def test_a_file_that_is_removed_while_a_folder_is_read_does_not_count(tmp_path, monkeypatch):
    listdir = os.listdir
    names = [".lock"]
    run = tmp_path / "run"
    run.mkdir()

    def list_once(path):
        if path == str(run) and names:
            return [names.pop()]
        return listdir(path)

    monkeypatch.setattr(os, "listdir", list_once)
    assert reserve(str(run)).is_new and not names


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


# -------------------------------------------------------------------------------- unreadable files


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": 1}', "[" * 100000, '{"a":' * 100000, b"\xff\xfe"],
)
def test_a_file_that_is_no_manifest_is_an_error(run, text):
    with open(run.file("manifest.json"), "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CheckpointError, match="manifest.json"):
        run.read_manifest()


@pytest.mark.parametrize("name", ["manifest.json", "config.json"])
def test_a_folder_in_place_of_a_file_is_an_error(run, name):
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
def test_the_error_for_a_value_of_the_wrong_type_has_its_place(run, name, value):
    change_manifest(run, **{name: value})
    with pytest.raises(CheckpointError, match=f"manifest.json: '{name}"):
        run.read_manifest()


COMPONENT = [[None, 3], "float32", "value", 0, [], 0, []]


def change_field(place, value):
    return [COMPONENT[:place] + [value] + COMPONENT[place + 1 :]]


@pytest.mark.parametrize(
    "row",
    [
        [],
        ["features/a"],
        ["features/a", 1],
        ["features/a", []],
        ["features/a", COMPONENT[:-1]],
        ["features/a", COMPONENT, 1],
        [1, COMPONENT],
        *(
            ["features/a", *change_field(place, value)]
            for place, value in [
                *[(0, 3), (0, ["3"]), (1, "float33"), (1, ""), (2, "picture"), (3, -1), (3, 1.5)],
                *[(4, [1]), (5, None), (5, [1]), (6, [-1]), (6, None)],
            ]
        ),
    ],
    ids=str,
)
def test_the_error_for_a_damaged_component_has_its_place(run, row):
    change_manifest(run, data=dict(DATA, stored=dict(SPEC, components=[row])))
    with pytest.raises(
        CheckpointError, match="manifest.json: 'data.stored.components' is"
    ) as error:
        run.read_manifest()
    assert error.value.exit_code == 5


@pytest.mark.parametrize("padding", [0, -1, 0.5, -np.inf, np.nan, True, "", "<pad>"])
def test_a_component_is_read_as_it_was_written(run, padding):
    component = Component((None, 3), "float32", "value", 2, ("a", "b"), padding, (4, 8))
    components = [("features/a", component)]
    change_manifest(run, data=dict(DATA, spec=dict(SPEC, components=components)))
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
    change_manifest(run, data=data)
    with pytest.raises(CheckpointError, match=f"manifest.json: '{missing}' is missing"):
        run.read_manifest()


def change_manifest(run, **values):
    with open(run.file("manifest.json")) as file:
        manifest = dict(json.load(file), **values)
    with open(run.file("manifest.json"), "w") as file:
        json.dump(manifest, file)


def test_a_failed_write_leaves_no_temporary_file(run, monkeypatch):
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with contextlib.suppress(RetryError):
        run.update_manifest(status="failed")
    monkeypatch.undo()
    assert [n for n in os.listdir(run.path) if n.startswith(".writing-")] == []
    assert run.read_manifest()["status"] == "running"


def test_a_session_removes_temporary_files_of_a_killed_process(committed):
    with open(committed.file(".writing-abc"), "w") as file:
        file.write("half")
    committed.checkpoints.begin_session(committed.checkpoints.newest())
    assert not os.path.exists(committed.file(".writing-abc"))


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
    run.update_manifest(status="running", data=DATA)
    text = json.dumps(dict(run.read_manifest(), note="NOTE"))
    with open(run.file("manifest.json"), "w") as file:
        file.write(text.replace('"NOTE"', "[" * depth + "]" * depth))
    with pytest.raises(CheckpointError, match="manifest.json is not valid: .* nested too deeply"):
        run.update_manifest(status="running")
