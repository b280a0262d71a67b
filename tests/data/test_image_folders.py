"""Folders of images as strangers bring them: understood, or refused in a sentence."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from toolkit.data.held_out import DEFAULT_SHARES, NOTHING
from toolkit.data.images.folder import list_images
from toolkit.data.images.image_file import ImageForm, ImageReader, parse_size
from toolkit.data.sources import ImageOptions, open_data
from toolkit.errors import DataError, UsageError


@pytest.fixture
def tree(tmp_path):
    """`tree("cat/1.png", "notes.txt")`: a folder with these files; returns its path."""

    def write(*names):
        root = tmp_path / "images"
        for number, name in enumerate(names):
            path = root / name
            os.makedirs(str(path.parent), exist_ok=True)
            if name.endswith(".txt"):
                path.write_bytes(b"text")
            else:
                Image.new("L", (4, 4), number).save(str(path), "PNG")
        return str(root)

    return write


def listing(folder):
    """Split -> (class names, files), the files relative to the folder."""
    return {
        split: (each.class_names, [os.path.relpath(path, folder) for path in each.paths])
        for split, each in list_images(folder).items()
    }


def refusal(folder):
    with pytest.raises(DataError) as error:
        list_images(folder)
    assert error.value.hint
    return error.value.message


def test_a_class_may_be_called_train(tree):
    folder = tree("car/1.png", "plane/1.png", "train/1.png")
    assert listing(folder)["train"][0] == ("car", "plane", "train")


def test_a_class_folder_may_have_folders(tree):
    folder = tree("cat/1.png", "cat/more/2.png", "dog/3.png")
    assert listing(folder)["train"][1] == ["cat/1.png", "cat/more/2.png", "dog/3.png"]


def test_other_files_and_hidden_ones_are_no_images(tree):
    folder = tree("cat/1.png", "cat/Thumbs.txt", "cat/._1.png", "__MACOSX/cat/1.png", "read.txt")
    assert listing(folder) == {"train": (("cat",), ["cat/1.png"])}


def test_folders_of_services_inside_a_class_are_left_out(tree):
    names = [".ipynb_checkpoints", "@eaDir", "__MACOSX", ".thumbnails"]
    folder = tree("cat/1.png", *(f"cat/{name}/2.png" for name in names))
    assert listing(folder)["train"][1] == ["cat/1.png"]


def test_what_is_not_read_is_noted(tree):
    folder = tree("cat/1.png", "cat/2.png", "cat/more/list.txt", "cat/.hidden.txt", "read.txt")
    os.symlink(folder, os.path.join(folder, "cat", "linked"))
    assert open_data("images:" + folder).notes == [
        "2 files beside the images are not read (list.txt, read.txt).",
        "Links to folders are not followed (linked).",
    ]


def test_the_same_files_are_held_out_whatever_the_form(tmp_path):
    for number in range(60):
        name = "ab"[number % 2]
        os.makedirs(str(tmp_path / name), exist_ok=True)
        pixels = np.random.RandomState(number).randint(0, 256, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(str(tmp_path / name / f"{number}.png"))
    tests = [
        open_data(f"images:{tmp_path}", images=options).splits["test"].index.tolist()
        for options in (ImageOptions(), ImageOptions(image_size=4), ImageOptions(channels=1))
    ]
    assert tests[0] == tests[1] == tests[2] and len(tests[0]) == 6


@pytest.mark.parametrize("name", ["training", "TRAIN", "Train"])
def test_names_of_splits_have_any_case(tree, name):
    folder = tree(name + "/a/1.png", "Valid/a/1.png", "testing/a/1.png")
    assert sorted(listing(folder)) == ["test", "train", "validation"]


@pytest.mark.parametrize(
    "names, text",
    [
        (
            ["train_data/a/1.png", "test/a/1.png", "val/a/1.png"],
            "found test, val beside train_data",
        ),
        (["test/a/1.png", "val/a/1.png"], "found test, val without 'train'"),
        (["test/1.png", "val/1.png"], "found test, val without 'train'"),
        (["car/1.png", "train/car/1.png"], "found train beside car"),
        (["train/a/1.png", "val/a/1.png", "validation/a/1.png"], "'val' and 'validation' are both"),
        (
            ["old/1.png", "1.png", "2.png"],
            "found 2 images (1.png, ...) beside the class folders old",
        ),
        (["train/a/1.png", "train/2.png"], "found 1 image (2.png, ...) beside the class folders a"),
        (
            ["train/a/1.png", "test/a/1.png", "3.png"],
            "found 1 image (3.png, ...) beside the folders",
        ),
        (["train/a/1.png", "test/b/1.png"], "expected the classes of 'train' (a), found b"),
    ],
)
def test_a_folder_with_two_meanings_is_refused(tree, names, text):
    assert text in refusal(tree(*names))


def test_every_image_gets_its_form_from_the_options(tmp_path):
    for name, size in (("a", (60, 20)), ("b", (20, 60))):
        (tmp_path / name).mkdir()
        image = Image.new("RGBA", size, (0, 0, 0, 0))
        image.paste((0, 0, 0, 255), (0, 0, 10, 10))
        image.save(str(tmp_path / name / "1.png"))
    images = ImageOptions(image_size=20, channels=1, fit="stretch", background="#ff0000")
    data = open_data(f"images:{tmp_path}", images=images, shares=NOTHING)
    form = ImageForm((20, 20), 1, "stretch", (255, 0, 0))
    expected = [ImageReader(form).read(str(tmp_path / name / "1.png")) for name in "ab"]
    assert (data.splits["train"].features == np.array(expected)).all()
    assert [note.split(" ")[0] for note in data.notes] == ["2", "2"]


def test_a_split_of_equal_images_is_noted(tmp_path):
    (tmp_path / "a").mkdir()
    for number in range(4):
        Image.new("L", (4, 4), 0).save(str(tmp_path / "a" / f"{number}.png"))
    data = open_data(f"images:{tmp_path}")
    assert data.notes == ["All 4 images of 'train' are equal."]


@pytest.mark.parametrize(
    "images, text",
    [
        (ImageOptions(fit="squeeze"), "The fit is 'squeeze'"),
        (ImageOptions(background="reddish"), "'reddish' is no colour"),
        (ImageOptions(channels=2), "channels is 2"),
    ],
)
def test_a_wrong_image_option_is_refused(tree, images, text):
    with pytest.raises(UsageError, match=text):
        open_data("images:" + tree("a/1.png"), images=images)


@pytest.mark.parametrize(
    "images, flag",
    [
        (ImageOptions(image_size=32), "--image-size 32"),
        (ImageOptions(channels=3), "--channels 3"),
        (ImageOptions(fit="crop"), "--fit crop"),
        (ImageOptions(background="black"), "--background black"),
    ],
)
def test_an_image_option_without_effect_is_refused(images, flag):
    with pytest.raises(UsageError, match=f"{flag} has no effect on the data 'mnist5k'"):
        open_data("mnist5k", images=images)


def write_sizes(folder, *sizes):
    """PNGs 0.png, 1.png, ... of these sizes."""
    folder.mkdir()
    for number, size in enumerate(sizes):
        Image.new("L", size).save(str(folder / f"{number}.png"))
    return str(folder)


@pytest.mark.parametrize(
    "sizes, text, size",
    [
        ([(40, 30), (9, 6), (9, 6), (90, 7)], "9x6 (?/1.png) to 40x30 (?/0.png)", "9x6"),
        ([(4, 6), (6, 4), (6, 4)], "4x6 (?/0.png) to 6x4 (?/1.png)", "6x4"),
        ([(2000, 1000), (2000, 1000), (8, 8)], "8x8 (?/2.png) to 2000x1000 (?/0.png)", "256x128"),
        ([(8, 8), (8, 8), (8, 9)], "8x8 (?/0.png) to 8x9 (?/2.png)", "8"),
    ],
)
def test_images_of_several_sizes_are_refused_with_a_size_to_choose(tmp_path, sizes, text, size):
    folder = write_sizes(tmp_path / "images", *sizes)
    with pytest.raises(DataError) as caught:
        open_data("images:" + folder)
    assert text.replace("?", folder) in caught.value.message
    assert caught.value.hint.endswith(f"for example --image-size {size}.")
    images = ImageOptions(image_size=size)
    assert open_data("images:" + folder, images=images).spec.shape[:2] == parse_size(size)[::-1]


def test_classes_that_differ_in_their_case_are_noted(tree):
    notes = open_data("images:" + tree("cat/1.png", "Cat/1.png", "dog/1.png")).notes
    assert "The classes Cat and cat differ only in upper and lower case: are they one?" in notes


def test_opening_decodes_no_more_than_two_images(tmp_path, monkeypatch):
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(50):
        Image.new("RGBA", (4, 4), (5 * number, 0, 0, 200)).save(str(folder / f"{number}.png"))
    paths = []
    read = ImageReader.read
    monkeypatch.setattr(
        ImageReader, "read", lambda self, path: [paths.append(path), read(self, path)][1]
    )
    data = open_data(f"images:{folder}")
    assert len(set(paths)) == 2
    assert data.notes == ["50 images with an alpha channel laid on #ffffff (--background)."]


def test_a_folder_that_cannot_be_read_is_named(tree, monkeypatch):
    folder = tree("cat/1.png", "dog/1.png")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="dog: Permission denied"):
        open_data("images:" + folder)


def test_equal_images_of_train_stay_together_beside_a_test_folder(tmp_path):
    for split, count, copies in (("train", 60, 3), ("test", 20, 1)):
        for number in range(count):
            path = tmp_path / split / f"class{number % 2}" / f"{number:02}.png"
            os.makedirs(str(path.parent), exist_ok=True)
            content = number // (2 * copies) * 2 + number % 2 + 100 * (split == "test")
            Image.new("L", (4, 4), content).save(str(path))
    splits = open_data(f"images:{tmp_path}", shares=DEFAULT_SHARES).splits
    train, held_out = (
        set(splits[name].features[:, 0, 0, 0].tolist()) for name in ("train", "validation")
    )
    assert len(splits["test"]) == 20 and held_out and not train & held_out
