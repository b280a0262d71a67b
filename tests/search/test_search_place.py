"""Where a study keeps its records, as `--storage` names it."""

from __future__ import annotations

import json
import os

import pytest

from toolkit.errors import CheckpointError, UsageError
from toolkit.search.place import JOURNAL, POSTGRESQL, SQLITE, find_place, write_place

URL = "postgresql://me:se%40cret@db.example:5433/trials"


def test_the_default_is_a_journal_in_the_folder(tmp_path):
    place = find_place(str(tmp_path))
    path = str(tmp_path / "study.journal")
    assert (place.kind, place.address, place.text) == (JOURNAL, path, path)
    write_place(str(tmp_path), place)
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    "storage, kind",
    [
        ("shared.journal", JOURNAL),
        ("shared.sqlite", SQLITE),
        ("shared.db", SQLITE),
        ("sqlite:///shared.records", SQLITE),
    ],
)
def test_a_file_is_a_journal_or_sqlite(here, storage, kind):
    place = find_place("study", storage)
    assert place.kind == kind
    assert os.path.dirname(place.address) == str(here)


def test_the_contents_of_a_file_say_what_it_is(here):
    (here / "records").write_bytes(b"SQLite format 3\0...")
    (here / "records.db").write_bytes(b'{"op_code":0}\n')
    assert find_place("study", "records").kind == SQLITE
    assert find_place("study", "records.db").kind == JOURNAL


def test_the_password_of_a_server_is_in_no_text_and_no_file(tmp_path):
    folder = tmp_path / "rates"
    folder.mkdir()
    place = find_place(str(folder), URL + "?sslmode=require&sslpassword=hush")
    assert (place.kind, place.study) == (POSTGRESQL, "rates")
    assert "se%40cret" in place.address
    write_place(str(folder), place)
    written = (folder / "storage.json").read_text()
    for text in (place.text, written):
        assert "cret" not in text and "hush" not in text
        assert "me@db.example:5433/trials?sslmode=require" in text
    assert find_place(str(folder))._replace(address="") == place._replace(address="")


def test_a_study_keeps_its_name_when_its_folder_is_renamed(tmp_path):
    folder = tmp_path / "rates"
    folder.mkdir()
    write_place(str(folder), find_place(str(folder), URL))
    folder.rename(tmp_path / "other")
    assert find_place(str(tmp_path / "other")).study == "rates"
    assert find_place(str(tmp_path / "other"), URL).study == "rates"


@pytest.mark.parametrize("url", ["postgres://me@db/x", "postgresql+psycopg2://me@db/x"])
def test_other_spellings_of_postgresql_are_the_same_place(url, tmp_path):
    assert find_place(str(tmp_path), url).text == "postgresql://me@db/x"
    assert find_place(str(tmp_path), url).address.startswith("postgresql+psycopg2://")


@pytest.mark.parametrize(
    "storage, text",
    [
        ("mysql://me@db/x", "'mysql://'"),
        ("redis://db", "'redis://'"),
        ("https://db/x", "'https://'"),
        ("postgresql+asyncpg://me@db/x", "'postgresql+asyncpg://'"),
        ("postgresql://", "does not name a host and a database"),
        ("postgresql://me@db", "does not name a host and a database"),
        ("postgresql://me:hush@db:port/x", "does not name a host and a database"),
        ("postgresql://me:x@hush@db/x", "does not name a host and a database"),
        ("postgresql://me:x@hu/sh@db/x", "does not name a host and a database"),
        ("", "--storage is empty"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        (".", "is a folder"),
        ("picture.png", "neither a journal of a study nor an SQLite database"),
    ],
)
def test_what_cannot_be_a_storage_is_one_sentence(here, storage, text):
    (here / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(UsageError) as error:
        find_place("study", storage)
    assert text in error.value.message
    assert error.value.hint
    assert "hush" not in str(error.value)


def test_a_study_does_not_move_to_another_storage(tmp_path):
    write_place(str(tmp_path), find_place(str(tmp_path), str(tmp_path / "a.journal")))
    with pytest.raises(UsageError, match="has its records in .*a.journal, not in .*b.journal"):
        find_place(str(tmp_path), str(tmp_path / "b.journal"))


def test_a_study_with_its_own_journal_does_not_move_either(tmp_path):
    (tmp_path / "study.journal").write_bytes(b'{"op_code":0}\n')
    with pytest.raises(UsageError, match="has its records in"):
        find_place(str(tmp_path), URL)


@pytest.mark.parametrize("text", ["{", "[]", '{"storage": 3, "study": "x"}'])
def test_a_damaged_note_is_reported(tmp_path, text):
    (tmp_path / "storage.json").write_text(text)
    with pytest.raises(CheckpointError, match="storage.json"):
        find_place(str(tmp_path))


def test_a_note_in_the_folder_is_json(tmp_path):
    write_place(str(tmp_path), find_place(str(tmp_path), URL))
    values = json.loads((tmp_path / "storage.json").read_text())
    assert values == {
        "storage": "postgresql://me@db.example:5433/trials",
        "study": tmp_path.name,
    }
