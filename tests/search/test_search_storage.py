"""Records survive kills in the middle of a write, and a storage that fails for a while."""

import json
import os
import subprocess
import sys

import process_fixtures
import pytest

from toolkit.errors import CheckpointError, RetryError, UsageError
from toolkit.search import storage as storage_module
from toolkit.search.place import find_place
from toolkit.search.storage import Storage, check_storage

WRITER = """
import sys
from toolkit.search.place import find_place
from toolkit.search.storage import Storage

storage = Storage(find_place(sys.argv[1], sys.argv[2] or None), print)
storage.create("log")
number = 0
while True:
    storage.append("log", {"writer": sys.argv[3], "number": number, "text": "x" * 500})
    number += 1
    if number >= int(sys.argv[4]):
        break
"""


def open_storage(folder, storage=None, texts=None):
    place = find_place(str(folder), storage and str(folder / storage))
    connection = Storage(place, (texts if texts is not None else []).append)
    connection.create("log")
    return connection


def start_writer(folder, storage, name, count=1 << 30):
    path = str(folder / storage) if storage else ""
    command = [sys.executable, "-c", WRITER, str(folder), path, name, str(count)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.mark.parametrize("storage", [None, "records.sqlite"])
def test_two_processes_write_into_one_order(tmp_path, storage):
    writers = [start_writer(tmp_path, storage, name, 40) for name in "ab"]
    for writer in writers:
        assert writer.communicate(timeout=process_fixtures.PATIENCE)[1] == b""
    one, other = (open_storage(tmp_path, storage).read("log") for _ in range(2))
    assert one == other
    for name in "ab":
        assert [r["number"] for r in one if r["writer"] == name] == list(range(40))


@pytest.mark.parametrize("storage", [None, "records.sqlite"])
def test_a_kill_in_the_middle_of_writes_leaves_whole_records(tmp_path, storage):
    connection = open_storage(tmp_path, storage)
    for round_number in range(3):
        before = len(connection.read("log"))
        writer = start_writer(tmp_path, storage, "a")
        process_fixtures.wait_until(
            lambda before=before: len(connection.read("log")) > before + 3, among=[writer]
        )
        writer.kill()
        writer.communicate()
        connection.append("log", {"writer": "me", "number": round_number})
    records = open_storage(tmp_path, storage).read("log")
    assert [r["number"] for r in records if r["writer"] == "me"] == [0, 1, 2]
    assert all(len(r["text"]) == 500 for r in records if r["writer"] == "a")


@pytest.mark.parametrize("rest", [b'{"op_code":4,"wor', b"\0" * 300, b"x" * 200_000])
def test_a_torn_line_is_cut_off_before_the_next_one(tmp_path, rest):
    connection = open_storage(tmp_path)
    connection.append("log", {"n": 1})
    with open(str(tmp_path / "study.journal"), "ab") as file:
        file.write(rest)
    assert open_storage(tmp_path).read("log") == [{"n": 1}]
    open_storage(tmp_path).append("log", {"n": 2})
    assert connection.read("log") == [{"n": 1}, {"n": 2}]
    lines = (tmp_path / "study.journal").read_bytes().splitlines()
    assert all(json.loads(line.decode()) for line in lines)


def test_a_changed_line_in_a_journal_is_damage(tmp_path):
    open_storage(tmp_path).append("log", {"n": 1})
    path = tmp_path / "study.journal"
    path.write_bytes(path.read_bytes().replace(b'"op_code":4', b'"op_code"?4'))
    with pytest.raises(CheckpointError, match="study.journal is damaged"):
        open_storage(tmp_path)


def test_a_database_that_is_none_is_damage(tmp_path):
    (tmp_path / "records.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(CheckpointError, match="records.sqlite is damaged"):
        open_storage(tmp_path, "records.sqlite")


@pytest.mark.parametrize("storage", ["no/such/x.sqlite", "no/such/x.journal"])
def test_a_storage_is_checked_without_being_created(tmp_path, storage):
    check_storage(find_place(str(tmp_path), str(tmp_path / "new.sqlite")))
    assert os.listdir(str(tmp_path)) == []
    with pytest.raises(UsageError, match="no/such, of --storage, does not exist"):
        check_storage(find_place(str(tmp_path), str(tmp_path / storage)))


def test_the_tables_of_another_version_of_optuna_are_refused(tmp_path):
    import sqlite3

    open_storage(tmp_path, "records.sqlite")
    connection = sqlite3.connect(str(tmp_path / "records.sqlite"))
    connection.execute("UPDATE alembic_version SET version_num = 'v2.6.0.a'")
    connection.commit()
    with pytest.raises(UsageError, match="another version of Optuna"):
        open_storage(tmp_path, "records.sqlite")


class Outage:
    """Replaces a storage of Optuna by one that fails for a number of calls."""

    def __init__(self, connection, failures):
        self._storage = connection._storage
        self.failures = failures

    def __getattr__(self, name):
        if self.failures:
            self.failures -= 1
            raise OSError(5, "Input/output error")
        return getattr(self._storage, name)


def test_a_storage_that_fails_for_a_while_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_module, "PAUSE_SECS", 0.001)
    texts = []
    connection = open_storage(tmp_path, texts=texts)
    connection._storage = Outage(connection, failures=3)
    connection.append("log", {"n": 1})
    path = str(tmp_path / "study.journal")
    assert texts == [
        f"{path} does not answer: Input/output error. Trying again for 300 s.",
        f"{path} answers again.",
    ]
    assert connection.read("log") == [{"n": 1}]
    assert connection.outages == 1


def test_a_storage_that_does_not_come_back_ends_the_search(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_module, "PAUSE_SECS", 0.001)
    monkeypatch.setattr(storage_module, "PATIENCE_SECS", 0.01)
    connection = open_storage(tmp_path)
    connection._storage = Outage(connection, failures=1 << 30)
    with pytest.raises(RetryError, match="does not answer: Input/output error") as error:
        connection.read("log")
    assert error.value.exit_code == 138


def test_a_journal_that_was_deleted_is_not_begun_again(tmp_path):
    connection = open_storage(tmp_path)
    os.remove(str(tmp_path / "study.journal"))
    with pytest.raises(CheckpointError, match="is no longer in .*study.journal"):
        connection.append("log", {"n": 1})
    assert not (tmp_path / "study.journal").exists()
