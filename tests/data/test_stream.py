"""The streaming reader: components of any kind, any batch first, memory, threads."""

import tracemalloc

import numpy as np
import process_fixtures
import pytest
from named_fixtures import COUNT, named_arrays, named_split
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

WORDS = named_arrays()[0]["words"]  # one to five


def test_a_chunk_of_sequences_of_one_length_has_the_batches_of_single_reads():
    batches = read(named_split(), 4, range(5), kind="stream", pads_to_longest=True)
    with tf.Graph().as_default(), tf.Session() as session:
        reader = StreamReader(named_split(), 4, ReaderOptions(seed=1, pads_to_longest=True))
        flat = reader.chunk(tf.constant(0, tf.int64), 5, tf.constant(5))
        reader.initialize(session)
        chunk = session.run(flat)
    for number, batch in enumerate(batches):
        assert np.array_equal(chunk["features/words"][number], batch["features/words"])
        assert np.array_equal(chunk["labels/mask"][number], batch["labels/mask"])
    assert batches[0]["features/words"].shape == (4, 5)


def reverse_words(features, labels):
    words = features["words"][::-1]
    return {"words": np.append(words, words[:1]), "size": features["size"]}, labels["mask"][:1]


@pytest.mark.parametrize("pads_to_longest", [False, True])
def test_filter_and_convert_get_and_return_named_components(pads_to_longest):
    hooks = ExampleHooks(lambda features, labels: len(features["words"]) > 2, reverse_words)
    options = {"kind": "stream", "pads_to_longest": pads_to_longest}
    batches = read(named_split(), 4, range(8), hooks, **options)
    for batch in batches:
        batch["numbers"] = np.rint(batch["features/size"] * COUNT).astype(int)
        rows = zip(*[batch[key] for key in ("features/words", "features/words_length", "numbers")])
        for row, length, number in rows:
            words = WORDS[number][::-1]
            assert length == len(words) + 1 > 3
            assert row[:length].tolist() == [*words, words[0]]
            assert set(row[length:]) <= {-1}
        assert batch["features/words"].shape[1] == 6 or not pads_to_longest
    long = {i for i in range(COUNT) if len(WORDS[i]) > 2}
    assert {n for batch in batches for n in batch["numbers"]} == long


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
    labels = np.array([batch["labels"] for batch in read(split, 7, range(300), kind="stream")])
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
from toolkit import Split, tf
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
