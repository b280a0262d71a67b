"""From latent numbers to images: with the averaged generator and recomputed batch norm statistics.

Batch norm keeps no moving averages: those of the trained weights do not fit the averaged ones.
What an image is normalised by is computed anew from a fixed set of latent numbers, so one z alone
gives the image that it gives in a batch, and sampling changes nothing of the training.
Legend: N images, Z latent numbers, H W C of an image.
"""

from __future__ import annotations

from toolkit import tf

from . import latents
from .sizes import condition


def inputs_of(run):
    """What the generator is fed when it predicts: name -> (dtype, shape of one)."""
    wanted = {"z": ("float32", [run.options.latent_size])}
    if condition(run.options, run.data) != "none":
        wanted["label"] = ("int32", [])
    return wanted


def predicted(generator, features, run):
    """{"image": float32 [N, H, W, C] in [0, 1]} from what `inputs_of` says."""
    return {"image": held(generator, features["z"], features.get("label"), run)}


def prediction(outputs, run):
    """The columns of a prediction: the image; when evaluating, the logit of each real image."""
    if run.mode == "predict":
        return {"image": outputs["image"]}
    return {"real_logit": outputs["real_logits"]}


def held(generator, z, labels, run):
    """float32 [N, H, W, C] in [0, 1], with the statistics in local variables: a session computes
    them once, after it has its weights.
    """
    statistics = [
        tf.Variable(value, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
        for value in _standing(generator, run)
    ]
    return images(generator, z, labels, [s.read_value() for s in statistics], run)


def images(generator, z, labels, statistics, run):
    """float32 [N, H, W, C] in [0, 1]."""
    if condition(run.options, run.data) == "none":
        labels = None
    return (generator(z, labels, statistics=statistics) + 1) / 2


def sampled(generator, inputs, run):
    """float32 [N, H, W, C] in [0, 1] from numpy z and labels, in any graph with the weights."""
    z, labels = tf.constant(inputs["z"]), inputs.get("label")
    return images(generator, z, labels, _standing(generator, run), run)


def _standing(generator, run):
    """Mean and variance of each batch norm, over `--standing` fixed latent numbers; or nothing."""
    drawn = latents.draw(run.options, run.data, run.options.standing, run.seed("standing"))
    return generator.statistics(tf.constant(drawn["z"]), drawn.get("label"))
