"""Hashes of many files: one hash of them in what a run records, and a list that names them."""

import shutil
import subprocess

import numpy as np
import pytest
from data_fixtures import refusal_of
from file_fixtures import read_json
from linear_fixtures import Linear
from PIL import Image
from run_fixtures import sessions

from toolkit import testing
from toolkit.data.examples import Dataset
from toolkit.data.same_data import ALL_FILES, check_same_data, read_list, summarize, write_list
from toolkit.data.spec import DataSpec

MANY = {f"cat/{i}.png": f"{i:064x}" for i in range(30)}
NAMES = ["a", "two words", "ümlaut", "\udcff", " "]


def test_a_few_hashes_stay_and_many_become_one_that_depends_on_each():
    few = dict(list(MANY.items())[:20])
    assert summarize(few) == few and summarize({}) == {}
    one = summarize(MANY)
    assert list(one) == [ALL_FILES] and summarize(one) == one
    assert summarize(dict(reversed(list(MANY.items())))) == one
    assert summarize(dict(MANY, **{"cat/3.png": "f" * 64})) != one


def test_a_list_of_any_names_is_read_back_and_checked_by_sha256sum(tmp_path):
    hashes = {name: f"{i:064x}" for i, name in enumerate(NAMES)}
    write_list(str(tmp_path / "list"), hashes)
    assert read_list(str(tmp_path / "list")) == hashes
    for name in NAMES:
        (tmp_path / name).write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    write_list(str(tmp_path / "list"), dict.fromkeys(NAMES, empty))
    if shutil.which("sha256sum"):
        subprocess.check_output(["sha256sum", "--check", "--strict", "list"], cwd=str(tmp_path))


@pytest.mark.parametrize("content", [b"no hash\n", b"0" * 64 + b" name\n", b"\xff\n"])
def test_a_damaged_list_is_none(tmp_path, content):
    (tmp_path / "list").write_bytes(content)
    assert read_list(str(tmp_path / "list")) == {} == read_list(str(tmp_path / "missing"))


def difference(record, hashes, path):
    dataset = Dataset("images:x", DataSpec((1,), "uint8"), {}, {"a": "a"}, sha256=hashes)
    facts = {"sha256": record, "partition": dataset.partition()}
    return refusal_of(check_same_data, facts, dataset, path)


@pytest.mark.parametrize(
    "other, text",
    [
        (dict(MANY, **{"cat/30.png": "0" * 64}), "cat/30.png is new"),
        (dict(list(MANY.items())[1:]), "cat/0.png is missing"),
        (dict(MANY, **{"cat/3.png": "f" * 64}), f"cat/3.png has SHA-256 {'f' * 64}, expected"),
    ],
)
def test_the_list_names_the_file_that_differs(tmp_path, other, text):
    path = str(tmp_path / "list")
    assert "all files has SHA-256" in difference(summarize(MANY), other, path)  # without a list
    write_list(path, MANY)
    assert text in difference(summarize(MANY), other, path)
    write_list(path, {"other": "0" * 64})  # that of other data
    assert "all files has SHA-256" in difference(summarize(MANY), other, path)


def test_a_run_records_one_hash_of_many_images(tmp_path):
    for number in range(40):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.RandomState(number).randint(0, 256, (4, 4)).astype(np.uint8)
        Image.fromarray(pixels).save(str(folder / f"{number}.png"))
    run = tmp_path / "run"
    testing.train(Linear, str(run), data=f"images:{tmp_path}/images", steps=2, batch_size=8)
    record = read_json(run, "manifest.json")["data"]["sha256"]
    hashes = read_list(str(run / "data.sha256"))
    assert record == sessions(run)[0]["data"] == summarize(hashes) and list(record) == [ALL_FILES]
    assert len(hashes) == 40 and "a/0.png" in hashes
