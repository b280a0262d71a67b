"""One hash over a checkpoint's tensors, and where two sets of tensors differ, in words."""

import hashlib

import numpy as np
import pytest
from checkpoint_fixtures import save

from toolkit.errors import CheckpointError
from toolkit.storage.checkpoint_reader import fingerprint, first_difference, read_tensors


@pytest.fixture
def save_checkpoint(tmp_path):
    """`save_checkpoint(name=array, ...)` -> the prefix of a checkpoint that holds these."""
    return lambda **arrays: save(tmp_path / f"{len(list(tmp_path.iterdir()))}.ckpt", arrays)


A = np.array([1.0, 2.0], np.float32)
NAN = np.array([0x7FC00000], np.uint32).view(np.float32)
OTHER_NAN = np.array([0x7FC00001], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "one, other",
    [
        ({"a": A}, {"b": A}),  # the name
        ({"a": A}, {"a": A, "b": A}),
        ({"a": A}, {"a": A.view(np.int32)}),  # the type, of the same bytes
        ({"a": A}, {"a": A.reshape(2, 1)}),  # the shape
        ({"a": A}, {"a": np.nextafter(A, np.float32(9))}),  # a bit
        ({"a": np.float32(0.0)}, {"a": np.float32(-0.0)}),
        ({"a": NAN}, {"a": OTHER_NAN}),
        ({"a": np.array([b"ab", b"c"])}, {"a": np.array([b"a", b"bc"])}),
    ],
)
def test_any_difference_changes_the_fingerprint(save_checkpoint, one, other):
    assert fingerprint(save_checkpoint(**one)) != fingerprint(save_checkpoint(**other))


def test_a_fingerprint_is_64_hex_digits_of_names_types_shapes_and_bytes(save_checkpoint):
    content = b"a float32 [2]\n\0\0\x80?\0\0\0@" + b"b int64 []\n\x03\0\0\0\0\0\0\0"
    found = fingerprint(save_checkpoint(a=A, b=np.int64(3)))
    assert found == hashlib.sha256(content).hexdigest()


def test_a_missing_or_unreadable_checkpoint_is_an_error(save_checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match="none.ckpt: not a readable checkpoint"):
        fingerprint(str(tmp_path / "none.ckpt"))
    path = save_checkpoint(a=A)
    with open(path + ".data-00000-of-00001", "r+b") as file:
        file.write(b"\x01")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        read_tensors(path)


ZERO = np.zeros(2, np.float32)
BITS = "a differs in the sign of a zero, or in the bits of a nan"
B, C = np.array([1, 3], np.float32), np.array([np.nan, 2], np.float32)
ONE = "differs in 1 of 2 numbers, first in number"


@pytest.mark.parametrize(
    "found, expected, sentence",
    [
        ({"a": NAN}, {"a": NAN.copy()}, ""),
        ({}, {"a": A}, "a is missing"),
        ({"a": A}, {}, "a is not expected"),
        ({"a": A.reshape(2, 1)}, {"a": A}, "a is float32 [2, 1], expected float32 [2]"),
        # The first by name.
        ({"a": A, "b": B, "c": -A}, {"a": A, "b": A, "c": A}, f"b {ONE} 1: 3.0, expected 2.0"),
        ({"a": C}, {"a": A}, f"a {ONE} 0: nan, expected 1.0"),
        ({"a": -ZERO}, {"a": ZERO}, BITS),
        ({"a": OTHER_NAN}, {"a": NAN}, BITS),
        ({"a": np.array([b"y"], object)}, {"a": np.array([b"x"], object)}, "a differs"),
    ],
)
def test_the_first_difference_is_a_sentence(found, expected, sentence):
    assert first_difference(expected, found) == sentence
