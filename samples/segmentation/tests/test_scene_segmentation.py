"""The segmentation keeps the contracts of toolkit, ignores pixels without a class, and reports."""

import math
import os

import numpy as np
import pytest
from toolkit_segmentation import pixels, report, scenes

from toolkit import DataError, UsageError, open_trained, testing, tf

pytest_plugins = ["toolkit.testing.fixtures"]

SMALL = {"filters": 4, "levels": 1}


@pytest.fixture(scope="module")
def plugin():
    """What the fixture `contract` checks."""
    return "segmentation"


@pytest.fixture(scope="module")
def plugin_options(tmp_path_factory):
    """The options of its runs: a small network and small images are enough."""
    pairs = tmp_path_factory.mktemp("data") / "pairs"
    return dict(SMALL, data=testing.write_pairs(pairs, count=40))


def test_a_contract_holds(contract):
    contract()


def test_pixels_without_a_class_change_neither_loss_nor_metrics():
    logits = np.zeros([1, 1, 3, 2], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.constant([[[0, 1, 255]]])
        loss = pixels.cross_entropy(labels, tf.constant(logits), 2)
        metrics = pixels.metrics(labels, tf.constant(logits), 2)
        session.run(tf.local_variables_initializer())
        session.run([update for _, update in metrics.values()])
        values = session.run({name: value for name, (value, _) in metrics.items()})
        assert session.run(loss) == pytest.approx(math.log(2))
    # All pixels are taken for class 0: its IoU is 1 / 2, that of class 1 is 0.
    assert values == pytest.approx({"mean_iou": 0.25, "pixel_accuracy": 0.5})


def test_the_report_has_the_iou_of_each_class_that_occurs():
    labels, masks = np.array([[[0, 0, 1, 255]]]), np.array([[[0, 1, 1, 1]]])
    assert report.class_ious(labels, masks, ["a", "b", "c"]) == {"a": 0.5, "b": 0.5}


def test_a_scene_is_the_same_each_time_and_has_all_classes():
    first, second = (scenes.make_split("test").take(slice(0, 30)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert np.unique(first[1]).tolist() == [0, 1, 2, 3]


def test_masks_in_files_replace_the_scenes(tmp_path):
    data, run = testing.write_pairs(tmp_path / "pairs"), str(tmp_path / "run")
    options = {"steps": 120, "batch_size": 8, "filters": 8, "levels": 1, "learning_rate": 0.02}
    summary = testing.train("segmentation", run, data=data, steps_per_call=1, **options)
    metrics = summary["test"]["metrics"]
    assert metrics["mean_iou"] > 0.8
    with open_trained(run) as trained:
        images, masks = trained.split("test").take(slice(None))
        predictions = trained.predict(images)["mask"]
    assert np.mean(predictions == masks) == pytest.approx(metrics["pixel_accuracy"])


def test_an_evaluation_draws_the_worst_images(tmp_path):
    data, run = testing.write_pairs(tmp_path / "pairs"), str(tmp_path / "run")
    options = dict(SMALL, steps=2, steps_per_call=1, best_metric=None)
    summary = testing.train("segmentation", run, data=data, **options)
    assert os.listdir(os.path.join(run, "reports", "test-2")) == ["worst.png"]
    page = summary["test"]["page"]
    assert [picture["file"] for picture in page["pictures"]] == ["worst.png"]
    assert dict(page["tables"][0]["rows"]) == summary["test"]["iou"]


def test_images_with_one_class_each_are_refused(tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"))
    with pytest.raises(DataError, match="a class for each pixel"):
        testing.train("segmentation", str(tmp_path / "run"), data=data)


def test_sides_that_cannot_be_halved_so_often_are_refused(tmp_path):
    data = testing.write_pairs(tmp_path / "pairs", size=12)
    with pytest.raises(UsageError, match="3 times, and they have 12 x 12"):
        testing.train("segmentation", str(tmp_path / "run"), data=data, levels=3)
