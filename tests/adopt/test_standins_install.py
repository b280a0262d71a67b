"""What a script imports while the stand-ins are installed, and that all is put back."""

import importlib
import sys

import numpy as np
import pytest
from toolkit_adopt import standins

from toolkit import tf

OF_BOTH = """
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.contrib.slim as slim
import tensorflow.contrib.layers
from tensorflow.contrib import layers, rnn
from tensorflow.contrib.framework import arg_scope, nest
from tensorflow.contrib.framework.python.ops import add_arg_scope, get_or_create_global_step
from tensorflow.contrib.framework.python.ops import audio_ops
from tensorflow.contrib.framework.python.ops.variables import get_global_step
from tensorflow.contrib.layers.python.layers import initializers, utils
from tensorflow.contrib.learn import ModeKeys
from tensorflow.contrib.slim import model_analyzer
from tensorflow.contrib.tensorboard.plugins import projector
import tensorflow.examples.tutorials.mnist.input_data as again
from tensorflow.examples.tutorials.mnist import input_data
assert again is input_data
from tensorflow.python.framework import ops
from tensorflow.keras import backend
from tensorflow.keras.layers import Dense
import keras.backend as K
import keras.layers
import keras.layers.core as old
from keras.backend.tensorflow_backend import set_session
from keras.engine.topology import InputSpec, Layer
from keras.layers.core import Dense as Same
from keras.layers.convolutional import Conv2D
from keras.layers.merge import concatenate
from keras.layers.normalization import BatchNormalization
from keras.utils.generic_utils import Progbar
from keras.utils.np_utils import to_categorical
assert keras.layers.core is old and old.Dense is Same is Dense and set_session is K.set_session
assert keras.utils.np_utils.to_categorical is to_categorical is keras.utils.to_categorical
"""
OF_STAND_INS = """
import tensorflow.nn as nn
from tensorflow.contrib.keras import layers as of_contrib
from tensorflow.layers import dense
assert nn is tf.nn is tf1.nn and dense is tf1.layers.dense  # and none of version 2
assert of_contrib.Dense is tf.contrib.keras.layers.Dense is Dense
assert tf1.contrib.layers.conv2d is layers.conv2d
assert tf.contrib.distributions.Normal is tf.distributions.Normal
"""


@pytest.fixture
def installed():
    with standins.installed():
        yield


def state():
    tensorflow = importlib.import_module("tensorflow")
    modules = {key: value for key, value in sys.modules.items() if key.startswith("tensorflow.")}
    numpy = set(vars(np)), set(vars(np.lib)), np.reshape, np.array
    keras = [set(vars(module)) for module in (tf.keras, tf.keras.layers, tf.keras.utils)]
    return tensorflow, modules, hasattr(tf, "contrib"), hasattr(tf, "estimator"), numpy, keras


def test_all_forms_of_import_find_the_same_things(installed):
    space = {}
    exec(OF_BOTH, space)
    if not standins.has_own_contrib():
        exec(OF_STAND_INS, space)
    tf, tf1, slim, layers = (space[name] for name in ("tf", "tf1", "slim", "layers"))
    assert tf.contrib.layers.conv2d is layers.conv2d
    assert slim.conv2d is layers.conv2d and slim.arg_scope is space["arg_scope"]
    assert slim.losses.get_total_loss and slim.learning.create_train_op
    assert slim.model_analyzer.analyze_vars is space["model_analyzer"].analyze_vars
    assert space["input_data"].read_data_sets.__module__ == "toolkit_adopt.standins.mnist"
    assert space["initializers"].xavier_initializer and space["utils"].collect_named_outputs
    assert [space["utils"].n_positive_integers(2, each) for each in (3, [4, 5])] == [(3, 3), (4, 5)]
    assert space["rnn"].static_rnn and tf.estimator.ModeKeys.PREDICT == "infer"
    assert not tf.executing_eagerly() and tf.placeholder is tf1.placeholder
    assert tf.__version__ == tf1.__version__ and tf.layers.dense
    assert space["ops"].Graph is tf.Graph and "placeholder" in dir(tf)
    # The Keras of graphs, whose weights a session holds, by each of its names.
    assert space["K"].set_session is space["backend"].set_session is tf.keras.backend.set_session
    assert space["keras"].layers.Dense is space["Dense"] is tf.keras.layers.Dense


def test_a_variable_begins_with_the_value_of_another(installed):
    with tf.Graph().as_default(), tf.Session() as session:
        first = tf.Variable(tf.random_normal([3]))
        twice = tf.Variable(2 * first.initialized_value())
        session.run(tf.global_variables_initializer())
        assert (session.run(twice) == 2 * session.run(first)).all()


def test_embeddings_are_described_for_tensorboard(installed, tmp_path):
    from tensorflow.contrib.tensorboard.plugins import projector

    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words:0", "vocab.tsv"
    embedding.sprite.image_path = "digits.png"
    embedding.sprite.single_image_dim.extend([28, 28])
    with tf.Graph().as_default():
        projector.visualize_embeddings(tf.summary.FileWriter(str(tmp_path)), config)
    lines = (tmp_path / "projector_config.pbtxt").read_text().splitlines()
    sprite = ['image_path: "digits.png"', "single_image_dim: 28", "single_image_dim: 28"]
    fields = ['tensor_name: "words:0"', 'metadata_path: "vocab.tsv"', "sprite {", *sprite, "}"]
    assert [line.strip() for line in lines] == ["embeddings {", *fields, "}"]


def test_all_is_put_back_that_was_there():
    importlib.import_module("tensorflow.python.framework.ops")
    construct = tf.train.MonitoredSession.__mro__[1].__init__
    before = state()
    with standins.installed():
        assert tf.train.MonitoredSession.__mro__[1].__init__ is not construct
        assert "tensorflow.examples.tutorials.mnist.input_data" in sys.modules
    assert tf.train.MonitoredSession.__mro__[1].__init__ is construct
    after = state()
    assert after[0] is before[0] and after[2:] == before[2:]
    assert {k: v for k, v in after[1].items() if "standins" in repr(v)} == {}
    assert all(after[1][key] is value for key, value in before[1].items())


def test_a_keras_of_the_script_s_own_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "keras.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "keras" not in standins.make_modules()


def test_a_name_without_a_stand_in_is_named():
    modules = standins.make_modules()
    if standins.has_own_contrib():  # all but this one are TensorFlow's own
        assert tuple(name for name in modules if name[:5] != "keras") == standins.TUTORIALS
    else:
        with pytest.raises(AttributeError, match="tf.contrib.quantize has no stand-in"):
            modules["tensorflow"].contrib.quantize  # noqa: B018
        with standins.installed(), pytest.raises(ImportError, match="quantize has no stand-in"):
            importlib.import_module("tensorflow.contrib.quantize")
        with pytest.raises(AttributeError, match="'tensorflow' has no attribute 'nothing'"):
            modules["tensorflow"].nothing  # noqa: B018
