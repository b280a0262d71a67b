"""Predictions and evaluations on the rows of other tables than the one of the training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from linear_fixtures import LINEAR

from toolkit.data.held_out import NOTHING
from toolkit.data.sources import ColumnOptions, ImageOptions, open_data
from toolkit.data.spec import DataSpec
from toolkit.errors import DataError
from toolkit.inference.table_examples import are_tables, read_table_examples

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
    return read_table_examples(paths, spec, ImageOptions(), missing)


def test_rows_are_read_by_the_names_of_their_columns(table, spec_of):
    path = table("colour,label,size,more\nblue,?,7,1\nred,?,8,1\n")
    examples = read([path, path], spec_of())
    assert examples.inputs["numbers"].tolist() == [[7], [8], [7], [8]]
    assert examples.inputs["colour"].tolist() == [0, 1, 0, 1]
    assert examples.names[1] == f"{path}[1]" and len(examples.names) == 4


def test_one_hot_columns_and_sequences_are_those_of_the_training(table, spec_of):
    path = table("colour,size\nred,7\n")
    assert read([path], spec_of(categories="one-hot")).inputs.tolist() == [[7, 0, 1]]
    rows = "".join(f'{{"ids": {[1] * (1 + i % 2)}, "label": {i % 2}}}\n' for i in range(4))
    path = table('{"ids": [5, 6, 7]}\n{"ids": [8]}\n', "t.jsonl")
    ids = read([path], spec_of(rows)).inputs["ids"]
    assert [part.tolist() for part in ids] == [[5, 6, 7], [8]]


def test_missing_numbers_get_the_mean_of_the_training(table, spec_of):
    path = table("colour,size\nred,\n")
    spec = spec_of(TRAINED.replace("6,blue", ",blue"), missing="fill")
    assert read([path], spec, "fill").inputs["numbers"][0, 0] == np.float32(7 / 3)
    with pytest.raises(DataError, match="expected a value in 'size', found none"):
        read([path], spec)


def test_files_are_of_one_kind_which_the_model_knows(spec_of, table):
    spec = spec_of()
    assert are_tables(["a.csv", "b.JSONL.gz"], spec) and not are_tables(["a.npz"], spec)
    with pytest.raises(DataError, match="other files are none"):
        are_tables(["a.csv", "a.npz"], spec)
    with pytest.raises(DataError, match="not on a table"):
        are_tables(["a.csv"], spec._replace(table=None))


def test_other_labels_are_matched_to_the_columns_of_the_training(table, spec_of):
    schema = spec_of().table
    data = open_data("table:" + table("label,size,colour\ny,1,red\n"), shares=NOTHING, table=schema)
    assert data.spec.class_names == ("y",)
    path = table("size,label\n1,y\n")
    with pytest.raises(DataError, match="found no 'colour'"):
        open_data("table:" + path, shares=NOTHING, table=schema)


def test_a_run_on_a_table_evaluates_and_predicts_on_others(cli, table):
    rows = [f"{i % 7},{i % 11},{'ab'[i % 2]},{'xy'[i % 2]}\n" for i in range(60)]
    data = "table:" + table("u,v,kind,label\n" + "".join(rows))
    other = table("v,kind,u,label\n1,a,2,x\n3,b,4,y\n", "other.csv")
    argv = ["--data", data, "--categories", "one-hot", "--steps", 2, "--batch-size", 8]
    result = cli("run", "--plugin", LINEAR, "--run-dir", "r", *argv)
    assert result.code == 0, result.err
    result = cli("evaluate", "r", "--data", "table:" + other, "--json")
    assert json.loads(result.out)["examples"] == 2
    assert len(json.loads(cli("predict", "r", other, "--json").out)) == 2
    with open(data[len("table:") :], "a") as file:
        file.write("1,1,a,x\n")
    result = cli("resume", "r", "--steps", 3)
    assert result.code == 4 and "t.csv has SHA-256" in result.err


def test_a_check_takes_the_options_of_columns(cli, table):
    value = "table:" + table("size,price\n1,2.5\n2,3.5\n7,4.5\n")
    assert cli("data", "check", value).code == 4
    result = cli("data", "check", value, "--label-column", "price")
    assert result.code == 0 and "The labels are 'price', values." in result.out
    assert cli("data", "check", value, "--missing", "guess").code == 2
