"""Arrays of an .npz file or in memory: what they become, and one sentence for each fault."""

import warnings

import numpy as np
import pandas
import pytest
from data_fixtures import npy_bytes, refusal_of, zip_bytes
from PIL import Image

from toolkit.data.arrays.kept import keep_arrays
from toolkit.data.arrays.npz import open_npz
from toolkit.data.column import as_array
from toolkit.data.reading_options import Settings
from toolkit.data.sources import ColumnOptions, open_data
from toolkit.errors import DataError

X = np.linspace(0, 1, 40, dtype=np.float32).reshape(20, 2)
IMAGES = np.arange(20 * 16, dtype=np.uint8).reshape(20, 4, 4)
EVEN = np.arange(20) % 2
TEXTS = EVEN.astype(str)


@pytest.fixture
def opened(tmp_path):
    """`opened(x=..., y=...)`: the data set of an .npz file with these arrays."""

    def write(label_kind="auto", **arrays):
        path = str(tmp_path / "a.npz")
        np.savez(path, **arrays)
        return open_data("npz:" + path, columns=ColumnOptions(label_kind=label_kind))

    return write


def parts(data):
    """Flat key -> kind, dtype and shape of a component."""
    return {key: (c.kind, c.dtype, c.shape) for key, c in data.splits["train"].components.items()}


@pytest.mark.parametrize(
    "labels, component, names",
    [
        (EVEN, ("class", "int32", ()), ("0", "1")),
        (EVEN[:, np.newaxis], ("class", "int32", ()), ("0", "1")),
        (np.array(["cat", "ant"])[EVEN], ("class", "int32", ()), ("ant", "cat")),
        (np.array([b"cat", b"ant"])[EVEN], ("class", "int32", ()), ("ant", "cat")),
        (EVEN == 1, ("class", "int32", ()), ("False", "True")),
        (EVEN / 2, ("value", "float32", ()), ()),
        (np.stack([EVEN, EVEN], axis=1), ("value", "float32", (2,)), ()),
        (np.stack([EVEN, EVEN], axis=1) == 1, ("value", "float32", (2,)), ()),
        (np.stack([EVEN, EVEN + 1], axis=1), ("class", "int32", (2,)), ()),
        (IMAGES % 3, ("class", "uint8", (4, 4)), ()),
        ((IMAGES % 3)[..., np.newaxis], ("class", "uint8", (4, 4)), ()),
    ],
)
def test_the_type_of_labels_decides_their_kind(opened, labels, component, names):
    data = opened(x=X, y=labels)
    assert parts(data)["labels"] == component
    assert data.spec.class_names == names


def test_an_option_decides_where_the_type_is_not_meant(opened):
    as_floats = EVEN.astype(np.float64)
    assert "--label-kind class" in opened(x=X, y=as_floats).notes[0]
    assert opened("class", x=X, y=as_floats).spec.class_names == ("0", "1")
    assert parts(opened("value", x=X, y=EVEN))["labels"][0] == "value"
    flags = np.stack([EVEN, EVEN], axis=1) == 1
    assert parts(opened("class", x=X, y=flags))["labels"] == ("class", "int32", (2,))
    assert "found complex128" in refusal_of(opened, label_kind="class", x=X, y=EVEN * 1j)
    assert "found the label 0.5" in refusal_of(opened, label_kind="class", x=X, y=EVEN / 2)
    assert "are values, found texts" in refusal_of(opened, label_kind="value", x=X, y=TEXTS)


def test_texts_are_numbered_over_all_splits(opened):
    texts = np.array(["b", "c"])[EVEN]
    data = opened(x_train=X, y_train=texts, x_test=X[:2], y_test=np.array(["a", "c"]))
    assert data.spec.class_names == ("a", "b", "c")
    assert data.splits["test"].labels.tolist() == [0, 2]


def test_arrays_with_a_common_prefix_are_named(opened):
    data = opened(x_train_Left=X, x_train_right=IMAGES, y_train_mask=IMAGES % 2, y_train_size=X)
    assert parts(data) == {
        "features/Left": ("value", "float32", (2,)),
        "features/right": ("image", "uint8", (4, 4, 1)),
        "labels/mask": ("class", "uint8", (4, 4)),
        "labels/size": ("value", "float32", (2,)),
    }
    assert len(data.splits["test"]) == 2


def test_a_named_feature_may_begin_as_a_split(cache):
    value = keep_arrays(({"image": IMAGES, "test_score": X[:, 0]}, EVEN))
    assert set(parts(open_data(value))) == {"features/image", "features/test_score", "labels"}


def test_whole_numbers_are_kept_as_the_labels_that_the_run_reads(cache):
    assert keep_arrays((X, EVEN - 10), "value")
    assert "Labels have the value -10" in refusal_of(keep_arrays, (X, EVEN - 10))


@pytest.mark.parametrize("names", ["images labels", "x y", "X_Train y_train", "train_x train_y"])
def test_usual_names_are_understood(opened, names):
    data = opened(**dict(zip(names.split(), (IMAGES, EVEN))))
    assert data.spec[:4] == ((4, 4, 1), "uint8", 2, ("0", "1"))


def test_whole_numbers_stay_whole_and_others_become_floats(opened):
    assert parts(opened(x=np.arange(40).reshape(20, 2)))["features"] == ("value", "int64", (2,))
    for array in (X > 0.5, X.astype(np.float16), X.astype(np.float64)):
        assert parts(opened(x=array))["features"] == ("value", "float32", (2,))


def test_arrays_that_are_not_read_are_noted(opened):
    notes = opened(x=X, y=EVEN, mean=X, W=X, w=X).notes
    assert notes == ["Arrays that are not read: W, mean, w."]


def test_channels_that_seem_to_come_first_are_noted(opened):
    (note,) = opened(x=np.zeros((20, 3, 8, 9)), y=EVEN).notes
    assert note.startswith("Images [3, 8, 9] are 3 high, with 9 channels; if the channels come fir")
    assert opened(x=np.zeros((20, 3, 8, 3)), y=EVEN).notes == []


@pytest.mark.parametrize(
    "arrays, text",
    [
        ({"x": X, "y": EVEN - 1}, "the value -1 in example 0, expected 0 to 0"),
        ({"x": X, "y": EVEN + 2**33}, "the value 8589934592 in example 0, expected 0 to 1048575"),
        ({"x": X, "y": np.array(3)}, "abel"),
        ({"x": X, "y": EVEN[:19]}, "features 20, labels 19"),
        ({"x": X, "y": np.full(20, np.nan)}, "NaN or infinity in example 0"),
        ({"x": X, "y": np.full(20, 1j)}, "expected numbers or texts as labels"),
        ({"x": X, "y": np.array([None, "a"] * 10)}, "found Python objects"),
        ({"x": np.array([[None, 1]])}, "numbers in 'x', found Python objects"),
        ({"x": X[:, 0]}, "of rank 2 or more"),
        ({"x": np.where(np.arange(40).reshape(20, 2) == 7, np.nan, X)}, "infinity in example 3"),
        ({"x": X, "X": X}, "differ in case alone"),
        ({"x_left": X, "x_right": X[:3]}, "different numbers of examples"),
        ({"x_train": X, "y_train": EVEN, "x_test": X}, "labels int32 [] in 'test' as"),
        ({"x_train": X, "y_train": TEXTS, "x_test": X, "y_test": EVEN}, "and numbers in 'test'"),
        ({"x_train": IMAGES, "x_test": IMAGES[:, 1:]}, "found features uint8 [3, 4, 1]"),
        ({"pictures": IMAGES}, "x_train, images"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(opened, arrays, text):
    assert text in refusal_of(opened, **arrays)


def test_a_number_beyond_float32_counts_as_infinite_without_a_warning(opened):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "infinity in example 0" in refusal_of(opened, x=np.full((2, 2), 1e300))


ARRAY = npy_bytes((10, 2))
ZIPPED = zip_bytes({"x.npy": ARRAY})
REFUSED = {
    "784 petabytes": (zip_bytes({"x.npy": npy_bytes((10**15, 28, 28))}), "array 'x', found"),
    "no value": (zip_bytes({"x.npy": npy_bytes((20, 0))}), "one value or more"),
    "no array": (zip_bytes({"x.npy": b"no array"}), "array 'x', found"),
    "cut": (ZIPPED[:100], "a damaged zip file"),
    "array": (ARRAY, "found one array"),
    "behind text": (b"junk" + ZIPPED, "found bytes 6a 75 6e 6b"),
    "behind an array": (ARRAY + ZIPPED, "found one array"),
}


@pytest.mark.parametrize("content, text", REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_no_zip_of_arrays_is_refused(tmp_path, content, text):
    (tmp_path / "a.npz").write_bytes(content)
    assert text in refusal_of(open_npz, Settings(str(tmp_path / "a.npz")))


def test_a_frame_of_numbers_and_truth_values_is_of_numbers(cache):
    frame = pandas.DataFrame({"a": X[:, 0], "is_b": EVEN > 0})
    data = open_data(keep_arrays((frame, EVEN)))
    assert parts(data)["features"] == ("value", "float32", (2,))
    assert as_array(frame).tolist() == np.stack([X[:, 0], EVEN], axis=1).tolist()
    with pytest.raises(DataError, match="x_train: float and bool and texts, expected numbers or"):
        keep_arrays((frame.assign(c=TEXTS), EVEN))


PIXELS, CLASSES = np.arange(12 * 16, dtype=np.uint8).reshape(12, 4, 4), np.arange(12) % 3
PICTURES = [Image.fromarray(image) for image in PIXELS]


def test_equal_arrays_are_kept_once(cache):
    name = keep_arrays((PIXELS, CLASSES))
    assert keep_arrays({"train": (list(PIXELS), CLASSES.tolist()), "test": None}) == name
    assert keep_arrays((PICTURES, CLASSES)) == name
    assert [path.name for path in cache.glob("arrays/*")] == [name[len("arrays:") :]]
    assert keep_arrays((PIXELS, CLASSES[::-1])) != name
    assert keep_arrays((PIXELS.astype(np.float32), CLASSES)) != name


@pytest.mark.parametrize(
    "data, description",
    [
        ((PIXELS, np.array(["cat", "cow", "dog"])[CLASSES]), "image uint8 4x4x1, class of 3"),
        (PIXELS, "image uint8 4x4x1"),
        (({"left": PIXELS, "size": X[:12]}, CLASSES), "image uint8 4x4x1, float32 2, class of 3"),
        (([image.convert("P") for image in PICTURES], CLASSES), "image uint8 4x4x3, class of 3"),
    ],
    ids=["texts", "no labels", "names", "palette"],
)
def test_arrays_are_examples_as_those_of_a_file(cache, data, description):
    splits = open_data(keep_arrays(data)).splits
    assert ", ".join(each.describe() for each in splits["train"].components.values()) == description
    assert sum(map(len, splits.values())) == 12


@pytest.mark.parametrize(
    "data, words",
    [
        ((PIXELS[:0], CLASSES[:0]), "expected one example or more, found none"),
        ((PIXELS, CLASSES, PIXELS), "a tuple of 3 for 'train'"),
        ([PIXELS, CLASSES], "x_train: the shapes \\[12, 4, 4\\] and \\[12\\], expected one"),
        ((pandas.DataFrame({"a": [1, "b"] * 6}), CLASSES), "x_train: int and texts, .*get_dummies"),
        ((PIXELS, ["a", float("nan")] * 6), "y_train: texts and float, expected one type"),
        (("photos", "labels"), "has 'photos' as x_train, expected an array"),
        ({"test": (PIXELS, CLASSES)}, "the splits test, expected train, and perhaps validation"),
    ],
)
def test_what_is_no_example_is_refused_and_not_kept(cache, data, words):
    with pytest.raises(DataError, match=words) as error:
        keep_arrays(data)
    assert error.value.hint and not cache.exists()
