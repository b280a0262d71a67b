"""The plugins in the folder above: what all of them keep, and what each is an example of."""

from __future__ import annotations

import os

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


# -------------------------------------------------------------------------------------- all of them


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


# ------------------------------------------------------------------------------------- each of them


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
