"""The metrics of an evaluation. Legend: N examples in a batch, H height, W width, C channels."""

from __future__ import annotations

from toolkit import tf


def build(images, outputs):
    """Name -> (value, update_op) of the mean squared error of the reconstruction.

    Args:
        images: float32 [N, H, W, C] in [0, 1].
        outputs: a dict with "reconstruction", of the same shape and range.
    """
    return {"squared_error": tf.metrics.mean_squared_error(images, outputs["reconstruction"])}
