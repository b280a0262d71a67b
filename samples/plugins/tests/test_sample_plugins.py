"""The plugins in the folder above: what all of them keep, and what each is an example of."""

import gzip
import os
import struct

import numpy as np
import pytest

from toolkit import DataError, DivergedError, open_trained, testing
from toolkit.testing import contracts

PLUGINS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The options that make each small.
SMALL = {
    "estimator": {"units": 16},
    "keras_cnn": {"filters": 4},
    "segmentation": {"filters": 4},
    "sequences": {},
    "two_inputs": {},
    "two_updates_gan": {"units": 8, "code_size": 4},
}
WITHOUT_DATA = ["estimator", "keras_cnn", "two_updates_gan"]  # they are trained on digits


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Keep what a run caches out of the user's folder."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))


def path_of(name):
    return os.path.join(PLUGINS, name + ".py")


def options_of(name, folder):
    options = dict(SMALL[name], batch_size=8, steps_per_call=1)
    if name in WITHOUT_DATA:
        options["data"] = testing.write_digits(str(folder / "digits.npz"), shape=(14, 14, 1))
    return options


def train(name, folder, extensions=(), run="run", **options):
    """The summary of a run in the folder `run`."""
    return testing.train(path_of(name), str(folder / run), list(extensions), **options)


# Those that a mistake in a plugin breaks; one subject shares its runs among them.
CONTRACTS = (
    "a-step-changes-what-is-trained",
    "the-global-step-advances-by-one",
    "initial-weights-ignore-other-ops",
    "steps-in-a-loop-have-the-same-bits",
    "resumes-exactly",
    "metrics-are-finite",
    "predictions-ignore-the-batch-size",
    "exports-what-it-predicts",
)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_plugin_keeps_its_contracts(name, tmp_path):
    with testing.Subject(path_of(name), tmp_path, **options_of(name, tmp_path)) as subject:
        checked = [each for each in contracts.ALL if each.name in CONTRACTS]
        results = [contracts.check_contract(contract, subject) for contract in checked]
    assert [result for result in results if result.status != "ok"] == []
    assert len(results) == len(CONTRACTS)


@pytest.mark.parametrize(
    "name, kind, message",
    [
        ("estimator", "table", "needs images with one class each"),
        ("keras_cnn", "table", "needs images with one class each"),
        ("two_updates_gan", "table", "needs images"),
        ("segmentation", "digits", "a class for each pixel"),
    ],
)
def test_data_of_another_kind_are_refused(name, kind, message, tmp_path):
    write = {"table": testing.write_table, "digits": testing.write_digits}[kind]
    data = write(str(tmp_path / {"table": "rows.csv", "digits": "digits.npz"}[kind]))
    with pytest.raises(DataError, match=message):
        train(name, tmp_path, data=data)


@pytest.mark.parametrize(
    "name, options",
    [
        ("estimator", {"steps": 60, "rate": 0.2}),
        ("keras_cnn", {"steps": 120, "learning_rate": 0.01, "dropout": 0.1}),
    ],
)
def test_digits_are_learned(name, options, tmp_path):
    summary = train(name, tmp_path, **options, **options_of(name, tmp_path))
    assert summary["test"]["metrics"]["accuracy"] > 0.9


def test_a_loss_of_an_estimator_that_is_not_finite_ends_the_run(tmp_path):
    with pytest.raises(DivergedError, match="finite"):
        train("estimator", tmp_path, steps=20, rate=1e30, **options_of("estimator", tmp_path))


def test_most_pixels_of_each_class_get_their_class(tmp_path):
    summary = train("segmentation", tmp_path, steps=60)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        images, masks = trained.split("test").take(slice(None))
        predictions = trained.predict(images)["mask"]
    shares = [
        np.sum((predictions == k) & (masks == k)) / np.sum((predictions == k) | (masks == k))
        for k in range(3)
    ]
    assert summary["test"]["metrics"]["mean_iou"] == pytest.approx(np.mean(shares), abs=1e-3)
    assert np.mean(shares) > 0.6  # background everywhere: 0.28


def test_masks_in_files_replace_the_drawings(tmp_path):
    data = testing.write_pairs(tmp_path / "pairs")
    summary = train("segmentation", tmp_path, data=data, steps=150, filters=8)
    assert summary["test"]["metrics"]["mean_iou"] > 0.8


def test_most_reviews_get_their_class(tmp_path):
    summary = train("sequences", tmp_path, reader="stream", steps=80)
    assert summary["test"]["metrics"]["accuracy"] > 0.9  # one class for all: about 0.5


def test_the_padding_of_a_review_changes_no_prediction(tmp_path):
    train("sequences", tmp_path, steps=20)
    short, long = np.array([1, 20]), np.arange(11, 30)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        alone = trained.predict({"words": [short]})["probabilities"][0]
        beside = trained.predict({"words": [short, long]})["probabilities"][0]
    assert alone == pytest.approx(beside, abs=1e-6)


def test_both_inputs_are_used(tmp_path):
    train("two_inputs", tmp_path, reader="stream", steps=60)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        features, labels = trained.split("test").take(slice(None))
        complete = trained.predict(features)["label"]
        without_weight = trained.predict(dict(features, weight=np.zeros(len(labels))))["label"]
        without_photo = trained.predict(dict(features, photo=0 * features["photo"]))["label"]
    assert np.mean(complete == labels) > 0.95
    assert np.mean(without_weight == labels) < 0.7  # one input alone: 0.5
    assert np.mean(without_photo == labels) < 0.7


def write_mnist(folder, is_packed):
    """Write digits as MNIST's files; return the arrays by the names of their files."""
    with np.load(testing.write_digits(str(folder / "digits.npz"))[len("npz:") :]) as file:
        digits = {name: array.astype(np.uint8) for name, array in file.items()}
    arrays = {}
    for split, prefix in ("train", "train"), ("test", "t10k"):
        arrays[f"{prefix}-images-idx3-ubyte"] = digits[f"x_{split}"][..., 0]
        arrays[f"{prefix}-labels-idx1-ubyte"] = digits[f"y_{split}"]
    for name, array in arrays.items():
        content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        content += array.tobytes()
        path = folder / (name + ".gz" * is_packed)
        path.write_bytes(gzip.compress(content) if is_packed else content)
    return arrays


def train_on_pipeline(folder, data, **options):
    """Train the classifier's perceptron with the pipeline."""
    options = dict(options, data=data, network="mlp", augment="none", batch_size=10)
    return testing.train("classifier", str(folder), [path_of("dataset_pipeline")], **options)


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_pipeline_of_tf_data_trains_the_network_of_the_classifier(is_packed, tmp_path):
    arrays = write_mnist(tmp_path, is_packed)
    summary = train_on_pipeline(tmp_path / "run", f"idx:{tmp_path}", steps=60, shuffle_buffer=20)
    assert summary["test"]["metrics"]["accuracy"] > 0.9
    held_out = np.arange(96) % 10 == 0
    expected = {"train": ("train", ~held_out), "validation": ("train", held_out)}
    expected["test"] = ("t10k", slice(None))
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        for split, (prefix, rows) in expected.items():
            images, labels = trained.split(split).take(slice(None))
            assert np.array_equal(images[..., 0], arrays[f"{prefix}-images-idx3-ubyte"][rows])
            assert np.array_equal(labels, arrays[f"{prefix}-labels-idx1-ubyte"][rows])


def test_a_file_that_a_pipeline_lacks_is_named(tmp_path):
    with pytest.raises(DataError, match="has no file train-images-idx3-ubyte"):
        train_on_pipeline(tmp_path / "run", f"idx:{tmp_path}", steps=1)


def test_a_pipeline_leaves_other_data_to_the_core(tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"))
    assert train_on_pipeline(tmp_path / "run", data, steps=1)["test"]["examples"] == 96 // 3
