"""Layers, initializers and cells give what TensorFlow 1.15 gave, as known_answers.npz has it."""

from __future__ import annotations

import types

import numpy as np
import pytest
from known_answers import GRAPHS, INITIALIZERS, PATH, answers, cells

NAMES = [graph.__name__ for graph in GRAPHS] + list(INITIALIZERS)
NAMES += list(cells(types.SimpleNamespace()))


@pytest.fixture(scope="module")
def found():
    """What the stand-ins of this folder answer, on this TensorFlow."""
    from toolkit_adopt.standins import arg_scope, initializers, layers, normalization, rnn

    from toolkit import tf

    names = {}
    for module in (initializers, layers, normalization):
        names.update({name: getattr(module, name) for name in module.__all__})
    return answers(tf, types.SimpleNamespace(**names), arg_scope, rnn)


@pytest.fixture(scope="module")
def known():
    with np.load(PATH) as arrays:
        return dict(arrays)


def of(arrays, name):
    """The arrays of one graph."""
    return {key: value for key, value in arrays.items() if key.startswith(name + "/")}


@pytest.mark.parametrize("name", NAMES)
def test_names_outputs_and_averages_are_those_of_the_first_tensorflow(name, found, known):
    mine, theirs = of(found, name), of(known, name)
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        if value.dtype.kind == "U":
            assert list(mine[key]) == list(value), key
        else:
            assert mine[key].shape == value.shape, key
            np.testing.assert_allclose(mine[key], value, rtol=2e-4, atol=2e-5, err_msg=key)
