"""One hash over a checkpoint's tensors, and where two sets of tensors differ, in words."""

import numpy as np
import pytest

from toolkit import tf
from toolkit.errors import CheckpointError
from toolkit.storage.checkpoint_reader import fingerprint, first_difference, read_tensors


@pytest.fixture
def saved(tmp_path):
    """`saved(name=array, ...)` -> the prefix of a checkpoint that holds these."""

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


def test_what_was_saved_is_read(saved):
    tensors = read_tensors(saved(a=A, b=np.int64(3), c=np.array([b"x", b"yz"])))
    assert sorted(tensors) == ["a", "b", "c"]
    assert tensors["a"].tolist() == [1.0, 2.0] and tensors["a"].dtype == np.float32
    assert tensors["b"].shape == () and tensors["c"].tolist() == [b"x", b"yz"]


def test_equal_tensors_have_equal_fingerprints_wherever_they_are(saved):
    assert fingerprint(saved(a=A, b=A)) == fingerprint(saved(b=A, a=A.copy()))


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
def test_fingerprints_differ_where_anything_does(saved, one, other):
    assert fingerprint(saved(**one)) != fingerprint(saved(**other))


def test_a_fingerprint_is_64_hex_digits_of_names_types_shapes_and_bytes(saved):
    import hashlib

    told = b"a float32 [2]\n\0\0\x80?\0\0\0@" + b"b int64 []\n\x03\0\0\0\0\0\0\0"
    found = fingerprint(saved(a=A, b=np.int64(3)))
    assert found == hashlib.sha256(told).hexdigest()


def test_what_is_no_checkpoint_is_told(saved, tmp_path):
    with pytest.raises(CheckpointError, match="none.ckpt: not a readable checkpoint"):
        fingerprint(str(tmp_path / "none.ckpt"))
    path = saved(a=A)
    with open(path + ".index", "wb") as file:
        file.write(b"nonsense")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        read_tensors(path)


def test_a_changed_byte_of_the_data_is_told(saved):
    path = saved(a=A)
    with open(path + ".data-00000-of-00001", "r+b") as file:
        file.write(b"\x01")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        fingerprint(path)


def differing(**changes):
    return first_difference({"a": A, "b": A}, {**{"a": A, "b": A}, **changes})


def test_equal_sets_have_no_difference():
    assert differing(a=A.copy()) == ""
    assert first_difference({"a": NAN}, {"a": NAN.copy()}) == ""
    assert first_difference({}, {}) == ""


def test_a_tensor_in_one_of_the_two_alone_is_told():
    assert first_difference({"a": A}, {}) == "a is missing"
    assert first_difference({}, {"a": A}) == "a is not expected"


def test_another_type_or_shape_is_told():
    assert differing(a=A.reshape(2, 1)) == "a is float32 [2, 1], expected float32 [2]"
    assert differing(b=A.astype(int)) == "b is int64 [2], expected float32 [2]"


def test_another_number_is_told_with_its_place_and_how_many_there_are():
    expected = "b differs in 1 of 2 numbers, first in number 1: 3.0, expected 2.0"
    assert differing(b=np.array([1, 3], np.float32)) == expected


def test_the_first_by_name_is_told():
    assert differing(a=-A, b=-A).startswith("a differs in 2 of 2 numbers, first in number 0: -1.0")


def test_bits_that_are_no_other_number_are_told_as_that():
    expected = "a differs in the sign of a zero, or in the bits of a nan"
    zero = np.zeros(2, np.float32)
    assert first_difference({"a": zero}, {"a": -zero}) == expected
    assert first_difference({"a": NAN}, {"a": OTHER_NAN}) == expected


def test_a_nan_for_a_number_is_told():
    found = differing(a=np.array([np.nan, 2], np.float32))
    assert found == "a differs in 1 of 2 numbers, first in number 0: nan, expected 1.0"


def test_strings_differ_without_a_number():
    one, other = np.array([b"x"], object), np.array([b"y"], object)
    assert first_difference({"a": one}, {"a": other}) == "a differs"
