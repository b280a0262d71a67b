"""Features and labels by name, of any type: through training, evaluation, prediction and export."""

import numpy as np
import pytest
from file_fixtures import read_json, read_text
from named_fixtures import Named, named_arrays, named_split

from toolkit import Column, Split, open_trained, testing, tf
from toolkit.compat import HAS_XLA
from toolkit.data.readers.reader import ReaderOptions, make_reader
from toolkit.errors import DataError, UsageError

READERS = ("resident", "stream")


def train(folder, plugin=Named, **options):
    options = {"steps": 6, "batch_size": 5, "log_steps": 1, **options}
    return testing.train(f"named_fixtures:{plugin.__name__}", str(folder), **options)


def read_batches(kind, split, count, longest=False, batch_size=5):
    with tf.Graph().as_default(), tf.Session() as session:
        options = ReaderOptions(kind, seed=1, pads_to_longest=longest)
        reader = make_reader(split, batch_size, options)
        step = tf.placeholder(tf.int64, [])
        batch = reader.batch(step)
        reader.initialize(session)
        return [session.run(batch, {step: number}) for number in range(count)]


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_gives_each_component_of_each_example(kind):
    expected_features, expected_labels = named_arrays(10)
    seen = []
    for features, labels in read_batches(kind, named_split(10), 2):
        for row, size in enumerate(features["size"]):
            number = int(round(size * 10))
            seen.append(number)
            length = features["words_length"][row]
            words = features["words"][row]
            assert words[:length].tolist() == expected_features["words"][number].tolist()
            assert (words[length:] == -1).all()
            assert features["note"][row].decode() == expected_features["note"][number]
            clip = features["clip"][row][: features["clip_length"][row]]
            for name, pixels in (("photo", features["photo"][row]), ("clip", clip)):
                expected = expected_features[name][number].astype(np.float32)
                assert np.array_equal(pixels, expected * np.float32(1 / 255))
            assert features["is_new"][row] == expected_features["is_new"][number]
            assert labels["is_cheap"][row] == expected_labels["is_cheap"][number]
            assert labels["price"][row] == expected_labels["price"][number]
            assert np.array_equal(labels["mask"][row], expected_labels["mask"][number])
        assert features["words"].shape[1] == features["words_length"].max()
        assert features["photo"].dtype == np.float32 and labels["mask"].dtype == np.int32
    assert sorted(seen) == list(range(10))


@pytest.mark.parametrize("kind", READERS)
def test_a_batch_can_be_padded_to_the_longest_sequence_of_all(kind):
    longest = read_batches(kind, named_split(), 4, longest=True, batch_size=1)
    assert {features["words"].shape[1] for features, _ in longest} == {5}


@pytest.mark.skipif(not HAS_XLA, reason="XLA compiles steps on TensorFlow 2.x")
def test_xla_refuses_text(tmp_path):
    with pytest.raises(UsageError, match="text"):
        train(tmp_path / "text", Named, xla="on")


@pytest.fixture
def run(made_once):
    """A run of `Named`."""
    return str(made_once(train, "run") / "run")


def test_an_evaluation_is_the_mean_over_all_examples(run):
    summary = read_json(run, "manifest.json")["summary"]
    with open_trained(run, trust=True) as trained:
        features, labels = named_arrays(9)
        predictions = trained.predictor.predict(features)
        errors = np.square(predictions["price"] - labels["price"])
        evaluator = trained.evaluator("eval")
        evaluator.load(trained.checkpoint)
        split = Split(features, labels)
        losses = [evaluator.evaluate(split, size).metrics["loss"] for size in (2, 9)]
        evaluator.close()
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] == pytest.approx(summary["test"]["metrics"]["loss"], rel=1e-6)
    assert losses[0] > errors.mean()
    assert predictions["mask"].shape == (9, 4, 6)


def test_an_export_takes_the_features_by_name(run, tmp_path):
    with open_trained(run, trust=True) as trained:
        result = trained.export(str(tmp_path / "model"))
        expected = trained.predict(named_arrays(9)[0])
    assert result["inputs"] == sorted([*named_arrays(9)[0], "clip_length", "words_length"])
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "model"))
        signature = model.signature_def["serving_default"]
        flat = named_split(9).read(slice(None))
        feeds = {signature.inputs[n].name: flat["features/" + n] for n in result["inputs"]}
        price = session.run(signature.outputs["price"].name, feeds)
    assert np.allclose(price, expected["price"], atol=1e-6)


@pytest.mark.parametrize(
    "features, message",
    [
        ({}, "The features are an empty dict"),
        ({"a b": [1.0]}, "A feature is named 'a b'"),
        ([[1], [1, 2]], "different lengths, and sequences need a name"),
        ({"a": [np.zeros([1, 2]), np.zeros([1, 3])]}, "have the shapes"),
        ({"a": [None, 1]}, "The feature 'a' is of type NoneType"),
        ({"a": np.zeros(3, complex)}, "complex128"),
        ({"w": [[1], [1, 2]], "w_length": [1, 2]}, "its lengths are 'w_length'"),
    ],
)
def test_components_that_do_not_fit_are_refused(features, message):
    with pytest.raises(DataError) as error:
        Split(features)
    assert message in error.value.message and error.value.hint


@pytest.mark.parametrize(
    "column, message",
    [
        (Column(np.array([3]), "class", num_classes=3), "the value 3 in example 0, expected 0 to"),
        (Column(np.array([2**63], np.uint64), kind="value"), "the value 9223372036854775808"),
    ],
)
def test_numbers_out_of_range_are_refused_when_they_are_read(column, message):
    split = Split(np.zeros([1, 2]), {"x": column})
    with pytest.raises(DataError) as error:
        split.take(slice(0, 1))
    assert message in error.value.message and error.value.hint


def test_the_command_predict_reads_features_by_name(cli, run, tmp_path):
    files = [str(tmp_path / f"{count}.npz") for count in (2, 5)]
    for path, count in zip(files, (2, 5)):  # sequences are padded
        flat = named_split(count).read(slice(None))
        arrays = {key[len("features/") :]: a for key, a in flat.items() if key.startswith("feat")}
        np.savez(path, **dict(arrays, note=arrays["note"].astype("S")))
    rows = cli("predict", run, *files, "--trust", "--json").ok().json()
    with open_trained(run, trust=True) as trained:
        expected = [trained.predict(named_arrays(count)[0])["price"] for count in (2, 5)]
    assert [row["price"] for row in rows] == pytest.approx(
        np.concatenate(expected).tolist(), abs=1e-5
    )
    np.savez(str(tmp_path / "x.npz"), size=np.zeros(3))
    for path, text in (("x.npz", "note [N] string, photo [N, 4"), ("x.png", "no such file")):
        cli.refuse(4, text, "predict", run, tmp_path / path, "--trust")


def test_a_run_names_each_component(run):
    features = "features/photo image uint8 4x6x3, features/size float32, features/words int64 ?"
    labels = "labels/is_cheap bool, labels/mask class of 3 uint8 4x6, labels/price float32)"
    assert f"{features}, {labels}" in read_text(run, "console.log")
