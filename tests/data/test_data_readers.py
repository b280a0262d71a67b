"""Both readers: each example once an epoch, in an order that is a function of the seed alone."""

import re

import numpy as np
import pytest
from data_fixtures import numbered_images
from reader_fixtures import read, read_labels

from toolkit.compat import tf
from toolkit.data.examples import Split
from toolkit.data.prepare import ExampleHooks, prepare
from toolkit.data.readers import resident
from toolkit.data.readers.batches import convert_stored
from toolkit.data.readers.reader import ReaderOptions, make_reader
from toolkit.data.readers.resident import ResidentReader
from toolkit.data.readers.stream import StreamReader
from toolkit.errors import ToolkitError, UsageError

both = pytest.mark.parametrize("kind", ["resident", "stream"])


def numbered_split(count):
    """A split whose labels are the numbers of its examples."""
    return Split(numbered_images(count), np.arange(count))


def is_odd(features, labels):
    return features[0, 0, 0] % 2 == 1  # the pixel of an example is its number


def halve_size(features, labels):
    converted = features[::2, ::2].astype(np.float64) / 255
    return converted, None if labels is None else labels + 100


def build_reader(kind, split, batch_size, seed=0, filter=None, convert=None, **order):
    """A reader in the current graph. order: fields of `ReaderOptions`."""
    options = ReaderOptions(kind, seed, **order)
    return make_reader(split, batch_size, options, ExampleHooks(filter, convert))


@both
def test_each_example_comes_once_an_epoch_and_batches_straddle_epochs(kind):
    epochs = read_labels(numbered_split(10), 4, 10, kind=kind).reshape(4, 10)  # of 40 examples
    assert np.array_equal(np.sort(epochs), np.tile(np.arange(10), (4, 1)))
    assert len({tuple(epoch) for epoch in epochs}) == 4


@both
@pytest.mark.parametrize("start", [7, 19])
def test_a_resume_meets_the_batches_of_an_uninterrupted_run(kind, start):
    split, options = numbered_split(10), {"kind": kind, "shuffle_buffer": 4}
    whole = read_labels(split, 3, 25, **options)
    rest = read_labels(split, 3, 25 - start, start, **options)
    assert np.array_equal(rest, whole[start:])


def test_the_resident_order_is_the_same_on_both_versions_of_tensorflow():
    labels = read_labels(numbered_split(8), 8, 1, kind="resident", seed=3)
    assert labels.tolist() == [[3, 4, 5, 1, 7, 0, 2, 6]]


@both
def test_a_batch_may_be_the_whole_split_and_no_more(kind):
    rows = read_labels(numbered_split(6), 6, 2, kind=kind)
    assert np.array_equal(np.sort(rows), np.tile(np.arange(6), (2, 1)))
    with pytest.raises(UsageError, match="batch size is 7 but the split has 6"):
        build_reader(kind, numbered_split(6), 7)


def test_examples_are_not_in_the_graph_definition():
    with tf.Graph().as_default() as graph:
        ResidentReader(numbered_split(5000), 2).batch(tf.constant(0, tf.int64))
        assert len(graph.as_graph_def().SerializeToString()) < 50000


def read_chunks(kind, split, batch_size, size, counts, start=0, **options):
    """The batches of chunks of `size`, of which `counts` are read: flat key -> [n, B, ...]."""
    with tf.Graph().as_default(), tf.Session() as session:
        reader = build_reader(kind, split, batch_size, 1, **options)
        step, num_batches = tf.placeholder(tf.int64, []), tf.placeholder(tf.int32, [])
        flat = reader.chunk(step, size, num_batches)
        for key, tensor in flat.items():
            assert tensor.shape.as_list()[1:] == reader.form.batch_shape(key, batch_size)
        flat["features"] = convert_stored(flat["features"], "image")
        reader.initialize(session, start)
        chunks, position = [], start
        for count in counts:
            chunks.append(session.run(flat, {step: position, num_batches: count}))
            position += count
    for chunk, count in zip(chunks, counts):
        for values in chunk.values():
            assert len(values) == size
            assert kind == "resident" or not values[count:].any()  # they were not read
    parts = {key: [chunk[key][:count] for chunk, count in zip(chunks, counts)] for key in flat}
    return {key: np.concatenate(arrays) for key, arrays in parts.items()}


@both
@pytest.mark.parametrize(
    "counts, start, hooks, has_labels",
    [
        ([3, 2, 3], 5, {}, True),  # from the second epoch on
        ([2, 1, 2], 0, {"filter": is_odd, "convert": halve_size}, False),
    ],
)
def test_a_chunk_has_the_same_batches_as_single_reads(kind, counts, start, hooks, has_labels):
    size = 20 if hooks else 10
    split = Split(numbered_images(size), np.arange(size) if has_labels else None)
    batches = read_chunks(kind, split, 3, 3, counts, start, **hooks)
    numbers = range(start, start + sum(counts))
    expected = read(split, 3, numbers, hooks=ExampleHooks(**hooks), kind=kind)
    assert len(batches) == len(expected[0]) - 1 == (2 if has_labels else 1)
    for key, values in batches.items():
        assert np.array_equal(values, [each[key] for each in expected])


@both
def test_a_chunk_has_the_batches_that_the_cache_holds_and_at_least_one(kind, monkeypatch):
    def max_batches(cache_bytes):
        monkeypatch.setattr("toolkit.data.readers.batches.CHUNK_BYTES", cache_bytes)
        with tf.Graph().as_default():
            return build_reader(kind, numbered_split(30), 3).max_chunk_steps

    assert max_batches(3 * 16 * 5) == 5  # a batch of three images of 4 x 4 bytes
    assert max_batches(3 * 16 * 5 - 1) == 4
    assert max_batches(1) == 1


def test_resident_batches_of_distant_epochs_may_be_read_in_one_call():
    expected = read_labels(numbered_split(10), 4, 100, kind="resident")
    with tf.Graph().as_default(), tf.Session() as session:
        reader = ResidentReader(numbered_split(10), 4, ReaderOptions(seed=1))
        steps = [0, 99, 37, 3, 98, 2]
        labels = [reader.batch(tf.constant(step, tf.int64))[1] for step in steps]
        reader.initialize(session)
        for _ in range(5):
            assert np.array_equal(session.run(labels), expected[steps])


@both
@pytest.mark.parametrize(
    "features, values",
    [
        (np.array([0, 255], np.uint8).reshape(2, 1, 1, 1), [0.0, 1.0]),
        (np.array([[0, 255], [255, 0]], np.uint8), [0.0, 1.0, 1.0, 0.0]),
        (np.array([[-2.5], [7.0]], np.float32), [-2.5, 7.0]),
    ],
    ids=["image", "vector", "floats"],
)
def test_uint8_is_scaled_to_0_to_1_and_floats_stay(kind, features, values):
    (batch,) = read(Split(features), 2, [0], kind=kind)
    assert "labels" not in batch and batch["features"].dtype == np.float32
    assert batch["features"][np.argsort(batch["positions"])].ravel().tolist() == values


@both
def test_positions_are_those_of_the_examples_of_the_batch(kind):
    split = numbered_split(20)
    subset = prepare(split, ExampleHooks(is_odd))
    for batch in read(split, 3, range(7, 16), hooks=ExampleHooks(is_odd), kind=kind):
        assert np.array_equal(subset.labels[batch["positions"]], batch["labels"])


def test_a_split_within_the_limit_is_resident():
    split = numbered_split(10)  # 160 bytes
    with tf.Graph().as_default():
        assert isinstance(build_reader("auto", split, 2, resident_limit=159), StreamReader)
        assert not isinstance(build_reader("auto", split, 2, resident_limit=160), StreamReader)


# -- filter and convert


@pytest.mark.parametrize(
    "hooks, message",
    [
        ({"filter": lambda x, y: 1}, "'filter' returned 1 for example 0"),
        ({"filter": lambda x, y: y[0]}, "'filter' failed on example 0: TypeError"),
        ({"convert": lambda x, y: x}, "'convert' returned one ndarray for example 0"),
        ({"convert": lambda x, y: None}, "'convert' returned None for example 0"),
        ({"convert": lambda x, y: (x, y, 1)}, "'convert' returned 3 values"),
        ({"convert": lambda x, y: (x * 1j, y)}, "for example 0: Features are of type complex128"),
        ({"convert": lambda x, y: (7, y)}, "for example 0: Features have shape [1]"),
    ],
)
@both
def test_a_wrong_answer_names_the_hook(kind, hooks, message):
    with tf.Graph().as_default(), pytest.raises(ToolkitError) as error:
        build_reader(kind, numbered_split(4), 2, **hooks)
    assert message in error.value.message and error.value.exit_code == 1 and error.value.hint


def crop_label_3(features, labels):
    return features[: 2 if labels == 3 else 4], labels


def test_a_shape_that_differs_names_both_examples():
    split = numbered_split(8).subset([1, 3, 5])  # the examples 0, 1 and 2 of the subset
    forms = [f"features uint8 [{height}, 4, 1], labels int32 []" for height in (2, 4)]
    message = re.escape("{} for example 1 but {} for example 0".format(*forms))
    with pytest.raises(ToolkitError, match=message):
        prepare(split, ExampleHooks(is_odd, crop_label_3))
    with tf.Graph().as_default(), tf.Session() as session:
        reader = build_reader("stream", split, 3, filter=is_odd, convert=crop_label_3)
        features, _ = reader.batch(tf.constant(0, tf.int64))
        reader.initialize(session)
        with pytest.raises(tf.errors.OpError):
            session.run(features)
        with pytest.raises(ToolkitError, match=message):
            raise reader.failure


@pytest.mark.parametrize("num_bytes", [1, 25])
def test_examples_are_loaded_part_by_part(graph, monkeypatch, num_bytes):
    monkeypatch.setattr(resident, "LOAD_BYTES", num_bytes)  # an example has 12
    pixels = np.arange(60, dtype=np.uint8).reshape(5, 2, 6, 1)
    split = Split({"image": pixels, "text": ["a", "bc", "", "d", "e"]}, np.arange(5))
    split = split.subset(np.array([4, 0, 2, 3]))
    reader, sizes, read_rows = ResidentReader(split, 4), [], split.read
    features, labels = reader.gather(tf.range(4))

    def record(rows, keys):
        sizes.extend([rows.stop - rows.start] * ("features/image" in keys))
        return read_rows(rows, keys)

    monkeypatch.setattr(split, "read", record)
    with tf.Session() as session:
        reader.initialize(session)
        features, labels = session.run([features, labels])
    assert sizes == {1: [1] * 4, 25: [2] * 2}[num_bytes]
    assert np.allclose(features["image"] * 255, pixels[[4, 0, 2, 3]])
    assert features["text"].tolist() == [b"e", b"a", b"", b"d"] and labels.tolist() == [4, 0, 2, 3]
