"""`toolkit data show`: what is on the sheet; the presets, what beats them, and their table."""

import os

import numpy as np
import pytest
from file_fixtures import REPOSITORY
from PIL import Image

from toolkit import AugmentationOptions
from toolkit.data.spec import DataSpec
from toolkit.options import OFF
from toolkit.testing import write_digits

SHOW = ["data", "show"]


@pytest.fixture
def images(here):
    return write_digits("digits.npz", shape=(24, 48, 3))


def tiles(path, rows, columns, height=48, width=96):
    """uint8 [rows, columns, height, width, 3]: the tiles of a sheet, without their captions."""
    pixels = np.asarray(Image.open(str(path)))
    assert pixels.shape == (rows * (height + 16) + 4, columns * (width + 4) + 4, 3)
    tops, lefts = 4 + np.arange(rows) * (height + 16), 4 + np.arange(columns) * (width + 4)
    return np.array([[pixels[y : y + height, x : x + width] for x in lefts] for y in tops])


def test_without_augmentation_a_sheet_has_the_examples_alone(images, cli):
    code, out, err = cli(*SHOW, images, "--out", "sheet.png", "--examples", 3)
    assert (code, err) == (0, "")
    assert out == f"3 examples of {images}; changes: none\nsheet    sheet.png\n"
    with np.load("digits.npz") as arrays:
        first = arrays["x_train"][0]
    tile = tiles("sheet.png", 3, 1)[0, 0]
    assert (tile == first.repeat(2, axis=0).repeat(2, axis=1)).all()


def test_each_change_is_shown_alone_and_then_all_together(images, cli):
    args = ["--flip", "1", "--grey", "1", "--examples", 2, "--json"]
    facts = cli(*SHOW, images, "-o", "sheet.png", *args).json()
    assert facts["strengths"] == {"flip": 1.0, "grey": 1.0} and facts["examples"] == 2
    plain, flipped, grey, *everything = tiles("sheet.png", 2, 7)[1].astype(int)
    assert (flipped == plain[:, ::-1]).all()
    assert np.ptp(grey, axis=-1).max() <= 1 and np.ptp(plain, axis=-1).max() > 9
    for version in everything:
        assert (version == grey[:, ::-1]).all()


def test_the_size_of_images_can_be_set_as_for_a_run(here, cli):
    (here / "images").mkdir()
    Image.new("RGB", (50, 30), "red").save("images/x.png")
    args = ["--image-size", "96", "--test-share", "0", "--validation-share", "0", "--examples", 1]
    assert not cli.succeed(*SHOW, "images:images", "-o", "sheet.png", *args).err
    assert tiles("sheet.png", 1, 1, 96, 96)[0, 0, 48, 48].tolist() == [255, 0, 0]


def test_wrong_arguments_are_refused_in_one_sentence(images, cli):
    cli.refuse(2, "sheet.jpg: the sheet ends in .png.", *SHOW, images, "--out", "sheet.jpg")
    words = "Option 'flip' is '2' (flag --flip): should be less than or equal to 1."
    cli.refuse(2, words, *SHOW, images, "--flip", 2)


def test_examples_without_classes_have_a_sheet_and_vectors_do_not(here, cli):
    random = np.random.RandomState(0)
    np.savez("a.npz", x_train=random.rand(20, 6, 6, 3).astype("f4"), y_train=random.rand(20))
    np.savez("b.npz", x_train=random.rand(20, 7).astype("f4"), y_train=[0, 1] * 10)
    assert not cli.succeed(*SHOW, "npz:a.npz", "-o", "a.png", "--flip", 1, "--examples", 2).err
    cli.refuse(2, "which are not images", *SHOW, "npz:b.npz", "-o", "b.png", "--flip", 1)
    assert [path.name for path in here.glob("*.png")] == ["a.png"]


def test_flags_without_effect_are_noted(images, cli):
    flags = ["--examples", 1, "--fill", "reflect", "--rand-magnitude", 7]
    assert sorted(cli(*SHOW, images, "-o", "a.png", *flags).err.splitlines()) == [
        "note: fill (flag --fill) has no effect: nothing moves images beyond their border",
        "note: rand_magnitude (flag --rand-magnitude) has no effect: rand_augment is 0",
    ]


def test_auto_shows_what_the_data_choose(cli):
    words = [*SHOW, "mnist5k", "-o", "a.png", "--examples", 1, "--augment", "auto"]
    result = cli.succeed(*words)
    assert "shift 2, rotate 10, zoom 0.1, elastic 0.7\n" in result.out
    reason = "note: augment digits, because the images are grey and at most 40"
    assert result.err.startswith(reason)


def test_the_table_in_the_documents_has_the_values_of_the_presets():
    with open(os.path.join(REPOSITORY, "docs", "augmentation.md"), encoding="utf-8") as file:
        rows = [line.strip("| \n").split(" | ") for line in file if line.startswith("| `")]
    presets = AugmentationOptions.presets
    assert list(presets) == ["none", "digits", "photos", "pictures", "icons"]
    expected = {name: [_text(preset[name]) for preset in presets.values()] for name in OFF}
    assert {row[0].strip("`"): row[1:6] for row in rows} == expected


def _text(value):
    return value if isinstance(value, str) else f"{value:g}"


@pytest.mark.parametrize(
    "shape, dtype, preset",
    [
        ((28, 28, 1), "uint8", "digits"),
        ((40, 12, 1), "float32", "digits"),
        ((41, 12, 1), "uint8", "pictures"),
        ((28, 28, 3), "uint8", "pictures"),
        ((784,), "float32", "none"),
        ((), "string", "none"),
    ],
)
def test_the_data_choose_the_preset(shape, dtype, preset):
    name, reason = AugmentationOptions.choose_preset(DataSpec(shape, dtype), 100)
    assert name == preset and reason.startswith("the ")
