"""Training on a `tf.data.Dataset` of a plugin."""

import numpy as np
import pytest
from linear_fixtures import Linear
from reader_fixtures import numbered_dataset, read, read_labels

import toolkit
from toolkit import DataError, ToolkitError, UsageError, hookimpl, testing, tf
from toolkit.data.examples import describe
from toolkit.data.prepare import ExampleHooks
from toolkit.data.readers.pipeline import read_dataset
from toolkit.data.readers.reader import ReaderOptions, make_reader

NUMBERS = numbered_dataset(10)


def test_the_split_has_the_first_examples():
    split = read_dataset(NUMBERS, 4)
    assert len(split) == 4 and split.components["features"][:2] == ((2, 2, 1), "uint8")
    assert split.labels.tolist() == [0, 1, 2, 3]
    assert len(read_dataset(NUMBERS, 100)) == 10


def test_training_reads_all_of_the_data_set_again_and_again():
    rows = read_labels(read_dataset(NUMBERS, 4), 4, 5, shuffle_buffer=1)
    assert rows.ravel().tolist() == list(range(10)) * 2


def test_a_reader_starts_at_any_batch():
    split = read_dataset(NUMBERS, 10)
    whole = read_labels(split, 3, 9, seed=5, shuffle_buffer=6)
    assert np.sum(whole == 0) > 2 and len(set(whole[:3].ravel())) > 6
    rest = read_labels(split, 3, 5, start=4, seed=5, shuffle_buffer=6)
    assert np.array_equal(rest, whole[4:])
    assert not np.array_equal(read_labels(split, 3, 9, seed=6, shuffle_buffer=6), whole)


def test_named_features_and_sequences_are_padded():
    def make():
        dataset = tf.data.Dataset.range(1, 7)
        return dataset.map(lambda n: ({"words": tf.range(n), "note": tf.as_string(n)}, {"y": n}))

    split = read_dataset(make, 6)
    assert split.components["features/words"].is_sequence
    (batch,) = read(split, 3, [1], shuffle_buffer=1)
    words = [[0, 1, 2, 3, 0, 0], [0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 5]]
    assert batch["features/words"].tolist() == words
    assert batch["features/words_length"].tolist() == batch["labels/y"].tolist() == [4, 5, 6]
    assert batch["features/note"].tolist() == [b"4", b"5", b"6"]


def test_texts_keep_their_zeros_and_may_be_vectors():
    texts = np.array([[b"a\0", b"b"], [b"c", b"\0"]], object)
    columns = {"all": texts, "first": texts[:, 0]}
    split = read_dataset(lambda: tf.data.Dataset.from_tensor_slices(columns), 2)
    assert split.features["all"].tolist() == texts.tolist()
    assert split.features["first"].tolist() == [b"a\0", b"c"]
    (batch,) = read(split, 2, [0], shuffle_buffer=1)
    assert batch["features/all"].tolist() == texts.tolist()


class Endless(Linear):
    """Learns from examples without end; the labels are the rows that are brighter."""

    @hookimpl
    def data(self, split):
        def make():
            dataset = tf.data.Dataset.range(1 << 40)
            label = lambda n: tf.cast(n % 3, tf.int32)  # noqa: E731
            image = lambda n: tf.one_hot(label(n), 6) * 200.0  # noqa: E731
            return dataset.map(
                lambda n: (tf.cast(tf.tile(image(n)[:, None, None], [1, 6, 1]), tf.uint8), label(n))
            )

        return toolkit.read_dataset(make, 30) if split in ("train", "test") else None


def test_a_run_on_an_endless_data_set_resumes_to_the_same_bits_and_says_what_it_gives_up(tmp_path):
    options = {"batch_size": 10, "shuffle_buffer": 40}
    testing.check_resume("test_pipeline:Endless", str(tmp_path), **options)
    (log, *_) = [path.read_text() for path in tmp_path.rglob("console.log")]
    assert "same bits only if the data set repeats itself exactly" in log
    assert "30 train, 30 test; 6x6x1 uint8, 3 classes" in log


def not_finite():
    dataset = tf.data.Dataset.from_tensors(tf.zeros([2]))
    return dataset.map(lambda x: tf.debugging.check_numerics(x / 0, "no"))


def batches_of_words():
    dataset = tf.data.Dataset.range(1, 7).map(lambda n: {"words": tf.range(n)})
    return dataset.padded_batch(3, {"words": [None]})


@pytest.mark.parametrize(
    "make, count, kind, message",
    [
        (NUMBERS, 0, UsageError, "The count is 0"),
        (lambda: tf.data.Dataset.range(0), 5, DataError, "has no examples"),
        (lambda: [1, 2], 5, ToolkitError, "an object of type list"),
        (lambda: tf.data.Dataset.from_tensors((1, 2, 3)), 5, DataError, "has 3 parts"),
        (not_finite, 5, DataError, "no : Tensor had"),
        (batches_of_words, 5, DataError, "the feature 'words' differ in more than their first"),
    ],
)
def test_a_data_set_that_cannot_be_read_is_one_sentence(make, count, kind, message):
    with pytest.raises(kind) as error:
        read_dataset(make, count)
    assert message in error.value.message and error.value.hint


def test_hooks_of_examples_and_other_readers_are_refused():
    split = read_dataset(NUMBERS, 4)
    with tf.Graph().as_default():
        with pytest.raises(UsageError, match="'filter' and 'convert'"):
            make_reader(split, 2, hooks=ExampleHooks(filter=lambda x, y: True))
        with pytest.raises(UsageError, match="--reader resident has no effect"):
            make_reader(split, 2, ReaderOptions("resident"))
        with pytest.raises(UsageError, match="no numbers by which"):
            make_reader(split, 2, ReaderOptions(by_number=True))


def words_then_longer_ones(is_declared=True):
    """Ten examples of three words and label 0, and then longer ones and larger labels."""

    def generate():
        for i in range(40):
            yield {"words": np.ones(3 if i < 10 else 9, np.int32)}, 0 if i < 10 else i % 4

    def make():
        shape = tf.TensorShape([None if is_declared else 3])
        types = ({"words": tf.int32}, tf.int32)
        return tf.data.Dataset.from_generator(generate, types, ({"words": shape}, []))

    return make


def test_a_first_size_of_none_is_a_sequence_though_the_first_examples_agree():
    split = read_dataset(words_then_longer_ones(), 10, num_classes=4)
    assert split.components["features/words"].shape == (None,)
    assert describe(split).num_classes == 4
    (batch,) = read(split, 4, [2], shuffle_buffer=1)
    assert batch["features/words"].shape == (4, 9) and batch["labels"].tolist() == [0, 0, 2, 3]
    assert batch["features/words_length"].tolist() == [3, 3, 9, 9]


def test_several_sizes_of_none_are_no_sequence():
    def make():
        image = lambda n: tf.placeholder_with_default(tf.zeros([2, 2, 1]), [None, None, 1])  # noqa: E731
        return tf.data.Dataset.range(3).map(lambda n: ({"photo": image(n)}, n))

    assert read_dataset(make, 3).components["features/photo"].shape == (2, 2, 1)


def test_classes_without_labels_are_refused():
    with pytest.raises(UsageError, match="num_classes is 3, and .* has no single label"):
        read_dataset(lambda: tf.data.Dataset.from_tensors(tf.zeros([2])), 5, num_classes=3)


def test_shapes_that_must_be_known_refuse_sequences():
    split = read_dataset(words_then_longer_ones(), 10)
    message = r"sequences of any length \(features/words\)"
    with tf.Graph().as_default(), pytest.raises(UsageError, match=message):
        make_reader(split, 4, ReaderOptions(pads_to_longest=True))
    fixed = read_dataset(words_then_longer_ones(is_declared=False), 10)
    with tf.Graph().as_default():
        assert make_reader(fixed, 4, ReaderOptions(pads_to_longest=True)).form.longest == {}
