"""Loss, predictions and metrics. Legend: N examples in a batch, L words, K classes."""

from __future__ import annotations

from toolkit import tf


def cross_entropy(labels, logits):
    """The mean cross-entropy, a scalar in nats.

    Args:
        labels: int32 [N], in [0, K).
        logits: float32 [N, K].
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def predict(outputs, run):
    """ "label" int32 [N] and "probabilities" [N, K]; in an evaluation also "votes" for the report.

    The votes are padded to the same length in all batches, [N, max_words, K].
    """
    predictions = {
        "label": tf.argmax(outputs["logits"], axis=1, output_type=tf.int32),
        "probabilities": tf.nn.softmax(outputs["logits"]),
    }
    if run.mode == "eval":
        votes = outputs["votes"]
        missing = run.options.max_words - tf.shape(votes)[1]
        predictions["votes"] = tf.pad(votes, [[0, 0], [0, missing], [0, 0]])
    return predictions


def example_metrics(labels, logits):
    """Name -> the value of each example, [N]: whether its class is right."""
    return {"accuracy": tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)}
