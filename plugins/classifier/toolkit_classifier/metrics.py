"""The metrics of an evaluation, streamed over a split.

Legend: N examples in a batch, K classes.
"""

from __future__ import annotations

from toolkit import tf

from . import losses


def build(labels, outputs, run):
    """Accuracy, top-k accuracy and mean cross-entropy.

    Args:
        labels: int32 [N] in [0, K).
        outputs: a dict with "logits", float32 [N, K].
        run: `run.options.top_k` is k, limited to K.

    Returns:
        Name -> (value, update_op). "loss" is the plain cross-entropy in nats: label smoothing and
        class weights shape the training, not the metric.
    """
    scopes = ("accuracy", "top", "loss")
    values = of_examples(labels, outputs, run).items()
    return {name: streaming_mean(each, scope) for scope, (name, each) in zip(scopes, values)}


def of_examples(labels, outputs, run):
    """The values of the examples whose means `build` returns; its arguments.

    Returns:
        Name -> [N]: accuracy and top-k accuracy as bool, the cross-entropy as float32.
    """
    logits, top_k = outputs["logits"], limit_top_k(run)
    targets = losses.one_hot(labels, run.data.num_classes)
    return {
        "accuracy": tf.equal(labels, tf.argmax(logits, axis=1, output_type=tf.int32)),
        f"top{top_k}": tf.nn.in_top_k(logits, labels, top_k),
        "loss": losses.cross_entropy(logits, targets),
    }


def streaming_mean(values, name):
    """The mean over all batches. `tf.metrics.mean` counts in float32, so only to 2^24 examples.

    Args:
        values: numbers or bools [N].
        name: of its variables.

    Returns:
        (value, update_op); the value is float32, nan before the first example.
    """
    total, count = new_counter(f"{name}/total", tf.float64), new_counter(f"{name}/count", tf.int64)
    update = tf.group(
        total.assign_add(tf.reduce_sum(tf.cast(values, tf.float64)), read_value=False),
        count.assign_add(tf.size(values, out_type=tf.int64), read_value=False),
    )
    mean = total.read_value() / tf.cast(count.read_value(), tf.float64)
    return tf.cast(mean, tf.float32), update


def new_counter(name, dtype):
    """A scalar variable that is reset before each evaluation."""
    return tf.Variable(
        tf.zeros([], dtype),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        use_resource=True,
        name=f"evaluation/{name}",
    )


def directions(run):
    """Whether lower or higher values of each metric are better, for the choice of the best."""
    return {"accuracy": "max", f"top{limit_top_k(run)}": "max", "loss": "min"}


def limit_top_k(run):
    """The k of the top-k accuracy: the option, but no more than K."""
    return min(run.options.top_k, run.data.num_classes)
