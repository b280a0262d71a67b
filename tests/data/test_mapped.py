"""Data that is decoded once into the cache: what is read again, what is found damaged."""

import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from data_fixtures import NUM_IMAGES

from toolkit.data.decoded import Decoded
from toolkit.data.examples import Split
from toolkit.data.files import cache as cache_module
from toolkit.data.images import image_files
from toolkit.data.images.image_file import ImageForm
from toolkit.data.readers import mapped
from toolkit.data.readers.mapped import decode_splits
from toolkit.display.waits import Wait
from toolkit.errors import DataError, RetryError


@pytest.fixture
def cache(cache, monkeypatch):
    monkeypatch.setattr(mapped, "_CHUNK_BYTES", 6 * 7)  # seven images
    return str(cache)


def images(paths):
    def decode(row):
        return image_files.read_image(paths[row], ImageForm(channels=1))

    return Decoded(decode, (len(paths), 2, 3, 1), identity="digest", paths=paths)


@pytest.fixture
def not_quick(monkeypatch):
    """Data of any size are decoded into the cache."""
    monkeypatch.setattr(mapped, "_QUICK_ROWS", 1)


def map_rows(values):
    return decode_splits({"": Split(values)})[""].columns["features"].values


def entry_file(cache, name="rows.npy"):
    (folder,) = os.listdir(os.path.join(cache, "decoded"))
    return os.path.join(cache, "decoded", folder, "content", name)


def cut(path):
    os.truncate(path, os.path.getsize(path) - 1)


@pytest.mark.parametrize(
    "name, damage", [("rows.npy", cut), ("rows.npy", os.remove), ("entry.json", cut)]
)
def test_a_damaged_entry_is_written_again(paths, cache, reads, name, damage, not_quick):
    map_rows(images(paths))
    damage(entry_file(cache, name))
    rows = map_rows(images(paths))
    assert rows[:, 1, 2, 0].tolist() == list(range(NUM_IMAGES)) and len(reads) == 2 * NUM_IMAGES


def test_a_shape_may_have_integers_of_numpy(cache, not_quick):
    values = Decoded(lambda row: [row, 7], np.array([3, 2]), identity="a")
    assert map_rows(values).tolist() == [[0, 7], [1, 7], [2, 7]]


@pytest.mark.parametrize(
    "fault, error, text",
    [
        ("image", DataError, "20.png: expected an image"),
        ("interrupt", KeyboardInterrupt, None),
        ("source", DataError, "shard-3: Input/output error"),
        ("full disk", RetryError, "The cache cannot be written: .*No space left on device"),
    ],
)
def test_a_failure_leaves_no_entry(paths, cache, monkeypatch, fault, error, text, not_quick):
    values = images(paths)
    if fault == "image":
        os.truncate(paths[20], 50)
    elif fault == "source":
        fail = mock.Mock(side_effect=OSError(5, "Input/output error", "shard-3"))
        values = Decoded(fail, (9, 2, 3, 1), identity="a")
    elif fault == "full disk":
        full = mock.Mock(side_effect=OSError(28, "No space left on device"))
        monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    elif fault == "interrupt":
        monkeypatch.setattr(Wait, "show", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(error, match=text):
        map_rows(values)
    (folder,) = os.listdir(os.path.join(cache, "decoded"))
    assert os.listdir(os.path.join(cache, "decoded", folder)) == []


def test_a_cache_that_cannot_be_written_is_named_before_work_is_done(
    paths, cache, reads, not_quick
):
    Path(cache).write_text("the user's own")
    with pytest.raises(RetryError, match=f"^The cache cannot be written: {cache}") as error:
        map_rows(images(paths))
    assert error.value.exit_code == 138 and "TOOLKIT_CACHE" in error.value.hint
    assert not reads and Path(cache).read_text() == "the user's own"


# ----------------------------------------------------------------------------- the splits of a run


@pytest.fixture
def splits(paths):
    whole = Split(images(paths), np.arange(NUM_IMAGES) % 3)
    return {"train": whole.subset(np.arange(20)), "test": whole.subset(np.arange(20, NUM_IMAGES))}


def values_of(splits):
    return {name: split.columns["features"].values for name, split in splits.items()}


def check_content(splits):
    assert splits["train"].take(slice(None))[0][:, 0, 0, 0].tolist() == list(range(20))
    assert splits["test"].take(np.array([1, 0]))[0][:, 1, 2, 0].tolist() == [21, 20]
    assert splits["test"].labels.tolist() == [n % 3 for n in range(20, NUM_IMAGES)]


def test_little_data_is_decoded_into_memory_once_for_all_splits(splits, cache, reads):
    result = decode_splits(splits)
    check_content(result)
    assert isinstance(values_of(result)["train"], np.ndarray) and len(reads) == NUM_IMAGES
    assert not os.path.exists(cache)


@pytest.mark.parametrize("limit, value", [("_QUICK_ROWS", 1), ("_QUICK_BYTES", 6 * NUM_IMAGES)])
def test_other_data_is_decoded_into_the_cache(splits, cache, reads, monkeypatch, limit, value):
    """Many examples, or few in large files."""
    monkeypatch.setattr(mapped, limit, value)
    for _ in range(2):
        result = decode_splits(splits)
        check_content(result)
        assert isinstance(values_of(result)["train"], np.memmap) and len(reads) == NUM_IMAGES
        assert values_of(result)["train"] is values_of(result)["test"]


def test_a_streaming_reader_decodes_as_it_reads_and_plain_arrays_stay(splits, cache, reads):
    assert decode_splits(splits, "stream") is splits and not reads
    plain = {"train": Split(np.zeros((3, 2, 2, 1), np.uint8), [0, 1, 2])}
    assert decode_splits(plain) is plain


def test_auto_streams_what_is_larger_than_limit_and_disk(splits, cache, monkeypatch, not_quick):
    monkeypatch.setattr(mapped, "free_bytes", lambda: 2 * 6 * NUM_IMAGES - 2)
    assert decode_splits(splits, "auto", 6 * NUM_IMAGES - 1) is splits
    for reader, limit in (("auto", 6 * NUM_IMAGES), ("mapped", 0), ("resident", 0)):
        result = decode_splits(splits, reader, limit)
        assert isinstance(values_of(result)["train"], np.memmap)


def test_an_evaluation_decodes_only_what_it_reads(splits, cache, reads, not_quick):
    result = decode_splits(splits, is_repeated=False)
    assert not reads and not os.path.exists(cache)
    result["test"].take(slice(0, 2))
    assert len(reads) == 2
    decode_splits(splits)
    result = decode_splits(splits, is_repeated=False)
    assert isinstance(values_of(result)["test"], np.memmap)


def test_images_by_name_are_decoded_beside_other_arrays(paths, cache, not_quick):
    features = {"left": images(paths), "age": np.arange(NUM_IMAGES, dtype=np.float32)[:, None]}
    split = Split(features, {"right": images(paths)}).subset(np.array([4, 2]))
    result = decode_splits({"train": split})["train"]
    features, labels = result.take(slice(None))
    assert features["left"].max(axis=(1, 2, 3)).tolist() == [4, 2]
    assert features["age"].tolist() == [[4], [2]]
    assert labels["right"].max(axis=(1, 2, 3)).tolist() == [4, 2]
    assert result.components == split.components


# --------------------------------------------------------------- what a plugin decodes, or others


def large_array(value=0):
    array = np.zeros((1000, 2, 2, 1), np.uint8)
    array[1] = value
    return array


@pytest.mark.parametrize(
    "rows, options, is_decoded",
    [
        (1000, {"reader": "auto"}, True),
        (1000, {"reader": "mapped"}, True),
        (1000, {"reader": "mapped", "resident_limit": 100}, False),
        (10, {}, True),
        (10, {"is_repeated": False}, False),
    ],
)
def test_what_has_no_identity_never_shares_rows(cache, monkeypatch, rows, options, is_decoded):
    monkeypatch.setattr(mapped, "_QUICK_ROWS", 100)
    for value in (3, 4):
        array = large_array(value)[:rows]
        split = Split(Decoded(array.__getitem__, array.shape))
        split = decode_splits({"train": split}, **options)["train"]
        assert split.columns["features"].is_decoded == is_decoded
        assert split.take([1])[0].max() == value
    assert not os.path.exists(cache)


def test_a_shape_that_is_not_what_is_decoded_is_one_sentence(cache, not_quick):
    for identity in ("", "ab" * 20):
        values = Decoded(large_array().__getitem__, (1000, 2, 3, 1), identity=identity)
        with pytest.raises(DataError, match="Example .* shape .* expected") as error:
            decode_splits({"train": Split(values)})
        assert error.value.hint


def test_without_locks_a_second_writer_leaves_the_first_alone(paths, cache, monkeypatch, not_quick):
    """A second one begins while the first has decoded half of the rows."""
    refuse = mock.Mock(side_effect=OSError(95, "Operation not supported"))  # as file systems do
    monkeypatch.setattr(cache_module.fcntl, "flock", refuse)
    second = []

    def begin_second(wait, done):
        if not second:
            second.append(0)
            second[0] = map_rows(images(paths))[3].max()

    monkeypatch.setattr(Wait, "show", begin_second)
    with pytest.warns(RuntimeWarning, match="has no locks") as warnings:
        assert map_rows(images(paths))[3].max() == 3
    assert second == [3] and len(warnings) == 2
