"""What `predict` prints of pictures, and which files it takes."""

import csv
import os
import pathlib

import numpy as np
import pytest
from file_fixtures import trained_on
from inference_fixtures import write_images
from PIL import Image

from toolkit import hookimpl, open_trained, tf
from toolkit.cli import run_command
from toolkit.data.spec import DataSpec
from toolkit.errors import DataError
from toolkit.inference.predict import as_examples, best_classes, expand_paths
from toolkit.testing.tiny import TINY_MODEL, TinyModel


def train():
    write_images("photos", count=6, size=8)
    argv = ["--data", "images:photos", "--batch-size", "6", "--run-dir", "run", "--steps", "3"]
    assert run_command(["run", TINY_MODEL, *argv]) == 0


@pytest.fixture
def run(made_once, here):
    """The folder of a run on pictures; the working directory has others, of twice their size."""
    write_images("large", count=6, size=16)
    return made_once(train) / "run"


def test_a_line_has_the_best_classes_by_name(cli, run):
    result = cli.succeed("predict", run, "large/ant/0.png")
    name, *words = result.out.split()
    shares = [float(share) for share in words[1::2]]
    assert name == "large/ant/0.png" and sorted(words[::2]) == ["ant", "bee", "cat"]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1, abs=0.02)
    (row,) = cli.succeed("predict", run, "large/ant/0.png", "--json").json()
    assert row["class"] == words[0] and max(row["probabilities"]) == pytest.approx(
        shares[0], abs=0.01
    )


def test_a_picture_that_cannot_be_read_is_left_out_with_a_line_and_a_code(cli, run):
    pathlib.Path("large/bee/bad.png").write_text("<html>")
    result = cli("predict", run, "large/bee")
    assert result.code == 4 and len(result.out.splitlines()) == 6
    assert "left out: large/bee/bad.png" in result.err
    assert "Error: 1 of 7 files cannot be read" in result.err
    alone = cli("predict", run, "large/bee/bad.png")
    assert alone.code == 4 and alone.err.startswith("Error: large/bee/bad.png")


def test_a_missing_file_ends_the_command_before_a_prediction(cli, run):
    result = cli("predict", run, "large/ant/0.png", "large/ant/9.png")
    assert (result.code, result.out) == (4, "")
    assert result.err == (
        "Error: large/ant/9.png: no such file.\nDid you mean 'large/ant/5.png'?\n"
    )


def test_columns_of_a_csv_have_the_names_of_the_classes(cli, run):
    assert cli("predict", run, "large/bee/*.png", "-o", "out.csv").code == 0
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    shares = [float(rows[0][f"probability_{name}"]) for name in ("ant", "bee", "cat")]
    assert sum(shares) == pytest.approx(1, abs=1e-5)


def test_folders_and_patterns_are_expanded_in_order(here):
    write_images("some", count=6)
    (here / "some" / "notes.txt").write_text("none")
    (here / "[1].png").write_bytes(b"")  # a name that is also a pattern
    assert len(expand_paths(["some"])) == 18
    assert expand_paths(["some/*ee", "some/b*/**"]) == 2 * expand_paths(["some/bee"])
    assert expand_paths(["[1].png", "some/bee/[34].png", "x.png"]) == [
        "[1].png",
        "some/bee/3.png",
        "some/bee/4.png",
        "x.png",
    ]


@pytest.mark.parametrize(
    "path, message",
    [("empty", "is a folder without images"), ("none/*.png", "no file fits this pattern")],
)
def test_what_names_no_file_is_refused(here, path, message):
    (here / "empty").mkdir()
    with pytest.raises(DataError, match=message):
        expand_paths([path])


def test_classes_without_names_have_numbers_and_other_predictions_none():
    shares = np.array([[0.1, 0.2, 0.3, 0.4]])
    predictions = {"label": np.array([3]), "probabilities": shares}
    assert best_classes(predictions, ()) == [[("3", 0.4), ("2", 0.3), ("1", 0.2)]]
    assert best_classes({"label": np.array([3])}, ()) is None
    assert best_classes({"label": np.zeros([1, 2, 2]), "probabilities": shares}, ()) is None


@hookimpl
def predict_names(self, outputs):
    labels = tf.argmax(outputs["logits"], 1)
    shares = tf.fill(tf.shape(labels), 2e-5)
    return {"name": tf.gather(tf.constant(["ant", "bee", "cat"]), labels), "share": shares}


def test_predictions_may_be_texts_and_small_numbers(cli, run, monkeypatch):
    monkeypatch.setattr(TinyModel, "predict", predict_names)
    path = "large/ant/0.png"
    (row,) = cli.succeed("predict", run, path, "--json").json()
    assert row["name"] in ("ant", "bee", "cat")
    words = cli.succeed("predict", run, path).out.split()
    assert words == [path, "name", row["name"], "share", "2e-05"]


def test_a_trained_run_predicts_files_and_pictures_as_the_command_does(cli, run):
    path = os.path.join("large", "ant", "0.png")
    (row,) = cli.succeed("predict", run, path, "--json").json()
    with Image.open(path) as file:
        picture = file.copy()
    os.mkdir("one")
    picture.save("one/a.png")
    kinds = (path, pathlib.Path(path), [path], "one", picture, [picture.convert("RGBA")])
    with open_trained(str(run), trust=True) as trained:
        for inputs in kinds:
            result = trained.predict(inputs)
            assert result["class"].tolist() == [row["class"]]
            assert np.allclose(result["probabilities"], [row["probabilities"]], atol=1e-6)


def test_a_picture_whose_values_have_no_fixed_range_is_refused():
    picture = Image.fromarray(np.full([2, 2], 9, np.float32))
    with pytest.raises(DataError, match="A picture cannot be read: floats from 9 to 9, not from"):
        as_examples(trained_on(DataSpec((8, 8, 1), "uint8")), picture)


def test_a_file_that_cannot_be_read_is_no_prediction(run):
    pathlib.Path("bad.png").write_text("<html>")
    trained = open_trained(str(run), trust=True)
    with trained, pytest.raises(DataError, match="1 of 2 pictures cannot be read; bad.png: "):
        trained.predict(["bad.png", "large/ant/0.png"])
