"""Damaged .npz files, from the bytes of the zip to the headers inside: accepted or refused."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import mutants

IMAGES = np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2)
LABELS = np.arange(20) % 4


def npy_bytes(array):
    """The content of an .npy file."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def npy_with_header(text, body=b""):
    """The content of an .npy file with this text as its header."""
    raw = text.encode("latin1", "replace")[:60000] + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + body


def zip_bytes(members, method=zipfile.ZIP_STORED):
    """A zip file of (name, bytes) pairs, with correct checksums."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as file:
        warnings.simplefilter("ignore")  # about duplicate names
        for name, content in members:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            file.writestr(entry, content, compress_type=method)
    return stream.getvalue()


FILES = [("x_train.npy", npy_bytes(IMAGES)), ("y_train.npy", npy_bytes(LABELS))]
INTACT = zip_bytes(FILES)
DEFLATED = zip_bytes(FILES, zipfile.ZIP_DEFLATED)


@pytest.fixture
def check(tmp_path):
    def call(content, codes=(0, 4)):
        (tmp_path / "data.npz").write_bytes(content)
        return run_and_check("data", "check", f"npz:{tmp_path / 'data.npz'}", codes=codes)

    return call


@pytest.mark.parametrize("content", [INTACT, DEFLATED])
def test_the_intact_file_is_accepted(check, content):
    assert "train    16 examples" in check(content, codes=(0,)).out


@fuzz
@given(mutants(INTACT, DEFLATED))
@example(b"junk before the archive" + INTACT)
@example(FILES[0][1] + INTACT)
def test_a_damaged_zip_file_is_accepted_or_refused(check, content):
    check(content)


@fuzz
@given(mutants(DEFLATED, INTACT))
def test_a_damaged_compressed_zip_file_is_accepted_or_refused(check, content):
    check(content)


@fuzz
@given(st.sampled_from(["x_train.npy", "y_train.npy"]), st.data())
def test_a_damaged_array_in_an_intact_zip_file_is_accepted_or_refused(check, name, data):
    members = dict(FILES)
    members[name] = data.draw(mutants(members[name], npy_bytes(IMAGES.astype(">f4"))))
    check(zip_bytes(members.items()))


SIZES = st.integers(-2, 20) | st.sampled_from([10**6, 2**31, 2**40, 2**63 - 1, 2**63, 10**30])
DESCRIPTIONS = st.sampled_from(
    ["|u1", "<f4", ">f8", "<i8", "|b1", "|O", "|V0", "<U0", "<U3", "|S0", "|S4", "<M8[s]", "<c8"]
    + ["<f2", "<u8", "|V3", "<f16", "int", "object", "x"]
)


@fuzz
@given(
    st.sampled_from(["x_train", "y_train"]),
    DESCRIPTIONS.map(repr) | st.just("[('a', '<i4'), ('b', '|u1')]") | st.text(max_size=10),
    st.sampled_from(["True", "False", "None"]),
    st.lists(SIZES, max_size=4).map(lambda shape: repr(tuple(shape))) | st.text(max_size=10),
    st.binary(max_size=64),
)
@example("x_train", "'|u1'", "False", "(20, 2, 2)", IMAGES.tobytes())
@example("x_train", "'|u1'", "False", f"({10**12}, 28, 28)", b"")
@example("x_train", "'|V0'", "False", f"({10**12},)", b"")
@example("x_train", "'<U0'", "False", f"({10**12}, 2)", b"")
@example("x_train", "'|u1'", "False", "(20, 0)", b"")
@example("x_train", "'|u1'", "False", f"({'(' * 3000 + ')' * 3000})", b"")
@example("x_train", "'|u1'", "False", "(20L, 2L, 2L)", IMAGES.tobytes())
def test_any_header_of_an_array_is_accepted_or_refused(check, name, kind, order, shape, body):
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}"
    members = dict(FILES)
    members[name + ".npy"] = npy_with_header(text, body)
    check(zip_bytes(members.items()))


@fuzz
@given(st.text(max_size=40))
def test_any_text_in_place_of_a_header_is_accepted_or_refused(check, text):
    check(zip_bytes([("x_train.npy", npy_with_header(text))]))


KEYS = ["x_train", "y_train", "x_test", "y_test", "x_val", "y_val", "images", "labels", "x", "y"]
TYPES = ["uint8", "int8", "int64", "uint64", "float16", "float32", "float64", "longdouble"]
TYPES += ["complex64", "bool", "U3", "S2", "O", "M8[s]"]


@st.composite
def arrays(draw):
    """An array of a type and shape that a user might save."""
    kind = draw(st.sampled_from(TYPES))
    shape = draw(st.lists(st.integers(0, 6), max_size=5))
    count = int(np.prod(shape, dtype=int))
    value = draw(st.sampled_from([0, 1, 2, 127, 2**20, 2**31, 2**62]))
    step = draw(st.sampled_from([0, 1, -1]))
    values = [value + step * i for i in range(count)]
    with np.errstate(all="ignore"):
        return np.array(values, "uint64" if step >= 0 else "int64").astype(kind).reshape(shape)


@fuzz
@given(st.dictionaries(st.sampled_from(KEYS), arrays(), max_size=5))
@example({"x_train": IMAGES, "y_train": LABELS})
@example({"x": np.full([3, 2], 1e300), "y": np.arange(3)})
@example({"x": IMAGES, "y": np.full(20, 2**31 - 1)})
@example({"x": np.array([{}, []], object)})
def test_arrays_of_any_type_and_shape_are_accepted_or_refused(check, arrays_by_name):
    check(zip_bytes([(name + ".npy", npy_bytes(array)) for name, array in arrays_by_name.items()]))


NAMED = ["x_left", "x_right", "y_mask", "x_train_left", "x_train_words", "x_train_words_length"]
NAMED += ["y_train_mask", "x_test_left", "X_LEFT", "x_", "x_train_"]


@fuzz
@given(st.dictionaries(st.sampled_from(NAMED + KEYS), arrays(), max_size=5))
@example({"x_left": IMAGES, "x_right": IMAGES / np.float32(2), "y": LABELS})
@example({"x_train_words": np.array(["a", "b"] * 10), "y_train_mask": IMAGES})
def test_named_arrays_of_any_type_and_shape_are_accepted_or_refused(check, arrays_by_name):
    check(zip_bytes([(name + ".npy", npy_bytes(array)) for name, array in arrays_by_name.items()]))


@fuzz
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x_train.npy", "x_train", "y_train.npy", "../x_train.npy", "/"])
            | st.text(max_size=8),
            st.sampled_from(
                [npy_bytes(IMAGES), npy_bytes(LABELS), npy_bytes(np.array(3)), b"", b"text"]
            ),
        ),
        max_size=5,
    )
)
@example([("x_train", b"no array")])
def test_members_of_any_name_are_accepted_or_refused(check, members):
    try:
        content = zip_bytes(members)
    except (ValueError, IndexError):  # names that zipfile refuses
        return
    check(content)
