"""The plugin `segmentation`: its own drawings, and folders of images and masks."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import DataError, open_trained, testing


@pytest.fixture
def plugin(reference):
    return reference("segmentation")


def test_a_run_resumes_exactly(plugin, tmp_path):
    testing.check_resume(plugin, str(tmp_path / "run"), batch_size=8, filters=4)


def test_it_is_evaluated_predicts_and_exports(plugin, tmp_path):
    testing.check_inference(plugin, str(tmp_path / "run"), batch_size=8, filters=4)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_most_pixels_of_each_class_get_their_class(plugin, tmp_path, reader):
    summary = testing.train(plugin, str(tmp_path / "run"), reader=reader, steps=60)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        images, masks = trained.split("test").take(slice(None))
        predictions = trained.predict(images)["mask"]
    shares = [
        np.sum((predictions == k) & (masks == k)) / np.sum((predictions == k) | (masks == k))
        for k in range(3)
    ]
    assert summary["test"]["metrics"]["mean_iou"] == pytest.approx(np.mean(shares), abs=1e-3)
    assert np.mean(shares) > 0.6  # background everywhere: 0.28


def test_masks_in_files_replace_the_drawings(plugin, tmp_path):
    data = testing.write_pairs(tmp_path / "pairs")
    summary = testing.train(plugin, str(tmp_path / "run"), data=data, steps=150, filters=8)
    assert summary["test"]["metrics"]["mean_iou"] > 0.8


def test_images_with_one_class_each_are_refused(plugin, tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"))
    with pytest.raises(DataError, match="a class for each pixel"):
        testing.train(plugin, str(tmp_path / "run"), data=data)
