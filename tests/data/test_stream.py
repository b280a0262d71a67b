"""The streaming reader: components of any kind, any batch first, memory, threads."""

import tracemalloc

import numpy as np
import process_fixtures
import pytest
from data_fixtures import numbered_images
from reader_fixtures import read

from toolkit.compat import tf
from toolkit.data.column import Column, Sequences
from toolkit.data.decoded import Decoded
from toolkit.data.examples import Split
from toolkit.data.prepare import ExampleHooks
from toolkit.data.readers import stream
from toolkit.data.readers.batches import DEFAULT_BUFFER, ReaderOptions
from toolkit.data.readers.stream import StreamReader
from toolkit.errors import DataError, ToolkitError
from toolkit.storage.session_changes import find_session_changes

NUM_EXAMPLES = 23
WORDS = [np.arange(1, 2 + i % 7) for i in range(NUM_EXAMPLES)]  # 1, 1 2, 1 2 3, ...
FILLED = -1


def named_split(**sequence_form):
    """Components of every kind; the value "number" of example i is i."""
    numbers = np.arange(NUM_EXAMPLES)
    features = {
        "number": Column(numbers, kind="value"),
        "picture": numbered_images(NUM_EXAMPLES),
        "text": [f"text {i} é" for i in numbers],
        "weight": numbers / 2,
        "words": Column(WORDS, kind="value", padding=FILLED, **sequence_form),
    }
    labels = {"flag": numbers % 2 == 0, "mask": np.tile(numbers[:, np.newaxis], (1, 3))}
    return Split(features, labels)


def read_stream(split, batch_size, count, start=0, **options):
    """Flat batches from `start` on, as hooks get them."""
    return read(split, batch_size, range(start, start + count), kind="stream", **options)


def test_a_chunk_of_sequences_of_one_length_has_the_batches_of_single_reads():
    batches = read_stream(named_split(), 4, 5, pads_to_longest=True)
    with tf.Graph().as_default(), tf.Session() as session:
        reader = StreamReader(named_split(), 4, ReaderOptions(seed=1, pads_to_longest=True))
        flat = reader.chunk(tf.constant(0, tf.int64), 5, tf.constant(5))
        reader.initialize(session)
        chunk = session.run(flat)
    for number, batch in enumerate(batches):
        assert np.array_equal(chunk["features/words"][number], batch["features/words"])
        assert np.array_equal(chunk["labels/mask"][number], batch["labels/mask"])
    assert batches[0]["features/words"].shape == (4, 7)


def drop_short(features, labels):
    return len(features["words"]) > 2


def reverse_words(features, labels):
    words = features["words"][::-1]
    return {"words": np.append(words, words[:1]), "number": features["number"]}, labels["mask"][:1]


@pytest.mark.parametrize("pads_to_longest", [False, True])
def test_filter_and_convert_get_and_return_named_components(pads_to_longest):
    hooks = ExampleHooks(drop_short, reverse_words)
    batches = read_stream(named_split(), 4, 8, hooks=hooks, pads_to_longest=pads_to_longest)
    for batch in batches:
        rows = [batch["features/" + name] for name in ("words", "number", "words_length")]
        for row, number, length in zip(*rows):
            size = len(WORDS[number])
            assert size > 2 and length == size + 1
            assert row[:length].tolist() == [*WORDS[number][::-1], size]
            assert set(row[length:]) <= {FILLED}
        assert batch["features/words"].shape[1] == 8 or not pads_to_longest
    long = {i for i in range(NUM_EXAMPLES) if len(WORDS[i]) > 2}
    assert {n for batch in batches for n in batch["features/number"]} == long


def rows(count, error=None):
    """Examples that are decoded from nothing: example i has the pixels i."""

    def decode(row):
        if error is not None:
            raise error
        return np.full((8, 8, 1), row % 251)

    return Decoded(decode, (count, 8, 8, 1))


def test_several_threads_read_the_same_batches(monkeypatch):
    monkeypatch.setattr(stream, "count_cores", lambda: 8)
    split = Split(rows(5000), np.arange(5000))
    labels = np.array([batch["labels"] for batch in read_stream(split, 7, 300)])
    expected = stream.EpochOrder(5000, 1, DEFAULT_BUFFER).positions(0, 300 * 7)
    assert np.array_equal(labels.ravel(), expected)


def test_a_million_examples_are_read_in_parts_of_bounded_memory():
    split = Split(rows(10**6), np.zeros(10**6, np.uint8))  # 64 MB
    with tf.Graph().as_default(), tf.Session() as session:
        reader = StreamReader(split, 100, ReaderOptions(seed=1))
        features = reader.batch(tf.constant(0, tf.int64))[0]
        tracemalloc.start()
        reader.initialize(session, 5000)
        for _ in range(300):
            session.run(features.op)
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()  # when no thread reads: Python may crash if one frees memory meanwhile
    assert peak < 16 << 20


UNCLOSED = """
import time
import numpy as np
from toolkit.compat import tf
from toolkit.data.examples import Split
from toolkit.data.prepare import ExampleHooks
from toolkit.data.readers.stream import StreamReader

def convert(features, labels):
    time.sleep(0.0005)
    return features, labels

split = Split(np.zeros((500, 2), np.float32))
reader = StreamReader(split, 64, hooks=ExampleHooks(None, convert))
features = reader.batch(tf.constant(0, tf.int64))[0]
session = tf.Session()
reader.initialize(session)
session.run(features)
"""


def test_a_process_ends_while_batches_are_read_for_a_session_that_is_open():
    ended = process_fixtures.run(fresh=True, statements=UNCLOSED)
    assert ended.code == 0, ended.err


def test_a_map_that_is_cut_is_refused_before_it_is_read(tmp_path):
    path = str(tmp_path / "values.npy")
    np.save(path, np.arange(1, 97, dtype=np.int32))
    sequences = Sequences(np.load(path, mmap_mode="r"), np.arange(0, 97, 8))
    split = Split({"words": Column(sequences, kind="value")})
    with open(path, "r+b") as file:
        file.truncate(200)
    with pytest.raises(DataError, match=f"{path}: expected .* it changed"):
        split.take([11])


@pytest.mark.parametrize(
    "error, message",
    [
        (KeyError("row 3"), "Reading examples failed: KeyError: 'row 3'."),
        (OSError(5, "Input/output error"), "Reading examples failed: OSError: .*Input/output"),
        (DataError("a.png is damaged."), "a.png is damaged."),
    ],
)
def test_an_error_while_reading_is_one_sentence(error, message):
    with tf.Graph().as_default(), tf.Session() as session:
        reader = StreamReader(Split(rows(50, error), np.zeros(50, np.uint8)), 5)
        features = reader.batch(tf.constant(0, tf.int64))[0]
        reader.initialize(session)
        with pytest.raises(tf.errors.OpError):
            session.run(features)
        with pytest.raises(ToolkitError, match=message) as raised:
            raise reader.failure
    assert raised.value.exit_code == 4


def test_a_resume_says_that_examples_come_in_another_order():
    facts = {"versions": {}, "machine": {}, "plugins": {}, "data": {}, "partition": ""}
    for reader in ("mapped", "resident"):
        changes = find_session_changes({"reader": reader}, dict(facts, reader="stream"))
        assert ("reader was resident, now stream" in "".join(changes)) == (reader == "resident")
