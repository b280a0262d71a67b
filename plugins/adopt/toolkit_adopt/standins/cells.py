"""Cells of `tf.contrib.rnn` that 1.15 computes by ops of their own, and stacks of directions."""

from __future__ import annotations

from typing import Any

from toolkit import tf


class LSTMBlockCell(tf.nn.rnn_cell.LSTMCell):
    """An `LSTMCell`."""

    def __init__(self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, **options):
        options = {"name": "lstm_cell", **options, "forget_bias": forget_bias}
        super().__init__(num_units, use_peephole, cell_clip, **options)


class LSTMBlockFusedCell:
    """An LSTM of inputs [T, N, D]: gives outputs [T, N, K] and the last state."""

    def __init__(self, num_units, *args, name="lstm_fused_cell", **options):
        self.num_units = num_units
        make: Any = LSTMBlockCell
        self._cell = make(num_units, *args, name=name, **options)

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None):
        inputs = tf.convert_to_tensor(inputs)
        if not self._cell.built:  # here, so that its variables are in no scope of a loop
            self._cell.build(inputs.shape[1:])
        arguments = self._cell, inputs, sequence_length, initial_state, dtype or inputs.dtype
        return tf.nn.dynamic_rnn(*arguments, time_major=True)


class TimeReversedFusedRNN:
    """A fused cell from the last step to the first."""

    def __init__(self, cell):
        self._cell = cell

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None):
        def turn(tensor: Any) -> Any:
            if sequence_length is None:
                return tf.reverse(tensor, [0])
            return tf.reverse_sequence(tensor, sequence_length, seq_axis=0, batch_axis=1)

        outputs, state = self._cell(turn(inputs), initial_state, dtype, sequence_length)
        return turn(outputs), state


def stack_bidirectional_dynamic_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    *,
    scope=None,
    **options,
):
    """Each layer reads both outputs of the one before. Returns those of the last, in one tensor,
    and a tuple of the states of the layers for each direction.
    """
    states = []
    starts = [each or [None] * len(cells_fw) for each in (initial_states_fw, initial_states_bw)]
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward, *initial) in enumerate(zip(cells_fw, cells_bw, *starts)):
            with tf.variable_scope(f"cell_{i}"):
                arguments = forward, backward, inputs, sequence_length, *initial, dtype
                outputs, state = tf.nn.bidirectional_dynamic_rnn(*arguments, **options)
            inputs = tf.concat(outputs, 2)
            states.append(state)
    return (inputs, *zip(*states))
