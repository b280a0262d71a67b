"""Layers, initializers and cells give what TensorFlow 1.15 gave, as known_answers.npz has it."""

import types

import numpy as np
import pytest
from known_answers import GRAPHS, INITIALIZERS, answers, assert_known
from toolkit_adopt.standins import layers, make_stand_in, normalization, scopes, training
from toolkit_adopt.standins.layers import bias_add, conv2d, dropout
from toolkit_adopt.standins.normalization import batch_norm
from toolkit_adopt.standins.scopes import arg_scope, smart_cond
from toolkit_adopt.standins.training import HParams

from toolkit import tf


@pytest.fixture(scope="module")
def found():
    """What the stand-ins of this folder answer, on this TensorFlow."""
    names = ("slim", "slim.losses", "slim.learning", "crf", "rnn", "seq2seq", "legacy_seq2seq")
    slim, losses, learning, *others = (make_stand_in(f"contrib.{name}") for name in names)
    slim.losses, slim.learning = losses, learning
    return answers(types.SimpleNamespace(slim=slim, **dict(zip(names[3:], others))))


@pytest.mark.parametrize("name", [*GRAPHS, *INITIALIZERS])
def test_names_outputs_and_averages_are_those_of_the_first_tensorflow(name, found):
    assert_known(found, name, rtol=2e-4, atol=2e-5)


def test_a_function_that_is_not_decorated_is_refused():
    with pytest.raises(ValueError, match="not decorated"), arg_scope([len], rate=1):
        pass


def test_arguments_without_a_stand_in_or_in_another_place_are_refused():
    x, images = np.zeros([2, 3], "f"), np.zeros([2, 4, 4, 3], "f")
    for layer, arguments, options, message in (
        (batch_norm, [x], {"renorm": True}, "no renorm"),
        (layers.separable_conv2d, [images, 2, 3, 1, 1, "SAME", "NHWC", 1, None], {}, "positional"),
        (bias_add, [x, None, None, None, True], {}, "positional"),
        (dropout, [x, 0.5, None, True, "ends"], {}, "positional"),
        (
            normalization.layer_norm,
            [x],
            {"weights_regularizer": 1},
            "unexpected keyword argument .weights_reg",
        ),
    ):
        with tf.Graph().as_default(), pytest.raises((TypeError, ValueError), match=message):
            layer(*arguments, **options)


def test_arguments_in_their_places_and_defaults_of_one_convolution_are_kept():
    with tf.Graph().as_default(), tf.Session() as session:
        with arg_scope([layers.convolution, layers.conv3d], activation_fn=None):
            assert conv2d(np.zeros([1, 2, 2, 1], "f"), 1, 1).op.type == "Relu"
        of_places = conv2d(np.zeros([1, 2, 2, 1], "f"), 1, 1, 1, "SAME", None, 1, tf.nn.elu)
        assert of_places.op.type == "Elu"
        options = {"renorm": False, "renorm_decay": 0.9}
        normalized = layers.fully_connected(tf.zeros([2, 3]), 2, None, batch_norm, options)
        assert "BatchNorm" in normalized.name and "P/" in layers.softmax(normalized, "P").name
        named = layers.repeat(normalized, 1, layers.linear, 2).name
        assert named.startswith("Repeat/fully_connected_1/")
        fed = tf.placeholder_with_default(True, [])
        slope = smart_cond(pred=fed, true_fn=lambda: 1.0, false_fn=lambda: 2.0, name="fed")
        one, descent = tf.get_variable("one", initializer=3.0), tf.train.GradientDescentOptimizer(1)
        step = training.create_train_op(one, descent, transform_grads_fn=lambda _: [(slope, one)])
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run(one) == 2.0


def test_the_variables_of_a_normalization_have_their_own_starts_and_penalties():
    l1_l2 = make_stand_in("contrib.slim").l1_l2_regularizer(1.0, 2.0)
    with tf.Graph().as_default(), tf.Session() as session:
        x, start = tf.zeros([1, 2, 2, 3]), {"beta": tf.constant_initializer(5.0)}
        batch_norm(x, param_initializers=start, param_regularizers={"beta": l1_l2})
        shifted = normalization.instance_norm(x, param_initializers=start)
        penalties = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        session.run(tf.global_variables_initializer())
        assert session.run(penalties) == [3 * 5 + 3 * 25] and session.run(shifted).min() == 5


def test_options_of_hparams_are_parsed_in_their_types():
    options = HParams(rate=0.1, layers=[1], name="a", deep=False)
    options.parse("rate=1,layers=[2,3],name=b c,deep=True")
    assert options.values() == {"rate": 1.0, "layers": [2, 3], "name": "b c", "deep": True}
    assert "rate" in options and isinstance(options.rate, float) and options.get("no", 5) == 5
    with pytest.raises(KeyError, match="has no 'size', but rate"):
        options.set_hparam("size", 1)
    options.extra = 1  # no option
    assert options.parse("name=1,layers=[4 5]").name == "1" and "extra" not in options.values()
    for text in ("rate", "extra=2", "rate=1,rate=2", "layers=[1.5]", "deep=a", "rate=[1]"):
        with pytest.raises(ValueError, match="parses name=value|is of type|no list"):
            options.parse(text)
    for name, value in (("deep", "False"), ("layers", [1.5])):
        with pytest.raises(ValueError, match=f"'{name}' of HParams is of type"):
            options.override_from_dict({name: value})


def test_variables_are_listed_with_their_sizes(capsys):
    with tf.Graph().as_default():
        made = scopes.model_variable("a/b", [2, 3], collections=["mine"])
        assert training.analyze_vars(tf.global_variables(), print_info=True) == (6, 24)
        assert tf.get_collection("mine") == [made] == scopes.get_model_variables("a")
        assert scopes.get_variables_by_name("b") == [made]
        assert scopes.get_variables(suffix="b") == [made]
        assert scopes.get_unique_variable("a/b") is made
        assert scopes.get_variables_to_restore(exclude=["a"]) == []
        assert scopes.filter_variables([made], ["b:0$"]) == [made]
        assert scopes.filter_variables([made], []) == []
        assert scopes.filter_variables([made], None, ["a/"]) == []
        assert scopes.get_local_variables() == []
    assert "a/b:0 (float32 2x3) [6, bytes: 24]" in capsys.readouterr().out
