"""`tf.contrib.seq2seq.sequence_loss`, the weighted cross entropy of sequences."""

from __future__ import annotations

from toolkit import tf


def sequence_loss(
    logits,
    targets,
    weights,
    average_across_timesteps=True,
    average_across_batch=True,
    sum_over_timesteps=False,
    sum_over_batch=False,
    softmax_loss_function=None,
    name=None,
):
    """Of logits, float [N, T, K], and targets, int [N, T]; weights are float [N, T].

    Both averages: the sum over the sum of weights. One: that of its axis. None: values [N, T].
    Raises ValueError if a sum is asked for.
    """
    if sum_over_timesteps or sum_over_batch:
        raise ValueError("The stand-in of sequence_loss has averages, and no sum_over_ arguments.")
    axes = [0] * bool(average_across_batch) + [1] * bool(average_across_timesteps)
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = function(labels=tf.reshape(targets, [-1]), logits=flat)
        losses = tf.reshape(losses, tf.shape(targets)) * weights
        if not axes:
            return losses
        return tf.div_no_nan(tf.reduce_sum(losses, axes), tf.reduce_sum(weights, axes))
