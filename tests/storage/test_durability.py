"""What a kill of the machine must not take is on the disk before the next thing happens."""

import os

import pytest

from toolkit.files import TEMPORARY_PREFIX, atomic_write, write_json
from toolkit.storage.run_folder import reserve

ENDINGS = ("data-00000-of-00001", "index")


@pytest.fixture
def disk(monkeypatch):
    """The calls that change what a machine finds after a power failure, in their order."""
    calls = []
    fsync, replace, remove = os.fsync, os.replace, os.remove

    def record_fsync(descriptor):
        path = os.path.realpath(f"/proc/self/fd/{descriptor}")
        name = os.path.basename(path)
        calls.append(("sync", "temporary" if name.startswith(TEMPORARY_PREFIX) else name))
        fsync(descriptor)

    def record_replace(source, target):
        calls.append(("rename", os.path.basename(target)))
        replace(source, target)

    def record_remove(path):
        calls.append(("remove", os.path.basename(path)))
        remove(path)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    monkeypatch.setattr(os, "remove", record_remove)
    return calls


def test_a_durable_file_is_synced_before_its_name_and_its_name_before_anything_else(tmp_path, disk):
    write_json(str(tmp_path / "a.json"), {})
    assert disk == [("sync", "temporary"), ("rename", "a.json"), ("sync", tmp_path.name)]


def test_a_file_that_need_not_be_durable_is_only_renamed(tmp_path, disk):
    with atomic_write(str(tmp_path / "a.txt")) as file:
        file.write(b"a")
    assert disk == [("rename", "a.txt")]


def save(folder, step):
    for ending in ENDINGS:
        with open(f"{folder.checkpoints.prefix(step)}.{ending}", "w") as file:
            file.write(str(step))


def commit(folder, step):
    """Commit a step and retain it alone."""
    folder.metrics.append({"step": step})
    save(folder, step)
    folder.checkpoints.commit(step, 100.0 + step, lambda checkpoints: [], "tensors")


@pytest.fixture
def run(tmp_path):
    folder = reserve(str(tmp_path / "run"))
    folder.create({"plugin": "p"})
    folder.checkpoints.begin_session(None)
    commit(folder, 2)
    yield folder
    folder.unlock()


def test_a_commit_syncs_files_and_metrics_before_its_entry_and_deletes_after_it(run, disk):
    commit(run, 4)
    assert disk == [
        *(("sync", f"model.ckpt-4.{ending}") for ending in ENDINGS),
        ("sync", "checkpoints"),
        ("sync", "metrics.jsonl"),
        ("sync", "commits.jsonl"),
        *(("remove", f"model.ckpt-2.{ending}") for ending in ENDINGS),
    ]
