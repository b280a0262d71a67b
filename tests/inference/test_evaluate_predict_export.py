"""A trained run read back: measured, applied to files, exported. numpy can check: it is x W + b."""

from __future__ import annotations

import csv
import json
import struct

import numpy as np
import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, bars, write_bars

from toolkit import DataSpec, tf
from toolkit.inference.predict import columns, read_examples
from toolkit.storage.run_folder import RunFolder

LABELS = np.arange(13) * 7 % 3  # of the test split that write_bars makes


def variables(run, step=6):
    reader = tf.train.NewCheckpointReader(RunFolder(str(run)).checkpoints.prefix(step))
    return reader.get_tensor("linear/w"), reader.get_tensor("linear/b")


def logits_of(run, images, step=6):
    w, b = variables(run, step)
    return (images.reshape(len(images), -1) / 255.0).dot(w) + b


def losses_of(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]


@pytest.fixture
def evaluated(cli, trained):
    """`evaluated("--split", "train")` -> the JSON of `toolkit evaluate`."""

    def call(*argv):
        told = cli("evaluate", trained / "run", "--json", *argv)
        assert told.code == 0, told.err
        return json.loads(told.out)

    return call


@pytest.fixture
def predicted(cli, trained):
    def call(*argv):
        told = cli("predict", trained / "run", "--json", *argv)
        assert told.code == 0, told.err
        return json.loads(told.out), told.err

    return call


# ----------------------------------------------------------------------------------------- evaluate


def test_metrics_over_13_examples_by_5_equal_numpys(evaluated, trained):
    logits = logits_of(trained / "run", bars(LABELS, 2))
    result = evaluated()
    assert result["examples"] == 13
    assert result["metrics"]["accuracy"] == pytest.approx((logits.argmax(1) == LABELS).mean())
    assert result["metrics"]["loss"] == pytest.approx(losses_of(logits, LABELS).mean(), rel=1e-5)


def test_evaluating_again_gives_the_test_of_the_run(evaluated, trained):
    summary = read_json(trained, "run", "manifest.json")["summary"]
    assert evaluated()["metrics"] == summary["test"]["metrics"]


def test_another_split_is_measured_by_its_name(evaluated):
    assert evaluated("--split", "train")["examples"] == 40
    assert evaluated("--split", "validation")["examples"] == 7


def test_a_checkpoint_is_chosen_by_its_step(evaluated, trained):
    logits = logits_of(trained / "run", bars(LABELS, 2), step=2)
    result = evaluated("--checkpoint", "2")
    assert result["step"] == 2
    assert result["metrics"]["loss"] == pytest.approx(losses_of(logits, LABELS).mean(), rel=1e-5)


def test_the_best_checkpoint_is_taken_unless_another_is_named(evaluated, trained):
    RunFolder(str(trained / "run")).update_manifest(best={"step": 2, "value": 1.0})
    assert evaluated()["step"] == 2
    assert evaluated("--checkpoint", "best")["step"] == 2
    assert evaluated("--checkpoint", "last")["step"] == 6


@pytest.mark.parametrize("which", ["3", "newest", "-1"])
def test_a_checkpoint_that_is_not_there_is_told_with_those_that_are(cli, trained, which):
    told = cli("evaluate", trained / "run", "--checkpoint=" + which)
    assert told.code == 5
    assert f"has no checkpoint '{which}'" in told.err
    assert "2, 4, 6" in told.err


def test_best_without_a_target_tells_how_to_get_one(cli, here):
    data = write_bars("bars.npz")
    cli("run", "--plugin", LINEAR, "--data", data, "--run-dir", "r", "--steps", "2")
    told = cli("evaluate", "r", "--checkpoint", "best")
    assert told.code == 5
    assert "r has no best checkpoint." in told.err and "--best-metric METRIC" in told.err


def test_a_misspelt_split_is_told_with_the_nearest(cli, trained):
    told = cli("evaluate", trained / "run", "--split", "tets")
    assert told.code == 2
    assert "has no split 'tets'.\nDid you mean 'test'?" in told.err


def test_other_data_of_the_same_shape_is_measured(evaluated, here):
    result = evaluated("--data", write_bars("other.npz", test=5))
    assert (result["examples"], result["data"]) == (5, "npz:other.npz")


def test_other_data_of_another_shape_is_refused_with_both(cli, trained, here):
    np.savez("flat.npz", x=np.zeros([20, 4], np.float32), y=np.arange(20) % 3)
    told = cli("evaluate", trained / "run", "--data", "npz:flat.npz")
    assert told.code == 4
    assert "examples [4] float32, the model was trained on [6, 6, 1] uint8" in told.err


def test_other_data_with_more_classes_is_refused(cli, trained, here):
    np.savez("many.npz", x=np.zeros([20, 6, 6], np.uint8), y=np.arange(20) % 4)
    told = cli("evaluate", trained / "run", "--data", "npz:many.npz")
    assert told.code == 4
    assert "has 4 classes, the model was trained on 3" in told.err


def test_data_without_labels_is_refused(cli, trained, here):
    np.savez("bare.npz", x=np.zeros([20, 6, 6], np.uint8))
    told = cli("evaluate", trained / "run", "--data", "npz:bare.npz")
    assert told.code == 4
    assert "has no labels" in told.err


def test_as_text_there_is_one_line_with_every_metric(cli, trained):
    told = cli("evaluate", trained / "run")
    assert told.code == 0
    assert told.out.split()[:2] == ["test", "accuracy"]
    assert "(13 examples, step 6)" in told.out


def test_a_damaged_checkpoint_is_told_when_it_is_named(cli, trained):
    next((trained / "run" / "checkpoints").glob("model.ckpt-4.data*")).write_bytes(b"x")
    told = cli("evaluate", trained / "run", "--checkpoint", "4")
    assert told.code == 5
    assert "The checkpoint of step 4 is damaged: model.ckpt-4.data" in told.err


# --------------------------------------------------------------------------------- predict on files


def save(path, array):
    from PIL import Image

    Image.fromarray(array).save(str(path))
    return path


def test_an_npz_file_is_predicted_as_numpy_does(predicted, trained):
    rows, _ = predicted(trained / "bars.npz")
    images = bars(LABELS, 2)  # x_test goes before x_train
    assert len(rows) == 13 and rows[3]["file"].endswith("bars.npz[3]")
    expected = logits_of(trained / "run", images)
    assert np.allclose([row["logits"] for row in rows], expected, atol=1e-5)
    assert [row["label"] for row in rows] == expected.argmax(1).tolist()


def test_an_image_file_is_predicted_like_its_array(predicted, trained, here):
    image = bars([1], 5)[0, :, :, 0]
    ((row,), told) = predicted(save(here / "one.png", image))
    assert row["file"] == str(here / "one.png")
    expected = logits_of(trained / "run", image[np.newaxis])[0]
    assert np.allclose(row["logits"], expected, atol=1e-5)
    assert told == ""


def test_an_image_with_dark_ink_on_light_paper_is_inverted_and_it_is_told(predicted, here):
    image = bars([1], 5)[0, :, :, 0]
    (plain,), _ = predicted(save(here / "one.png", image))
    ((inverted,), told) = predicted(save(here / "inverted.png", 255 - image))
    assert np.allclose(inverted["logits"], plain["logits"], atol=1e-5)
    assert "inverted.png has its ink inverted" in told


def test_inversion_may_be_forced_or_forbidden(predicted, trained, here):
    image = bars([1], 5)[0, :, :, 0]
    path = save(here / "one.png", image)
    (row,), told = predicted(path, "--invert", "yes")
    expected = logits_of(trained / "run", 255 - image[np.newaxis])[0]
    assert np.allclose(row["logits"], expected, atol=1e-5) and told == ""
    (row,), _ = predicted(save(here / "inverted.png", 255 - image), "--invert", "no")
    assert np.allclose(row["logits"], expected, atol=1e-5)


def test_an_image_of_another_size_is_scaled_and_it_is_told(predicted, trained, here):
    image = bars([2], 5)[0, :, :, 0]
    doubled = image.repeat(2, axis=0).repeat(2, axis=1)
    ((row,), told) = predicted(save(here / "big.png", doubled))
    assert "big.png is 12x12, scaled to 6x6" in told
    assert row["label"] == logits_of(trained / "run", image[np.newaxis]).argmax()


def test_a_colour_image_is_made_grey(predicted, here):
    image = bars([0], 5)[0]
    (grey,), _ = predicted(save(here / "grey.png", image[:, :, 0]))
    (colour,), _ = predicted(save(here / "colour.png", image.repeat(3, axis=2)))
    assert np.allclose(colour["logits"], grey["logits"], atol=0.02)


def test_an_idx_file_is_predicted_like_its_array(predicted, trained, here):
    images = bars([0, 1, 2], 5)
    header = struct.pack(">HBBIII", 0, 8, 3, 3, 6, 6)
    (here / "some-images-idx3-ubyte").write_bytes(header + images.tobytes())
    rows, _ = predicted(here / "some-images-idx3-ubyte")
    expected = logits_of(trained / "run", images)
    assert np.allclose([row["logits"] for row in rows], expected, atol=1e-5)


def test_several_files_come_in_their_order(predicted, trained, here):
    one = save(here / "one.png", bars([1], 5)[0, :, :, 0])
    rows, _ = predicted(one, trained / "bars.npz", one)
    assert len(rows) == 15
    assert rows[0] == rows[14] and rows[0]["file"] == str(one)


def test_a_lone_example_gets_its_batch_axis(predicted, here):
    np.savez("one.npz", x=bars([1], 5)[0, :, :, 0])
    rows, _ = predicted("one.npz")
    assert [row["file"] for row in rows] == ["one.npz"]


@pytest.mark.parametrize(
    "array, found",
    [
        (np.zeros([2, 5, 6], np.uint8), "[5, 6] uint8"),
        (np.zeros([2, 6, 6, 3], np.uint8), "[6, 6, 3] uint8"),
        (np.zeros([2, 6, 6], np.float32), "[6, 6, 1] float32"),
    ],
    ids=["size", "channels", "type"],
)
def test_an_array_of_another_shape_or_type_is_refused_with_both(cli, trained, array, found):
    np.savez("odd.npz", x=array)
    told = cli("predict", trained / "run", "odd.npz")
    assert told.code == 4 and told.out == ""
    assert f"odd.npz: expected examples [6, 6, 1] uint8, found {found}" in told.err


@pytest.mark.parametrize(
    "name, content, told",
    [
        ("none.png", None, "none.png: no such file."),
        ("bad.png", b"no image", "bad.png"),
        ("bad-idx3-ubyte", b"\0\0\x08\x03", "bad-idx3-ubyte"),
        ("bad.npz", b"no zip", "bad.npz: expected an .npz file"),
    ],
)
def test_a_file_that_cannot_be_read_exits_4_and_is_named(cli, trained, here, name, content, told):
    if content is not None:
        (here / name).write_bytes(content)
    found = cli("predict", trained / "run", name)
    assert found.code == 4 and found.out == ""
    assert told in found.err and "Traceback" not in found.err


def test_an_npz_without_a_known_array_tells_what_it_has(cli, trained, here):
    np.savez("odd.npz", weights=np.zeros(3))
    told = cli("predict", trained / "run", "odd.npz")
    assert told.code == 4
    assert "odd.npz: expected an array features or images or x" in told.err
    assert "found weights" in told.err


def test_a_model_of_vectors_takes_no_images(here):
    path = save(here / "one.png", bars([1])[0, :, :, 0])
    with pytest.raises(Exception, match="trained on examples \\[4\\] float32, not on images"):
        read_examples([str(path)], DataSpec((4,), "float32"), None)


# ------------------------------------------------------------------------------ what predict writes


def test_as_text_there_is_one_line_per_example(cli, trained):
    told = cli("predict", trained / "run", trained / "bars.npz")
    assert told.code == 0
    lines = told.out.splitlines()
    assert len(lines) == 13
    assert lines[0].split()[1:3] in (["label", str(k)] for k in range(3))


@pytest.mark.parametrize("ending", ["json", "csv", "npz"])
def test_the_three_kinds_of_output_say_the_same(cli, predicted, trained, here, ending):
    rows, _ = predicted(trained / "bars.npz")
    told = cli("predict", trained / "run", trained / "bars.npz", "-o", "out." + ending)
    assert told.code == 0 and told.out == ""
    assert "13 predictions in out." + ending in told.err
    labels, logits = READERS[ending]("out." + ending)
    assert labels == [row["label"] for row in rows]
    assert np.allclose(logits, [row["logits"] for row in rows], atol=1e-6)


def from_json(path):
    rows = read_json(path)
    return [row["label"] for row in rows], [row["logits"] for row in rows]


def from_csv(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    logits = [[float(row[f"logits{k}"]) for k in range(3)] for row in rows]
    return [int(row["label"]) for row in rows], logits


def from_npz(path):
    with np.load(path) as stored:
        return stored["label"].tolist(), stored["logits"]


READERS = {"json": from_json, "csv": from_csv, "npz": from_npz}


def test_an_output_of_another_ending_is_refused_before_anything_is_computed(cli, trained):
    told = cli("predict", trained / "run", "none.png", "-o", "out.txt")
    assert told.code == 2
    assert "out.txt: the output ends in .json, .csv or .npz." in told.err


def test_features_come_on_request_alone(predicted, trained):
    (plain, *_), _ = predicted(trained / "bars.npz")
    (full, *_), _ = predicted(trained / "bars.npz", "--features")
    assert "features" not in plain
    expected = bars(LABELS, 2)[0].reshape(-1) / 255.0
    assert np.allclose(full["features"], expected, atol=1e-6)


def test_features_of_a_plugin_without_any_are_an_error():
    with pytest.raises(Exception, match="plugin predicts no 'features'"):
        columns({"label": np.zeros(2, int)}, (), True)


def test_a_class_has_its_name_beside_its_number():
    shown = columns({"label": np.array([1, 0])}, ("cat", "dog"), False)
    assert shown["class"].tolist() == ["dog", "cat"]
    assert "class" not in columns({"label": np.array([1, 0])}, ("0", "1"), False)


# ------------------------------------------------------------------------------------------- export


def test_an_exported_model_predicts_the_same_when_it_is_loaded(cli, trained, here):
    told = cli("export", trained / "run", "model", "--json")
    assert told.code == 0, told.err
    images = bars(LABELS, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], "model")
        signature = loaded.signature_def["serving_default"]
        feed = {signature.inputs["features"].name: images}
        logits = session.run(signature.outputs["logits"].name, feed)
    assert np.allclose(logits, logits_of(trained / "run", images), atol=1e-5)


def test_export_tells_what_it_wrote_and_that_it_was_checked(cli, trained, here):
    result = json.loads(cli("export", trained / "run", "model", "--checkpoint", "4", "--json").out)
    assert result["step"] == 4
    assert (result["inputs"], result["outputs"]) == (["features"], ["features", "label", "logits"])
    assert result["checked_on"] == 8 and result["largest_difference"] <= 1e-5
    assert sorted(p.name for p in here.glob("model*")) == ["model"]


def test_export_refuses_a_folder_that_is_not_empty(cli, trained, here):
    (here / "model").mkdir()
    (here / "model" / "mine.txt").write_text("precious")
    told = cli("export", trained / "run", "model")
    assert told.code == 2
    assert "model is not empty." in told.err
    assert [p.name for p in (here / "model").iterdir()] == ["mine.txt"]


def test_an_export_that_differs_exits_6_and_leaves_nothing(cli, trained, here, monkeypatch):
    from toolkit.inference import export

    monkeypatch.setattr(export, "_largest_difference", lambda *_: 0.5)
    told = cli("export", trained / "run", "model")
    assert told.code == 6
    assert "The exported model differs by 0.5 from the trained one, allowed 1e-05." in told.err
    assert list(here.glob("model*")) == []


def test_reading_a_run_changes_none_of_its_files(cli, trained, here):
    from test_cli import hashes

    before = hashes(trained)
    for argv in (["evaluate"], ["predict"], ["export"]):
        more = {"predict": [trained / "bars.npz"], "export": ["model"]}.get(argv[0], [])
        assert cli(argv[0], trained / "run", *more).code == 0
    assert hashes(trained) == before
