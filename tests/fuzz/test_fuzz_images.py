"""Damaged image files and odd folders of them: used or refused, by name, never a traceback."""

from __future__ import annotations

import io
import os
import shutil
import struct
import zlib

import pytest
from fuzz_fixtures import ended, fuzzed
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import file_names, mutated
from PIL import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "PPM", "WEBP")


def drawn(form, mode="RGB", size=(6, 5)):
    """The bytes of an image file of a diagonal shade."""
    image = Image.new("L", size)
    image.putdata([40 * (i % size[0]) for i in range(size[0] * size[1])])
    made = io.BytesIO()
    image.convert(mode).save(made, form)
    return made.getvalue()


def chunk(kind, content):
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png(width, height, depth=8, kind=0, rows=b""):
    """A PNG file whose header says anything, with sound checksums."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + body


SOUND = {form: drawn(form) for form in FORMATS}


@pytest.fixture
def check(tmp_path):
    """`check(bytes)`: with that file besides a sound one, a class each."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()

    def call(content, *argv, codes=(0, 4)):
        (tmp_path / "cat" / "sound.png").write_bytes(SOUND["PNG"])
        (tmp_path / "dog" / "tried.png").write_bytes(content)
        return ended("data", "check", f"images:{tmp_path}", *argv, codes=codes)

    return call


@pytest.mark.parametrize("form", FORMATS)
def test_a_sound_file_of_each_format_is_accepted(check, form):
    check(SOUND[form], "--image-size", 4, codes=(0,))


@pytest.mark.parametrize("form", FORMATS)
@fuzzed
@given(st.data())
def test_a_damaged_file_is_used_or_refused(check, form, data):
    content = data.draw(mutated(SOUND[form], SOUND["PNG"]))
    result = check(content, "--image-size", 4)
    assert not result.code or "dog/tried.png" in result.out + result.err


@fuzzed
@given(st.sampled_from(FORMATS), st.data())
def test_a_damaged_file_of_another_size_is_used_or_refused(check, form, data):
    check(data.draw(mutated(SOUND[form])))


EDGES = st.integers(0, 9) | st.sampled_from([2**14, 2**16, 2**31 - 1, 2**31, 2**32 - 1])


@fuzzed
@given(EDGES, EDGES, st.sampled_from([1, 2, 4, 8, 16, 3]), st.integers(0, 6), st.binary())
@example(6, 1, 8, 0, b"\0" + bytes(6))
@example(50000, 50000, 8, 2, b"")
@example(9000, 9900, 1, 0, b"")
@example(13000, 13000, 8, 2, b"")
def test_any_header_of_a_png_is_used_or_refused(check, width, height, depth, kind, rows):
    check(png(width, height, depth, kind, rows), "--image-size", 4)


@fuzzed
@given(st.binary(max_size=64))
@example(b"")
@example(b"BM")
@example(b"GIF89a")
@example(b"not an image")
def test_any_bytes_are_refused_by_name(check, content):
    result = check(content, codes=(4,))
    assert "dog/tried.png" in result.out


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "CMYK", "F"])
@pytest.mark.parametrize("channels", ["1", "3"])
def test_each_mode_of_pillow_is_accepted(check, mode, channels):
    form = "TIFF" if mode in ("I", "CMYK", "F") else "PNG"
    image = Image.new("I", (6, 5), 9).convert("I" if mode == "I;16" else "L").convert(mode)
    made = io.BytesIO()
    image.save(made, form)
    check(made.getvalue(), "--channels", channels, codes=(0,))


# --------------------------------------------------------------------------------------- the folder

ENTRIES = ("image", "empty", "text", "folder", "loop", "dangling", "upwards", "pipe")


def put(path, kind, root):
    if kind == "folder":
        os.makedirs(path)
        put(os.path.join(path, "a.png"), "image", root)
    elif kind in ("loop", "dangling", "upwards"):
        target = {"loop": path, "dangling": path + "-gone", "upwards": root}[kind]
        os.symlink(target, path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with open(path, "wb") as file:
            file.write({"image": SOUND["PNG"], "empty": b"", "text": b"text"}[kind])


NAMES = st.sampled_from(["train", "test", "Val", "cat", "a.png", ".png", "b.PNG", "c.jpg", "~"])
TREES = st.lists(
    st.tuples(
        st.sampled_from(["", "cat", "train", "train/cat"]),
        NAMES | file_names() | file_names().map(lambda name: name + ".png"),
        st.sampled_from(ENTRIES),
    ),
    max_size=6,
)


@fuzzed
@given(TREES)
@example([("", "cat", "folder"), ("", "dog", "folder")])
@example([("", "a.png", "image"), ("", "b.png", "pipe")])
@example([("", "a.png", "image"), ("", "b.png", "dangling")])
@example([("", "a.png", "image"), ("", "cat", "loop")])
@example([("", "cat", "upwards"), ("cat", "a.png", "image")])
def test_any_folder_is_used_or_refused(tmp_path, tree):
    root = str(tmp_path / "tree")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for folder, name, kind in tree:
        path = os.path.join(root, folder, name)
        if os.path.lexists(path):
            continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            put(path, kind, root)
        except (OSError, ValueError):  # below a file, or no name for this file system
            continue
    ended("data", "check", "images:" + root, codes=(0, 4))


def test_a_sound_folder_is_accepted(tmp_path):
    put(str(tmp_path / "cat"), "folder", str(tmp_path))
    put(str(tmp_path / "dog"), "folder", str(tmp_path))
    assert "class: cat 1, dog 1" in ended("data", "check", f"images:{tmp_path}").out
