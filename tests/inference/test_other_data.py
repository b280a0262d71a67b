"""`evaluate --data`: other data is evaluated as a whole, with classes matched by name."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from file_fixtures import read_json
from inference_fixtures import CLASSES, write_images
from linear_fixtures import LINEAR, Linear
from PIL import Image

from toolkit.cli import run_command
from toolkit.data.examples import Dataset, Split, describe
from toolkit.data.same_data import match_classes
from toolkit.errors import DataError
from toolkit.options import CoreOptions
from toolkit.plugins import Plugin, Plugins
from toolkit.run_data import open_from_options, open_other_data
from toolkit.storage.run_folder import RunFolder


def train():
    argv = ["--data", write_images("bars"), "--steps", "150", "--learning-rate", "0.5"]
    assert run_command(["run", "--plugin", LINEAR, *argv, "--run-dir", "run"]) == 0


@pytest.fixture
def evaluate(cli, made_once, monkeypatch):
    """`evaluate("images:DIR")`: the JSON of the evaluation of a model of ant, bee and cat."""
    monkeypatch.chdir(made_once(train))

    def call(*argv):
        result = cli.succeed("evaluate", "run", "--json", *argv)
        return result.json(), result.err

    assert call()[0]["metrics"]["accuracy"] == 1.0
    return call


def test_fewer_classes_are_matched_by_name(evaluate):
    result, notes = evaluate("--data", write_images("some", CLASSES[1:], first=100))
    assert result["metrics"]["accuracy"] == 1.0 and result["examples"] == 40
    assert result["split"] == "all"
    assert "no examples of 'ant'" in notes


def test_a_test_folder_of_other_data_is_its_test_split(evaluate):
    write_images("both/train", first=400, count=2)
    write_images("both/test", first=500, count=5)
    result, _ = evaluate("--data", "images:both")
    assert result["examples"] == 15 and result["split"] == "test"
    assert evaluate("--data", "images:both", "--split", "train")[0]["examples"] == 6


def test_other_classes_are_no_data_to_resume_with(evaluate, cli):
    os.rename("bars/ant", "bars/zebra")
    words = "has the classes bee, cat, zebra; the run was trained on ant, bee, cat"
    cli.refuse(4, words, "resume", "run", "--steps", "160", "--allow", "data")


def test_other_held_out_examples_are_not_resumed_in_silence(evaluate, cli):
    data = read_json("run", "manifest.json")["data"]
    del data["partition"]
    folder = RunFolder(os.path.abspath("run"))
    session = {"from": 160, "kept": [c.step for c in folder.checkpoints.list()]}
    folder.record("session", data_facts=data, **session)
    result = cli("resume", "run", "--steps", "160")
    assert result.code == 4 and "held out" in result.err and "--allow data" in result.err


def test_the_runs_own_data_at_another_place_is_split_as_in_the_run(evaluate):
    shutil.copytree("bars", "moved")
    result, notes = evaluate("--data", "images:moved")
    assert result["examples"] == 6
    assert "images:moved is the data of the run: its split 'test' alone is evaluated" in notes
    assert evaluate("--data", "images:moved", "--split", "validation")[0]["examples"] == 5


def test_a_run_is_not_evaluated_on_other_held_out_examples(evaluate, cli):
    shutil.copy("bars/ant/0.png", "bars/ant/new.png")
    result = cli("evaluate", "run")
    assert result.code == 4 and "ant/new.png is new" in result.err and "--data" in result.err
    assert cli("evaluate", "run", "--data", "images:bars").code == 0


def match(names, labels, expected):
    """The data set of some labels with the class numbers of a model, and these labels' names."""
    split = Split(np.zeros((len(labels), 2), np.float32), np.array(labels))
    dataset = Dataset("d", describe(split, names), {"train": split})
    count = len(expected)
    model = describe(Split(np.zeros((count, 2), np.float32), np.arange(count)), expected)
    matched = match_classes(dataset, model)
    assert split.labels.tolist() == list(labels)  # untouched
    return matched.notes, [expected[label] for label in matched.splits["train"].labels]


TO_10 = tuple(map(str, range(11)))


@pytest.mark.parametrize(
    "names, first, expected",
    [
        (("cat", "ant"), 0, CLASSES),
        (("1", "2", "3"), 0, tuple("0123456789")),
        (TO_10, 0, tuple(sorted(TO_10))),
        # Integer labels from 1 to 4 have the names 0 to 4, and no example of 0.
        (tuple("01234"), 1, tuple("12345")),
    ],
)
def test_labels_become_those_of_the_models_classes_of_their_names(names, first, expected):
    assert match(names, range(first, len(names)), expected)[1] == list(names[first:])


@pytest.mark.parametrize(
    "names, expected, message",
    [
        (("1", "2", "3"), ("0", "1", "2"), "does not know the class '3'"),
        (("0", "1"), ("-1", "+1"), "does not know the class '0', '1'"),
        (("0", "1", "other"), ("0", "1", "2"), "does not know the class 'other'"),
        (("0", "1", "2", "3"), CLASSES, "does not know the class '0', '1', '2', '3'"),
    ],
)
def test_numbers_that_name_other_classes_are_refused(names, expected, message):
    with pytest.raises(DataError, match=message) as caught:
        match(names, range(len(names)), expected)
    assert ", ".join(map(repr, expected)) in caught.value.hint


@pytest.mark.parametrize("names, expected", [(("0", "1"), CLASSES), (("x", "y"), ("0", "1", "2"))])
def test_numbers_match_real_names_with_a_note(names, expected):
    notes, labels = match(names, [0, 1], expected)
    assert labels == list(expected[:2])
    note = f"matched by number with those of the model: {names[0]!r} is {expected[0]!r}, "
    assert note in notes[-1]


def write_table(name, channels):
    """A table of numbers and two pictures, the first of which has some channels."""
    rows = ["my photo,scan,weight,label\n"]
    for i in range(8):
        pixels = np.random.RandomState(i).randint(0, 255, (6, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels if channels == 3 else pixels[..., 0]).save(f"{name}-{i}.png")
        Image.fromarray(pixels[..., 1]).save(f"grey-{i}.png")
        rows.append(f"{name}-{i}.png,grey-{i}.png,{i * 1.5},{i % 2}\n")
    Path(f"{name}.csv").write_text("".join(rows))
    return f"table:{name}.csv"


def test_grey_images_get_the_channels_of_their_component(here):
    options = CoreOptions(data=write_table("colour", 3))
    stored = open_from_options(options).spec
    data = open_other(options, write_table("other", 1), stored).dataset
    shapes = {name: each.shape for name, each in data.spec.features.items()}
    assert shapes == {name: each.shape for name, each in stored.features.items()}
    assert (6, 8, 3) in shapes.values() and (6, 8, 1) in shapes.values()


def open_other(options, value, stored):
    return open_other_data(Plugins(Plugin.from_object(Linear, "model")), options, value, stored)


def test_a_run_that_skips_damaged_pictures_is_evaluated_on_a_table_of_pictures(here):
    options = CoreOptions(data=write_images("bars"), skip_damaged=True)
    rows = "".join(f"bars/{n}/0.png,{n}\nbars/{n}/1.png,{n}\n" for n in CLASSES)
    (here / "t.csv").write_text("photo,label\n" + rows)
    stored = open_from_options(options).spec
    assert len(open_other(options, "table:t.csv", stored).splits["train"]) == 6


def test_labels_that_were_values_are_values_in_data_of_another_kind(here):
    np.savez("a.npz", x=np.ones([8, 2], np.float32), y=np.arange(8) - 4)
    stored = open_from_options(CoreOptions(data="npz:a.npz", label_kind="value")).spec
    other = open_other(CoreOptions(data="table:t.csv", label_kind="value"), "npz:a.npz", stored)
    assert other.spec.labels.kind == "value"
