"""Evaluations and predictions on other tables and TFRecord files than those of the training."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from file_fixtures import save_image, trained_on
from inference_fixtures import bar
from linear_fixtures import LINEAR

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), "data"))
from record_fixtures import example, records  # noqa: E402

from toolkit.cli import run_command  # noqa: E402
from toolkit.data.held_out import NOTHING  # noqa: E402
from toolkit.data.sources import ColumnOptions, open_data  # noqa: E402
from toolkit.data.spec import DataSpec  # noqa: E402
from toolkit.errors import DataError  # noqa: E402
from toolkit.inference.predict import as_examples, read_examples  # noqa: E402

TRAINED = "size,colour,label\n1,red,x\n2,blue,y\n4,red,y\n6,blue,x\n"


@pytest.fixture
def table(tmp_path):
    def write(content, name="t.csv"):
        (tmp_path / name).write_text(content)
        return str(tmp_path / name)

    return write


@pytest.fixture
def spec_of(table):
    """`spec_of(categories="one-hot")`: the spec of TRAINED, as a manifest has it."""

    def describe(content=TRAINED, **options):
        value = "table:" + table(content, "trained.csv")
        spec = open_data(value, columns=ColumnOptions(**options), shares=NOTHING).spec
        return DataSpec.from_json(json.loads(json.dumps(spec._asdict())))

    return describe


def read(paths, spec, missing="refuse"):
    return read_examples(trained_on(spec, missing), paths)


def test_rows_are_read_by_the_names_of_their_columns(table, spec_of):
    # The ending may be that of the file of the training.
    path = table("colour,label,size,more\nblue,?,7,1\nred,?,8,1\n", "t.data")
    examples = read([path, path], spec_of())
    assert examples.inputs["numbers"].tolist() == [[7], [8], [7], [8]]
    assert examples.inputs["colour"].tolist() == [0, 1, 0, 1]
    assert examples.names[1] == f"{path}[1]" and len(examples.names) == 4
    spec = spec_of(categories="one-hot")
    assert read([path], spec).inputs.tolist() == [[7, 1, 0], [8, 0, 1]]
    frame = pandas.DataFrame({"colour": ["blue", "red"], "label": None, "size": [7, 8]})
    assert as_examples(trained_on(spec), frame).tolist() == [[7, 1, 0], [8, 0, 1]]


def test_lists_of_one_length_are_sequences_where_those_of_the_model_are(table, spec_of, tmp_path):
    rows = "".join(f'{{"words": {[1] * (1 + i % 2)}, "label": {i % 2}}}\n' for i in range(4))
    paths = [table('{"words": [5, 6, 7]}\n', "a.jsonl"), table('{"words": [8]}\n', "b.jsonl")]
    words = read(paths, spec_of(rows)).inputs["words"]
    assert [part.tolist() for part in words] == [[5, 6, 7], [8]]
    path = str(tmp_path / "t.tfrecord")
    contents = [example(words=[1] * (1 + i % 2), label=i % 2) for i in range(4)]
    for file, some in ((path, contents), (path + "2", contents[:1])):
        write(file, some)
    spec = open_data(f"tfrecord:{path}", shares=NOTHING).spec
    assert [part.tolist() for part in read([path + "2"], spec).inputs["words"]] == [[1]]


def test_files_are_of_one_kind_which_the_model_knows(spec_of, table):
    spec = spec_of()
    with pytest.raises(DataError, match="other files are none"):
        read(["a.JSONL.gz", "a.npz"], spec)
    with pytest.raises(DataError, match="not on a table"):
        read(["a.csv"], spec._replace(table=None))


def test_missing_numbers_get_the_mean_of_the_training(table, spec_of):
    path = table("colour,size\nred,\n")
    spec = spec_of(TRAINED.replace("6,blue", ",blue"), missing="fill")
    assert read([path], spec, "fill").inputs["numbers"][0, 0] == np.float32(7 / 3)
    with pytest.raises(DataError, match="expected a value in 'size', found none") as error:
        read([path], spec)
    assert error.value.hint == (
        "Fill in these fields, or train a model with --missing fill, which does."
    )


COUNT = 60


def picture(label, seed):
    """The bytes of a PNG file."""
    return Path(save_image("bar.png", bar(label, seed))).read_bytes()


def write(path, contents):
    Path(path).write_bytes(records(*contents))


def write_bars(path, labels, first=0):
    """Records of pictures and labels from 1, with keys of their own."""
    pictures = [picture(label, first + i) for i, label in enumerate(labels)]
    write(path, [example(picture=p, kind=1 + label) for p, label in zip(pictures, labels)])


def train():
    for number in range(2):
        write_bars(f"bars-{number:05d}-of-00002", [i % 3 for i in range(COUNT)], 100 * number)
    argv = ["--run-dir", "run", "--data", "tfrecord:bars-*", "--image-column", "picture"]
    argv += ["--label-column", "kind", "--learning-rate", "0.5", "--steps", "150"]
    assert run_command(["run", "--plugin", LINEAR, *argv]) == 0


@pytest.fixture
def run(made_once, here, monkeypatch):
    monkeypatch.chdir(made_once(train))


def test_other_records_are_evaluated_by_the_same_keys_and_classes(cli, run):
    write_bars("other", [1, 2] * 10, first=1000)  # without the first class
    values = cli.succeed("evaluate", "run", "--json", "--data", "tfrecord:other").json()
    assert values["metrics"]["accuracy"] == 1.0 and values["examples"] == 20


def test_records_are_predicted_on_without_labels(cli, run):
    labels = [2, 0, 1]
    write("new.tfrecord", [example(picture=picture(label, 5000)) for label in labels])
    result = cli.succeed("predict", "run", "new.tfrecord", "--json")
    assert [row["label"] for row in json.loads(result.out)] == labels


def write_numbers(path, names, count=COUNT):
    """Records of numbers by name, and two keys that could be labels."""
    values = [{name: float(i % 3) + j for j, name in enumerate(names)} for i in range(count)]
    write(path, [example(label=i % 3, kind=i % 2, **each) for i, each in enumerate(values)])


@pytest.mark.parametrize("label", ["none", "kind"])
def test_numbers_are_read_by_their_keys_beside_others_whatever_the_label(here, label):
    write_numbers("abc.tfrecord", "abc")
    write_numbers("more.tfrecord", ["a", "b", "c", "zzz"])
    columns = ColumnOptions(label_column=(label,))
    data = open_data("tfrecord:abc.tfrecord", columns=columns, shares=NOTHING)
    spec = DataSpec.from_json(json.loads(json.dumps(data.spec._asdict())))
    for name in ("abc", "more"):
        examples = read([f"{name}.tfrecord"], spec)
        np.testing.assert_array_equal(examples.inputs, data.splits["train"].features)
