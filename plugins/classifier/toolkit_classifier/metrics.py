"""The metrics of an evaluation, streamed over a split.

Legend: N examples in a batch, K classes.
"""

from __future__ import annotations

from toolkit import tf

from . import losses

USUAL_TOP_K, MIN_CLASSES = 3, 10  # the k of the top-k accuracy, which says little of fewer classes


def build(labels, outputs, run):
    """Accuracy, top-k accuracy (see `limit_top_k`) and mean cross-entropy, each (value, update_op).

    Labels are int32 [N] in [0, K), "logits" of the outputs float32 [N, K]. "loss" is the plain
    cross-entropy in nats: label smoothing and class weights shape the training, not the metric.
    """
    values = of_examples(labels, outputs, run).items()
    return {name: streaming_mean(each, name.rstrip("0123456789")) for name, each in values}


def of_examples(labels, outputs, run):
    """The values [N] of the examples whose means `build` returns, by name: accuracy and top-k
    accuracy as bool, the cross-entropy as float32.
    """
    logits, top_k = outputs["logits"], limit_top_k(run)
    targets = losses.one_hot(labels, run.data.num_classes)
    values = {"accuracy": tf.equal(labels, tf.argmax(logits, axis=1, output_type=tf.int32))}
    if top_k:
        values[f"top{top_k}"] = tf.nn.in_top_k(logits, labels, top_k)
    values["loss"] = losses.cross_entropy(logits, targets)
    return values


def streaming_mean(values, name):
    """The mean of numbers or bools [N] over all batches, and its update_op; it is float32, nan
    before the first example. `tf.metrics.mean` counts in float32, so only to 2^24 examples. The
    name is of its variables.
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
    top_k = limit_top_k(run)
    return {"accuracy": "max", **({f"top{top_k}": "max"} if top_k else {}), "loss": "min"}


def limit_top_k(run):
    """The k of the top-k accuracy, no more than K; 0 for none: of few classes it is nearly 1."""
    top_k, num_classes = run.options.top_k, run.data.num_classes
    if top_k is None:
        return USUAL_TOP_K if num_classes >= MIN_CLASSES else 0
    return min(top_k, num_classes)
