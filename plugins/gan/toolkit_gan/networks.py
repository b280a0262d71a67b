"""The networks of a GAN: a generator, a discriminator, and the generator's moving average."""

from __future__ import annotations

from typing import Any, NamedTuple

from .architecture import AVERAGE, label_kind
from .average import images_per_step
from .checks import check_method, check_networks
from .clusters import Clusters
from .discriminator import Discriminator
from .generator import Generator
from .lecam import AverageLogits


class Gan(NamedTuple):
    """The networks that a mode needs; the others are None."""

    generator: Any
    discriminator: Any
    average: Any  # a generator with averaged weights, which samples come from
    clusters: Any = None  # of the training images, where these are the labels
    average_logits: Any = None  # of LeCam, in training


def build(run) -> Gan:
    """Create the networks and all their variables.

    Predicting needs only the averaged generator. Without one, `average` is the generator.
    """
    check_networks(run.options, run.data)
    total_steps = run.total_steps if run.mode == "train" else None
    check_method(run.options, images_per_step(run), run.replica.count, total_steps)
    generator = average = discriminator = clusters = None
    if label_kind(run.options, run.data) == "cluster":
        clusters = Clusters(run)
    if run.options.has_average:
        average = Generator(run, AVERAGE, trainable=False, clusters=clusters)
    if run.mode == "train" or average is None:
        generator = Generator(run, clusters=clusters)
    if run.mode != "predict":
        discriminator = Discriminator(run)
    gan = Gan(generator, discriminator, average or generator, clusters)
    has_lecam = run.mode == "train" and run.options.lecam > 0
    return gan._replace(average_logits=AverageLogits(run)) if has_lecam else gan
