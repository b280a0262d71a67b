"""Folders of images as strangers bring them: understood, or refused in a sentence."""

import os

import numpy as np
import pytest
from data_fixtures import refusal_of
from PIL import Image

from toolkit.data.held_out import NOTHING
from toolkit.data.images.folder import list_images
from toolkit.data.images.image_file import ImageForm, parse_size, read_image
from toolkit.data.sources import ImageOptions, open_data
from toolkit.errors import DataError


def numbered(*names):
    """Files of these names: text, or images of 4 x 4 pixels that are the number of the file."""
    return {
        name: b"text" if name.endswith(".txt") else Image.new("L", (4, 4), number)
        for number, name in enumerate(names)
    }


def listing(folder):
    """Split -> (class names, files), the files relative to the folder."""
    return {
        split: (each.class_names, [os.path.relpath(path, folder) for path in each.paths])
        for split, each in list_images(folder).items()
    }


@pytest.mark.parametrize(
    "read, left_out",
    [
        (["car/1.png", "plane/1.png", "train/1.png"], []),  # a class may be called train
        (["cat/1.png", "cat/more/2.png", "dog/3.png"], []),
        (["cat/1.png"], ["cat/Thumbs.txt", "cat/._1.png", "__MACOSX/cat/1.png", "read.txt"]),
        (["cat/1.png"], ["cat/.hidden/2.png", "cat/@eaDir/2.png", "cat/__MACOSX/2.png"]),
    ],
)
def test_images_are_those_of_class_folders_and_below(tree, read, left_out):
    classes = tuple(sorted({name.split("/")[0] for name in read}))
    assert listing(tree(numbered(*read, *left_out))) == {"train": (classes, read)}


def test_what_is_not_read_is_noted(tree):
    images = ["cat/1.png", "cat/2.png"]
    folder = tree(numbered(*images, "cat/more/list.txt", "cat/.hidden.txt", "read.txt"))
    os.symlink(folder, os.path.join(folder, "cat", "linked"))
    assert open_data("images:" + folder).notes == [
        "Not read: 2 files beside the images (list.txt, read.txt).",
        "Links to folders are not followed (linked).",
    ]


def test_the_same_files_are_held_out_whatever_the_form(tree):
    pixels = np.random.RandomState(0).randint(0, 256, (60, 8, 8, 3)).astype(np.uint8)
    folder = tree({f"{'ab'[i % 2]}/{i}.png": Image.fromarray(pixels[i]) for i in range(60)})
    forms = ImageOptions(), ImageOptions(image_size=4), ImageOptions(channels=1)
    splits = [open_data(f"images:{folder}", images=form).splits["test"] for form in forms]
    tests = [split.index.tolist() for split in splits]
    assert tests[0] == tests[1] == tests[2] and len(tests[0]) == 6


@pytest.mark.parametrize("name", ["training", "TRAIN"])
def test_names_of_splits_have_any_case(tree, name):
    folder = tree(numbered(name + "/a/1.png", "Valid/a/1.png", "testing/a/1.png"))
    assert sorted(listing(folder)) == ["test", "train", "validation"]


@pytest.mark.parametrize(
    "names, text",
    [
        (["tr/a/1.png", "test/a/1.png", "val/a/1.png"], "found test, val beside tr"),
        (["test/a/1.png", "val/a/1.png"], "found test, val without 'train'"),
        (["car/1.png", "train/car/1.png"], "found train beside car"),
        (["train/a/1.png", "val/a/1.png", "validation/a/1.png"], "'val' and 'validation' are both"),
        (["a/1.png", "1.png", "2.png"], "found 2 images (1.png, ...) beside the class folders a"),
        (["train/a/1.png", "train/2.png"], "found 1 image (2.png, ...) beside the class folders a"),
        (["train/a/1.png", "test/a/1.png", "3.png"], "1 image (3.png, ...) beside the folders"),
        (["train/a/1.png", "test/b/1.png"], "expected the classes of 'train' (a), found b"),
    ],
)
def test_a_folder_with_two_meanings_is_refused(tree, names, text):
    assert text in refusal_of(list_images, tree(numbered(*names)))


def test_a_test_split_without_classes_is_to_be_predicted(tree):
    folder = tree(numbered("train/a/1.png", "train/b/1.png", "test/1.png"))
    with pytest.raises(DataError) as error:
        list_images(folder)
    assert f"images:{folder}/train alone: 'toolkit predict'" in error.value.hint


def test_every_image_gets_its_form_from_the_options(tree):
    files = {}
    for name, size in (("a", (60, 20)), ("b", (20, 60))):
        files[f"{name}/1.png"] = Image.new("RGBA", size, (0, 0, 0, 0))
        files[f"{name}/1.png"].paste((0, 0, 0, 255), (0, 0, 10, 10))
    folder = tree(files)
    images = ImageOptions(image_size=20, channels=1, fit="stretch", background="#ff0000")
    data = open_data(f"images:{folder}", images=images, shares=NOTHING)
    form = ImageForm((20, 20), 1, "stretch", (255, 0, 0))
    expected = [read_image(os.path.join(folder, name), form) for name in files]
    assert (data.splits["train"].features == np.array(expected)).all()
    assert [note.split(" ")[0] for note in data.notes] == ["2", "2"]


@pytest.mark.parametrize(
    "sizes, text, size",
    [
        ([(40, 30), (9, 6), (9, 6), (90, 7)], "9x6 (?/1.png) to 40x30 (?/0.png)", "9x6"),
        ([(4, 6), (6, 4), (6, 4)], "4x6 (?/0.png) to 6x4 (?/1.png)", "6x4"),
        ([(2000, 1000), (2000, 1000), (8, 8)], "8x8 (?/2.png) to 2000x1000 (?/0.png)", "256x128"),
        ([(8, 8), (8, 8), (8, 9)], "8x8 (?/0.png) to 8x9 (?/2.png)", "8"),
    ],
)
def test_images_of_several_sizes_are_refused_with_a_size_to_choose(tree, sizes, text, size):
    folder = tree({f"{i}.png": Image.new("L", sides) for i, sides in enumerate(sizes)})
    with pytest.raises(DataError) as caught:
        open_data("images:" + folder)
    assert text.replace("?", folder) in caught.value.message
    assert caught.value.hint.endswith(f"for example --image-size {size}.")
    images = ImageOptions(image_size=size)
    assert open_data("images:" + folder, images=images).spec.shape[:2] == parse_size(size)[::-1]


def test_opening_decodes_no_image(tree, reads):
    colours = [(5 * number, 0, 0, 200) for number in range(50)]
    folder = tree({f"{c[0]}.png": Image.new("RGBA", (4, 4), c) for c in colours})
    data = open_data("images:" + folder)
    assert not reads
    assert data.notes == ["50 images with an alpha channel laid on #ffffff (--background)."]


def test_a_folder_that_cannot_be_read_is_named(tree, monkeypatch):
    folder = tree(numbered("cat/1.png", "dog/1.png"))
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="dog: Permission denied"):
        open_data("images:" + folder)


def test_a_flat_folder_has_no_labels(tree):
    data = open_data("images:" + tree({f"{i}.png": Image.new("RGB", (4, 4)) for i in range(3)}))
    assert data.spec[:4] == ((4, 4, 3), "uint8", 0, ()) and data.splits["train"].labels is None


def test_a_folder_without_images_is_refused(tree):
    folder = tree(numbered("cat/0.png"))
    os.mkdir(os.path.join(folder, "dog"))
    assert "dog: expected images" in refusal_of(list_images, folder)
    assert "expected images, found none" in refusal_of(list_images, os.path.join(folder, "dog"))
