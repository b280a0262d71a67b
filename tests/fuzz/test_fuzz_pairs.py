"""Damaged pairs of pictures, and odd folders of them: accepted or refused, never a traceback."""

from __future__ import annotations

import os
import shutil

import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import file_names, mutants
from test_fuzz_images import ENTRIES, create, image_bytes

PNG, GREY, PALETTE = image_bytes("PNG"), image_bytes("PNG", "L"), image_bytes("PNG", "P")


@pytest.fixture
def check(tmp_path, monkeypatch):
    """`check(names, right)`: check two folders of pictures, with the bytes of one in the second."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "pairs"

    def call(names, content, codes=(0, 4)):
        shutil.rmtree(root, ignore_errors=True)
        for name in names:
            (root / name).mkdir(parents=True)
            for i in range(4):
                (root / name / f"{i}.png").write_bytes(PNG if name == names[0] else GREY)
        (root / names[1] / "2.png").write_bytes(content)
        return run_and_check("data", "check", f"pairs:{root}", codes=codes)

    return call


@pytest.mark.parametrize("names", [("images", "masks"), ("a", "b"), ("trainA", "trainB")])
def test_intact_pairs_are_accepted(check, names):
    check(names, GREY, codes=(0,))


@pytest.mark.parametrize("names", [("images", "masks"), ("a", "b")])
@fuzz
@given(st.data())
def test_a_damaged_picture_is_accepted_or_refused_by_name(check, names, data):
    source = data.draw(st.sampled_from([GREY, PALETTE, PNG]))
    result = check(names, data.draw(mutants(source, PALETTE)))
    assert not result.code or "2.png" in result.err + result.out


FOLDERS = st.sampled_from(
    ["a", "b", "images", "masks", "train", "train/a", "train/b", "trainA", ""]
)
NAMES = st.sampled_from(["1.png", "1.jpg", "1_mask.png", "2.png", ".png"])


@fuzz
@given(st.lists(st.tuples(FOLDERS, NAMES | file_names(), st.sampled_from(ENTRIES)), max_size=8))
@example([("a", "1.png", "image"), ("b", "1.png", "loop")])
@example([("images", "1.png", "image"), ("masks", "1.png", "empty")])
@example([("a", "1.png", "pipe"), ("b", "1.png", "image")])
def test_any_folders_are_accepted_or_refused(tmp_path, monkeypatch, entries):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    root = str(tmp_path / "tree")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for folder, name, kind in entries:
        path = os.path.join(root, folder, name)
        if os.path.lexists(path):
            continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            create(path, kind, root)
        except (OSError, ValueError):  # below a file, or a name that this file system refuses
            continue
    run_and_check("data", "check", "pairs:" + root, codes=(0, 4))
