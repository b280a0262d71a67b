"""A run's folder without any training: create, lock, commit, and read back after damage."""

import errno
import fcntl
import os
import stat
from types import SimpleNamespace

import pytest
from file_fixtures import drop_line, read_text, sha256s
from folder_fixtures import ENDINGS, commit, damage, fill_disk, save, write
from process_fixtures import fork_idle
from run_fixtures import steps_of

from toolkit.errors import CheckpointError, RetryError, UsageError
from toolkit.storage import folder_lock
from toolkit.storage.checkpoint_store import CheckpointStore
from toolkit.storage.run_folder import RunFolder, is_used, open_run, reserve


def create(path, force=False, **config):
    """Begin a run, and end it before its first step."""
    folder = reserve(str(path), force)
    folder.create(config)
    folder.unlock()
    return folder


@pytest.fixture
def committed(run):
    """The same run after commits of steps 2, 4 and 6, each with a record of metrics."""
    for step in (2, 4, 6):
        commit(run, step)
    return run


def reopen(run):
    """The folder as another process would open it."""
    return RunFolder(run.path)


def files(run, *parts):
    return sorted(n for n in os.listdir(run.file("checkpoints", *parts)) if n.startswith("model"))


def edit_commit_log(run, old, new):
    write(read_text(run.commits.path).replace(old, new), run.commits.path)


def truncate_commit_log(run, count):
    for _ in range(len(reopen(run).commits.entries()) - count):
        drop_line(run.commits.path, -1)


# ------------------------------------------------------------------------------------ create, open


def remnants_at(path, *names):
    """A folder with files that a run leaves which ended before its first step."""
    path.mkdir()
    for name in names:
        if name in ("checkpoints", "events"):
            (path / name).mkdir()
        else:
            write("" if name == ".lock" else "{}", path, name)
    return str(path)


REMNANTS = [(), (".lock",), (".lock", "config.json", "checkpoints", "events", ".writing-x1")]


@pytest.mark.parametrize("names", REMNANTS)
def test_a_run_that_ended_before_its_first_step_is_opened_as_a_new_one_or_replaced(tmp_path, names):
    path = remnants_at(tmp_path / "run", *names)
    is_run = "config.json" in names
    if is_run:
        assert open_run(path, allow_unstarted=True).is_new
    for allowed in [False] if is_run else [False, True]:
        words = "ended before its first step; continue with: tool" if is_run else "contains no run"
        with pytest.raises(UsageError, match=words):
            open_run(path, allowed)
    folder = create(path, plugin="new")
    assert os.listdir(str(tmp_path)) == ["run"]  # nothing was renamed
    assert folder.read_config() == {"plugin": "new"}


@pytest.mark.parametrize(
    "name, content, is_remnant",
    [
        ("commits.jsonl", b"", True),
        ("commits.jsonl", b'{"kind": "run", "cre', True),
        ("commits.jsonl", b'{"kind": "run"}\n', False),
        ("commits.jsonl", b'{"kind": "branch"', False),
        ("manifest.json", b"{}", False),
        ("checkpoints/x", b"", False),
    ],
)
def test_only_a_run_without_a_whole_first_entry_begins_again(tmp_path, name, content, is_remnant):
    run = tmp_path / "run"
    path = remnants_at(run, ".lock", "config.json", "checkpoints", "events")
    (run / name).write_bytes(content)
    assert is_used(path) != is_remnant
    (run / ".lock").unlink()
    assert is_used(path)


@pytest.mark.parametrize("name", ["config.json", ".lock", "checkpoints"])
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


def test_the_parents_of_a_new_run_are_on_the_disk(tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr("toolkit.files.sync", paths.append)
    create(tmp_path / "a" / "b")
    assert paths[:2] == [str(tmp_path), str(tmp_path / "a")]


def test_two_processes_cannot_create_runs_in_one_folder(run):
    before = sha256s(run.path)
    other = RunFolder(run.path, is_new=True)  # reserved before the first process created its run
    run.unlock()
    with pytest.raises(UsageError, match="Another process has started a run"):
        other.create({})
    assert sha256s(run.path) == before and not reopen(run).is_locked()


# ------------------------------------------------------------------------------------------- locks


@pytest.mark.parametrize("has_file", [True, False])
def test_a_run_that_is_alive_is_neither_locked_again_nor_renamed(run, has_file):
    run.lock()  # which it has already
    if not has_file:
        os.remove(run.file(".lock"))
    before = sha256s(run.path)
    for enter in (
        lambda: reopen(run).lock(),
        lambda: reserve(run.path, force=True),
        lambda: RunFolder(run.path, is_new=True, force=True).create({}),  # reserved earlier
    ):
        with pytest.raises(RetryError, match="Another process is training in"):
            enter()
    assert reopen(run).is_locked() and os.listdir(os.path.dirname(run.path)) == ["run"]
    assert sha256s(run.path) == before
    run.unlock()
    other = reopen(run)
    assert not other.is_locked()
    other.lock()
    other.unlock()


def test_a_forked_process_that_outlives_the_run_does_not_keep_the_lock(run):
    end = fork_idle()
    run.unlock()
    is_locked = reopen(run).is_locked()
    end()
    assert not is_locked


def test_a_run_has_its_whole_path_as_name_where_the_working_directory_is_gone(run, here):
    os.chdir(run.make_subfolder("gone"))
    os.rmdir(run.file("gone"))
    assert str(run) == run.path


def test_where_only_files_are_locked_a_deleted_lock_file_ends_the_run(run, monkeypatch):
    flock = fcntl.flock

    def refuse_folders(descriptor, mode):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, mode)

    run.unlock()
    monkeypatch.setattr(fcntl, "flock", refuse_folders)
    run.lock()
    assert run.has_lock and reopen(run).is_locked()
    os.remove(run.file(".lock"))
    with pytest.raises(CheckpointError, match="is gone"):
        run.metrics.append({"step": 1})
    assert not os.path.exists(run.file("metrics.jsonl"))


@pytest.mark.parametrize("is_replaced", [True, False])
def test_nothing_is_written_to_a_folder_that_is_gone_or_replaces_the_run(run, is_replaced):
    os.rename(run.path, run.path + "-moved")
    before = sha256s(create(run.path, plugin="other").path) if is_replaced else {}
    for attempt in (
        lambda: run.metrics.append({"step": 1}),
        lambda: run.write_config({}),
        lambda: run.checkpoints.begin_session(None),
    ):
        with pytest.raises(CheckpointError, match="is gone: it was removed or moved") as raised:
            attempt()
        assert raised.value.exit_code == 5 and raised.value.hint.endswith("toolkit resume RUN")
    assert sha256s(run.path) == before


@pytest.mark.parametrize("name", [".lock", "checkpoints", "samples/0.png"])
def test_a_run_with_a_symbolic_link_is_not_continued(committed, tmp_path, name):
    committed.unlock()
    path = committed.file(name)
    if os.path.exists(path):
        os.rename(path, str(tmp_path / "away"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(str(tmp_path / "outside"), path)
    with pytest.raises(UsageError, match=name + " is a symbolic link"):
        reopen(committed).lock()
    assert not (tmp_path / "outside").exists()


def test_a_link_that_comes_later_is_not_followed_either(run, tmp_path):
    os.symlink(str(tmp_path / "outside"), run.file("speed.jsonl"))
    with pytest.raises(RetryError, match="speed.jsonl is a symbolic link"):
        run.speed.append({"step": 1})
    assert not (tmp_path / "outside").exists()


def test_commits_of_another_process_are_seen_after_locking(committed):
    other = reopen(committed)
    assert len(other.commits.entries()) == 5  # as a resume reads the options before it locks
    commit(committed, 8)
    committed.unlock()
    other.lock()
    other.checkpoints.begin_session(other.checkpoints.newest())
    other.unlock()
    assert reopen(committed).commits.faults() == []
    assert steps_of(committed) == [2, 4, 6, 8]


# ----------------------------------------------------------------------------------------- commits


def test_a_commit_lists_the_files_of_its_step_and_the_metrics_so_far(run):
    write("x", run.checkpoints.prefix(2) + ".index.tempstate123")  # as TensorFlow leaves them
    commit(run, 2)
    (checkpoint,) = run.checkpoints.list()
    assert sorted(checkpoint.files) == ["model.ckpt-2.data-00000-of-00001", "model.ckpt-2.index"]
    assert checkpoint.files["model.ckpt-2.index"].bytes == len("index of step 2")
    assert checkpoint.metrics.bytes == len('{"step": 2}\n')
    assert (checkpoint.time, checkpoint.tensors) == (102.0, "tensors")


@pytest.mark.parametrize("best, left", [(2, [2, 8]), (5, [8])])  # step 5 is deleted already
def test_checkpoints_that_are_not_retained_are_deleted_but_the_best_one(committed, best, left):
    committed.record("evaluated", best={"step": best})
    commit(committed, 8, keep=1)
    assert steps_of(committed) == left
    assert {name.split(".")[1] for name in files(committed)} == {f"ckpt-{n}" for n in left}


@pytest.mark.parametrize(
    "owner, name, after, left",
    [
        (CheckpointStore, "_make_durable", False, [2, 4, 6]),  # nothing is sure to be on the disk
        (CheckpointStore, "add_commit", False, [2, 4, 6]),
        (CheckpointStore, "add_commit", True, [6, 8]),
        (os, "remove", True, [6, 8]),
    ],
)
def test_a_crash_at_any_point_of_a_commit_leaves_an_intact_checkpoint(
    committed, monkeypatch, owner, name, after, left
):
    inner = getattr(owner, name)

    def crash(*arguments, **named):
        if after:
            inner(*arguments, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, name, crash)
        commit(committed, 8, keep=2)
    committed.unlock()
    other = reopen(committed)
    other.lock()
    start = other.checkpoints.newest()
    assert start.step == left[-1]
    assert other.checkpoints.begin_session(start, pytest.fail) == []
    assert steps_of(other) == left
    assert {n.split(".")[1] for n in files(other)} == {f"ckpt-{step}" for step in left}
    assert other.metrics.read()[-1] == {"step": left[-1]}
    other.unlock()


# --------------------------------------------------------------------------------------- a session


def test_a_session_or_a_second_commit_of_a_step_discards_later_ones(committed):
    commit(committed, 4)
    assert steps_of(committed) == [2, 4]
    committed.checkpoints.begin_session(committed.checkpoints.list()[0], why="test")
    assert steps_of(committed) == [2]
    assert committed.commits.sessions()[-1]["from"] == 2
    assert committed.commits.sessions()[-1]["why"] == "test"


def test_files_of_an_interrupted_save_are_removed_without_a_report_and_others_stay(committed):
    save(committed, 8)
    for name in ("checkpoint", "notes.txt", ".writing-x", os.path.join("..", ".writing-abc")):
        write("x", committed.file("checkpoints", name))
    assert committed.checkpoints.begin_session(committed.checkpoints.newest()) == []
    assert {n.split(".")[1] for n in files(committed)} == {"ckpt-2", "ckpt-4", "ckpt-6"}
    names = {name for name in os.listdir(committed.file("checkpoints")) if "model" not in name}
    assert names == {"checkpoint", "notes.txt"}
    assert ".writing-abc" not in os.listdir(committed.path)


FOUR, SIX = ([f"{step}.{ending}" for ending in ENDINGS] for step in (4, 6))


@pytest.mark.parametrize(
    "harm, quarantined, left",
    [
        (lambda run: damage(run, 6), SIX, [2, 4]),
        (lambda run: edit_commit_log(run, '"step": 6', '"step": 7'), SIX, [2, 4]),
        # Step 2 remains; one kill cannot leave the files of two steps.
        (lambda run: truncate_commit_log(run, 3), FOUR + SIX, [2]),
        (lambda run: run.make_subfolder("checkpoints", "model.ckpt-9.x"), ["9.x"], [2, 4, 6]),
    ],
)
def test_what_is_damaged_or_not_listed_is_quarantined_and_named(committed, harm, quarantined, left):
    harm(committed)
    other = reopen(committed)
    warnings = []
    names = other.checkpoints.begin_session(other.checkpoints.newest(), warnings.append)
    assert [each.split(": ")[1] for each in warnings] == [", ".join(names)]
    assert names == ["model.ckpt-" + name for name in quarantined] == files(other, "damaged")
    assert steps_of(committed) == left


def test_the_newest_intact_checkpoint_is_found_with_a_warning_for_each_damaged_one(committed):
    damage(committed, 6)
    os.remove(committed.checkpoints.prefix(4) + ".index")
    warnings = []
    assert committed.checkpoints.newest(warnings.append).step == 2
    assert warnings == [
        "the checkpoint of step 6 is damaged: model.ckpt-6.index has 19 bytes, expected 15",
        "the checkpoint of step 4 is damaged: model.ckpt-4.index is missing",
    ]
    damage(committed, 2)
    with pytest.raises(CheckpointError, match="None of the 3 checkpoints"):
        committed.checkpoints.newest()


def test_a_changed_byte_or_a_folder_in_place_of_a_file_is_damage(committed):
    path = committed.checkpoints.prefix(6) + ".index"
    write("INDEX of step 6", path)
    expected = "model.ckpt-6.index has changed since it was written"
    assert committed.checkpoints.find_damage(committed.checkpoints.list()[-1]) == expected
    os.remove(path)
    os.mkdir(path)
    assert committed.checkpoints.newest().step == 4


@pytest.mark.parametrize(
    "harm, words",
    [
        (lambda run: os.remove(run.commits.path), "lists no checkpoint: it is missing"),
        (lambda run: truncate_commit_log(run, 2), "entries are missing, as of model.ckpt-2"),
        (lambda run: edit_commit_log(run, '"commit"', '"COMMIT"'), "entry 3 has changed since "),
    ],
)
def test_a_commit_log_without_its_commits_is_an_error_and_no_fresh_start(committed, harm, words):
    harm(committed)
    with pytest.raises(CheckpointError, match="commits.jsonl .*" + words):
        reopen(committed).checkpoints.newest()


def test_a_checkpoint_is_found_by_its_step_as_last_or_as_best(committed):
    committed.record("evaluated", best={"step": 4})
    assert [committed.checkpoints.find(w).step for w in ("2", "last", "best")] == [2, 6, 4]
    damage(committed, 2)
    with pytest.raises(CheckpointError, match="The checkpoint of step 2 is damaged"):
        committed.checkpoints.find("2")
    committed.record("evaluated", best={"step": 5})  # which is deleted
    assert committed.checkpoints.best() is None
    with pytest.raises(CheckpointError, match="has no best checkpoint"):
        committed.checkpoints.find("best")


def test_a_reader_follows_a_process_that_commits_and_deletes(committed):
    reader = reopen(committed).checkpoints
    assert [c.step for c in reader.list()] == [2, 4, 6]
    commit(committed, 8, keep=1)
    warnings = []
    assert reader.newest(warnings.append).step == 8 and warnings == []
    commit(committed, 10, keep=1)
    with pytest.raises(CheckpointError, match="'8'.\nIt has last and the steps 10"):
        reader.find("8")
    commit(committed, 12, keep=1)
    assert reader.find("last").step == 12


def test_metrics_are_cut_back_to_a_checkpoint_unless_they_contradict_it(committed):
    assert committed.metrics.cut_back(committed.checkpoints.list()[1]) == ""
    assert committed.metrics.read() == [{"step": 2}, {"step": 4}]
    with open(committed.metrics.path, "r+b") as file:
        file.write(b"{'step'")
    fault = committed.metrics.cut_back(committed.checkpoints.list()[1])
    assert fault == "metrics.jsonl is not what it was at step 4"
    assert committed.metrics.read() == [{"step": 4}]  # the first line is no JSON any more
    assert committed.metrics.cut_back(None) == ""
    assert committed.metrics.read() == []


def test_each_write_raises_the_error_of_the_folder(committed, monkeypatch):
    monkeypatch.setattr("toolkit.storage.run_folder.write_json", fill_disk)
    monkeypatch.setattr("toolkit.storage.checkpoint_store.sync", fill_disk)
    monkeypatch.setattr("toolkit.storage.jsonl.JsonLines.append_line", fill_disk)
    monkeypatch.setattr("toolkit.storage.jsonl.atomic_write", fill_disk)
    for attempt in (
        lambda: committed.write_config({}),
        lambda: committed.record("end", status="failed"),
        lambda: committed.metrics.append({}),
        lambda: committed.metrics.cut_back(None),
        lambda: committed.checkpoints.begin_session(None),
        lambda: commit(committed, 8),
    ):
        expected = "run cannot be written: No space left on device"
        with pytest.raises(RetryError, match=expected) as raised:
            attempt()
        assert raised.value.exit_code == 138
        assert raised.value.hint.startswith("Nothing that was committed is lost. Free some space,")


def test_a_process_that_only_tries_the_lock_does_not_make_a_run_fail(run, monkeypatch):
    run.unlock()
    descriptor = os.open(run.path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as `is_locked` does
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda secs: os.close(descriptor))
    monkeypatch.setattr(folder_lock, "time", clock)
    run.lock()
    assert run.has_lock
