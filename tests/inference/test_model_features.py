"""The features of `evaluated`: converted when they are read, and never the stored examples."""

import operator

import numpy as np
import pytest

from toolkit.data.examples import Split
from toolkit.inference.model_features import ModelFeatures

VALUES = np.arange(24, dtype=np.float32).reshape(4, 2, 3) / 8


@pytest.fixture
def split():
    """Four examples [2, 3] of floats; afterwards they must be what they were."""
    split = Split(VALUES.copy(), np.arange(4))
    yield split
    np.testing.assert_array_equal(split.take(slice(None))[0], VALUES)


@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        lambda features: features[1],
        lambda features: features[..., 0],
        lambda features: features.astype(np.float32, copy=False),
    ],
)
def test_what_is_read_of_floats_is_a_copy(split, read):
    array = read(ModelFeatures(split))
    assert array.dtype == np.float32
    array *= 2
    array[...] = -1


@pytest.mark.parametrize(
    "write",
    [
        lambda features: operator.setitem(features, 0, 1),
        lambda features: features.__imul__(2),
        lambda features: np.add(VALUES, 1, out=features),
    ],
)
def test_writing_is_refused(split, write):
    with pytest.raises(TypeError):
        write(ModelFeatures(split))


def test_features_are_numbers_among_other_arrays(split):
    features = ModelFeatures(split)
    total = np.ones_like(VALUES)
    total += features
    np.testing.assert_array_equal(total, 1 + VALUES)
    np.testing.assert_array_equal(2 * features - 1, 2 * VALUES - 1)
    np.testing.assert_array_equal(np.sort(features, axis=0), VALUES)
    np.testing.assert_array_equal(list(features), VALUES)
    assert features.max() == VALUES.max() and float(np.mean(features)) == VALUES.mean()


def test_bytes_become_floats_from_0_to_1():
    features = ModelFeatures(Split(np.array([[0, 51, 255]], np.uint8)))
    np.testing.assert_allclose(features[0], [0, 0.2, 1], rtol=1e-6)
    assert features.shape == (1, 3) and features.dtype == np.float32 and features.ndim == 2
