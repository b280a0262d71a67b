"""What a kill of the machine must not take is on the disk before the next thing happens."""

import errno
import io
import os

import pytest
from folder_fixtures import ENDINGS, commit

from toolkit.display.console import Console
from toolkit.files import TEMPORARY_PREFIX, write_json
from toolkit.training.session_record import SessionRecord, TrainResult


@pytest.fixture
def disk(monkeypatch):
    """The calls that change what a machine finds after a power failure, in their order."""
    calls = []

    def record(function, kind, path_of):
        inner = getattr(os, function)

        def call(*arguments):
            name = os.path.basename(path_of(*arguments))
            calls.append((kind, "temporary" if name.startswith(TEMPORARY_PREFIX) else name))
            inner(*arguments)

        monkeypatch.setattr(os, function, call)

    record("fsync", "sync", lambda descriptor: os.path.realpath(f"/proc/self/fd/{descriptor}"))
    record("replace", "rename", lambda source, target: target)
    record("remove", "remove", lambda path: path)
    return calls


def test_a_durable_file_is_synced_before_its_name_and_its_name_before_anything_else(tmp_path, disk):
    write_json(str(tmp_path / "a.json"), {})
    assert disk == [("sync", "temporary"), ("rename", "a.json"), ("sync", tmp_path.name)]


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    path = tmp_path / "a.json"
    path.touch(0o600)
    write_json(str(path), {})
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("{}\n", 0o600)


def test_a_file_system_that_cannot_sync_folders_is_used_without_that(tmp_path, monkeypatch):
    def sync(descriptor, inner=os.fsync):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        inner(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    write_json(str(tmp_path / "new" / "a.json"), {})
    assert os.listdir(str(tmp_path / "new")) == ["a.json"]


def test_a_commit_syncs_files_and_metrics_before_its_entry_and_deletes_after_it(run, disk):
    commit(run, 2)
    disk.clear()
    commit(run, 4, keep=1)
    assert disk == [
        *(("sync", f"model.ckpt-4.{ending}") for ending in ENDINGS),
        ("sync", "checkpoints"),
        ("sync", "metrics.jsonl"),
        ("sync", "commits.jsonl"),
        ("rename", "manifest.json"),
        *(("remove", f"model.ckpt-2.{ending}") for ending in ENDINGS),
    ]


def test_a_seal_is_written_when_the_metrics_that_it_hashes_are_on_the_disk(run, disk):
    commit(run, 2)
    run.metrics.append({"step": 2, "kind": "eval"})
    disk.clear()
    SessionRecord(run, "p", Console(io.StringIO())).finish(TrainResult(2, 1.0, "reached", True))
    assert disk[:2] == [("sync", "metrics.jsonl"), ("sync", "commits.jsonl")]
