"""One hash over a checkpoint's tensors, and where two sets of tensors differ, in words."""

import numpy as np
import pytest

from toolkit import tf
from toolkit.errors import CheckpointError
from toolkit.storage.checkpoint_reader import fingerprint, first_difference, read_tensors


@pytest.fixture
def save_checkpoint(tmp_path):
    """`save_checkpoint(name=array, ...)` -> the prefix of a checkpoint that holds these."""

    def save(**arrays):
        path = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.ckpt")
        with tf.Graph().as_default(), tf.Session() as session:
            names, values = zip(*sorted(arrays.items()))
            slices = [""] * len(names)
            session.run(
                tf.raw_ops.SaveV2(
                    prefix=path,
                    tensor_names=list(names),
                    shape_and_slices=slices,
                    tensors=[tf.constant(v) for v in values],
                )
            )
        return path

    return save


A = np.array([1.0, 2.0], np.float32)


def test_saved_tensors_are_read_back(save_checkpoint):
    tensors = read_tensors(save_checkpoint(a=A, b=np.int64(3), c=np.array([b"x", b"yz"])))
    assert sorted(tensors) == ["a", "b", "c"]
    assert tensors["a"].tolist() == [1.0, 2.0] and tensors["a"].dtype == np.float32
    assert tensors["b"].shape == () and tensors["c"].tolist() == [b"x", b"yz"]


def test_equal_tensors_have_equal_fingerprints_in_any_file_and_order(save_checkpoint):
    assert fingerprint(save_checkpoint(a=A, b=A)) == fingerprint(save_checkpoint(b=A, a=A.copy()))


NAN = np.array([0x7FC00000], np.uint32).view(np.float32)
OTHER_NAN = np.array([0x7FC00001], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "one, other",
    [
        ({"a": A}, {"b": A}),  # the name
        ({"a": A}, {"a": A, "b": A}),
        ({"a": A}, {"a": A.astype(np.float64)}),  # the type
        ({"a": A}, {"a": A.view(np.int32)}),  # of the same bytes
        ({"a": A}, {"a": A.reshape(2, 1)}),  # the shape
        ({"a": A[:0]}, {"a": A[:0].reshape(0, 1)}),
        ({"a": A}, {"a": np.nextafter(A, np.float32(9))}),  # a bit
        ({"a": np.float32(0.0)}, {"a": np.float32(-0.0)}),
        ({"a": NAN}, {"a": OTHER_NAN}),
        ({"a": np.array([b"ab", b"c"])}, {"a": np.array([b"a", b"bc"])}),
        ({"a": np.array(True)}, {"a": np.array(False)}),
    ],
)
def test_any_difference_changes_the_fingerprint(save_checkpoint, one, other):
    assert fingerprint(save_checkpoint(**one)) != fingerprint(save_checkpoint(**other))


def test_a_fingerprint_is_64_hex_digits_of_names_types_shapes_and_bytes(save_checkpoint):
    import hashlib

    content = b"a float32 [2]\n\0\0\x80?\0\0\0@" + b"b int64 []\n\x03\0\0\0\0\0\0\0"
    difference = fingerprint(save_checkpoint(a=A, b=np.int64(3)))
    assert difference == hashlib.sha256(content).hexdigest()


def test_a_missing_or_unreadable_checkpoint_is_an_error(save_checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match="none.ckpt: not a readable checkpoint"):
        fingerprint(str(tmp_path / "none.ckpt"))
    path = save_checkpoint(a=A)
    with open(path + ".index", "wb") as file:
        file.write(b"nonsense")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        read_tensors(path)


def test_a_changed_byte_of_the_data_is_an_error(save_checkpoint):
    path = save_checkpoint(a=A)
    with open(path + ".data-00000-of-00001", "r+b") as file:
        file.write(b"\x01")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        fingerprint(path)


def compare(**changes):
    return first_difference({"a": A, "b": A}, {**{"a": A, "b": A}, **changes})


def test_equal_sets_have_no_difference():
    assert compare(a=A.copy()) == ""
    assert first_difference({"a": NAN}, {"a": NAN.copy()}) == ""
    assert first_difference({}, {}) == ""


def test_a_tensor_in_only_one_set_is_reported():
    assert first_difference({"a": A}, {}) == "a is missing"
    assert first_difference({}, {"a": A}) == "a is not expected"


def test_another_dtype_or_shape_is_reported():
    assert compare(a=A.reshape(2, 1)) == "a is float32 [2, 1], expected float32 [2]"
    assert compare(b=A.astype(int)) == "b is int64 [2], expected float32 [2]"


def test_a_different_number_is_reported_with_its_index_and_the_count():
    expected = "b differs in 1 of 2 numbers, first in number 1: 3.0, expected 2.0"
    assert compare(b=np.array([1, 3], np.float32)) == expected


def test_the_first_difference_by_name_is_reported():
    assert compare(a=-A, b=-A).startswith("a differs in 2 of 2 numbers, first in number 0: -1.0")


def test_a_difference_in_bits_of_equal_numbers_is_reported():
    expected = "a differs in the sign of a zero, or in the bits of a nan"
    zero = np.zeros(2, np.float32)
    assert first_difference({"a": zero}, {"a": -zero}) == expected
    assert first_difference({"a": NAN}, {"a": OTHER_NAN}) == expected


def test_a_nan_instead_of_a_number_is_reported():
    difference = compare(a=np.array([np.nan, 2], np.float32))
    assert difference == "a differs in 1 of 2 numbers, first in number 0: nan, expected 1.0"


def test_strings_differ_without_a_number():
    one, other = np.array([b"x"], object), np.array([b"y"], object)
    assert first_difference({"a": one}, {"a": other}) == "a differs"
