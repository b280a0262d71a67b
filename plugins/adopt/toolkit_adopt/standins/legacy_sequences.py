"""`tf.contrib.legacy_seq2seq`: a decoder and losses of sequences that are lists of time steps."""

from __future__ import annotations

from typing import Any, List

from toolkit import tf


def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None, scope=None):
    """Unroll a cell over a list of T inputs [N, D]; a loop function makes them from the second on,
    of the output before and the time step. Returns a list of T outputs [N, K], and the last state.
    """
    outputs: List[Any] = []
    state = initial_state
    with tf.variable_scope(scope or "rnn_decoder") as variables:
        for step, value in enumerate(decoder_inputs):
            if loop_function is not None and outputs:
                with tf.variable_scope("loop_function", reuse=True):
                    value = loop_function(outputs[-1], step)
            if step:
                variables.reuse_variables()
            output, state = cell(value, state)
            outputs.append(output)
    return outputs, state


def sequence_loss_by_example(
    logits, targets, weights, average_across_timesteps=True, softmax_loss_function=None, name=None
):
    """The weighted cross entropy of each sequence, float [N], of lists of T logits [N, K], targets
    [N] and weights [N].
    """
    function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        rows = zip(logits, targets, weights)
        losses = [function(labels=tf.reshape(y, [-1]), logits=x) * w for x, y, w in rows]
        if not average_across_timesteps:
            return tf.add_n(losses)
        return tf.add_n(losses) / (tf.add_n(list(weights)) + 1e-12)  # for one without any weight


def sequence_loss(
    logits,
    targets,
    weights,
    average_across_timesteps=True,
    average_across_batch=True,
    softmax_loss_function=None,
    name=None,
):
    """The sum of `sequence_loss_by_example`, or its mean over the batch."""
    lists = logits, targets, weights
    with tf.name_scope(name, "sequence_loss", sum(map(list, lists), [])):
        options = average_across_timesteps, softmax_loss_function
        by_example = sequence_loss_by_example(*lists, *options)
        loss = tf.reduce_sum(by_example)
        return loss / tf.cast(tf.shape(targets[0])[0], loss.dtype) if average_across_batch else loss
