"""Names of other libraries than TensorFlow's core, while the stand-ins are installed."""

import collections
import collections.abc
import time

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_ops
from tensorflow.python.util import nest
from toolkit_adopt import standins


@pytest.fixture(autouse=True)
def _installed():
    with standins.installed():
        yield


def test_old_names_of_numpy_are_back():
    assert np.zeros(2, np.float).dtype == np.float64 and np.int is int
    assert np.lib.pad([1], 1, "constant").tolist() == [0, 1, 0] and np.string_ is np.bytes_
    assert np.asscalar(np.ones(1)) == 1 and np.in1d([[3], [4]], [4]).tolist() == [False, True]
    assert np.asfarray([1]).dtype == np.float64 and np.trapz([0, 1]) == 0.5
    assert np.reshape(np.arange(4), newshape=[2, 2]).tolist() == [[0, 1], [2, 3]]
    assert np.reshape(np.arange(4), (1, 4), order="F").shape == (1, 4)
    assert np.fromstring(b"ab", np.uint8).tolist() == [97, 98]
    assert np.fromstring("1 2", sep=" ").tolist() == [1, 2]
    assert np.array(range(3), copy=False).tolist() == [0, 1, 2] and time.clock() >= 0


def test_old_names_of_python_and_other_libraries_are_back():
    assert collections.Iterable is collections.abc.Iterable
    assert collections.Mapping is collections.abc.Mapping
    assert (Image.ANTIALIAS, Image.CUBIC) == (Image.LANCZOS, Image.BICUBIC)
    with h5py.File("a", "w", driver="core", backing_store=False) as file:
        assert file.create_dataset("x", data=[1, 2]).value.tolist() == [1, 2]
    assert plt.cm.get_cmap("jet", 3).N == 3 and nest.is_sequence([1])
    assert control_flow_ops.cond is not None and ops.Tensor is not None


def test_modules_that_moved_are_at_their_old_places():
    from scipy.sparse.linalg.eigen.arpack import eigsh
    from sklearn.cross_validation import train_test_split
    from sklearn.manifold import TSNE

    assert eigsh(np.diag([1.0, 2.0, 5.0]), 1)[0] == pytest.approx(5)
    assert [len(part) for part in train_test_split(range(4), test_size=0.25)] == [3, 1]
    assert TSNE(n_iter=500, random_state=1).random_state == 1


def test_rows_of_several_lengths_are_an_array_of_objects():
    for make in (np.array, np.asarray):
        rows = make([[1, 2, 3], [4]])
        assert rows.dtype == object and rows.tolist() == [[1, 2, 3], [4]]
        assert make([1, 2], "f").dtype == np.float32
        with pytest.raises(ValueError):
            make([[1.0, 2.0], [3.0]], np.float32)
    pairs = np.array(list(zip(np.zeros([2, 3]), np.zeros([2, 1]))))
    assert pairs.shape == (2, 2) and pairs[0, 0].shape == (3,)


def test_an_image_is_scaled_from_its_least_to_its_largest_value(tmp_path):
    from scipy.misc import imread, imsave

    imsave(str(tmp_path / "a.png"), np.array([[0, 0.5], [1, 0.25]]))
    assert imread(str(tmp_path / "a.png")).tolist() == [[0, 128], [255, 64]]
    gray = imread(str(tmp_path / "a.png"), flatten=True)
    assert gray.dtype == np.float32 and gray[0, 1] == 128
    imsave(str(tmp_path / "b.png"), np.full([3, 2, 4], 7, np.uint8))
    assert imread(str(tmp_path / "b.png")).shape == (2, 4, 3)
    Image.new("P", (1, 1)).save(str(tmp_path / "c.png"), transparency=0)
    assert imread(str(tmp_path / "c.png")).tolist() == [[[0, 0, 0, 0]]]


@pytest.mark.parametrize(("size", "shape"), [((3, 5), (3, 5)), (50, (2, 4)), (2.0, (8, 16))])
def test_an_image_is_resized_to_a_size_a_percentage_or_by_a_factor(size, shape):
    from scipy.misc import imresize

    image = np.full([4, 8], 9, np.uint8)
    assert imresize(image, size).shape == shape and (imresize(image, size) == 9).all()
    floats = imresize(np.full([4, 8], 0.5), size, mode="F")
    assert floats.shape == shape and (floats == 0.5).all()


@pytest.mark.parametrize(
    ("least", "rows", "text"),
    [(0, [[1, 2, 3, 0], [4, 5, 6, 7]], "the cat"), (1, [[2, 1, 0, 0], [0, 0, 0, 0]], "cat the")],
)
def test_texts_are_rows_of_the_numbers_of_their_words(least, rows, text, tmp_path):
    from tensorflow.contrib import learn

    texts = ["the cat sat", "The CNNs of the cat"]
    processor = learn.preprocessing.VocabularyProcessor(4, min_frequency=least)
    assert [row.tolist() for row in processor.fit_transform(texts)] == rows
    assert list(processor.reverse([[1, 2]])) == [text]
    processor.save(str(tmp_path / "words"))
    again = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "words"))
    assert len(again.vocabulary_) == len(processor.vocabulary_)
    assert next(again.transform(["cat dog"])).tolist() == [rows[0][1], 0, 0, 0]
