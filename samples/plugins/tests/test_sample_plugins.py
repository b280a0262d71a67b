"""The plugins in the folder above: what all of them keep, and what each is an example of."""

from __future__ import annotations

import os

import numpy as np
import pytest

from toolkit import DataError, DivergedError, hookimpl, open_trained, testing, tf

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
READERS = pytest.mark.parametrize("reader", ["resident", "stream"])


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


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_run_resumes_exactly(name, tmp_path):
    testing.check_resume(path_of(name), str(tmp_path / "run"), **options_of(name, tmp_path))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_it_is_evaluated_predicts_and_exports(name, tmp_path):
    testing.check_inference(path_of(name), str(tmp_path / "run"), **options_of(name, tmp_path))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_steps_are_the_same_in_a_loop(name, tmp_path):
    testing.check_step_in_a_loop(path_of(name), **options_of(name, tmp_path))


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


def test_an_extension_changes_no_weight_of_a_keras_model(tmp_path):
    class Extension:
        @hookimpl(wrapper=True)
        def build(self):
            tf.random.normal([3])
            return (yield)

    options = dict(options_of("keras_cnn", tmp_path), steps=3, evaluate="no")
    for run, extensions in (("a", []), ("b", [Extension()])):
        train("keras_cnn", tmp_path, extensions, run, **options)
    first, second = (testing.tensors(str(tmp_path / run)) for run in "ab")
    assert all(np.array_equal(value, second[name]) for name, value in first.items())


def test_a_step_trains_both_players(tmp_path):
    options = dict(options_of("two_updates_gan", tmp_path), evaluate="no")
    for steps in (1, 2):
        train("two_updates_gan", tmp_path, run=str(steps), steps=steps, **options)
    first, second = (testing.tensors(str(tmp_path / run)) for run in "12")
    for name in ("generator/dense/kernel", "discriminator/dense/kernel"):
        assert not np.array_equal(first[name], second[name]), name
    assert second["global_step"] == 2


@READERS
def test_most_pixels_of_each_class_get_their_class(tmp_path, reader):
    summary = train("segmentation", tmp_path, reader=reader, steps=60)
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


@READERS
def test_most_reviews_get_their_class(tmp_path, reader):
    summary = train("sequences", tmp_path, reader=reader, steps=80)
    assert summary["test"]["metrics"]["accuracy"] > 0.9  # one class for all: about 0.5


def test_the_padding_of_a_review_changes_no_prediction(tmp_path):
    train("sequences", tmp_path, steps=20)
    short, long = np.array([1, 20]), np.arange(11, 30)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        alone = trained.predict({"words": [short]})["probabilities"][0]
        beside = trained.predict({"words": [short, long]})["probabilities"][0]
    assert alone == pytest.approx(beside, abs=1e-6)


@READERS
def test_both_inputs_are_used(tmp_path, reader):
    train("two_inputs", tmp_path, reader=reader, steps=60)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        features, labels = trained.split("test").take(slice(None))
        complete = trained.predict(features)["label"]
        without_weight = trained.predict(dict(features, weight=np.zeros(len(labels))))["label"]
        without_photo = trained.predict(dict(features, photo=0 * features["photo"]))["label"]
    assert np.mean(complete == labels) > 0.95
    assert np.mean(without_weight == labels) < 0.7  # one input alone: 0.5
    assert np.mean(without_photo == labels) < 0.7
