"""Metrics of an evaluation that are no means over its examples.

Legend: N examples of a batch, M of the batches so far.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

from toolkit import tf

from . import losses


def build(outputs: Dict[str, Any], run) -> Dict[str, Tuple[Any, Any]]:
    """The accuracies of losses whose threshold follows from the logits of the whole split.

    The hook `loss` computes every other number, as a mean over the examples.

    Returns:
        Name -> (value, update_op).
    """
    if run.options.loss not in losses.SHIFT_INVARIANT:
        return {}
    logits = tf.stack([outputs["real_logits"], outputs["fake_logits"]], axis=1)  # [N, 2]
    so_far = tf.Variable(
        tf.zeros([0, 2]),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        validate_shape=False,
        shape=[None, 2],
        use_resource=True,
        name="evaluation/logits",
    )  # [M, 2]
    update = so_far.assign(tf.concat([so_far.read_value(), logits], 0), read_value=False)
    real, fake = tf.unstack(so_far.read_value(), axis=1)
    names = ("d_accuracy_real", "d_accuracy_fake")
    return {
        name: (value, update)
        for name, value in zip(names, losses.accuracies(run.options.loss, real, fake))
    }
