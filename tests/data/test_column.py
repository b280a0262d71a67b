"""One component of many examples: what it is, and what its values may be."""

import numpy as np
import pytest
from data_fixtures import NUM_IMAGES, peak_of, refusal_of
from PIL import Image

from toolkit import Column, DataError, Decoded, Split, ToolkitError
from toolkit.data.column import Sequences
from toolkit.data.examples import describe
from toolkit.data.files.file_index import FileIndex
from toolkit.data.images.image_files import ImageFiles
from toolkit.data.prepare import ExampleHooks, prepare
from toolkit.data.readers.mapped import decode_splits
from toolkit.data.reading_options import ImageOptions
from toolkit.data.spec import DataSpec
from toolkit.errors import CheckpointError


def test_what_is_decoded_may_be_labels_and_grey_images():
    labels = Decoded(lambda row: row, (9,), "int64")
    images = Decoded(lambda row: np.full([4, 6], row), (9, 4, 6))
    split = Split(images, labels)
    assert split.labels.tolist() == list(range(9))
    assert split.features.shape == (9, 4, 6, 1)
    for part in (split, decode_splits({"train": split})["train"]):  # also once it is decoded
        assert part.take([1, 2])[0][:, 3, 5, 0].tolist() == [1, 2]


def test_files_are_read_as_the_rows_of_an_array_and_a_damaged_one_is_named(paths):
    images = ImageFiles("images", paths, FileIndex(), ImageOptions()).select(paths)
    column = Column(images).bind("features")
    assert not column.is_decoded
    assert column.component.describe() == "image uint8 2x3x1"
    other = ImageFiles("images", paths, FileIndex(), ImageOptions(fit="crop")).select(paths)
    assert other.identity != images.identity  # nor do they share cached pixels
    expected = np.broadcast_to(np.arange(NUM_IMAGES)[:, None, None, None], (NUM_IMAGES, 2, 3, 1))
    for rows in (slice(None), slice(3, 9, 2), slice(-2, None), [5, 5, 0], [], [-1]):
        rows = rows if isinstance(rows, slice) else np.array(rows, np.int64)
        assert np.array_equal(column.take(rows), expected[rows])
    odd = np.arange(NUM_IMAGES) % 2 == 1
    assert np.array_equal(column.take(odd), expected[odd])
    with pytest.raises(IndexError):
        images[[NUM_IMAGES]]
    Image.new("L", (9, 8)).save(paths[20])
    assert len(images[:20]) == 20
    with pytest.raises(DataError, match=f"{paths[20]}: expected 3x2 pixels, found 9x8"):
        images[:]


TAGS = Column([np.array([0, 1]), np.array([2])], kind="class", padding=255)


@pytest.mark.parametrize("labels", [np.array([[0, 1], [2, 255]], np.uint8), TAGS])
def test_void_is_no_class(labels):
    spec = describe(Split(np.zeros([2, 1]), {"tags": labels}))
    assert spec.labels["tags"].num_classes == 3


@pytest.mark.parametrize("kind", ["image", "class", "value"])
def test_bytes_are_what_was_declared_in_training_and_in_evaluation(kind):
    features = Column(np.zeros([4, 8], np.uint8), kind)
    assert describe(Split(features, [0, 1, 0, 1])).flat["features"].kind == kind


def test_sequences_of_classes_are_padded_with_what_is_no_class():
    tags = Column([np.array([0, 1]), np.array([2])], kind="class", num_classes=3, padding=-1)
    frames = [np.ones([n, 5], np.uint8) for n in (1, 3)]
    features, labels = Split({"frames": frames}, {"tags": tags}).take([1, 0])
    assert labels["tags"].tolist() == [[2, -1], [0, 1]] and features["frames"].shape == (2, 3, 5)
    wrong = Column([np.array([0, 3]), np.array([2])], kind="class", num_classes=3)
    assert "has the value 3" in refusal_of(Split, {"x": np.zeros([2, 1])}, {"tags": wrong})


@pytest.mark.parametrize("padding", ["<pad>", "é"])
def test_texts_may_be_padded_with_a_longer_one(padding):
    split = Split({"words": Column([["ab"], ["c", "d"]], padding=padding)})
    assert split.take([0, 1])[0]["words"].tolist() == [[b"ab", padding.encode()], [b"c", b"d"]]


@pytest.mark.parametrize("padding", [-1, 0.5, "x"])
def test_padding_is_of_the_type_of_its_component(padding):
    column = Column([np.ones(1, np.uint8), np.ones(2, np.uint8)], padding=padding)
    assert f"the padding {padding!r}, which is no uint8" in refusal_of(Split, {"w": column})


def test_a_scalar_is_no_sequence():
    split = Split({"w": [np.ones(1), np.ones(2)]})
    with pytest.raises(ToolkitError, match="no example for example 0: .* has no length"):
        prepare(split, ExampleHooks(convert=lambda features, labels: ({"w": 3}, labels)))


@pytest.mark.parametrize("count", [-1, 2.5, True, "ten"])
def test_the_number_of_classes_is_a_whole_number(count):
    with pytest.raises(DataError, match=f"num_classes is {count!r}, expected a whole number"):
        Column(np.arange(2), num_classes=count)


@pytest.mark.parametrize("index", [[True, False], [0.5, 1.0], [[0]], [2], [-3]])
def test_an_index_has_the_numbers_of_records(index):
    assert "expected numbers of 2 records" in refusal_of(Split, np.zeros([2, 1]), [0, 1], index)


def test_a_component_of_another_version_is_refused():
    parts = [[None], "int32", "value", 0, [], -1, 4]  # a field more than a component has
    stored = {"shape": [], "dtype": "int32", "components": [["features/w", parts]]}
    with pytest.raises(CheckpointError, match="not in the format of this version"):
        DataSpec.from_json(stored)


def test_reading_a_few_sequences_costs_nothing_for_the_others():
    count = 200000
    sequences = Sequences(np.zeros(count, np.int32), np.arange(count + 1))
    split = Split({"w": sequences}).subset(np.arange(1, count))
    split.take([0, 1])
    assert peak_of(lambda: split.take([7, 8])) < count  # an array of all would be larger


def test_each_converted_label_is_checked_for_its_range():
    answers = iter([0, 2**32 + 1])
    hooks = ExampleHooks(convert=lambda x, y: (x, next(answers)))
    message = "for example 1: Labels have the value 4294967297, expected"
    with pytest.raises(ToolkitError, match=message):
        prepare(Split(np.zeros([2, 2]), [0, 1]), hooks)


@pytest.mark.parametrize("texts", [["ab", "cd", "e"], [["ab", "cd"], ["e", "f"], ["g", "h"]]])
def test_texts_pass_through_convert(texts):
    split = Split({"note": np.array(texts, object)}, np.arange(3))
    converted = prepare(split, ExampleHooks(convert=lambda x, y: ({"note": x["note"]}, y)))
    notes = converted.take(slice(None))[0]["note"]
    assert notes.tolist() == np.array(texts, bytes).tolist() and notes.dtype == object
