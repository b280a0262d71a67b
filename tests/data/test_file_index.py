"""Hashes that are known without reading the files: when they are valid, and when not."""

import hashlib
import os
import time

import pytest
from PIL import Image

from toolkit.data.files import file_index
from toolkit.data.files.file_index import FileIndex

NAMES = ["a", "b", "new\n\udcff"]


@pytest.fixture
def folder(tmp_path, cache, monkeypatch):
    """Three files that were written an hour ago, and are not too small to be entered."""
    monkeypatch.setattr(file_index, "SMALL_COUNT", 1)
    folder = tmp_path / "data"
    folder.mkdir()
    for name, letter in zip(NAMES, "abc"):
        write(folder / name, letter * 10)
    return folder


@pytest.fixture
def reads(cache, monkeypatch):
    """The names of the files whose content was read."""
    names = []
    sha256_of = file_index.sha256_of

    def record(path):
        names.append(os.path.basename(path))
        return sha256_of(path)

    monkeypatch.setattr(file_index, "sha256_of", record)
    return names


def write(path, text, age=3600):
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def digests(folder, is_fresh=False):
    paths = sorted(str(path) for path in folder.iterdir())
    index = FileIndex(str(folder))
    if is_fresh:
        index.forget()
    return index.digests(paths)


def expected(folder):
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())]


def replace_b(folder):
    """Another file of the same size and time."""
    state = os.stat(folder / "b")
    (folder / "new").write_text("B" * 10)
    os.utime(folder / "new", ns=(state.st_atime_ns, state.st_mtime_ns))
    os.replace(folder / "new", folder / "b")


def add_d_and_remove_a(folder):
    (folder / "a").unlink()
    write(folder / "d", "new")


@pytest.mark.parametrize(
    "change, is_fresh, read",
    [
        (lambda folder: None, False, []),
        (lambda folder: None, True, NAMES),
        (lambda folder: write(folder / "b", "B" * 10, age=1800), False, ["b"]),
        (replace_b, False, ["b"]),
        (add_d_and_remove_a, False, ["d"]),
    ],
    ids=["none", "fresh", "content", "replaced", "others"],
)
def test_only_files_that_changed_are_read_again(folder, reads, change, is_fresh, read):
    for _ in range(2):
        assert digests(folder) == expected(folder)
    assert sorted(reads) == NAMES
    change(folder)
    assert digests(folder, is_fresh) == expected(folder)
    assert sorted(reads[3:]) == read


def test_a_file_that_was_just_written_is_not_trusted(folder, reads):
    write(folder / "b", "first", age=0)
    time_of_write = os.stat(folder / "b")
    digests(folder)
    with open(folder / "b", "r+") as file:  # the same inode, size and time
        file.write("other")
    os.utime(folder / "b", ns=(time_of_write.st_atime_ns, time_of_write.st_mtime_ns))
    assert digests(folder) == expected(folder)


@pytest.mark.parametrize("content", [b"", b"no table"], ids=repr)
def test_a_damaged_table_is_written_again(folder, cache, reads, content):
    digests(folder)
    (table,) = cache.rglob("files.sqlite")
    table.write_bytes(content)
    for _ in range(2):
        assert digests(folder) == expected(folder)
    assert len(reads) == 6


def test_a_cache_that_cannot_be_written_costs_only_time(folder, cache):
    cache.write_text("a file where the folder should be")
    assert digests(folder) == expected(folder)


def test_small_files_and_those_without_a_place_are_not_cached(folder, cache, monkeypatch):
    assert FileIndex().digests([str(folder / "a")]) == expected(folder)[:1]
    monkeypatch.setattr(file_index, "SMALL_COUNT", 4)
    assert digests(folder) == expected(folder)
    assert not cache.exists()


@pytest.mark.parametrize("are_hashed", [False, True])
def test_headers_are_known_without_reading_the_files(tmp_path, reads, monkeypatch, are_hashed):
    monkeypatch.setattr(file_index, "SMALL_COUNT", 1)
    paths = [str(tmp_path / "grey.png"), str(tmp_path / "clear.png")]
    Image.new("L", (3, 2)).save(paths[0])
    Image.new("RGBA", (5, 4)).save(paths[1])
    for path in paths:
        os.utime(path, (1, 1))
    index = FileIndex(str(tmp_path))
    hashes = index.digests(paths) if are_hashed else None
    for _ in range(2):
        _, table = FileIndex(str(tmp_path)).describe_images(paths)
        assert table.size.tolist() == [[3, 2], [5, 4]]
        assert table.is_grey.tolist() == [True, False]
        assert table.has_alpha.tolist() == [False, True]
        monkeypatch.setattr(file_index, "read_header", None)
    assert hashes in (None, index.digests(paths))
