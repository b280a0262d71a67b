"""`--data`: the sources, what each reads, and what it refuses."""

import os
import re
import struct
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from toolkit.data.arrays.npz import open_npz
from toolkit.data.check import check_data, check_source, contact_sheet
from toolkit.data.examples import Dataset, Split, describe
from toolkit.data.held_out import Shares
from toolkit.data.sources import SOURCES, ImageOptions, list_sources, open_data
from toolkit.errors import DataError, UsageError


def message(call, *args, **kwargs):
    """The message of the DataError that the call raises."""
    with pytest.raises(DataError) as error:
        call(*args, **kwargs)
    assert error.value.exit_code == 4 and error.value.hint
    return error.value.message


# -- the values


def test_an_unknown_source_gets_the_nearest_name():
    with pytest.raises(UsageError, match="(?s)'mnst5k'.*mnist5k"):
        open_data("mnst5k")


@pytest.mark.parametrize("value", ["idx:", "npz", "mnist5k:here"])
def test_a_missing_or_needless_path_is_an_error(value):
    with pytest.raises(UsageError, match="path"):
        open_data(value)


def test_relative_paths_start_from_the_base(idx_folder):
    folder = idx_folder()
    data = open_data("idx:idx", base=os.path.dirname(folder))
    assert data.name == "idx:idx" and len(data.splits["train"]) == 18


def test_every_source_is_listed(tmp_path):
    rows = {row["value"]: row for row in list_sources(str(tmp_path))}
    assert rows["mnist5k"]["offline"] and not rows["mnist"]["offline"]
    assert {"fashion-mnist", "idx:DIR", "npz:FILE", "images:DIR"} < set(rows)


# -- mnist5k


def test_mnist5k_is_split_evenly_and_never_ordered_by_class():
    data = open_data("mnist5k")
    counts = {name: np.bincount(split.labels).tolist() for name, split in data.splits.items()}
    assert counts == {"train": [400] * 10, "validation": [50] * 10, "test": [50] * 10}
    labels = data.splits["train"].labels
    assert data.splits["train"].features.shape == (4000, 28, 28, 1)
    assert 0.05 < np.mean(labels[1:] == labels[:-1]) < 0.15  # a tenth, as chance has it
    report = check_data(data, "mnist5k")
    assert report["in_train_and_test"] == report["in_train_and_validation"] == 0


# -- splits


def test_a_split_checks_that_its_arrays_fit():
    images = np.zeros((3, 2, 2), np.uint8)
    assert Split(images).shape == (2, 2, 1)
    assert "features 3, labels 2" in message(Split, images, [1, 2])
    assert "label -1" in message(Split, images, [0, 1, -1])
    assert "complex64" in message(Split, images.astype(np.complex64))
    assert "rank 2" in message(Split, np.zeros(3, np.uint8))


def test_a_subset_of_a_subset_keeps_its_examples():
    split = Split(np.arange(10, dtype=np.float32).reshape(10, 1), np.arange(10))
    part = split.subset(np.arange(10) % 2 == 1).subset([0, 4])
    assert part.features.tolist() == [[1.0], [9.0]] and part.labels.tolist() == [1, 9]


@pytest.mark.parametrize("share", [-0.1, 0.6])
def test_a_share_out_of_range_is_a_usage_error(idx_folder, share):
    with pytest.raises(UsageError, match="between 0 and 0.5"):
        open_data("idx:" + idx_folder(), shares=Shares(validation=share))


# -- npz


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(str(tmp_path / "data.npz"), **arrays)
        return str(tmp_path / "data.npz")

    return write


IMAGES = np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2)


@pytest.mark.parametrize("keys", [("x_train", "y_train"), ("images", "labels"), ("x", "y")])
def test_an_npz_is_read_under_each_of_its_names(npz, keys):
    data = open_npz(npz(**{keys[0]: IMAGES, keys[1]: np.arange(20) % 4}))
    assert data.spec[:4] == ((2, 2, 1), "uint8", 4, ("0", "1", "2", "3"))
    assert len(data.splits["test"]) == 2  # held out


def test_float_arrays_of_any_rank_stay_as_they_are(npz):
    data = open_npz(npz(x_train=np.full((20, 7), 2.5), x_test=np.zeros((3, 7))))
    assert data.spec[:4] == ((7,), "float32", 0, ()) and len(data.splits["test"]) == 3
    assert data.splits["train"].features[0, 0] == 2.5


def test_each_fault_of_an_npz_has_its_message(npz, tmp_path):
    assert "found none" in message(open_npz, str(tmp_path / "absent"))
    path = npz(x=np.array([[None, 1]]))
    assert "numbers in 'x', found Python objects" in message(open_npz, path)
    assert "20 labels" in message(open_npz, npz(x=IMAGES, y=np.arange(19)))
    assert "x_train, images" in message(open_npz, npz(pictures=IMAGES))
    floats = np.zeros((5, 2))
    floats[3, 1] = np.nan
    assert "NaN or infinity in example 3" in message(open_npz, npz(x=floats))
    assert "label -1" in message(open_npz, npz(x=IMAGES, y=np.arange(20) - 1))
    alike = npz(x_train=IMAGES, x_test=np.zeros((3, 5, 5), np.uint8))
    assert "found uint8 [5, 5, 1]" in message(open_npz, alike)
    with open(path, "r+b") as file:
        file.truncate(100)
    assert "a damaged zip file" in message(open_npz, path)
    np.save(path[:-1] + "y", np.zeros(3))
    assert "found one array" in message(open_npz, path[:-1] + "y")
    with open(path, "wb") as file:
        file.write(b"plain text")
    assert "bytes 70 6c 61 69" in message(open_npz, path)


def zip_file(path, **members):
    """A zip file with these bytes as its members."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name + ".npy", content)
    return path


def npy_header(kind, shape):
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text


def test_a_zip_file_behind_other_bytes_is_no_npz(npz, tmp_path):
    npz(x=IMAGES)
    content = (tmp_path / "data.npz").read_bytes()
    path = tmp_path / "other.npz"
    path.write_bytes(b"junk" + content)
    assert "found bytes 6a 75 6e 6b" in message(open_npz, str(path))
    np.save(str(tmp_path / "array.npy"), IMAGES)
    path.write_bytes((tmp_path / "array.npy").read_bytes() + content)
    assert "found one array" in message(open_npz, str(path))


@pytest.mark.parametrize(
    "content, text",
    [
        (npy_header("|u1", (10**15, 28, 28)), "array 'x', found"),  # 784 petabytes
        (npy_header("|u1", (10**30, 2)), "array 'x', found"),
        (npy_header("|u1", (20, 0)) + b"", "one value or more"),
        (npy_header("|no", (20, 2)), "array 'x', found"),
        (b"no array", "array 'x', found"),
        (b"", "array 'x', found"),
    ],
)
def test_an_npz_with_an_invalid_member_is_refused(tmp_path, content, text):
    assert text in message(open_npz, zip_file(str(tmp_path / "data.npz"), x=content))


@pytest.mark.parametrize("labels", [np.array(3), np.full(20, 2**62), np.full(20, 2**63, "uint64")])
def test_labels_of_an_npz_that_are_no_class_numbers_are_refused(npz, labels):
    assert "abel" in message(open_npz, npz(x=IMAGES, y=labels))


def test_a_number_beyond_float32_counts_as_infinite_without_a_warning(npz):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "infinity in example 0" in message(open_npz, npz(x=np.full((2, 2), 1e300)))


def test_a_check_finds_infinities_of_both_signs_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        split = Split(np.array([[np.inf], [-np.inf]]))
        dataset = Dataset("two", describe(split), {"train": split})
        assert "found NaN or infinity in examples 0 to 1" in message(check_data, dataset, "two")


@pytest.mark.parametrize(
    "fault, text",
    [
        (PermissionError(13, "Permission denied", "a.gz"), "a.gz: Permission denied."),
        (MemoryError(), "data that fits in memory"),
    ],
)
def test_a_system_error_becomes_a_data_error(monkeypatch, fault, text):
    def fail(settings):
        raise fault

    monkeypatch.setitem(SOURCES, "npz", SOURCES["npz"]._replace(open=fail))
    assert text in message(open_data, "npz:a.npz")


# -- images


def test_a_folder_for_each_class_gives_names_and_labels(image_folder):
    data = open_data("images:" + image_folder({"cat": 12, "dog": 8}))
    assert data.spec[:4] == ((4, 4, 1), "uint8", 2, ("cat", "dog"))
    assert {name: len(split) for name, split in data.splits.items()} == {
        "train": 16,
        "validation": 2,
        "test": 2,
    }
    assert len(data.sha256) == 20 and "cat/0.png" in data.sha256


def test_a_flat_folder_has_no_labels(image_folder):
    data = open_data("images:" + image_folder({".": 10}, mode="RGB"))
    assert data.spec[:4] == ((4, 4, 3), "uint8", 0, ()) and data.splits["train"].labels is None


def test_train_and_test_folders_are_splits(image_folder):
    image_folder({"a": 4, "b": 4}, root="images/train")
    folder = os.path.dirname(image_folder({"a": 2, "b": 1}, root="images/test"))
    data = open_data("images:" + folder, shares=Shares(validation=0))
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 8, "test": 3}


def test_image_size_and_channels_make_images_alike(image_folder):
    image_folder({"a": 5}, size=(9, 6))
    folder = image_folder({"b": 5}, size=(4, 7))
    assert "--image-size" in str(pytest.raises(DataError, open_data, "images:" + folder).value)
    text = message(open_data, "images:" + folder)
    assert "4x7" in text and "9x6" in text and text.count(".png") == 2
    data = open_data("images:" + folder, images=ImageOptions(image_size=8, channels=3))
    assert data.spec.shape == (8, 8, 3)


def test_an_unreadable_image_is_named_and_a_check_names_them_all(image_folder):
    folder = image_folder({"cat": 3, "dog": 3})
    for name, content in (("cat/1.png", b"no image"), ("dog/0.png", b"")):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    with open(os.path.join(folder, "dog/2.png"), "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 30)
    assert os.path.join("cat", "1.png") in message(open_data, "images:" + folder)
    report, data = check_source("images:" + folder)
    assert data is None and not report["ok"]
    assert [each["file"] for each in report["corrupt"]] == ["cat/1.png", "dog/0.png", "dog/2.png"]
    assert "an empty file" in report["corrupt"][1]["reason"]


def test_the_check_lists_every_damaged_file_of_pairs(tmp_path):
    for number in range(4):
        for side in ("a", "b"):
            path = tmp_path / side / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("L", (4, 4), number).save(str(path))
    for name in ("a/1.png", "b/3.png"):
        (tmp_path / name).write_bytes(b"no image")
    report, dataset = check_source(f"pairs:{tmp_path}")
    assert not report["ok"] and dataset is None
    assert [each["file"] for each in report["corrupt"]] == ["a/1.png", "b/3.png"]


def test_an_image_of_absurd_size_is_refused_by_name(image_folder):
    folder = image_folder({"cat": 2})
    head = struct.pack(">IIBBBBB", 50000, 50000, 8, 2, 0, 0, 0)
    with open(os.path.join(folder, "cat", "1.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, content in ((b"IHDR", head), (b"IDAT", b"")):
            file.write(struct.pack(">I", len(content)) + kind + content)
            file.write(struct.pack(">I", zlib.crc32(kind + content)))
    text = message(open_data, "images:" + folder)
    assert "1.png: expected an image, found Image size (2500000000 pixels)" in text


def test_broken_links_and_pipes_are_not_images(image_folder):
    folder = image_folder({"cat": 2})
    cat = os.path.join(folder, "cat")
    os.symlink("gone", os.path.join(cat, "2.png"))
    os.symlink("3.png", os.path.join(cat, "3.png"))
    os.symlink("loop", os.path.join(folder, "loop"))
    os.mkfifo(os.path.join(cat, "4.png"))
    report, _ = check_source("images:" + folder)
    assert [each["file"] for each in report["corrupt"]] == ["cat/2.png", "cat/3.png", "cat/4.png"]
    assert "No such file" in report["corrupt"][0]["reason"]
    assert report["corrupt"][2]["reason"] == "expected an image, found no regular file"


def test_an_empty_folder_is_an_error(tmp_path, image_folder):
    (tmp_path / "empty").mkdir()
    assert "expected images, found none" in message(open_data, "images:" + str(tmp_path / "empty"))
    folder = image_folder({"cat": 3})
    os.mkdir(os.path.join(folder, "dog"))
    assert "dog: expected images" in message(open_data, "images:" + folder)
    assert "found none" in message(open_data, "images:" + str(tmp_path / "absent"))


# -- check


def test_a_check_reports_counts_ranges_and_duplicates(idx_folder, tmp_path):
    report, data = check_source("idx:" + idx_folder())
    train = report["splits"]["train"]
    numbers = data.splits["train"].index  # the pixels of an image are its number
    assert train["examples"] == 18
    assert train["min"] == 0 and train["max"] == numbers.max()
    assert train["mean"] == round(numbers.sum() / (18 * 16.0), 6)
    assert sorted(train["class_counts"].values()) == [3, 3, 4, 4, 4]
    assert report["in_train_and_test"] == np.sum(numbers < 6)  # images 0 to 5 are in the test split
    contact_sheet(data, str(tmp_path / "sheet.png"))
    assert os.path.getsize(str(tmp_path / "sheet.png")) > 50


def test_the_list_of_sources_has_aligned_columns(cli):
    lines = cli("data", "list").out.splitlines()
    starts = [re.search(r" (offline|downloads) +", line) for line in lines]
    assert len(lines) == len(SOURCES) and len({match.start() for match in starts}) == 1
    assert len({match.end() for match in starts}) == 1
