"""Images from latent numbers, by the averaged generator with recomputed batch norm statistics.

Batch norm keeps no moving averages: those of the trained weights would not fit the averaged ones.
Each time, the statistics are computed from a fixed set of latent numbers. One z alone therefore
gives the same image as in a batch, and sampling does not change training.
Legend: N images, Z latent numbers, H W C of an image.
"""

from __future__ import annotations

from typing import Any, Dict, List

from toolkit import tf

from . import latents
from .architecture import conditioning, has_classes, label_kind


def generator_inputs(run) -> Dict[str, Any]:
    """What the generator is fed when it predicts: name -> (dtype, shape of one)."""
    specs = {"z": ("float32", [run.options.latent_size])}
    if has_classes(run.options, run.data):
        specs["label"] = ("int32", [])
    if label_kind(run.options, run.data) == "cluster":
        specs["cluster"] = ("float32", [])  # a position in the cumulated sizes of the clusters
    return specs


def generate_predictions(generator, inputs: Dict[str, Any], run) -> Dict[str, Any]:
    """{"image": float32 [N, H, W, C] in [0, 1]} from tensors named by `generator_inputs`."""
    labels = latents.labels_of(inputs, generator.clusters)
    return {"image": sample_images(generator, inputs["z"], labels, run)}


def predict(outputs: Dict[str, Any], run) -> Dict[str, Any]:
    """The columns of a prediction: the image; when evaluating, the logit of each real image."""
    if run.mode == "predict":
        return {"image": outputs["image"]}
    return {"real_logit": outputs["real_logits"]}


def sample_images(generator, z, labels, run):
    """float32 [N, H, W, C] in [0, 1], with batch norm statistics in local variables.

    A session computes them once, after its weights are restored.

    Args:
        generator: the averaged generator.
        z: float32 [N, Z].
        labels: int32 [N], or None.
        run: the `toolkit.Run`.
    """
    statistics = [store_locally(value) for value in _norm_statistics(generator, run)]
    return generate_images(generator, z, labels, statistics, run)


def sample_fixed_inputs(generator, inputs: Dict[str, Any], run):
    """float32 [N, H, W, C] in [0, 1] from numpy z and labels, in any graph with the weights."""
    z, labels = tf.constant(inputs["z"]), latents.labels_of(inputs, generator.clusters)
    return generate_images(generator, z, labels, _norm_statistics(generator, run), run)


def generate_images(generator, z, labels, statistics: List[Any], run):
    """float32 [N, H, W, C] in [0, 1], with the given batch norm statistics."""
    if conditioning(run.options, run.data) == "none":
        labels = None
    return (generator(z, labels, statistics=statistics) + 1) / 2


def store_locally(value):
    """The value of a tensor, computed once per session, after its weights are restored."""
    collections = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.Variable(value, trainable=False, collections=collections).read_value()


def _norm_statistics(generator, run) -> List[Any]:
    """Mean and variance of each batch norm, over `norm_samples` fixed latent numbers."""
    inputs = latents.random_inputs(
        run.options, run.data, run.options.norm_samples, run.seed("standing")
    )
    labels = latents.labels_of(inputs, generator.clusters)
    return generator.statistics(tf.constant(inputs["z"]), labels)
