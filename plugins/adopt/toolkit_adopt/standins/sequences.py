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
    Sums are those over the number of weights that are not 0; an average goes before a sum.

    Raises:
        ValueError: the average and the sum of one axis.
    """
    averages = [0] * bool(average_across_batch) + [1] * bool(average_across_timesteps)
    sums = [0] * bool(sum_over_batch) + [1] * bool(sum_over_timesteps)
    if set(averages) & set(sums):
        raise ValueError("sequence_loss averages or sums over an axis, not both.")
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = function(labels=tf.reshape(targets, [-1]), logits=flat)
        losses = tf.reshape(losses, tf.shape(targets)) * weights
        axes = averages or sums
        if not axes:
            return losses
        parts = weights if averages else tf.cast(tf.not_equal(weights, 0), losses.dtype)
        return tf.div_no_nan(tf.reduce_sum(losses, axes), tf.reduce_sum(parts, axes))
