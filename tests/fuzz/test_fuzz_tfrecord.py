"""Damaged TFRecord files, from the framing to the pictures inside: accepted or refused."""

from __future__ import annotations

import os
import struct
import sys
import zlib

import numpy as np
import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st
from mutations import file_names, mutants

from toolkit.data.records.record_files import masked_crc32c

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "data"))
from record_fixtures import example, field, png, record, records  # noqa: E402

PICTURES = [example(image__encoded=png(i), image__class__label=i % 2) for i in range(6)]
NUMBERS = [
    example(a=i, f=np.arange(3) / 2, s=np.arange(i % 3), label="ab"[i % 2]) for i in range(6)
]
RAW = [example(image_raw=bytes(6), height=2, width=3, label=i % 2) for i in range(6)]
KINDS = {"pictures": PICTURES, "numbers": NUMBERS, "raw": RAW}


def pack_gzip(content):
    """The bytes of a GZIP file without a time, so that a failure can be repeated."""
    stream = zlib.compressobj(wbits=31)
    return stream.compress(content) + stream.flush()


PACKERS = {"plain": bytes, "gzip": pack_gzip, "zlib": zlib.compress}


@pytest.fixture
def check(tmp_path, monkeypatch):
    """`check(bytes)`: check a file of records."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.tfrecord"

    def call(content, *argv, codes=(0, 4)):
        path.write_bytes(content)
        return run_and_check("data", "check", f"tfrecord:{path}", *argv, codes=codes)

    return call


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_intact_file_is_accepted(check, kind, pack):
    check(PACKERS[pack](records(*KINDS[kind])), codes=(0,))


@pytest.mark.parametrize("pack", PACKERS)
@fuzz
@given(st.data())
def test_damaged_bytes_are_refused(check, pack, data):
    content = PACKERS[pack](records(*PICTURES))
    result = check(data.draw(mutants(content, records(*RAW))))
    assert not result.code or "a.tfrecord" in result.err


@pytest.mark.parametrize("kind", KINDS)
@fuzz
@given(st.data())
def test_a_damaged_message_with_right_checksums_is_accepted_or_refused(check, kind, data):
    contents = list(KINDS[kind])
    number = data.draw(st.sampled_from([0, 3]))
    contents[number] = data.draw(mutants(contents[number], PICTURES[0]))
    check(records(*contents), codes=(0, 2, 4))


@fuzz
@given(mutants(png(1)), st.sampled_from([0, 3]))
def test_a_damaged_picture_is_accepted_or_refused_by_record(check, content, number):
    pictures = list(PICTURES)
    pictures[number] = example(image__encoded=content, image__class__label=1)
    result = check(records(*pictures), "--image-size", "4")
    assert not result.code or f"record {number}" in result.err


SIZES = st.sampled_from([0, 1, 7, 2**16, 2**31, 2**32, 2**60, 2**63, 2**64 - 1])


@fuzz
@given(SIZES, st.binary(max_size=40))
@case(2**60, b"")
def test_any_length_with_the_right_checksum_is_refused(check, length, content):
    header = struct.pack("<Q", length)
    check(header + struct.pack("<I", masked_crc32c(header)) + content)
    check(records(*RAW) + header + struct.pack("<I", masked_crc32c(header)) + content)


NUMBERS_OF_SIZES = st.integers(-2, 4) | st.sampled_from([2**31, 2**62, -(2**63), 2**63 - 1])


@fuzz
@given(NUMBERS_OF_SIZES, NUMBERS_OF_SIZES, st.integers(-1, 4), st.binary(max_size=12))
def test_any_size_of_raw_pixels_is_accepted_or_refused(check, height, width, depth, content):
    values = {"height": height, "width": width, "depth": depth, "label": 1}
    check(records(example(image_raw=content, **values)))
    values_of_first = {"height": 2, "width": 3, "depth": 1, "label": 0}
    first = example(image_raw=bytes(6), **values_of_first)
    check(records(first, example(image_raw=content, **values)))


VALUES = (
    st.integers(-(2**63), 2**63 - 1)
    | st.lists(st.integers(-2, 300), min_size=1, max_size=3)
    | st.floats(width=32)
    | st.binary(max_size=6)
    | st.lists(st.binary(max_size=3), min_size=1, max_size=2)
)
KEYS = st.sampled_from(
    ["label", "image", "image__class__label", "image__class__text", "a", "b", ""]
)


@fuzz
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=4))
@case([{"image__class__label": 0, "a": 0, "image__class__text": b"\x80"}])
@case([{"image__class__text": 0, "label": 0}])
def test_any_keys_and_values_are_accepted_or_refused(check, rows):
    check(records(*(example(**row) for row in rows)), codes=(0, 4))


@fuzz
@given(st.binary(max_size=30))
@case(b"\x0a\x00")
@case(field(1, field(1, b"")))
def test_any_message_is_accepted_or_refused(check, content):
    check(record(content))
    check(records(*NUMBERS, content), codes=(4,))


NAMES = st.sampled_from(["train-0", "test-0", "val", "a-00000-of-00002", "a-000-of-99999999999"])


@fuzz
@given(st.lists(st.tuples(NAMES | file_names(), st.booleans()), min_size=1, max_size=5))
def test_any_names_are_accepted_or_refused(tmp_path, monkeypatch, files):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "records"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, is_empty in files:
        try:
            (folder / name).write_bytes(b"" if is_empty else records(*RAW))
        except (OSError, ValueError):  # a name that this file system refuses
            continue
    run_and_check("data", "check", f"tfrecord:{folder}", codes=(0, 4))
    run_and_check("data", "check", f"tfrecord:{folder}/*", codes=(0, 4))
