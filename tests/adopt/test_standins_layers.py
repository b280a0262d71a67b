"""Layers, initializers and cells give what TensorFlow 1.15 gave, as known_answers.npz has it."""

from __future__ import annotations

import types

import numpy as np
import pytest
from known_answers import GRAPHS, INITIALIZERS, PATH, answers
from toolkit_adopt.standins import make_stand_in, training, variables
from toolkit_adopt.standins.hparams import HParams
from toolkit_adopt.standins.layers import conv2d, dropout
from toolkit_adopt.standins.normalization import batch_norm
from toolkit_adopt.standins.scopes import arg_scope

from toolkit import tf


@pytest.fixture(scope="module")
def found():
    """What the stand-ins of this folder answer, on this TensorFlow."""
    names = ("slim", "slim.losses", "slim.learning", "rnn", "seq2seq", "legacy_seq2seq")
    slim, losses, learning, *others = (make_stand_in(f"contrib.{name}") for name in names)
    slim.losses, slim.learning = losses, learning
    return answers(types.SimpleNamespace(slim=slim, **dict(zip(names[3:], others))))


@pytest.fixture(scope="module")
def known():
    with np.load(PATH) as arrays:
        return dict(arrays)


def of(arrays, name):
    """The arrays of one graph."""
    return {key: value for key, value in arrays.items() if key.startswith(name + "/")}


@pytest.mark.parametrize("name", [*GRAPHS, *INITIALIZERS])
def test_names_outputs_and_averages_are_those_of_the_first_tensorflow(name, found, known):
    mine, theirs = of(found, name), of(known, name)
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        if value.dtype.kind == "U":
            assert list(mine[key]) == list(value), key
        else:
            assert mine[key].shape == value.shape, key
            np.testing.assert_allclose(mine[key], value, rtol=2e-4, atol=2e-5, err_msg=key)


def test_a_scope_and_a_function_that_does_not_fit_it_are_refused():
    with arg_scope([conv2d, dropout], scope="s") as scope:
        pass
    for arguments, error, message in (
        (([len],), ValueError, "not decorated"),
        ((len,), TypeError, "a list of functions or a scope"),
        ((scope, {"rate": 1}), ValueError, "takes no arguments, not .'rate'."),
    ):
        with pytest.raises(error, match=message), arg_scope(arguments[0], **dict(*arguments[1:])):
            pass


def test_arguments_of_batch_norm_without_a_stand_in_are_refused():
    with pytest.raises(ValueError, match="no batch_weights, renorm and adjustment"):
        batch_norm(np.zeros([2, 3], "f"), renorm=True)


def test_options_of_hparams_are_parsed_in_their_types():
    options = HParams(rate=0.1, layers=[1], name="a", deep=False)
    options.parse("rate=1,layers=[2,3],name=b c,deep=True")
    assert options.values() == {"rate": 1.0, "layers": [2, 3], "name": "b c", "deep": True}
    assert "rate" in options and isinstance(options.rate, float) and options.get("no", 5) == 5
    with pytest.raises(KeyError, match="has no 'size', but rate"):
        options.set_hparam("size", 1)
    with pytest.raises(ValueError, match="parses name=value"):
        options.parse("rate")
    with pytest.raises(ValueError, match="has 'rate' already"):
        options.add_hparam("rate", 1)


def test_variables_are_listed_with_their_sizes(capsys):
    with tf.Graph().as_default():
        made = variables.model_variable("a/b", [2, 3], collections=["mine"])
        variables.local_variable([0.0], name="local")
        assert training.analyze_vars(tf.global_variables(), print_info=True) == (6, 24)
        assert tf.get_collection("mine") == [made] == variables.get_model_variables("a")
        assert variables.get_variables_by_name("b") == [made]
        assert variables.get_variables_by_suffix("b") == [made]
        assert variables.get_unique_variable("a/b") is made
        assert variables.get_variables_to_restore(exclude=["a"]) == []
        assert variables.filter_variables([made], ["b$"]) == [made]
        assert variables.filter_variables([made], None, ["a/"]) == []
    assert "a/b:0 (float32 2x3) [6, bytes: 24]" in capsys.readouterr().out
