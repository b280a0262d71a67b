"""Damaged image files, and odd folders: accepted or refused by name, never a traceback."""

from __future__ import annotations

import io
import os
import shutil
import struct
import zlib

import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import file_names, mutants
from PIL import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "PPM", "WEBP")


def image_bytes(form, mode="RGB", size=(6, 5)):
    """The content of an image file with a gradient."""
    image = Image.new("L", size)
    image.putdata([40 * (i % size[0]) for i in range(size[0] * size[1])])
    stream = io.BytesIO()
    image.convert(mode).save(stream, form)
    return stream.getvalue()


def chunk(kind, content):
    """A chunk of a PNG file, with its checksum."""
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png(width, height, depth=8, kind=0, rows=b""):
    """A PNG file with any header, with correct checksums."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + body


INTACT = {form: image_bytes(form) for form in FORMATS}


@pytest.fixture
def check(tmp_path):
    """`check(bytes)`: check a folder with that file and an intact one, one class each."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()

    def call(content, *argv, codes=(0, 4)):
        (tmp_path / "cat" / "intact.png").write_bytes(INTACT["PNG"])
        (tmp_path / "dog" / "mutant.png").write_bytes(content)
        return run_and_check("data", "check", f"images:{tmp_path}", *argv, codes=codes)

    return call


@pytest.mark.parametrize("form", FORMATS)
def test_an_intact_file_of_each_format_is_accepted(check, form):
    check(INTACT[form], "--image-size", 4, codes=(0,))


@pytest.mark.parametrize("form", FORMATS)
@fuzz
@given(st.data())
def test_a_damaged_file_is_accepted_or_refused(check, form, data):
    content = data.draw(mutants(INTACT[form], INTACT["PNG"]))
    result = check(content, "--image-size", 4)
    assert not result.code or "dog/mutant.png" in result.out + result.err


@fuzz
@given(st.sampled_from(FORMATS), st.data())
def test_a_damaged_file_of_another_size_is_accepted_or_refused(check, form, data):
    check(data.draw(mutants(INTACT[form])))


EDGES = st.integers(0, 9) | st.sampled_from([2**14, 2**16, 2**31 - 1, 2**31, 2**32 - 1])


@fuzz
@given(EDGES, EDGES, st.sampled_from([1, 2, 4, 8, 16, 3]), st.integers(0, 6), st.binary())
@example(6, 1, 8, 0, b"\0" + bytes(6))
@example(50000, 50000, 8, 2, b"")
@example(9000, 9900, 1, 0, b"")
@example(13000, 13000, 8, 2, b"")
def test_any_header_of_a_png_is_accepted_or_refused(check, width, height, depth, kind, rows):
    check(png(width, height, depth, kind, rows), "--image-size", 4)


@fuzz
@given(st.binary(max_size=64))
@example(b"")
@example(b"BM")
@example(b"GIF89a")
@example(b"not an image")
def test_any_bytes_are_refused_by_name(check, content):
    result = check(content, codes=(4,))
    assert "dog/mutant.png" in result.out


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
@pytest.mark.parametrize("channels", ["1", "3"])
def test_each_mode_of_pillow_is_accepted(check, mode, channels):
    form = "TIFF" if mode == "CMYK" else "PNG"
    image = Image.new("I", (6, 5), 9).convert("I" if mode == "I;16" else "L").convert(mode)
    stream = io.BytesIO()
    image.save(stream, form)
    check(stream.getvalue(), "--channels", channels, codes=(0,))


@pytest.mark.parametrize("mode, text", [("I", "32-bit integers"), ("F", "floats from 9 to 9")])
@pytest.mark.parametrize("channels", ["1", "3"])
def test_values_without_a_fixed_range_are_refused_by_name(check, mode, text, channels):
    stream = io.BytesIO()
    Image.new(mode, (6, 5), 9).save(stream, "TIFF")
    result = check(stream.getvalue(), "--channels", channels, codes=(4,))
    assert "dog/mutant.png" in result.out and text in result.out


# --------------------------------------------------------------------------------------- the folder

ENTRIES = ("image", "empty", "text", "folder", "loop", "dangling", "upwards", "pipe")


def create(path, kind, root):
    """Create an entry of a folder. kind: one of ENTRIES. root: the folder of the data set."""
    if kind == "folder":
        os.makedirs(path)
        create(os.path.join(path, "a.png"), "image", root)
    elif kind in ("loop", "dangling", "upwards"):
        target = {"loop": path, "dangling": path + "-gone", "upwards": root}[kind]
        os.symlink(target, path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with open(path, "wb") as file:
            file.write({"image": INTACT["PNG"], "empty": b"", "text": b"text"}[kind])


NAMES = st.sampled_from(["train", "test", "Val", "cat", "a.png", ".png", "b.PNG", "c.jpg", "~"])
TREES = st.lists(
    st.tuples(
        st.sampled_from(["", "cat", "train", "train/cat"]),
        NAMES | file_names() | file_names().map(lambda name: name + ".png"),
        st.sampled_from(ENTRIES),
    ),
    max_size=6,
)


@fuzz
@given(TREES)
@example([("", "cat", "folder"), ("", "dog", "folder")])
@example([("", "a.png", "image"), ("", "b.png", "pipe")])
@example([("", "a.png", "image"), ("", "b.png", "dangling")])
@example([("", "a.png", "image"), ("", "cat", "loop")])
@example([("", "cat", "upwards"), ("cat", "a.png", "image")])
def test_any_folder_is_accepted_or_refused(tmp_path, tree):
    root = str(tmp_path / "tree")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for folder, name, kind in tree:
        path = os.path.join(root, folder, name)
        if os.path.lexists(path):
            continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            create(path, kind, root)
        except (OSError, ValueError):  # below a file, or a name that this file system refuses
            continue
    run_and_check("data", "check", "images:" + root, codes=(0, 4))


def test_an_intact_folder_is_accepted(tmp_path):
    create(str(tmp_path / "cat"), "folder", str(tmp_path))
    create(str(tmp_path / "dog"), "folder", str(tmp_path))
    assert "class: cat 1, dog 1" in run_and_check("data", "check", f"images:{tmp_path}").out
