"""Files of JSON lines: whole lines count, torn ones do not, and positions say what there was."""

import hashlib

import pytest

from toolkit.errors import CheckpointError
from toolkit.storage.jsonl import FileDigest, JsonLines, parse_object


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lines.jsonl"


@pytest.fixture
def lines(path):
    return JsonLines(str(path))


def test_a_file_that_is_not_there_has_no_lines_and_is_not_made_by_looking(lines, path):
    assert (lines.lines(), lines.read(), lines.position().bytes) == ([], [], 0)
    assert not path.exists()


def test_each_record_is_a_line_in_the_order_they_were_added(lines, path):
    lines.append({"step": 1})
    lines.append({"step": 2})
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n'


def test_numbers_that_are_not_finite_become_null(lines):
    lines.append({"a": float("nan"), "b": [float("inf"), -float("inf")], "c": 1.5})
    assert lines.lines() == ['{"a": null, "b": [null, null], "c": 1.5}']


def test_a_torn_last_line_does_not_count(lines, path):
    path.write_bytes(b'{"a": 1}\n{"a": 2}')
    assert lines.read() == [{"a": 1}]
    assert lines.position().bytes == 9


def test_a_torn_last_line_is_cut_off_before_the_next_is_added(lines, path):
    path.write_bytes(b'{"a": 1}\n{"a"')
    lines.append({"a": 3})
    assert path.read_bytes() == b'{"a": 1}\n{"a": 3}\n'


def test_what_a_failing_write_left_is_cut_off_too(lines, path):
    lines.append({"a": 1})
    with open(str(path), "ab") as file:
        file.write(b'{"a"')
    lines.append({"a": 2})
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2}\n'


def test_lines_that_another_handle_added_are_kept_and_counted(lines, path):
    lines.append({"a": 1})
    JsonLines(str(path)).append({"b": 2})
    lines.append({"a": 3})
    content = b'{"a": 1}\n{"b": 2}\n{"a": 3}\n'
    assert path.read_bytes() == content
    assert lines.position() == FileDigest(27, hashlib.sha256(content).hexdigest())


def test_a_file_that_was_emptied_meanwhile_goes_on_from_there(lines, path):
    lines.append({"a": 1})
    path.write_bytes(b"")
    lines.append({"a": 2})
    assert path.read_bytes() == b'{"a": 2}\n'


def test_a_file_that_was_removed_meanwhile_is_made_again(lines, path):
    lines.append({"a": 1})
    path.unlink()
    lines.append(
        {"a": 2},
    )
    assert path.read_bytes() == b'{"a": 2}\n'
    assert lines.position().bytes == 9


def test_the_position_is_the_size_and_the_hash_of_the_whole_lines(lines, path):
    path.write_bytes(b"{}\n")
    assert lines.position() == FileDigest(3, hashlib.sha256(b"{}\n").hexdigest())
    lines.append({})
    assert lines.position() == FileDigest(6, hashlib.sha256(b"{}\n{}\n").hexdigest())


def test_a_file_is_at_a_position_while_its_start_is_what_it_was(lines, path):
    lines.append({"a": 1})
    there = lines.position()
    lines.append({"a": 2})
    assert lines.starts_with(there)
    path.write_bytes(b'{"a": 7}\n{"a": 2}\n')
    assert not lines.starts_with(there)


def test_a_file_that_is_shorter_than_a_position_is_not_at_it(lines, path):
    lines.append({"a": 1})
    there = lines.position()
    path.write_bytes(b'{"a": 1}')
    assert not lines.starts_with(there)


def test_cut_drops_what_came_later_and_a_torn_line(lines, path):
    path.write_bytes(b"{}\n[]\n{")
    lines.truncate(6)
    assert path.read_bytes() == b"{}\n[]\n"
    lines.truncate(3)
    assert path.read_bytes() == b"{}\n"


def test_cut_to_more_than_there_is_changes_nothing(lines, path):
    path.write_bytes(b"{}\n")
    lines.truncate(100)
    assert path.read_bytes() == b"{}\n"


def test_what_is_added_after_a_cut_is_hashed_from_there(lines):
    lines.append({"a": 1})
    lines.append({"a": 2})
    lines.truncate(9)
    lines.append({"a": 3})
    expected = hashlib.sha256(b'{"a": 1}\n{"a": 3}\n').hexdigest()
    assert lines.position() == FileDigest(18, expected)


def test_texts_of_so_many_bytes_are_the_whole_lines_within_them(lines, path):
    path.write_bytes(b"{}\n[]\n")
    assert [lines.lines(size) for size in (0, 2, 3, 5, 6, 99)] == [
        [],
        [],
        ["{}"],
        ["{}"],
        ["{}", "[]"],
        ["{}", "[]"],
    ]


def test_bytes_that_are_no_utf8_are_replaced_and_hashed_as_they_are(lines, path):
    path.write_bytes(b'{"a": "\xff"}\n')
    assert lines.lines() == ['{"a": "\ufffd"}']
    assert lines.position().sha256 == hashlib.sha256(b'{"a": "\xff"}\n').hexdigest()


def test_lines_that_are_no_objects_are_left_out_when_read(lines, path):
    path.write_bytes(b'{"a": 1}\n\n[1]\n{"a"\nnull\n{"a": 2}\n')
    assert lines.read() == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 100000, '{"a":' * 100000])
def test_no_object_is_parsed_from(text):
    assert parse_object(text) is None


def test_a_file_that_cannot_be_read_is_told_in_a_sentence(path, lines):
    path.mkdir()
    with pytest.raises(CheckpointError, match="lines.jsonl cannot be read: Is a directory"):
        lines.lines()


def test_a_durable_line_is_synced_with_the_lines_before_it(lines, monkeypatch, tmp_path):
    synced = []
    monkeypatch.setattr("toolkit.storage.jsonl.sync", synced.append)
    lines.append({"a": 1})
    assert synced == []
    lines.append_line("{}", durable=True)
    assert synced == [lines.path, str(tmp_path)]  # its bytes, then its name, once
    lines.make_durable()
    lines.append({"a": 2})
    lines.make_durable()
    assert synced == [lines.path, str(tmp_path), lines.path]
