"""Arrays in memory as data: kept once, under the hash of their content; one sentence for faults."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from toolkit.data.arrays.kept import keep_arrays
from toolkit.data.sources import open_data
from toolkit.errors import DataError

X, Y = np.arange(12 * 16, dtype=np.uint8).reshape(12, 4, 4), np.arange(12) % 3
PICTURES = [Image.fromarray(image) for image in X]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path))
    return tmp_path


def test_equal_arrays_are_kept_once(cache):
    name = keep_arrays((X, Y))
    assert keep_arrays({"train": (list(X), Y.tolist()), "test": None}) == name
    assert keep_arrays((PICTURES, Y)) == name
    assert [path.name for path in cache.glob("arrays/*")] == [name[len("arrays:") :]]
    assert keep_arrays((X, Y[::-1])) != name != keep_arrays((X.astype(np.float32), Y))


@pytest.mark.parametrize(
    "data, description",
    [
        ((X, np.array(["cat", "cow", "dog"])[Y]), "image uint8 4x4x1, class of 3"),
        (X, "image uint8 4x4x1"),
        (({"left": X, "size": X[:, 0] / 2}, Y), "image uint8 4x4x1, float32 4, class of 3"),
        (([picture.convert("P") for picture in PICTURES], Y), "image uint8 4x4x3, class of 3"),
    ],
    ids=["texts", "no labels", "names", "palette"],
)
def test_arrays_are_examples_as_those_of_a_file(data, description):
    splits = open_data(keep_arrays(data)).splits
    assert ", ".join(each.describe() for each in splits["train"].components.values()) == description
    assert sum(map(len, splits.values())) == 12


@pytest.mark.parametrize(
    "data, words",
    [
        ((X, Y[:9]), "expected 12 labels, one per example, found 9"),
        ((X[:0], Y[:0]), "expected one example or more, found none"),
        ((X, Y, X), "a tuple of 3 for 'train'"),
        ([X, Y], "has the shapes \\[12, 4, 4\\] and \\[12\\] in x_train"),
        (([X[0], X[0, :3]], Y[:2]), "has the shapes \\[3, 4\\] and \\[4, 4\\] in x_train"),
        ((X, [None] * 12), "has NoneType in y_train"),
        (("photos", "labels"), "has 'photos' as x_train, expected an array"),
        ({"training": (X, Y)}, "has the splits training, expected train, validation, test"),
    ],
)
def test_what_is_no_example_is_refused_and_not_kept(cache, data, words):
    with pytest.raises(DataError, match=words) as error:
        keep_arrays(data)
    assert error.value.hint and not list(cache.iterdir())
