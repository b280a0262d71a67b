"""Damaged tables: bytes, fields and columns are accepted or refused, never a traceback."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import mutants
from test_fuzz_images import image_bytes

ROWS = [
    {"width": i / 2, "colour": ("red", "blue")[i % 2], "note": f"é {i}", "label": i % 3}
    for i in range(30)
]


def csv_bytes(rows, delimiter=","):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerows(rows)
    return stream.getvalue().encode("utf-8", "surrogateescape")


CSV = csv_bytes([list(ROWS[0])] + [list(row.values()) for row in ROWS])
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
INTACT = {"csv": CSV, "jsonl": JSON_LINES}
PICTURES = csv_bytes([["path", "label"]] + [[f"{i % 2}.png", i % 2] for i in range(20)])


@pytest.fixture
def check(tmp_path, monkeypatch):
    """`check(bytes, ending)`: check a table."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    for i in range(2):
        (tmp_path / f"{i}.png").write_bytes(image_bytes("PNG"))

    def call(content, ending="csv", *argv, codes=(0, 2, 4)):
        (tmp_path / f"table.{ending}").write_bytes(content)
        return run_and_check(
            "data", "check", f"table:{tmp_path / 'table'}.{ending}", *argv, codes=codes
        )

    return call


@pytest.mark.parametrize("ending", INTACT)
def test_an_intact_table_is_accepted(check, ending):
    check(INTACT[ending], ending, codes=(0,))


def test_a_table_of_pictures_is_accepted(check):
    check(PICTURES, codes=(0,))


@pytest.mark.parametrize("ending", INTACT)
@fuzz
@given(st.data())
def test_damaged_bytes_are_accepted_or_refused(check, ending, data):
    check(data.draw(mutants(INTACT[ending], INTACT["csv"])), ending)


@fuzz
@given(mutants(PICTURES, CSV))
@example(PICTURES.replace(b"0.png", b"../0.png"))
@example(PICTURES.replace(b"0.png", b"/dev/zero"))
@example(PICTURES.replace(b"0.png", b"0.png\0"))
@example(PICTURES.replace(b"0.png", b"x" * 5000 + b".png"))
def test_damaged_paths_of_pictures_are_accepted_or_refused(check, content):
    check(content)


@pytest.mark.parametrize("ending", INTACT)
@fuzz
@given(st.binary(max_size=60))
@example(b"")
@example(b"\xef\xbb\xbf")
@example(b"a\n")
@example(b"\xff\xfea\x00\n\x00")
@example(b'"')
@example(b"[]\n")
@example(b"{}\n")
@example(b"{" * 50)
@example(b"[" * 5000)
@example(b"1" * 5000)
def test_any_bytes_are_accepted_or_refused(check, ending, content):
    check(content, ending)


FIELDS = st.sampled_from(
    ["", "0", "1", "-1", "1e400", "nan", "inf", "1_0", "0x1", "red", "train", "test", " 1", "1,5"]
) | st.text(max_size=5)
HEADS = st.sampled_from(["label", "split", "path", "a", "b", "", "a b", "é"]) | st.text(max_size=4)


@fuzz
@given(
    st.lists(HEADS, min_size=1, max_size=4),
    st.lists(st.lists(FIELDS, max_size=5), max_size=8),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from([[], ["--label-column", "none"], ["--missing", "fill"], ["--missing", "drop"]]),
)
def test_any_fields_are_accepted_or_refused(check, heads, rows, delimiter, argv):
    content = io.StringIO()
    csv.writer(content, delimiter=delimiter).writerows([heads, *rows])
    check(content.getvalue().encode("utf-8", "replace"), "csv", *argv)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda part: st.lists(part, max_size=3)
    | st.dictionaries(st.text(max_size=2), part, max_size=2),
    max_leaves=4,
)


@fuzz
@given(st.lists(st.dictionaries(HEADS, VALUES, max_size=4) | VALUES, min_size=1, max_size=6))
def test_any_json_values_are_accepted_or_refused(check, rows):
    check("".join(json.dumps(row) + "\n" for row in rows).encode(), "jsonl")
