"""`toolkit data show`: what is on the sheet, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from toolkit import cli
from toolkit.augmentation import sheet
from toolkit.testing import write_digits


def show(capsys, *args):
    """The exit code, stdout and stderr of `toolkit data show`."""
    code = cli.run_command(["data", "show", *map(str, args)])
    output = capsys.readouterr()
    return code, output.out, output.err


@pytest.fixture
def images(tmp_path):
    return write_digits(str(tmp_path / "digits.npz"), shape=(24, 48, 3))


def tiles(path, rows, columns, height=48, width=96):
    """uint8 [rows, columns, height, width, 3]: the tiles of a sheet, without their captions."""
    pixels = np.asarray(Image.open(str(path)))
    assert pixels.shape == (rows * (height + 16) + 4, columns * (width + 4) + 4, 3)
    tops, lefts = 4 + np.arange(rows) * (height + 16), 4 + np.arange(columns) * (width + 4)
    return np.array(
        [[pixels[top : top + height, left : left + width] for left in lefts] for top in tops]
    )


def test_without_augmentation_a_sheet_has_the_examples_alone(tmp_path, images, capsys):
    path = tmp_path / "sheet.png"
    code, out, err = show(capsys, images, "--out", path, "--examples", 3)
    assert (code, err) == (0, "")
    assert out == f"3 examples of {images}; changes: none\nsheet    {path}\n"
    with np.load(images[len("npz:") :]) as arrays:
        first = arrays["x_train"][0]
    tile = tiles(path, 3, 1)[0, 0]
    assert (tile == first.repeat(2, axis=0).repeat(2, axis=1)).all()


def test_each_change_is_shown_alone_and_then_all_together(tmp_path, images, capsys):
    path = tmp_path / "sheet.png"
    args = ["--flip", "1", "--grey", "1", "--examples", 2, "--versions", 3, "--json"]
    code, out, _ = show(capsys, images, "-o", path, *args)
    assert code == 0
    facts = json.loads(out)
    assert facts["strengths"] == {"flip": 1.0, "grey": 1.0} and facts["examples"] == 2
    plain, flipped, grey, *everything = tiles(path, 2, 6)[1].astype(int)
    assert (flipped == plain[:, ::-1]).all()
    assert np.ptp(grey, axis=-1).max() <= 1 and np.ptp(plain, axis=-1).max() > 9
    for version in everything:
        assert (version == grey[:, ::-1]).all()


def test_a_single_strength_takes_precedence_over_the_preset(tmp_path, images, capsys):
    path = tmp_path / "sheet.png"
    args = ["--augment", "photos", "--flip", "0", "--hue", "0.1", "--json", "--out", path]
    facts = json.loads(show(capsys, images, *args)[1])
    assert facts["strengths"]["hue"] == 0.1 and "flip" not in facts["strengths"]
    assert facts["strengths"]["crop"] == 0.125


def test_the_size_of_images_can_be_set_as_for_a_run(tmp_path, capsys):
    folder = tmp_path / "images" / "a"
    folder.mkdir(parents=True)
    for name in "xyz":
        Image.new("RGB", (50, 30), "red").save(str(folder / f"{name}.png"))
    path = tmp_path / "sheet.png"
    args = ["--image-size", "96", "--test-share", "0", "--validation-share", "0", "--examples", 1]
    code, _, err = show(capsys, f"images:{folder.parent}", "-o", path, *args)
    assert (code, err) == (0, "")
    assert tiles(path, 1, 1, 96, 96)[0, 0, 48, 48].tolist() == [255, 0, 0]


def test_large_images_are_thinned_out():
    assert sheet._fit_tiles(np.zeros([1, 900, 1000, 3])).shape == (1, 225, 250, 3)
    assert sheet._fit_tiles(np.zeros([1, 1, 1, 1])).shape == (1, 96, 96, 1)


@pytest.mark.parametrize(
    "args, message",
    [
        (["--out", "sheet.jpg"], "sheet.jpg: the sheet ends in .png."),
        (["--flip", "2"], "Option 'flip' is '2' (flag --flip): should be less than or equal to 1."),
        (["--augment", "faces"], "Option 'augment' is 'faces' (flag --augment): should be"),
        (["--data", "x"], "No such option"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(images, capsys, args, message):
    code, out, err = show(capsys, images, *args)
    assert (code, out) == (2, "") and message in err and "Traceback" not in err


@pytest.mark.parametrize("labels", [{}, {"y_train": np.linspace(0, 1, 20)}], ids=["none", "values"])
def test_images_without_classes_have_no_caption(tmp_path, labels, capsys):
    images = np.random.RandomState(0).rand(20, 6, 6, 3).astype(np.float32)
    np.savez(str(tmp_path / "a.npz"), x_train=images, **labels)
    path = tmp_path / "sheet.png"
    code, _, err = show(capsys, f"npz:{tmp_path}/a.npz", "-o", path, "--flip", 1, "--examples", 2)
    assert (code, err) == (0, "") and path.exists()


def test_examples_that_are_no_images_are_refused(tmp_path, capsys):
    np.savez(str(tmp_path / "a.npz"), x_train=np.zeros([20, 7], np.float32), y_train=[0, 1] * 10)
    code, _, err = show(capsys, f"npz:{tmp_path}/a.npz", "--out", tmp_path / "sheet.png")
    assert code == 2 and "which are not images" in err
    assert not (tmp_path / "sheet.png").exists()


def test_with_a_plugin_the_sheet_shows_what_a_run_does(tmp_path, capsys):
    words = ["mnist5k", "-o", tmp_path / "a.png", "--examples", 1, "--versions", 1]
    code, out, err = show(capsys, *words, "--plugin", "classifier")
    assert code == 0 and "changes: shift 2, rotate 10, zoom 0.1, elastic 0.7\n" in out
    assert err.startswith("note: augment digits, because the images are grey and at most 40 pixels")
    code, out, err = show(capsys, *words, "--plugin", "gan")
    assert (code, out) == (2, "") and "Plugin 'gan' has no options that change" in err
