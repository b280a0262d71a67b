"""The session hooks of a training: the real images of a grid, and the classes that it counts."""

import importlib
import json
import shutil

import numpy as np
import pytest
from gan_fixtures import make_run
from score_fixtures import QuarterClassifier
from toolkit_gan import health, latents
from toolkit_gan.scores import extractor
from toolkit_gan.scores.extractor import NetworkFeatures
from toolkit_gan.scores.sample_sets import to_bytes

import toolkit
from toolkit import Split, testing

# `from toolkit_gan import session_hooks` may be the hook of that name.
session_hooks = importlib.import_module("toolkit_gan.session_hooks")


SMALL = {"network": "mlp", "width": 4, "batch_size": 8, "norm_samples": 20, "evaluate": "no"}
IMAGES = np.random.RandomState(0).uniform(size=[5, 8, 8, 1]).astype(np.float32)


class SortedImages(Split):
    """Images in order of their classes, as from folders: class k has the grey value 60 k."""

    def __init__(self, count, classes=4):
        labels = np.sort(np.arange(count) % classes)
        images = np.ones([count, 8, 8, 1]) * (60 * labels)[:, None, None, None]
        super().__init__(images.astype(np.uint8), labels)


def test_the_real_images_of_a_sorted_folder_are_of_every_class_and_repeated_if_few():
    run = make_run(classes=4)
    inputs = latents.random_inputs(run.options, run.data, 16, seed=0)
    images = session_hooks.real_grid_images(SortedImages(400), inputs, run)
    assert sorted(set(images[:, 0, 0, 0].tolist())) == [0, 60, 120, 180]
    assert len(session_hooks.real_grid_images(SortedImages(5), inputs, run)) == 16


def test_the_real_images_of_a_conditional_grid_are_in_rows_of_one_class():
    run = make_run(classes=4, conditional="concat")
    inputs, columns = latents.class_row_inputs(run.options, run.data, 12, seed=0)
    images = session_hooks.real_grid_images(SortedImages(400), inputs, run)
    assert columns == 3 and images[:, 0, 0, 0].tolist() == np.repeat([0, 60, 120, 180], 3).tolist()


def test_the_health_of_several_updates_has_the_accuracies_of_metrics_jsonl(
    monkeypatch, tmp_path, digits
):
    records, judge = {}, health.Health.judge

    def spy(self, record):
        records[record.step] = record
        return judge(self, record)

    monkeypatch.setattr(health.Health, "judge", spy)
    settings = dict(
        SMALL, discriminator_steps=3, features="pixels", sample_steps=1, log_steps=1, steps=4
    )
    testing.train("gan", str(tmp_path / "run"), data=digits, **settings)
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    metrics = {m["step"]: m for m in metrics if "d_accuracy_real" in m and m["step"] in records}
    assert sorted(metrics) == sorted(records) == [1, 2, 3, 4]
    for step, record in records.items():
        assert record.accuracy_real == pytest.approx(metrics[step]["d_accuracy_real"])
        assert record.accuracy_fake == pytest.approx(metrics[step]["d_accuracy_fake"])


# --------------------------------------------------------------------------------- the classifier


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return testing.write_digits(str(folder / "digits.npz"), count=300)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, digits):
    """The folder of a small trained classifier."""
    folder = str(tmp_path_factory.mktemp("classifier") / "run")
    testing.train("classifier", folder, data=digits, network="mlp", steps=100)
    return folder


def test_a_training_reports_the_classes_that_a_real_classifier_sees(
    monkeypatch, tmp_path, digits, classifier
):
    monkeypatch.setattr(health, "WARM_UP", 0)  # so that three steps suffice
    monkeypatch.setattr(health, "SPAN", 0)
    folder = str(tmp_path / "run")
    settings = dict(SMALL, conditional="none", features=classifier, sample_steps=1, steps=3)
    testing.train("gan", folder, data=digits, **settings)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    (event,) = [r for r in records if r.get("verdict") == "lost-classes"]
    # The same samples of the same generator, by its checkpoint.
    with toolkit.open_trained(folder) as gan, toolkit.open_trained(classifier) as trained:
        seed = make_run().seed("health")
        count = session_hooks.NUM_CLASSIFIED
        inputs = latents.random_inputs(gan.options, gan.data, count, seed)
        images = to_bytes(gan.predict(inputs)["image"])
        counts = np.bincount(NetworkFeatures(trained).labels(images), minlength=3)
    assert event["step"] == 3 and event["class_counts"] == counts.tolist()
    assert sum(counts) == 256 and f"of 256, expected {256 / 3:.0f}" in event["sentence"]


def test_the_classifier_is_opened_at_the_first_call_once_and_closed(monkeypatch, tmp_path):
    def open_trained(folder):
        opened.append(QuarterClassifier())
        return opened[-1]

    opened = []
    monkeypatch.setattr(toolkit, "open_trained", open_trained)
    run = make_run(classes=4, features=str(tmp_path))
    classify = session_hooks.LazyClassifier(run.options, run.data, None)
    assert opened == []
    np.testing.assert_array_equal(classify(IMAGES), classify(IMAGES))
    (trained,) = opened
    assert not trained.is_closed
    classify.close()
    assert trained.is_closed


SPLITS = {"train": SortedImages(40), "validation": SortedImages(20)}


@pytest.mark.parametrize(
    "values, splits, is_there",
    [
        ({"classes": 4}, SPLITS, True),
        ({"classes": 4, "features": "pixels"}, SPLITS, False),
        ({"classes": 0, "features": "auto"}, SPLITS, False),
        # None is trained for the health alone.
        ({"classes": 4, "features": "auto", "evaluate": False}, SPLITS, False),
        ({"classes": 4}, {"train": SPLITS["train"]}, False),
        ({"classes": 4, "features": "runs/a", "evaluate": False}, SPLITS, True),
    ],
)
def test_classes_are_counted_where_a_classifier_is_there_for_the_scores(values, splits, is_there):
    assert session_hooks.has_classifier(make_run(**values), splits.get) is is_there


@pytest.mark.parametrize("is_cached", [True, False])
def test_the_counts_of_classes_do_not_depend_on_the_cache(
    monkeypatch, tmp_path, classifier, is_cached
):
    trainings, path = [], tmp_path / "features" / "classifier-key"

    def train(plugin, run_dir, *args, **kwargs):
        shutil.copytree(classifier, run_dir)
        trainings.append(plugin)

    if is_cached:
        shutil.copytree(classifier, path)
    monkeypatch.setattr(extractor, "cache_path", lambda *_: str(path))
    monkeypatch.setattr(toolkit, "train", train)
    run = make_run(classes=4, features="auto")
    classify = session_hooks.LazyClassifier(run.options, run.data, SPLITS["train"])
    with toolkit.open_trained(classifier) as trained:
        expected = NetworkFeatures(trained).labels(to_bytes(IMAGES))
    np.testing.assert_array_equal(classify(IMAGES), expected)
    assert trainings == ([] if is_cached else ["classifier"])
    classify.close()
