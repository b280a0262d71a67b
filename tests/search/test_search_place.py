"""Where a study keeps its records, as `--storage` names it."""

import os

import pytest

from toolkit.errors import CheckpointError, UsageError
from toolkit.search.place import JOURNAL, SQLITE, find_place, write_place


def test_the_default_is_a_journal_in_the_folder(tmp_path):
    place = find_place(str(tmp_path))
    path = str(tmp_path / "study.journal")
    assert place == (JOURNAL, path)
    write_place(str(tmp_path), place)
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    "storage, kind",
    [
        ("shared.journal", JOURNAL),
        ("shared.sqlite", SQLITE),
        ("shared.db", SQLITE),
    ],
)
def test_a_file_is_a_journal_or_sqlite(here, storage, kind):
    place = find_place("study", storage)
    assert place.kind == kind
    assert os.path.dirname(place.path) == str(here)


def test_the_contents_of_a_file_say_what_it_is(here):
    (here / "records").write_bytes(b"SQLite format 3\0...")
    (here / "records.db").write_bytes(b'{"op_code":0}\n')
    assert find_place("study", "records").kind == SQLITE
    assert find_place("study", "records.db").kind == JOURNAL


@pytest.mark.parametrize(
    "storage, text",
    [
        ("postgresql://me:hush@db/x", "in a file, not in 'postgresql://'"),
        ("sqlite:///shared.db", "in a file, not in 'sqlite://'"),
        ("", "--storage is empty"),
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


@pytest.mark.parametrize("text", ["{", "[]", '{"storage": 3}'])
def test_a_damaged_note_is_reported(tmp_path, text):
    (tmp_path / "storage.json").write_text(text)
    with pytest.raises(CheckpointError, match="storage.json"):
        find_place(str(tmp_path))
