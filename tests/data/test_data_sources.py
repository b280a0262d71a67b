"""What holds for each source of `--data`: splits, labels, a missing path; and `toolkit data`."""

import os
import re
import warnings
from unittest import mock

import numpy as np
import pytest
from data_fixtures import idx_bytes, png_bytes, refusal_of
from PIL import Image
from record_fixtures import example, png, records

from toolkit.data.check import check_data, check_source
from toolkit.data.examples import Dataset, Split, describe, iterate_slices
from toolkit.data.reading_options import ImageOptions
from toolkit.data.sources import list_sources, open_data
from toolkit.data_value import complete
from toolkit.errors import UsageError

# ---------------------------------------------------------------------------------- each source

# Each writes splits of examples: its name -> their numbers, which are their pixels or fields. The
# class of an example is its number modulo 3.


def write_idx(folder, splits):
    for name, numbers in splits.items():
        start = "train" if name == "train" else "t10k"
        images = np.array(numbers, np.uint8)[:, None, None] * np.ones([1, 3, 4], np.uint8)
        (folder / f"{start}-images-idx3-ubyte").write_bytes(idx_bytes(images))
        labels = np.array(numbers, np.uint8) % 3
        (folder / f"{start}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    return f"idx:{folder}"


def write_npz(folder, splits):
    arrays = {f"x_{name}": np.array(numbers)[:, None] / 2 * 2 for name, numbers in splits.items()}
    arrays.update({f"y_{name}": np.array(numbers) % 3 for name, numbers in splits.items()})
    np.savez(str(folder / "a.npz"), **arrays)
    return f"npz:{folder / 'a.npz'}"


def write_pictures(folder, splits, *patterns):
    for split, numbers in splits.items():
        for i, number in enumerate(numbers):
            for pattern in patterns:
                path = folder / pattern.format(split=split, i=i, label=number % 3)
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("L", (4, 3), 0 if "masks" in pattern else number).save(str(path))


def write_images(folder, splits):
    below = "{split}/" if len(splits) > 1 else ""
    write_pictures(folder, splits, below + "{label}/{i}.png")
    return f"images:{folder}"


def write_pairs(folder, splits, first="a/", second="b/"):
    write_pictures(folder, splits, *("{split}/" + way + "{i}.png" for way in (first, second)))
    return f"pairs:{folder}"


def write_masks(folder, splits):
    return write_pairs(folder, splits, "images/", "masks/")


def write_domains(folder, splits):
    return write_pairs(folder, splits, "a/x", "b/y")


def write_table(folder, splits):
    rows = [f"{float(n)},{n % 3},{name}\n" for name, numbers in splits.items() for n in numbers]
    (folder / "t.csv").write_text("".join(["a,label,split\n", *rows]))
    return f"table:{folder / 't.csv'}"


def write_records(folder, splits):
    for name, numbers in splits.items():
        contents = [example(image__encoded=png(n), image__class__label=n % 3) for n in numbers]
        (folder / f"{name}-0").write_bytes(records(*contents))
    return f"tfrecord:{folder}"


LABELLED = (write_idx, write_npz, write_images, write_table, write_records)
each_source = pytest.mark.parametrize("write", [*LABELLED, write_pairs])


@pytest.fixture
def opened(tmp_path, cache):
    """`opened(write, train=range(20))`: the data set of a source with these splits."""

    def call(write, **splits):
        (tmp_path / "data").mkdir()
        return open_data(write(tmp_path / "data", splits))

    return call


def numbers_of(split):
    features = split.take(slice(None))[0]
    features = features["a"] if isinstance(features, dict) else features
    return features.reshape(len(features), -1)[:, 0].tolist()


@each_source
def test_a_tenth_of_the_examples_is_held_out_for_each_split_that_the_data_lacks(opened, write):
    data = opened(write, train=range(20))
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 16, "validation": 2, "test": 2}
    assert sorted(sum(map(numbers_of, data.splits.values()), [])) == list(range(20))
    for split in data.splits.values() if write is not write_pairs else ():
        assert split.labels.tolist() == [number % 3 for number in numbers_of(split)]
        assert data.spec.class_names == ("0", "1", "2")


@each_source
def test_a_test_split_of_the_data_stays_as_it_is(opened, write):
    data = opened(write, train=range(20), test=range(20, 26))
    assert sorted(numbers_of(data.splits["test"])) == list(range(20, 26))
    parts = [numbers_of(data.splits[name]) for name in ("train", "validation")]
    assert len(parts[1]) == 2 and sorted(sum(parts, [])) == list(range(20))
    assert data.sha256 and all(len(value) == 64 for value in data.sha256.values())


@pytest.mark.parametrize("write", [*LABELLED, write_pairs, write_masks, write_domains])
def test_equal_examples_of_train_stay_together_beside_a_test_split(opened, write):
    splits = opened(write, train=[n // 3 for n in range(90)], test=range(50, 70)).splits
    train, held_out = (set(numbers_of(splits[name])) for name in ("train", "validation"))
    assert len(splits["test"]) == 20 and held_out and not train & held_out


@pytest.mark.parametrize("kind", ["idx", "npz", "images", "pairs", "table", "tfrecord"])
def test_a_missing_path_is_named(tmp_path, kind):
    text = refusal_of(open_data, f"{kind}:{tmp_path / 'absent'}")
    assert str(tmp_path / "absent") in text and re.search("found no|found none", text)
    if kind == "table":
        assert "found a folder" in refusal_of(open_data, f"table:{tmp_path}")


# ------------------------------------------------------------------------------------ the values


def test_what_is_no_source_and_no_path_gets_the_nearest_one(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    fotos = str(tmp_path / "fotos"), tmp_path / "photos"
    for value, nearest in (("photo", "photos"), fotos, ("mnst5k", "mnist5k")):
        with pytest.raises(UsageError, match="no source, and no file or folder") as error:
            open_data(value)
        assert error.value.hint == f"Did you mean '{nearest}'?"
    for value, way in (("idx:", "idx:DIR"), ("npz", "npz:FILE"), ("mnist5k:photos", ", or photos")):
        with pytest.raises(UsageError, match=f"(?s)path.*{way}"):
            open_data(value)


def test_a_file_of_a_pair_stands_for_its_folder(idx_folder):
    assert complete(os.path.join(idx_folder, "train-images-idx3-ubyte")) == f"idx:{idx_folder}"


def test_images_beside_one_folder_may_be_pairs(tmp_path):
    for name in ("images", "annotations"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="may be images:.* or pairs:"):
        complete(str(tmp_path))


@pytest.mark.parametrize(
    "folder, name, pattern",
    [
        ("a[1]", "x.tfrecord", "a[[]1]/*.tfrecord*"),
        ("a", "x.TFRecord", "a/*.TFRecord*"),
        ("a", "x-00.tfrec", "a/*.tfrec*"),
        ("a.tfrecord", "x-0-of-1", "a.tfrecord/*-of-*"),
    ],
)
def test_the_pattern_for_a_folder_of_records_fits_its_files(tmp_path, folder, name, pattern):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).write_bytes(b"")
    assert complete(str(tmp_path / folder)) == f"tfrecord:{tmp_path}/{pattern}"
    (tmp_path / folder / "y.TFRECORD").write_bytes(b"")
    with pytest.raises(UsageError, match="may be tfrecord:.* or tfrecord:"):
        complete(str(tmp_path / folder))


def test_every_source_is_listed(cli):
    rows = {row["value"]: row["what"] for row in list_sources()}
    assert {"fashion-mnist", "idx:DIR", "npz:FILE", "images:DIR"} < set(rows)
    lines = cli("data", "list").out.splitlines()
    assert dict(line.split(None, 1) for line in lines) == rows


def test_mnist5k_is_split_evenly_and_never_ordered_by_class():
    data = open_data("mnist5k")
    counts = {name: np.bincount(split.labels).tolist() for name, split in data.splits.items()}
    assert counts == {"train": [400] * 10, "validation": [50] * 10, "test": [50] * 10}
    labels = data.splits["train"].labels
    assert data.splits["train"].features.shape == (4000, 28, 28, 1)
    assert 0.05 < np.mean(labels[1:] == labels[:-1]) < 0.15  # a tenth, as chance has it
    report = check_data(data, "mnist5k")
    assert report["in_train_and_test"] == report["in_train_and_validation"] == 0


@pytest.mark.parametrize("size, counts", [(1, [1024, 76]), (1 << 24, [2, 1]), (1 << 25, [1, 1])])
def test_large_examples_are_read_a_few_at_a_time(size, counts):
    rows = np.broadcast_to(np.uint8(7), (sum(counts), size))
    assert [part.stop - part.start for part in iterate_slices(Split(rows))] == counts


@pytest.mark.parametrize(
    "fault, text",
    [
        (PermissionError(13, "Permission denied", "a.gz"), "a.gz: Permission denied."),
        (MemoryError(), "data that fits in memory"),
    ],
)
def test_a_system_error_becomes_a_data_error(monkeypatch, fault, text):
    monkeypatch.setattr("toolkit.data.arrays.npz.open_npz", mock.Mock(side_effect=fault))
    assert text in refusal_of(open_data, "npz:a.npz")


# ------------------------------------------------------------------------------------- data check


def test_a_check_reports_counts_ranges_and_duplicates(idx_folder):
    report, data = check_source("idx:" + idx_folder)
    train = report["splits"]["train"]
    numbers = data.splits["train"].index  # the pixels of an image are its number
    assert train["examples"] == 18
    assert train["min"] == 0 and train["max"] == numbers.max()
    assert train["mean"] == round(numbers.sum() / (18 * 16.0), 6)
    assert sorted(train["class_counts"].values()) == [3, 3, 4, 4, 4]
    assert report["in_train_and_test"] == np.sum(numbers < 6)  # images 0 to 5 are in the test split


def test_a_check_counts_the_examples_that_also_occur_with_another_class():
    split = Split(np.array([[1.0], [1.0], [1.0], [2.0], [2.0], [3.0]]), [0, 0, 1, 1, 1, 0])
    report = check_data(Dataset("equal", describe(split), {"train": split}), "equal")
    train = report["splits"]["train"]
    assert (train["duplicates"], train["contradicting"]) == (3, 3)


def test_a_check_does_not_count_the_padding_of_sequences():
    split = Split({"words": [np.array([5, 6]), np.array([7]), np.array([9, 9])]})
    report = check_data(Dataset("words", describe(split), {"train": split}), "words")
    ranges = report["splits"]["train"]["ranges"]
    assert ranges["features/words"] == {"min": 5, "max": 9, "mean": 7.2}


def test_a_check_finds_infinities_of_both_signs_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        split = Split(np.array([[np.inf], [-np.inf]]))
        dataset = Dataset("two", describe(split), {"train": split})
        assert "found NaN or infinity in examples 0 to 1" in refusal_of(check_data, dataset, "two")


def corrupt_files(value):
    report, data = check_source(value)
    assert data is None and not report["ok"]
    return {each["file"]: each["reason"] for each in report["corrupt"]}


WHOLE = png_bytes(4, 4, rows=b"\0" * 20)


def damaged_images(count):
    """Images of two classes, of which three cannot be read."""
    files = {f"{name}/{number}.png": WHOLE for name in ("cat", "dog") for number in range(count)}
    return {**files, "cat/1.png": b"no image", "dog/0.png": b"", "dog/2.png": WHOLE[:-30]}


def test_a_check_names_all_images_that_cannot_be_read(cli, tree):
    folder = tree(damaged_images(3))
    assert os.path.join("cat", "1.png") in refusal_of(open_data, "images:" + folder)
    reasons = corrupt_files("images:" + folder)
    assert list(reasons) == ["cat/1.png", "dog/0.png", "dog/2.png"]
    assert "an empty file" in reasons["dog/0.png"]
    result = cli("data", "check", folder)
    assert result.code == 4 and all(f"corrupt  {name}: " in result.out for name in reasons)
    os.mkdir(os.path.join(folder, "fox"))
    assert "fox: expected images, found none." in cli("data", "check", folder, "--skip-damaged").err


def test_damaged_images_are_left_out_counted_and_named(tree):
    folder = tree(damaged_images(30))
    dataset = open_data("images:" + folder, images=ImageOptions(skip_damaged=True))
    expected = "3 damaged images left out (cat/1.png, dog/0.png, dog/2.png; --skip-damaged)."
    assert dataset.notes[0] == expected
    assert sum(map(len, dataset.splits.values())) == len(dataset.files) == 57
    assert "cat/1.png" not in dataset.files and "cat/0.png" in dataset.files


def test_a_damaged_image_leaves_with_its_partner_and_never_a_whole_split(tree, tmp_path):
    value, images = write_pairs(tmp_path, {"train": range(20)}), ImageOptions(skip_damaged=True)
    for name in ("train/a/1.png", "train/b/3.png"):
        (tmp_path / name).write_bytes(b"no image")
    dataset = open_data(value, images=images)
    assert sum(map(len, dataset.splits.values())) == 18
    assert not {f"train/{side}/{n}.png" for side in "ab" for n in (1, 3)} & set(dataset.files)
    folder = tree({f"cat/{number}.png": b"no image" for number in range(3)})
    message = refusal_of(open_data, "images:" + folder, images=images)
    assert "none of its images can be read" in message
    with pytest.raises(UsageError, match="--skip-damaged has no effect on the data 'mnist5k'"):
        open_data("mnist5k", images=images)


def test_broken_links_and_pipes_are_not_images(tree):
    folder = tree({"cat/0.png": WHOLE})
    for name, target in (("cat/2.png", "gone"), ("cat/3.png", "3.png"), ("loop", "loop")):
        os.symlink(target, os.path.join(folder, name))
    os.mkfifo(os.path.join(folder, "cat", "4.png"))
    reasons = corrupt_files("images:" + folder)
    assert list(reasons) == ["cat/2.png", "cat/3.png", "cat/4.png"]
    assert "No such file" in reasons["cat/2.png"]
    assert reasons["cat/4.png"] == "expected an image, found not a regular file"
