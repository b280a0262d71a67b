"""A model that was trained on TFRecord files: other files are evaluated and predicted on."""

from __future__ import annotations

import io
import json
import os
import sys

import numpy as np
import pytest
from linear_fixtures import LINEAR
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "data"))
from record_fixtures import example, records  # noqa: E402

from toolkit.cli import run_command  # noqa: E402
from toolkit.data.held_out import NOTHING  # noqa: E402
from toolkit.data.sources import ColumnOptions, ImageOptions, open_data  # noqa: E402
from toolkit.data.spec import DataSpec  # noqa: E402
from toolkit.errors import DataError  # noqa: E402
from toolkit.inference.record_examples import read_record_examples  # noqa: E402

COUNT = 60


def bar(label, seed, size=6):
    """A PNG file with a bright bar whose place tells the label."""
    pixels = np.random.RandomState(seed).randint(0, 40, (size, size)).astype(np.uint8)
    pixels[:, 2 * label * size // 6] = 250
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write(path, labels, first=0, key="picture"):
    contents = [
        example(**{key: bar(label, first + i), "kind": 1 + label}) for i, label in enumerate(labels)
    ]
    with open(path, "wb") as file:
        file.write(records(*contents))


def train():
    """A run on records with keys of their own, and labels from 1."""
    for number in range(2):
        write(f"bars-{number:05d}-of-00002", [i % 3 for i in range(COUNT)], 100 * number)
    argv = ["--data", "tfrecord:bars-*", "--image-column", "picture", "--label-column", "kind"]
    argv += ["--steps", "150", "--learning-rate", "0.5"]
    assert run_command(["run", "--plugin", LINEAR, *argv, "--run-dir", "run"]) == 0


@pytest.fixture
def run(made_once, here, monkeypatch):
    monkeypatch.chdir(made_once(train))


def test_other_records_are_evaluated_by_the_same_keys_and_classes(cli, run):
    write("other", [1, 2] * 10, first=1000)  # without the first class
    result = cli("evaluate", "run", "--json", "--data", "tfrecord:other")
    assert result.code == 0, result.err
    values = json.loads(result.out)
    assert values["metrics"]["accuracy"] == 1.0 and values["examples"] == 20


def test_records_are_predicted_on_without_labels(cli, run):
    labels = [2, 0, 1]
    with open("new.tfrecord", "wb") as file:
        file.write(records(*(example(picture=bar(label, 5000)) for label in labels)))
    result = cli("predict", "run", "new.tfrecord", "--json")
    assert result.code == 0, result.err
    assert [row["label"] for row in json.loads(result.out)] == labels


def test_records_of_other_keys_are_refused_by_predict(cli, run):
    write("new.tfrecord", [0, 1], key="photo")
    result = cli("predict", "run", "new.tfrecord")
    assert (
        result.code == 4 and "expected the key 'picture', found the keys kind, photo" in result.err
    )


def write_numbers(path, names, count=COUNT):
    """Records of numbers by name, and two keys that could be labels."""
    contents = [
        example(label=i % 3, kind=i % 2, **{name: float(i % 3) + j for j, name in enumerate(names)})
        for i in range(count)
    ]
    with open(path, "wb") as file:
        file.write(records(*contents))


def train_on_numbers():
    write_numbers("abc.tfrecord", "abc")
    argv = ["--data", "tfrecord:abc.tfrecord", "--ignore-columns", "kind", "--steps", "2"]
    assert run_command(["run", "--plugin", LINEAR, *argv, "--run-dir", "run"]) == 0


@pytest.fixture
def run_on_numbers(made_once, here, monkeypatch):
    monkeypatch.chdir(made_once(train_on_numbers))


def test_records_of_other_numbers_are_refused_by_name(cli, run_on_numbers):
    write_numbers("other.tfrecord", ["a", "b", "zzz"])
    for argv in (["evaluate", "run", "--data", "tfrecord:other.tfrecord"], ["predict", "run"]):
        result = cli(*argv, *(["other.tfrecord"] if argv[0] == "predict" else []))
        assert result.code == 4, result.out
        assert "expected the key 'c', found the keys a, b, kind, label, zzz" in result.err


def test_numbers_are_read_by_their_keys_beside_others(cli, run_on_numbers):
    write_numbers("more.tfrecord", ["a", "b", "c", "zzz"])
    rows = [cli("predict", "run", f"{name}.tfrecord", "--json").out for name in ("abc", "more")]
    assert json.loads(rows[0]) and rows[0] == rows[1].replace("more", "abc")
    results = [
        json.loads(cli("evaluate", "run", "--data", f"tfrecord:{name}.tfrecord", "--json").out)
        for name in ("abc", "more")
    ]
    assert results[1]["examples"] == COUNT


@pytest.mark.parametrize("label", ["none", "kind", "label"])
def test_the_training_file_is_predicted_on_whatever_its_label(here, label):
    write_numbers("abc.tfrecord", "abc")
    columns = ColumnOptions(label_column=(label,))
    data = open_data("tfrecord:abc.tfrecord", columns=columns, shares=NOTHING)
    spec = DataSpec.from_json(json.loads(json.dumps(data.spec._asdict())))
    examples = read_record_examples(["abc.tfrecord"], spec, ImageOptions())
    np.testing.assert_array_equal(examples.inputs, data.splits["train"].features)


def test_records_are_read_by_the_columns_of_a_table(here):
    with open("abc.csv", "w") as file:
        file.write("c,a,label\n" + "".join(f"{i * 0.5},{i * 1.25},{i % 3}\n" for i in range(9)))
    spec = open_data("table:abc.csv", shares=NOTHING).spec
    write_numbers("abc.tfrecord", "abc", 3)
    features = read_record_examples(["abc.tfrecord"], spec, ImageOptions()).inputs
    assert features.tolist() == [[2, 0], [3, 1], [4, 2]]
    write_numbers("ab.tfrecord", "ab", 3)
    with pytest.raises(DataError, match="expected the key 'c', found the keys a, b"):
        read_record_examples(["ab.tfrecord"], spec, ImageOptions())


def test_changed_shards_are_refused_by_a_resume(cli, run):
    write("bars-00001-of-00002", [0] * COUNT)
    result = cli("resume", "run", "--steps", "160", "--allow", "steps")
    assert result.code == 4 and "bars-00001-of-00002" in result.err
