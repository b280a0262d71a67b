"""`tf.contrib.rnn`: the cells of `tf.nn.rnn_cell` and the functions that unroll them.

On 2.x they are those of tf_keras, with the names of variables of TensorFlow 1.15.
"""

from __future__ import annotations

from toolkit import tf

_CELLS = (
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
)
_FUNCTIONS = ("static_bidirectional_rnn", "static_rnn", "static_state_saving_rnn")

__all__ = [*_CELLS, *_FUNCTIONS]

globals().update({name: getattr(tf.nn.rnn_cell, name) for name in _CELLS})
globals().update({name: getattr(tf.nn, name) for name in _FUNCTIONS})
