"""JSON-lines files: complete lines count, partial ones do not, positions identify contents."""

import hashlib

import pytest

from toolkit.errors import CheckpointError
from toolkit.storage.jsonl import FileDigest, JsonLines


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lines.jsonl"


@pytest.fixture
def lines(path):
    return JsonLines(str(path))


def test_non_finite_numbers_become_null(lines):
    lines.append({"a": float("nan"), "b": [float("inf"), -float("inf")], "c": 1.5})
    assert lines.lines() == ['{"a": null, "b": [null, null], "c": 1.5}']


@pytest.mark.parametrize(
    "between, content",
    [
        (b'{"a": 1}\n{"b": 2}\n', b'{"a": 1}\n{"b": 2}\n{"a": 2}\n'),  # of another handle
        (b"", b'{"a": 2}\n'),
        (b'{"a": 1}\n{"a"', b'{"a": 1}\n{"a": 2}\n'),  # as a write that failed leaves it
        (None, b'{"a": 2}\n'),
    ],
)
def test_appending_continues_a_changed_file_and_drops_a_partial_line(lines, path, between, content):
    lines.append({"a": 1})
    if between is None:
        path.unlink()
    else:
        path.write_bytes(between)
    lines.append({"a": 2})
    assert path.read_bytes() == content
    assert lines.position() == FileDigest(len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize(
    "size, content", [(100, b"{}\n[]\n"), (6, b"{}\n[]\n"), (3, b"{}\n"), (0, b"")]
)
def test_truncate_removes_later_and_partial_lines_and_sets_the_position(lines, path, size, content):
    path.write_bytes(b"{}\n[]\n{")
    assert lines.position().bytes == 6
    lines.truncate(size)
    assert path.read_bytes() == content
    assert lines.position() == FileDigest(len(content), hashlib.sha256(content).hexdigest())


def test_lines_that_are_not_objects_or_not_complete_are_no_records(lines, path):
    deep = b'{"a":' * 100000
    path.write_bytes(b'{"a": 1}\n\n[1]\n{"a"\nnull\n' + deep + b'\n{"a": 2}\n{"a": 3}')
    assert lines.read() == [{"a": 1}, {"a": 2}]


def test_an_unreadable_file_is_an_error(path, lines):
    path.mkdir()
    with pytest.raises(CheckpointError, match="lines.jsonl cannot be read: Is a directory"):
        lines.lines()


def test_a_durable_line_is_synced_with_the_lines_before_it(lines, monkeypatch, tmp_path):
    paths = []
    monkeypatch.setattr("toolkit.storage.jsonl.sync", paths.append)
    lines.append({"a": 1})
    assert paths == []
    lines.append_line("{}", durable=True)
    assert paths == [lines.path, str(tmp_path)]  # its bytes, then its name, once
    lines.make_durable()
    lines.append({"a": 2})
    lines.make_durable()
    assert paths == [lines.path, str(tmp_path), lines.path]
