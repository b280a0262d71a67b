"""Two folders of images: pairs, pictures with label images, and two domains."""

import json
import os

import numpy as np
import pytest
from data_fixtures import refusal_of
from linear_fixtures import Linear
from PIL import Image

from toolkit.data.column import VOID
from toolkit.data.held_out import DEFAULT_SHARES, NOTHING
from toolkit.data.images.pairs import list_pairs
from toolkit.data.same_data import check_fit, check_same_classes
from toolkit.data.sources import ImageOptions, open_data
from toolkit.data.spec import DataSpec
from toolkit.errors import DataError
from toolkit.options import CoreOptions
from toolkit.plugins import Plugin, Plugins
from toolkit.run_data import open_other_data


def picture(number, size=(6, 4)):
    return Image.new("RGB", size, (number, 2 * number, 3 * number))


def mask(values, size=(6, 4)):
    """A palette image whose pixels repeat some values, with colours that are not them."""
    pixels = np.resize(np.array(values, np.uint8), size[::-1])
    image = Image.fromarray(pixels)
    image.putpalette([7 * i % 256 for i in range(768)])
    return image


def opened(folder, shares=NOTHING, **images):
    return open_data("pairs:" + folder, images=ImageOptions(**images), shares=shares)


def masked(count, values=(0, 1, 2), first="images", second="masks", suffix=""):
    images = {f"{first}/{i}.jpg": picture(i) for i in range(count)}
    return {**images, **{f"{second}/{i}{suffix}.png": mask(values) for i in range(count)}}


@pytest.mark.parametrize(
    "first, second, suffix",
    [("images", "masks", ""), ("img", "Labels", ""), ("photos", "annotations", "_mask")],
)
def test_pictures_and_label_images_are_features_and_labels(tree, first, second, suffix):
    data = opened(tree(masked(3, first=first, second=second, suffix=suffix)))
    features, labels = data.splits["train"].take(slice(None))
    assert features.shape == (3, 4, 6, 3) and features.dtype == np.uint8
    assert labels.shape == (3, 4, 6) and labels[0, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert data.spec.labels.kind == "class" and data.spec.labels.num_classes == 3
    assert len(data.files) == len(data.sha256) == 6


def test_255_is_no_class_unless_it_is_the_only_other_number(tree):
    assert opened(tree(masked(2, (0, 3, 255)))).spec.labels.num_classes == 4
    data = opened(tree({f"masks/{i}.png": mask((0, 255)) for i in range(2)}))
    assert data.spec.labels.num_classes == 2
    assert data.splits["train"].labels.max() == 1
    assert "saved as 0 and 255" in data.notes[0]


def test_label_images_are_resized_to_the_nearest_pixel_with_their_pictures(tree):
    left_half = Image.fromarray(np.repeat([[0] * 4 + [9] * 4], 4, axis=0).astype(np.uint8))
    folder = tree({"images/1.png": picture(1, (8, 4)), "masks/1.png": left_half})
    padded = opened(folder, image_size=4).splits["train"].labels[0]
    assert padded.tolist() == [[VOID] * 4, [0, 0, 9, 9], [0, 0, 9, 9], [VOID] * 4]
    cropped = opened(folder, image_size=4, fit="crop").splits["train"].labels
    assert cropped[0, 0].tolist() == [0, 0, 9, 9]
    wide = opened(folder, image_size="7x5", fit="stretch").splits["train"].labels
    assert set(np.unique(wide)) == {0, 9}


@pytest.mark.parametrize("mode", ["L", "P", "1"])
def test_a_pixel_is_a_grey_value_or_a_palette_index(tree, mode):
    pixels = Image.fromarray(np.array([[0, 1], [1, 0]], np.uint8) * (255 if mode == "1" else 1))
    if mode == "P":
        pixels.putpalette([200] * 768)
    pixels = pixels.convert("1") if mode == "1" else pixels
    data = opened(tree({"images/1.png": picture(1, (2, 2)), "masks/1.png": pixels}))
    assert data.splits["train"].labels.tolist() == [[[0, 1], [1, 0]]]


@pytest.mark.parametrize(
    "name, image, text",
    [
        ("masks/1.png", mask((0, 1), (3, 4)), "expected 6x4 pixels as in"),
        ("masks/1.png", picture(1), "found the mode RGB"),
        ("masks/1.jpg", mask((0, 1)).convert("L"), "a JPEG file"),
        ("masks/1.png", mask((255,)), "found only 255"),
    ],
)
def test_what_is_no_label_image_is_refused(tree, name, image, text):
    message = refusal_of(opened, tree({"images/1.png": picture(1), name: image}))
    assert os.path.join("tree", name) in message and text in message


def test_two_other_folders_are_named_features(tree):
    images = {f"input/{i}.png": picture(i) for i in range(3)}
    images.update({f"my target/{i}.jpg": picture(9, (5, 5)) for i in range(3)})
    data = opened(tree(images))
    features = data.splits["train"].take(slice(0, 2))[0]
    shapes = {name: array.shape for name, array in features.items()}
    assert shapes == {"input": (2, 4, 6, 3), "my_target": (2, 5, 5, 3)}
    assert data.splits["train"].take(np.array([2]))[0]["input"][0, 0, 0].tolist() == [2, 4, 6]


def test_folders_without_a_common_name_are_two_domains(tree):
    images = {f"horses/h{i}.png": picture(i) for i in range(5)}
    data = opened(tree({**images, **{f"zebras/z{i}.png": picture(50 + i) for i in range(2)}}))
    zebras = data.splits["train"].take(slice(None))[0]["zebras"][:, 0, 0, 0]
    assert zebras.tolist() == [50, 51, 50, 51, 50]
    assert "two domains, horses (5) and zebras (2)" in data.notes[0]


@pytest.mark.parametrize(
    "names",
    [
        ["train/a/1", "train/b/1", "val/a/2", "val/b/2"],
        ["a/train/1", "b/train/1", "a/val/2", "b/val/2"],
        ["trainA/1", "trainB/1", "valA/2", "valB/2"],
        ["a/train2017/1", "b/train2017/1", "a/val2017/2", "b/val2017/2"],
    ],
)
def test_splits_may_be_folders_outside_or_inside(tree, names):
    listings = list_pairs(tree({name + ".png": picture(1) for name in names}))
    assert sorted(listings) == ["train", "validation"]
    assert {listing.names for listing in listings.values()} == {("a", "b")}
    assert [len(paths) for paths in listings["train"].paths] == [1, 1]


def test_a_pair_may_be_in_folders_below(tree):
    names = ["images/x/1.png", "images/y/1.png", "masks/x/1.png", "masks/y/1.png"]
    listing = list_pairs(tree({name: mask((0,)) for name in names}))["train"]
    assert [path.split(os.sep)[-2] for path in listing.paths[1]] == ["x", "y"]


@pytest.mark.parametrize(
    "names, text",
    [
        (["1.png"], "expected two folders of images, found none"),
        (["a/1.png", "b/1.png", "c/1.png"], "found a, b, c"),
        (["a/1.png", "b/1.png", "1.png"], "images beside them (1.png, ...)"),
        (["a/1.png", "b/1.png", "b/2.png"], "found 1 image without a partner"),
        (["images/1.png", "masks/2.png"], "found 2 images without a partner"),
        (["masks/1.png", "labels/1.png"], "label images in both"),
        (["a/1.png", "a/1.bmp", "b/1.png"], "expected one image of each name"),
        (["testA/1.png", "testB/1.png"], "found a and b in 'test', and none in 'train'"),
        (["trainA/1.png", "testB/1.png"], "found b in 'test', and a in 'train'"),
        (["train/a/1.png", "train/b/1.png", "more/1.png"], "found train beside more."),
        (["a/train/1.png", "a/more/1.png", "b/1.png"], "found more, train in 'a'"),
        (["trainA/1.png", "trainB/1.png", "testA/1.png", "testB/2.png"], "equal names in some"),
    ],
)
def test_a_folder_that_is_no_pair_is_refused(tree, names, text):
    assert text in refusal_of(opened, tree({name: picture(1) for name in names}))


def contents(split, name=None):
    """The numbers of the pictures in a split."""
    features = split.take(slice(None))[0]
    return set((features[name] if name else features)[:, 0, 0, 0].tolist())


def check_apart(splits, name):
    """No picture of a folder is in two of the three splits."""
    parts = [contents(split, name) for split in splits.values()]
    assert len(parts) == 3 and sum(map(len, parts)) == len(set.union(*parts))


@pytest.mark.parametrize("side", ["a", "b"])
def test_pairs_that_share_an_image_are_in_one_split(tree, side):
    numbers = {"a": range(60), "b": range(100, 160)}
    numbers[side] = [i // 4 for i in range(60)]
    images = {f"{n}/{i}.png": picture(numbers[n][i]) for n in "ab" for i in range(60)}
    data = opened(tree(images), DEFAULT_SHARES)
    check_apart(data.splits, side)
    assert any("60 pairs share images with others" in note for note in data.notes)


def test_no_image_of_a_domain_is_in_two_splits(tree):
    images = {f"a/x{i}.png": picture(i) for i in range(40)}
    images.update({f"b/y{i}.png": picture(100 + i) for i in range(20)})
    splits = opened(tree(images), DEFAULT_SHARES).splits
    check_apart(splits, "a")
    check_apart(splits, "b")


def test_no_image_of_a_small_domain_or_of_its_partner_is_lost(tree):
    images = {f"a/x{i}.png": picture(i) for i in range(4)}
    folder = tree({**images, **{f"b/y{i}.png": picture(100 + i) for i in range(80)}})
    data = opened(folder, DEFAULT_SHARES)
    assert set.union(*(contents(each, "b") for each in data.splits.values())) == {*range(100, 180)}
    assert contents(data.splits["train"], "a") == {0, 1, 2, 3}
    assert any("No test and validation split" in note and "a (4)" in note for note in data.notes)


@pytest.mark.parametrize("orientation", [3, 6])
@pytest.mark.parametrize("ending", ["png", "tiff"])
def test_label_images_are_turned_upright_as_their_pictures(tmp_path, orientation, ending):
    pixels = np.zeros((6, 8), np.uint8)
    pixels[:3, :4] = 1
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name, value in (("images", 200), ("masks", 2)):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels * value).save(str(tmp_path / name / f"1.{ending}"), exif=exif)
    features, labels = opened(str(tmp_path)).splits["train"].take(slice(None))
    assert features.shape[1:3] == ((8, 6) if orientation == 6 else (6, 8))
    assert not features[0, 0, 0, 0]  # it was turned
    assert np.array_equal(labels[0] == 2, features[0, :, :, 0] == 200)


def open_other(folder, model):
    """The label images in a folder, as those that a model is evaluated on."""
    plugins = Plugins(Plugin.from_object(Linear(), "model"))
    value = "pairs:" + folder
    data = open_other_data(plugins, CoreOptions(data=value), value, model).dataset
    check_fit(data.spec.flat, model, "The data")
    return data.splits["train"].labels


@pytest.mark.parametrize(
    "values, others, expected",
    [
        ((0, 1, 2, 255), (0, 255), [0, VOID]),  # 255 was no class when the model was trained
        ((0, 1, 255), (0, 255), [0, VOID]),
        ((0, 1, 2), (0, 255), [0, VOID]),
        ((0, 255), (255,), [1, 1]),
        ((0, 255), (0, 1), [0, 1]),
        ((0, 1), (0, 255), [0, 1]),
    ],
)
def test_other_label_images_have_the_classes_of_the_model(tree, values, others, expected):
    model = opened(tree(masked(2, values))).spec
    stored = json.loads(json.dumps(model._asdict()))
    labels = open_other(tree(masked(2, others)), DataSpec.from_json(stored))
    assert labels[0, 0, :2].tolist() == expected


def test_label_images_with_more_classes_than_the_models_are_refused(tree):
    model = opened(tree(masked(2, (0, 1, 2)))).spec
    message = refusal_of(open_other, tree(masked(2, (0, 7))), model)
    assert "The data has labels of 8 classes" in message and "trained on 3" in message


@pytest.mark.parametrize("values, others", [((0, 1, 255), (0, 255)), ((0, 255), (0, 1, 255))])
def test_a_run_is_not_resumed_where_255_means_something_else(tree, values, others):
    record = {"stored": opened(tree(masked(2, values))).spec._asdict()}
    data = opened(tree(masked(2, others)))
    with pytest.raises(DataError, match="255 is (no class|the class 1) in the data's label images"):
        check_same_classes(record, data)
    check_same_classes(record, opened(tree(masked(2, (0, 1)))))
