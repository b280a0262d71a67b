"""`toolkit image-scores`: the ruler of a data set, without a generator."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from score_fixtures import make_options
from toolkit_image_scores import commands

import toolkit
from toolkit import DataError, DataSpec, Split


class TwoClasses:
    """Data without a run: 40 training and 20 test images of 8x8 pixels, in two classes."""

    data = DataSpec((8, 8, 1), "uint8", 2)

    def __init__(self, splits, **options):
        self.options, self.split = make_options(score_samples=100, **options), splits.get


@pytest.fixture
def data():
    """The splits that the data has; a test may change them."""
    random = np.random.RandomState(0)
    splits = {}
    for name, count in [("train", 40), ("test", 20)]:
        labels = np.arange(count) % 2
        light = 100 * labels[:, None, None, None]  # [N, 1, 1, 1]
        images = random.randint(0, 100, (count, 8, 8, 1)) + light
        splits[name] = Split(images.astype(np.uint8), labels)
    return splits


@pytest.fixture
def calibrate(data, monkeypatch):
    """`calibrate("--json")` -> the report, or without it the lines, and the flags of the data."""
    flags = {}

    def open_data(plugin, options, extensions):
        assert extensions == ["image-scores"]
        flags.update(options)
        return TwoClasses(data, **options)

    monkeypatch.setattr(toolkit, "open_data", open_data, raising=True)

    def call(*argv):
        argv = ["--features", "pixels"] + list(argv)
        text = CliRunner().invoke(commands.image_scores, argv, catch_exceptions=False).output
        return json.loads(text) if "--json" in argv else text.splitlines(), flags

    return call


def test_a_ruler_has_the_distance_of_each_damage_in_order_also_in_floors(calibrate):
    report, _ = calibrate("--json")
    distances = [mark["distance"] for mark in report["ruler"]]
    names = {mark["name"] for mark in report["ruler"]}
    assert distances == sorted(distances)
    floors = [mark["floors"] * report["floor"] for mark in report["ruler"]]
    assert floors == pytest.approx(distances)
    assert {"real images", "one class missing", "Gaussian pixels"} <= names
    assert (report["n"], report["m"], report["data"]) == (40, 20, "mnist5k")
    assert report["features"]["name"] == "pixels"


def test_a_ruler_is_printed_as_a_table(calibrate):
    text, _ = calibrate()
    assert text[0] == "mnist5k: 40 training images against 20 test images"
    assert text[1].startswith("features pixels, F = 64, sha256 ")
    assert text[2] == "FD: Frechet distance from the test images"
    assert text[3].startswith("floor: the FD that two sets of real images reach by sampling noise;")
    assert text[5].split() == ["FD", "x", "floor", "damage"]
    assert any(line.endswith("  one class missing") for line in text[6:])


def test_equal_images_have_a_floor_of_zero_and_no_multiples_of_it(calibrate, data):
    for name, count in (("train", 40), ("test", 20)):
        data[name] = Split(np.full((count, 8, 8, 1), 9, np.uint8), np.arange(count) % 2)
    report, _ = calibrate("--json")
    assert report["floor"] == 0 and {mark["floors"] for mark in report["ruler"]} == {None}
    lines = calibrate()[0][6:]
    assert {line.split()[1] for line in lines[: lines.index("")]} == {"-"}
    assert any(line.startswith("coverage says nothing here: ") for line in lines)


def test_any_option_of_the_data_can_be_set(calibrate):
    words = [
        "--data",
        "images:x",
        "--image-size",
        "8",
        "--channels",
        "1",
        "--set",
        "test-share=0.3",
    ]
    _, flags = calibrate(*words)
    assert flags == {
        **{"data": "images:x", "image_size": "8", "channels": "1", "test_share": "0.3"},
        "features": "pixels",
    }


@pytest.mark.parametrize("shape", [(40,), (40, 3), (40, 1)])
def test_labels_that_are_no_classes_make_a_ruler_without_classes(calibrate, data, shape):
    data["train"] = Split(data["train"].features, np.zeros(shape, np.float32))
    names = {mark["name"] for mark in calibrate("--json")[0]["ruler"]}
    assert "a 5-tap blur" in names
    assert not names & {"one class missing", "each class's mean image"}


@pytest.mark.parametrize(
    "name, split, message",
    [
        ("test", None, "'test', which has 0 examples(.|\n)*test_share"),
        ("train", Split(np.zeros((40, 3), np.float32)), r"'train', which has 40 examples \[3\]"),
    ],
)
def test_too_few_images_or_other_examples_make_no_ruler(calibrate, data, name, split, message):
    data[name] = split
    with pytest.raises(DataError, match=message):
        calibrate()
