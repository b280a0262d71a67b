"""Evaluate, predict with and export a trained run; the model is x W + b, which numpy can check."""

import functools

import numpy as np
import pytest
from file_fixtures import save_image, sha256s, trained_on
from linear_fixtures import LINEAR, TEST_LABELS, bars, expected_logits, read_weights, write_bars
from run_fixtures import damage, write_plugin

from toolkit import DataSpec, open_trained, tf
from toolkit.graph import session_config
from toolkit.inference import evaluator, export
from toolkit.inference.predict import columns, read_examples


@pytest.fixture
def predict(cli, trained):
    """A function that runs `toolkit predict RUN --json`."""
    return functools.partial(cli.succeed, "predict", trained / "run", "--json")


def test_a_damaged_checkpoint_is_refused_with_5(cli, run):
    damage(run, 4)
    cli.refuse(5, "of step 4 is damaged: model.ckpt-4.data", "evaluate", run, "--checkpoint=4")


def test_a_misspelt_split_is_an_error_with_the_nearest_name(cli, run):
    cli.refuse(2, "has no split 'tets'.\nDid you mean 'test'?", "evaluate", run, "--split", "tets")


@pytest.mark.parametrize(
    "arrays, words",
    [
        (
            {"x": np.zeros([20, 4], np.float32), "y": np.arange(20) % 3},
            "examples [4] float32, the model was trained on [6, 6, 1] uint8",
        ),
        ({"x": np.zeros([20, 6, 6], np.uint8)}, "has no labels"),
    ],
    ids=["shape", "labels"],
)
def test_other_data_that_does_not_fit_is_refused_with_both(cli, run, arrays, words):
    np.savez("other.npz", **arrays)
    cli.refuse(4, words, "evaluate", run, "--data", "npz:other.npz")


def test_predictions_on_an_npz_file_equal_those_of_numpy(predict, trained):
    rows = predict(trained / "bars.npz").json()
    images = bars(TEST_LABELS, 2)  # x_test goes before x_train
    assert len(rows) == 13 and rows[3]["file"].endswith("bars.npz[3]")
    expected = expected_logits(trained / "run", images)
    assert np.allclose([row["logits"] for row in rows], expected, atol=1e-5)
    assert [row["label"] for row in rows] == expected.argmax(1).tolist()


def test_an_image_is_predicted_like_its_array_grey_and_in_the_models_size(predict, trained, here):
    image = bars([1], 5)[0, :, :, 0]
    colour = np.stack([image] * 3, axis=2)
    doubled = image.repeat(2, axis=0).repeat(2, axis=1)
    images = {"one.png": image, "colour.png": colour, "big.png": doubled}
    ended = predict(*(save_image(here / name, array) for name, array in images.items()))
    rows = ended.json()
    assert [row["file"] for row in rows] == [str(here / name) for name in images]
    expected = expected_logits(trained / "run", image[np.newaxis])[0]
    assert np.allclose(rows[0]["logits"], expected, atol=1e-5)
    assert np.allclose(rows[1]["logits"], expected, atol=0.02)
    assert ended.err == ""
    assert rows[2]["label"] == expected.argmax()


def test_several_files_come_in_their_order_and_a_lone_example_gets_its_batch_axis(predict, trained):
    np.savez("one.npz", x=bars([1], 5)[0, :, :, 0])
    rows = predict("one.npz", trained / "bars.npz", "one.npz").json()
    assert len(rows) == 15 and rows[0] == rows[14] and rows[0]["file"] == "one.npz"


FOUND = "odd.npz: expected examples [6, 6, 1] uint8, found "


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"x": np.zeros([2, 5, 6], np.uint8)}, FOUND + "[5, 6] uint8"),
        ({"x": np.zeros([2, 6, 6], np.float32)}, FOUND + "[6, 6, 1] float32"),
        ({"weights": np.zeros(3)}, "found weights"),
    ],
)
def test_a_file_that_is_no_example_is_refused_with_4(cli, run, arrays, words):
    np.savez("odd.npz", **arrays)
    assert cli.refuse(4, words, "predict", run, "odd.npz").out == ""


def test_a_model_of_vectors_refuses_images(here):
    path = save_image(here / "one.png", bars([1])[0, :, :, 0])
    with pytest.raises(Exception, match="trained on examples \\[4\\] float32, not on images"):
        read_examples(trained_on(DataSpec((4,), "float32")), [path])


def test_an_npz_has_the_values_that_are_printed_and_features_on_request(cli, predict, trained):
    rows = predict(trained / "bars.npz", "--features").json()
    expected = bars(TEST_LABELS, 2).reshape(13, -1) / 255.0
    assert np.allclose([row["features"] for row in rows], expected, atol=1e-6)
    result = cli.succeed("predict", trained / "run", trained / "bars.npz", "-o", "out.npz")
    assert result.out == "" and "13 predictions in out.npz" in result.err
    with np.load("out.npz") as stored:
        assert stored["label"].tolist() == [row["label"] for row in rows]
        assert np.allclose(stored["logits"], [row["logits"] for row in rows], atol=1e-6)
        assert "features" not in stored


def test_an_output_with_another_extension_is_refused_before_predicting(cli, run):
    words = "out.txt: the output ends in .json, .csv or .npz."
    cli.refuse(2, words, "predict", run, "none.png", "-o", "out.txt")


def test_a_class_has_its_name_beside_its_number():
    by_name = columns({"label": np.array([1, 0])}, ("cat", "dog"), False)
    assert by_name["class"].tolist() == ["dog", "cat"]
    assert "class" not in columns({"label": np.array([1, 0])}, ("0", "1"), False)
    with pytest.raises(Exception, match="plugin predicts no 'features'"):
        columns({"label": np.zeros(2, int)}, (), True)


def test_an_exported_model_says_what_it_takes_and_predicts_the_same_when_loaded(cli, trained, here):
    argv = ["export", trained / "run", "model", "--checkpoint", "4", "--json"]
    result = cli.succeed(*argv).json()
    assert result["step"] == 4
    assert (result["inputs"], result["outputs"]) == (["features"], ["features", "label", "logits"])
    assert result["checked_on"] == 8 and result["largest_difference"] <= 1e-5
    assert sorted(p.name for p in here.glob("model*")) == ["model"]
    assert result["input_hooks"] == [] and result["tensorflow"] == tf.__version__
    images = bars(TEST_LABELS, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], "model")
        signature = loaded.signature_def["serving_default"]
        feed = {signature.inputs["features"].name: images}
        logits = session.run(signature.outputs["logits"].name, feed)
    assert np.allclose(logits, expected_logits(trained / "run", images, 4), atol=1e-5)


def test_an_evaluation_has_the_threads_of_the_run_for_the_order_of_sums(cli, here, monkeypatch):
    # The process of a run has the threads of its first session, whatever the tests before had.
    monkeypatch.setattr(session_config, "_process_threads", [3])
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    cli.succeed("run", *argv, "--steps", 1, "--no-evaluate")
    asked = set()
    monkeypatch.setattr(evaluator, "session_config", lambda o: asked.add(o.intra_op_threads))
    cli.succeed("evaluate", "run")
    assert asked == {3}


def test_an_export_that_differs_exits_6_and_leaves_nothing(cli, run, here, monkeypatch):
    monkeypatch.setattr(export, "_largest_difference", lambda *_: 0.5)
    words = "The exported model differs by 0.5 from the trained one; 1e-05 is allowed."
    cli.refuse(6, words, "export", run, "model")
    assert list(here.glob("model*")) == []


def test_an_export_may_go_to_a_link(run, here):
    (here / "link").symlink_to("model")
    with open_trained(str(run)) as model:
        model.export("link")
    assert (here / "model" / "saved_model.pb").exists() and (here / "link").is_symlink()


@pytest.mark.parametrize(
    "one, other, size",
    [
        ([0.0, np.nan, np.inf], [0.0, np.nan, np.inf], 0.0),
        ([0.0, 0.0], [0.0, np.nan], np.inf),
        ([True], [False], np.inf),
        ([b"a"], [b"b"], np.inf),
        ([2.0**20, np.inf, 0.0], [2.0**20 + 1, np.inf, 0.0], 2.0**-20),
        ([2**20], [2**20 + 1], 1.0),
    ],
)
def test_values_that_are_no_two_finite_numbers_differ_infinitely_or_not(one, other, size):
    assert export.difference(np.array(one), np.array(other)) == size


CONVERTING = """
    @hookimpl
    def convert(self, features, labels):
        return features / 255.0 - 0.5, labels
"""


def test_a_prediction_converts_examples_and_an_export_says_that_it_does_not(cli, here):
    plugin = write_plugin(CONVERTING)
    with open(plugin, "a") as file:
        file.write("convert = plugin.convert\n")
    argv = ["--plugin", plugin, "--data", write_bars("bars.npz"), "--run-dir", "run"]
    assert cli("run", *argv, "--steps", 2, "--no-evaluate", "--steps-per-call", 1).code == 0
    rows = cli("predict", "run", "bars.npz", "--json").json()
    w, b = read_weights("run", 2)
    expected = (bars(TEST_LABELS, 2).reshape(13, -1) / 255.0 - 0.5).dot(w) + b
    assert np.allclose([row["logits"] for row in rows], expected, atol=1e-5)
    result = cli("export", "run", "model")
    sentence = (
        "The SavedModel begins behind the plugin's 'convert': give it examples as this hook "
        "returns them."
    )
    assert result.code == 0 and result.out.endswith(sentence + "\n")


def test_reading_a_run_changes_none_of_its_files(cli, trained, here):
    before = sha256s(trained)
    for command, *more in (["evaluate"], ["predict", trained / "bars.npz"], ["export", "model"]):
        assert cli(command, trained / "run", *more).code == 0
    assert sha256s(trained) == before
