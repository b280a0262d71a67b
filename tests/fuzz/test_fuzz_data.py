"""Damaged files of each source of data: accepted or refused in a sentence, never a traceback."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zipfile
import zlib
from typing import Dict, NamedTuple, Tuple

import numpy as np
import pytest
from data_fixtures import gzip_bytes, idx_bytes, zip_bytes
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st
from mutations import json_values, mutants
from PIL import Image
from record_fixtures import example, png, records

# ------------------------------------------------------------------------------------ intact files


def image_bytes(form="PNG", mode="RGB", size=(6, 5)):
    """The content of an image file with a gradient."""
    image = Image.new("L", size)
    image.putdata([40 * (i % size[0]) for i in range(size[0] * size[1])])
    stream = io.BytesIO()
    image.convert(mode).save(stream, form)
    return stream.getvalue()


def saved(array):
    """The content of an .npy file of an array."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def csv_bytes(rows, delimiter=","):
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    return stream.getvalue().encode("utf-8", "replace")


IDX = {
    "train-images-idx3-ubyte": idx_bytes(np.arange(12 * 9, dtype=np.uint8).reshape(12, 3, 3)),
    "train-labels-idx1-ubyte": idx_bytes(np.arange(12, dtype=np.uint8) % 3),
    "t10k-images-idx3-ubyte": idx_bytes(np.arange(4 * 9, dtype=np.uint8).reshape(4, 3, 3)),
    "t10k-labels-idx1-ubyte": idx_bytes((np.arange(4) % 3).astype(">i4"), 12),
}
IMAGES = np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2)
LABELS = np.arange(20) % 4
ARRAYS = {"x_train.npy": saved(IMAGES), "y_train.npy": saved(LABELS)}
ZIPPED = zip_bytes(ARRAYS)
DEFLATED = zip_bytes(ARRAYS, zipfile.ZIP_DEFLATED)
PNG, GREY, PALETTE = image_bytes(), image_bytes(mode="L"), image_bytes(mode="P")
ROWS = [
    {"width": i / 2, "colour": ("red", "blue")[i % 2], "note": f"é {i}", "label": i % 3}
    for i in range(30)
]
TABLE = csv_bytes([list(ROWS[0])] + [list(row.values()) for row in ROWS])
PATHS = csv_bytes([["path", "label"]] + [[f"{i % 2}.png", i % 2] for i in range(20)])
RECORDS = {
    "pictures": [example(image__encoded=png(i), image__class__label=i % 2) for i in range(6)],
    "numbers": [
        example(a=i, f=np.arange(3) / 2, s=np.arange(i % 3), label="ab"[i % 2]) for i in range(6)
    ],
    "raw": [example(image_raw=bytes(6), height=2, width=3, label=i % 2) for i in range(6)],
}


class Data(NamedTuple):
    """Files of a source."""

    value: str  # of `data check`, relative to the folder of the files
    files: Dict[str, bytes]
    damaged: Tuple[str, ...] = ()  # the names of the files to damage; () for all
    other: bytes = b""  # for splices
    flags: Tuple[str, ...] = ()  # of `data check`
    codes: Tuple[int, ...] = (0, 4)  # its exit codes where a file is damaged
    is_named: bool = False  # whether each refusal names the damaged file


def folder(content, *flags):
    """Two classes, an intact picture of the one and `content` of the other."""
    files = {"cat/intact.png": PNG, "dog/mutant.png": content}
    return Data("images:", files, ("dog/mutant.png",), PNG, flags, is_named=bool(flags))


def pairs(first, second, content=GREY):
    files = {f"{first}/{i}.png": PNG for i in range(4)}
    files.update({f"{second}/{i}.png": GREY for i in range(4)})
    files[f"{second}/2.png"] = content
    return Data("pairs:", files, (f"{second}/2.png",), PALETTE, is_named=True)


def table(content, ending="csv", *flags):
    files = {f"t.{ending}": content, "0.png": PNG, "1.png": PNG}
    return Data(f"table:t.{ending}", files, (f"t.{ending}",), TABLE, flags, (0, 2, 4))


def shard(content, *flags):
    raw = records(*RECORDS["raw"])
    return Data("tfrecord:a.tfrecord", {"a.tfrecord": content}, (), raw, flags, is_named=True)


INTACT = {
    "idx": Data("idx:", IDX, (), IDX["train-labels-idx1-ubyte"]),
    "idx.gz": Data("idx:", {f"{name}.gz": gzip_bytes(content) for name, content in IDX.items()}),
    "npz": Data("npz:a.npz", {"a.npz": ZIPPED}, (), DEFLATED),
    "deflated npz": Data("npz:a.npz", {"a.npz": DEFLATED}, (), ZIPPED),
    **{
        form: folder(image_bytes(form), "--image-size", "4")
        for form in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "PPM", "WEBP")
    },
    "images of one size": folder(image_bytes("JPEG")),
    "masks": pairs("images", "masks"),
    "palettes": pairs("images", "masks", PALETTE),
    "pictures": pairs("a", "b", PNG),
    "domains": pairs("trainA", "trainB"),
    "csv": table(TABLE),
    "jsonl": table("".join(json.dumps(row) + "\n" for row in ROWS).encode(), "jsonl"),
    "paths": table(PATHS),
    **{f"records of {name}": shard(records(*messages)) for name, messages in RECORDS.items()},
    "gzip of records": shard(gzip_bytes(records(*RECORDS["pictures"]))),
    "zlib of records": shard(zlib.compress(records(*RECORDS["pictures"]))),
}


@pytest.fixture
def check(tmp_path, monkeypatch):
    """`check(data, {name: bytes})`: run `data check` on these data, with some files replaced."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "data"

    def call(data, files=(), codes=None):
        shutil.rmtree(str(root), ignore_errors=True)
        for name, content in {**data.files, **dict(files)}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        value = data.value.replace(":", f":{root}/")
        return run_and_check("data", "check", value, *data.flags, codes=codes or data.codes)

    return call


@pytest.mark.parametrize("kind", INTACT)
def test_intact_files_are_accepted(check, kind):
    assert "train" in check(INTACT[kind], codes=(0,)).out


@pytest.mark.parametrize("kind", INTACT)
@fuzz
@given(st.data())
def test_damaged_bytes_are_accepted_or_refused(check, kind, data):
    intact = INTACT[kind]
    name = data.draw(st.sampled_from(intact.damaged or sorted(intact.files)))
    result = check(intact, {name: data.draw(mutants(intact.files[name], intact.other))})
    assert not result.code or not intact.is_named or name in result.out + result.err


# Parts of files, and what makes whole files of them.
WRAPPED = {
    "gzip": (list(IDX.values()), lambda parts: Data("idx:", dict(zip(GZ, map(gzip_bytes, parts))))),
    "zip": (
        [*ARRAYS.values(), saved(IMAGES.astype(">f4"))],
        lambda parts: Data("npz:a.npz", {"a.npz": zip_bytes(dict(zip(ARRAYS, parts)))}),
    ),
    **{
        name: (messages, lambda parts: shard(records(*parts))) for name, messages in RECORDS.items()
    },
}
GZ = [f"{name}.gz" for name in IDX]


@pytest.mark.parametrize("kind", WRAPPED)
@fuzz
@given(st.data())
def test_a_damaged_part_with_right_checksums_is_accepted_or_refused(check, kind, data):
    parts, wrap = WRAPPED[kind]
    number = data.draw(st.sampled_from(range(len(parts))))
    mutant = data.draw(mutants(parts[number], parts[-1]))
    check(wrap([*parts[:number], mutant, *parts[number + 1 :]]), codes=(0, 2, 4))


@pytest.mark.parametrize("kind", ["idx", "npz", "PNG", "masks", "csv", "jsonl", "records of raw"])
@fuzz
@given(st.binary(max_size=60))
@case(b"")
@case(b"BM")
@case(b"GIF89a")
@case(b"\xef\xbb\xbf")
@case(b"a\n")
@case(b"\xff\xfea\x00\n\x00")
@case(b'"')
@case(b"[]\n")
@case(b"{}\n")
@case(b"{" * 50)
@case(b"[" * 5000)
@case(b"1" * 5000)
def test_any_bytes_are_refused(check, kind, content):
    intact = INTACT[kind]
    name = (intact.damaged or tuple(intact.files))[0]
    result = check(intact, {name: content}, codes=(0, 2, 4) if "table" in intact.value else (4,))
    assert not intact.is_named or name in result.out + result.err


# ------------------------------------------------------------------------------------------ tables

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
def test_any_fields_are_accepted_or_refused(check, heads, rows, delimiter, flags):
    check(table(csv_bytes([heads, *rows], delimiter), "csv", *flags))


VALUES = json_values()


@fuzz
@given(st.lists(st.dictionaries(HEADS, VALUES, max_size=4) | VALUES, min_size=1, max_size=6))
def test_any_json_values_are_accepted_or_refused(check, rows):
    check(table("".join(json.dumps(row) + "\n" for row in rows).encode(), "jsonl"))


FEATURES = (
    st.integers(-(2**63), 2**63 - 1)
    | st.lists(st.integers(-2, 300), min_size=1, max_size=3)
    | st.floats(width=32)
    | st.binary(max_size=6)
    | st.lists(st.binary(max_size=3), min_size=1, max_size=2)
)
RECORD_KEYS = st.sampled_from(
    ["label", "image", "image__class__label", "image__class__text", "a", "b", ""]
)


@fuzz
@given(st.lists(st.dictionaries(RECORD_KEYS, FEATURES, max_size=4), min_size=1, max_size=4))
@case([{"image__class__label": 0, "a": 0, "image__class__text": b"\x80"}])
@case([{"image__class__text": 0, "label": 0}])
def test_any_keys_and_values_are_accepted_or_refused(check, rows):
    check(shard(records(*(example(**row) for row in rows))))
